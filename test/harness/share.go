//go:build unix

package harness

import (
	"testing"

	"isthmus.dev/isthmus/internal/controlplane"
)

// For returns an environment of another test on the same clusters, with an identity of its own.
func (e *Env) For(t testing.TB) *Env {
	t.Helper()
	return newEnv(t, e.Local.Cluster, e.Remote.Cluster)
}

// Tenant returns an environment of the same test with another local cluster, on the same remote one.
func (e *Env) Tenant(t testing.TB) *Env {
	t.Helper()
	local, err := controlplane.Start(t.Context(), "tenant", controlplane.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(local.Stop)
	return newEnv(t, local, e.Remote.Cluster)
}
