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
