package flow

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/internal/boundary"
)

// Extent says which namespaces are a flow's. Of all that a flow runs with it alone may change while it runs: Follow takes
// the next one.
type Extent struct {
	Naming boundary.Naming
	// Withdrawn are the local namespaces that were taken out of the pairs on purpose (boundary.Input).
	Withdrawn map[string]bool
	// Unready are the namespaces of sources whose counterparts are not ready (boundary.Input).
	Unready map[string]bool
}

// withdrawn reports whether the local namespace of a source, or of what is or belongs at a place, was taken out on purpose.
func (x *Extent) withdrawn(d boundary.Direction, source, place types.NamespacedName) bool {
	if d == boundary.FromRemote {
		return x.Withdrawn[place.Namespace]
	}
	return x.Withdrawn[source.Namespace]
}

// Follows reports whether a flow can go on from one extent to the next.
func (x Extent) Follows(before Extent) bool {
	_, ok := boundary.PairChanges(before.Naming, x.Naming)
	return ok
}

// extents hold the extent in force, and know whether somebody still works by one before it.
type extents struct {
	mu      sync.Mutex
	current *Extent
	working map[*Extent]int
}

// Extent returns the one in force. A decision reads it once.
func (f *Flow) Extent() *Extent {
	f.extents.mu.Lock()
	defer f.extents.mu.Unlock()
	return f.extents.current
}

// set takes another one in force.
func (x *extents) set(next *Extent) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.current = next
}

// enter says that somebody works by the extent in force, until leave is called.
func (x *extents) enter() (leave func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	by := x.current
	if x.working == nil {
		x.working = map[*Extent]int{}
	}
	x.working[by]++
	return func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.working[by]--; x.working[by] == 0 {
			delete(x.working, by)
		}
	}
}

// overtaken reports whether somebody may still write where twins belonged by an extent that is not in force any more.
func (x *extents) overtaken() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for by := range x.working {
		if by != x.current {
			return true
		}
	}
	return false
}

// move is what changes from one extent to the next.
type move struct {
	// sources are the namespaces of sources whose counterpart changed, came or went, or is ready now, or no more; withdrawn
	// the local ones of which it is another thing now whether they were taken out on purpose.
	sources, withdrawn map[string]bool
}

// movesTo returns what changes; ok is false where a flow can't go on from one to the other.
func (x *Extent) movesTo(next *Extent) (m move, ok bool) {
	changed, ok := boundary.PairChanges(x.Naming, next.Naming)
	m = move{setOf(changed), map[string]bool{}}
	addDifference(m.withdrawn, x.Withdrawn, next.Withdrawn)
	addDifference(m.sources, x.Unready, next.Unready)
	return m, ok
}

// addDifference adds to a set what only one of two others has.
func addDifference(to, a, b map[string]bool) {
	for _, sets := range [][2]map[string]bool{{a, b}, {b, a}} {
		for name := range sets[0] {
			if !sets[1][name] {
				to[name] = true
			}
		}
	}
}

// Follow takes the next extent in force, one that Follows the present one: only sources of namespaces that have another
// counterpart, or none any more, are looked at, and only their watches come or go. changed: it differs.
func (f *Flow) Follow(ctx context.Context, next Extent) (changed bool) {
	f.moving.Lock()
	defer f.moving.Unlock()
	m, _ := f.Extent().movesTo(&next)
	if len(m.sources)+len(m.withdrawn) == 0 {
		return false
	}
	if f.live == nil || f.live.ctx.Err() != nil {
		f.extents.set(&next)
		f.ForgetUntouched(ctx)
		return true
	}
	defer f.live.rescue()
	f.live.move(ctx, &next, m)
	return true
}

// ForgetUntouched drops from the ledger the former namespaces that no twin was ever written in, such as one whose name was
// mistyped for a while.
func (f *Flow) ForgetUntouched(ctx context.Context) {
	if f.Ledger == nil || f.extents.overtaken() {
		return
	}
	for _, rule := range f.Rules {
		if err := f.Ledger.ForgetUntouched(ctx, rule.Name, f.MayHaveWritten); err != nil && ctx.Err() == nil {
			f.log.Warn("The ledger can't be written", "error", err)
			return
		}
	}
}

// former returns the namespaces, or ledger.Anywhere, in which twins of the flow's rules may be left, by the ledger.
func (f *Flow) former() []string {
	if f.Ledger == nil {
		return nil
	}
	return f.recorded(f.Ledger.Former)
}

// heldIn returns the namespaces, or ledger.Anywhere, in which sources may carry our finalizer, by the ledger (D3).
func (f *Flow) heldIn() []string {
	if f.Ledger == nil {
		return nil
	}
	return f.recorded(f.Ledger.HeldIn)
}

// recorded returns the namespaces that the ledger has for any of the flow's rules, those of earlier runs included.
func (f *Flow) recorded(of func(rule string) []string) []string {
	var all []string
	for _, rule := range f.Rules {
		all = append(all, of(rule.Name)...)
	}
	for _, rule := range f.Removed {
		all = append(all, of(rule.Name)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func setOf(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}
