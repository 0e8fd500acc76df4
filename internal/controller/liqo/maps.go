package liqo

import (
	"log/slog"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/controller/fleet"
)

// Maps keeps the NamespaceMaps of a cluster.
type Maps struct {
	Objects
	deleted map[string]bool // the clusters whose map was seen to be deleted
}

// State is what is known of the NamespaceMaps.
type State struct {
	// Why says why they are not known; empty: they are.
	Why string
	// Maps are those by which this cluster offloads, sorted by name. Deleted are the clusters whose map was seen to be deleted,
	// since all were listed last.
	Maps    []fleet.NamespaceMap
	Deleted map[string]bool
	// Faults say what is wrong with maps that can't be read, and are left out of Maps.
	Faults []error
}

// New returns Maps that knows nothing before Run; changed is called, without locks, after each change.
func New(local *cluster.Cluster, log *slog.Logger, changed func()) *Maps {
	m := &Maps{deleted: map[string]bool{}, Objects: Objects{
		local: local, kind: Kind, what: "NamespaceMaps", log: log, changed: changed, why: "Liqo's NamespaceMaps are not read yet",
		lost: "with --namespace-source=liqo they say which namespaces have counterparts; install Liqo, or use --namespace-source=offloading",
	}}
	m.gone = func(u *unstructured.Unstructured) {
		if u.GetLabels()[labelReplication] == "true" {
			m.deleted[u.GetLabels()[labelRemoteCluster]] = true
		}
	}
	// Where none is known any more it is not known either which were seen to be deleted: their definition may be on its way out,
	// and take them along.
	m.anew = func() { m.deleted = map[string]bool{} }
	return m
}

// State returns what is known now.
func (m *Maps) State() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	state := State{Why: m.why, Deleted: maps.Clone(m.deleted)}
	m.each(func(u *unstructured.Unstructured) {
		switch one, ours, err := ReadMap(u); {
		case err != nil:
			state.Faults = append(state.Faults, err)
		case ours:
			state.Maps = append(state.Maps, one)
		}
	})
	return state
}
