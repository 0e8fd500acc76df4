//go:build unix

package harness

// Beside returns another environment on the same two clusters, with a cluster ID, a user and an audit of its own, for
// tests of several Isthmuses.
func (e *Env) Beside() *Env { return newEnv(e.T, e.Local.Cluster, e.Remote.Cluster) }

// Reverse is Beside with the sides swapped, for tests of two clusters that offload to each other.
func (e *Env) Reverse() *Env { return newEnv(e.T, e.Remote.Cluster, e.Local.Cluster) }
