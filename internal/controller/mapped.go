package controller

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/controller/fleet"
	"isthmus.dev/isthmus/internal/controller/liqo"
)

// The sources of pairs of namespaces.
const (
	// SourceOffloading: NamespaceOffloadings say which namespaces have counterparts.
	SourceOffloading = "offloading"
	// SourceLiqo: Liqo's NamespaceMaps do.
	SourceLiqo = "liqo"
)

// NamespaceSources are the sources there are.
var NamespaceSources = []string{SourceOffloading, SourceLiqo}

// mapped works out the pairs from Liqo's NamespaceMaps. One call of work runs at a time.
type mapped struct {
	maps  *liqo.Maps
	local *cluster.Cluster
	fleet *fleet.Fleet

	pairs  []fleet.Pair // in force
	read   bool         // NamespaceMaps were read once
	frozen bool         // the pairs are not to be touched, as it is not known what became of them

	mu    sync.Mutex
	notes []string
}

// work returns the pairs. known is false as long as NamespaceMaps were not read once: what is not known is not gone (D).
func (m *mapped) work(ctx context.Context, remotes []fleet.Remote) (pairs []fleet.Pair, known bool, err error) {
	state := m.maps.State()
	if state.Why != "" || len(state.Faults) > 0 {
		notes := []string{}
		if state.Why != "" {
			notes = append(notes, state.Why)
		}
		for _, fault := range state.Faults {
			notes = append(notes, fault.Error())
		}
		return m.freeze(remotes, notes...), m.read, nil
	}
	in := fleet.Mapped{Maps: state.Maps, Deleted: state.Deleted, Remotes: remotes, Before: m.pairs, Drained: m.drained}
	if m.frozen { // what is missing now, nobody was seen to take back
		in.Before = slices.DeleteFunc(slices.Clone(m.pairs), func(p fleet.Pair) bool { return !p.Withdrawn })
	}
	pairs, refused := in.Pairs()
	if slices.ContainsFunc(pairs, m.fresh) {
		// The definition of NamespaceMaps may be on its way out, and take them along: nobody took namespaces back then (F7).
		crd, err := m.local.CRD(ctx, liqo.Kind)
		switch {
		case err != nil:
			err = fmt.Errorf("asking whether the definition of NamespaceMaps stands: %w", err)
			m.note(err.Error())
			return nil, false, err
		case crd == nil || crd.Terminating:
			return m.freeze(remotes, "the definition of Liqo's NamespaceMaps is being deleted: what was offloaded stays as it is"), m.read, nil
		}
	}
	m.pairs, m.read, m.frozen = pairs, true, false
	m.note(refused...)
	return pairs, true, nil
}

// freeze keeps the pairs that are known as they are, but for those of remotes that leave.
func (m *mapped) freeze(remotes []fleet.Remote, why ...string) []fleet.Pair {
	m.pairs, m.frozen = fleet.Frozen(m.pairs, remotes), true
	m.note(why...)
	return m.pairs
}

// fresh reports whether a pair is withdrawn that was not before.
func (m *mapped) fresh(pair fleet.Pair) bool {
	return pair.Withdrawn && !slices.Contains(m.pairs, pair)
}

func (m *mapped) drained(pair fleet.Pair) bool {
	left, known := m.fleet.NamespaceDrained(pair)
	return known && left == 0
}

func (m *mapped) note(notes ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.notes = notes
}

// told says what keeps pairs from being, for readiness.
func (m *mapped) told() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.notes)
}
