//go:build unix

package harness

import (
	"k8s.io/client-go/dynamic"

	"isthmus.dev/isthmus/internal/controlplane"
)

// Replace stops a side's cluster and puts another one, which is empty, at its address. It has the same certificate
// authority, so all kubeconfigs go on to work; their files go with the old cluster, though: see CopyKubeconfig. What
// Isthmus asked the old cluster is audited now, and can't be asked for any more.
func (e *Env) Replace(side *Side) {
	e.T.Helper()
	e.audit()
	old := side.Cluster
	old.Stop()
	next, err := controlplane.Start(e.T.Context(), old.Name(), controlplane.Options{Port: old.Port(), PKIFrom: old})
	if err != nil {
		e.T.Fatalf("replace cluster %s: %v", old.Name(), err)
	}
	e.T.Cleanup(next.Stop)
	dyn, err := dynamic.NewForConfig(next.Config())
	if err != nil {
		e.T.Fatal(err)
	}
	side.mu.Lock()
	defer side.mu.Unlock()
	side.Cluster, side.dyn, side.users = next, dyn, map[string]string{}
}

// Third is a cluster beside the two sides, for tests in which a kubeconfig comes to name it.
type Third struct {
	*Side
	// Kubeconfig is that of the test's user.
	Kubeconfig string
}

// WithThird starts another cluster, applies manifests there, and gives this test's user the RBAC of the remote side.
func (e *Env) WithThird(config string, manifests ...string) *Third {
	e.T.Helper()
	started, err := controlplane.Start(e.T.Context(), "third", controlplane.Options{})
	if err != nil {
		e.T.Fatalf("start a third cluster: %v", err)
	}
	e.T.Cleanup(started.Stop)
	side := newSide(e.T, started)
	for _, manifest := range manifests {
		side.Apply(manifest)
	}
	side.Apply(e.RBAC(e.WriteConfig(config), "remote"))
	return &Third{Side: side, Kubeconfig: side.userKubeconfig(e.User())}
}
