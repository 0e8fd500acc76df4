//go:build unix

package harness

import "isthmus.dev/isthmus/internal/controlplane"

// Beside returns another environment on the same two clusters, with a cluster ID, a user and an audit of its own, for
// tests of several Isthmuses.
func (e *Env) Beside() *Env { return newEnv(e.T, e.Local.Cluster, e.Remote.Cluster) }

// Toward is Beside with another remote cluster, which is started for the test, for tests of several remotes.
func (e *Env) Toward(name string) *Env {
	e.T.Helper()
	remote, err := controlplane.Start(e.T.Context(), name, controlplane.Options{})
	if err != nil {
		e.T.Fatalf("start cluster %s: %v", name, err)
	}
	e.T.Cleanup(remote.Stop)
	return newEnv(e.T, e.Local.Cluster, remote)
}

// Reverse is Beside with the sides swapped, for tests of two clusters that offload to each other.
func (e *Env) Reverse() *Env { return newEnv(e.T, e.Remote.Cluster, e.Local.Cluster) }
