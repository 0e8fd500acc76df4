package flow

import (
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/internal/boundary"
)

// HasTwin tells whether a source has a twin of ours, as the twins' side was seen last. known is false as long as not every
// namespace has been listed in which one could be.
func (f *Flow) HasTwin(source types.NamespacedName) (has, known bool) {
	f.mu.Lock()
	state, e := f.state, f.epoch
	f.mu.Unlock()
	if e == nil || !state.Active {
		return false, state.TwinsNotServed
	}
	if len(e.twins.Named(source)) > 0 {
		return true, true
	}
	targets := boundary.Targets(f.Rules, f.Extent().Naming, source.Namespace)
	if len(targets) == 0 {
		return false, e.twins.AllSynced()
	}
	for _, namespace := range targets {
		if !e.twins.Settled(namespace) {
			return false, false
		}
	}
	return false, true
}

// twinMoved tells that a source may have come to have a twin, or have none any more.
func (f *Flow) twinMoved(source types.NamespacedName) {
	if f.TwinMoved != nil {
		f.TwinMoved(source)
	}
}
