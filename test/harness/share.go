//go:build unix

package harness

import "testing"

// For returns an environment of another test on the same clusters, with an identity of its own.
func (e *Env) For(t testing.TB) *Env {
	t.Helper()
	return newEnv(t, e.Local.Cluster, e.Remote.Cluster)
}
