package flow

import (
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/internal/store"
)

// Left counts the twins of ours that match by their source and the rule in their stamp; match nil: all. known is false
// unless the twins' side is reached, has listed every namespace in which some could be, and no more can come from a
// decision under an extent that is not in force any more.
func (f *Flow) Left(match func(source types.NamespacedName, rule string) bool) (left int, known bool) {
	f.mu.Lock()
	state, e := f.state, f.epoch
	f.mu.Unlock()
	if e == nil || !state.Active {
		return 0, state.TwinsNotServed
	}
	known = f.To.Health().Reached && e.twins.AllSynced() && e.allSeen() && !f.extents.overtaken() && !e.states.uncertain()
	e.twins.EachIndexed(func(source types.NamespacedName, twin store.Item) {
		if match == nil || match(source, twin.Label()) {
			left++
		}
	})
	return left, known
}

// allSeen reports whether RBAC lets every namespace be seen in which twins may be.
func (e *epoch) allSeen() bool {
	for _, w := range e.twinWatches.list() {
		if !w.feed.Listed() {
			return false
		}
	}
	return !e.twinsUnseen()
}

// Concerns reports whether a rule of this name is the flow's, be it one that is wound down.
func (f *Flow) Concerns(rule string) bool {
	for _, r := range f.Rules {
		if r.Name == rule {
			return true
		}
	}
	for _, r := range f.Removed {
		if r.Name == rule {
			return true
		}
	}
	return false
}

// changed tells that the flow, or what is left of its twins, stands otherwise than before.
func (f *Flow) changed() {
	if f.Changed != nil {
		f.Changed()
	}
}
