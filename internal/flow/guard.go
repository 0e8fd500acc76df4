package flow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/ledger"
	"isthmus.dev/isthmus/internal/store"
)

// massLeast is the least number of inferred deletes that the guard holds; they must also be more than half of a flow's
// twins (F8).
const massLeast = 5

// errDone ends an epoch of which nothing is left to do.
var errDone = errors.New("all rules are wound down")

// guard holds deletes that were inferred, while not everything is listed yet and when they are too many (F8).
type guard struct {
	epoch *epoch

	counting sync.Mutex // held by who counts

	mu      sync.Mutex
	turn    int      // how often it was suspended
	due     affected // what is to be looked at by the next count
	current boundary.Guard
	allowed bool
	told    bool // deletes are paused, and that was said
	fresh   fresh
	// doomed are the places of the twins that were to go for a reason that was inferred, when they were looked at last.
	doomed map[types.NamespacedName]bool
	// held are the sources of which a delete is held.
	held map[types.NamespacedName]bool
}

func newGuard(e *epoch) *guard {
	return &guard{epoch: e, current: boundary.Guard{Paused: true}}
}

func (g *guard) get() boundary.Guard {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.current
}

// holds takes in that a delete of a source's twin is held; false: it is let go by now.
func (g *guard) holds(source types.NamespacedName) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.current.Paused {
		return false
	}
	if g.held == nil {
		g.held = map[types.NamespacedName]bool{}
	}
	g.held[source] = true
	return true
}

// suspend holds inferred deletes until what changes now has been looked at.
func (g *guard) suspend() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.current.Paused, g.allowed = true, false
	g.turn++
}

// look counts again, with what changed.
func (g *guard) look(of affected) {
	g.mu.Lock()
	g.due = g.due.and(of)
	g.mu.Unlock()
	g.recount()
}

// recount looks, once everything is listed, at the twins of what changed and at those that were to go before, and lets
// inferred deletes go on unless they are too many.
func (g *guard) recount() {
	e := g.epoch
	g.counting.Lock()
	defer g.counting.Unlock()
	if !e.synced() {
		return
	}
	g.mu.Lock()
	due, turn, before := g.due, g.turn, g.doomed
	g.due = affected{}
	g.mu.Unlock()
	ours, doomed := 0, map[types.NamespacedName]bool{}
	var look []store.Item
	e.twins.EachIndexed(func(source types.NamespacedName, twin store.Item) {
		if g.isFresh(source, twin) {
			return
		}
		ours++
		if place := twin.Key(); due.has(source, place) || before[place] {
			look = append(look, twin)
		}
	})
	for _, twin := range look {
		if source, ok := twin.Second(); ok && e.inferredAway(source, twin) {
			doomed[twin.Key()] = true
		}
	}
	deletes := len(doomed)

	g.mu.Lock()
	tooMany := deletes >= massLeast && 2*deletes > ours
	g.current = boundary.Guard{Deletes: deletes, Twins: ours}
	g.current.Paused = tooMany && !g.allowed && e.MassDeletion != boundary.MassDeletionAllow
	g.doomed = doomed
	if g.turn != turn { // suspended meanwhile: who did that counts again
		g.current.Paused = true
		g.mu.Unlock()
		return
	}
	now, paused, tell := g.current.Paused, g.told, g.current.Paused && !g.told
	g.told = now
	released := g.held
	if !now {
		g.fresh.made, g.held = nil, nil
	}
	g.mu.Unlock()
	if tell {
		e.log.Warn(fmt.Sprintf("Deletes are paused: %d of %d twins would go for a reason that was only inferred. Look whether the sources are really gone; annotate the ledger, or set massDeletion: Allow, to let them go", deletes, ours))
	}
	if paused && !now { // before what was held is let go
		e.log.Info(fmt.Sprintf("Deletes go on: %d of %d twins are to go", deletes, ours))
	}
	if !now {
		for key := range released {
			e.queue.add(key, resyncs)
		}
	}
	if now != paused {
		e.changed()
	}
}

// inferredAway reports whether a twin would go for a reason that is only inferred. What is in step is told without a
// whole decision: at a start, all twins are looked at.
func (e *epoch) inferredAway(key types.NamespacedName, twin store.Item) bool {
	place := twin.Key()
	if source := e.sources.Item(key); source.Exists() && source.UID() == twin.SecondUID() {
		if at, ok := boundary.Belongs(e.Rules, source.Head(), e.Extent().Naming, twin.Label()); ok && at == place {
			return false
		}
	}
	in := e.input(key, twin.Object(), place)
	in.Guard, in.Confirmed = boundary.Guard{}, true
	return boundary.Decide(in).Guarded
}

// sweep tidies up: it lets held deletes go when somebody allows it, ends wind-downs, and drops idle states.
func (e *epoch) sweep(ctx context.Context) {
	e.states.sweep(time.Now())
	counts := e.states.count()
	for _, o := range outcomes {
		e.metrics.SetObjects(string(o), counts[o])
	}
	e.metrics.SetContentions(e.states.contentions())
	e.lookAfterHeld()
	if !e.synced() {
		return
	}
	if g := e.guard.get(); g.Paused {
		e.guard.release(ctx)
	}
	if len(e.Removed) > 0 {
		e.finishWindDown(ctx)
	}
	e.forgetFormer(ctx)
	e.forgetHeld(ctx)
	for _, rule := range e.Rules {
		if rule.HoldsDeletedTwins() {
			e.forgetGone(ctx, rule)
		}
	}
}

// release looks whether somebody allowed the held deletes, or the sources came back.
func (g *guard) release(ctx context.Context) {
	e := g.epoch
	var names []string
	for _, rule := range e.Rules {
		names = append(names, rule.Name)
	}
	allowed, err := e.Ledger.TakeMassDeletionAllowance(ctx, names)
	if err != nil {
		e.log.Warn("Whether held deletes may go on can't be read", "error", err)
		return
	}
	g.mu.Lock()
	g.allowed = g.allowed || allowed
	g.mu.Unlock()
	g.recount()
}

// finishWindDown forgets removed rules that have no twin left, and hold no source any more (D5).
func (e *epoch) finishWindDown(ctx context.Context) {
	left := map[string]bool{}
	e.twins.EachIndexed(func(_ types.NamespacedName, twin store.Item) { left[twin.Label()] = true })
	strays := sync.OnceValue(e.strays)
	holding := func(namespace string) bool { return strays()[namespace] || e.sourcesHidden(namespace) }
	for _, removed := range e.Removed {
		if slices.ContainsFunc(e.Ledger.HeldIn(removed.Name), holding) {
			continue
		}
		if left[removed.Name] || e.wound[removed.Name] || slices.ContainsFunc(e.Ledger.Former(removed.Name), e.twinsHidden) {
			continue
		}
		if err := e.Ledger.Forget(ctx, e.Direction, e.Kind.GroupKind(), removed.Name); err != nil {
			e.log.Warn("The ledger can't be written", "error", err)
			return
		}
		e.wound[removed.Name] = true
		e.changed()
		e.closeForgotten()
		e.log.Info("A removed rule is wound down", "rule", removed.Name)
	}
	if len(e.Rules) == 0 && len(e.wound) == len(e.Removed) {
		e.end(errDone)
	}
}

// twinsHidden reports whether there may be twins in a remote namespace that are not listed.
func (e *epoch) twinsHidden(namespace string) bool { return hidden(e.twins, namespace) }

// hidden reports whether there may be objects in a namespace, or ledger.Anywhere, that are not listed.
func hidden(s *store.Store, namespace string) bool {
	if namespace == ledger.Anywhere {
		namespace = ""
	}
	return !s.Synced(namespace)
}

// forgetFormer drops from the ledger the former namespaces of rules in which no twin of theirs is left, and no more is on
// the way, and ends their watches.
func (e *epoch) forgetFormer(ctx context.Context) {
	e.moving.Lock() // else one that is about to be used again could be forgotten
	defer e.moving.Unlock()
	var misplaced map[string]bool
	forgotten := false
	for _, rule := range e.Rules {
		former := e.Ledger.Former(rule.Name)
		if len(former) == 0 {
			continue
		}
		if misplaced == nil {
			if e.extents.overtaken() || e.states.uncertain() {
				return
			}
			misplaced = e.misplaced()
		}
		names, _ := rule.TwinNamespaces(e.Extent().Naming)
		present := setOf(names)
		empty := slices.DeleteFunc(former, func(namespace string) bool {
			return misplaced[namespace] || present[namespace] || e.twinsHidden(namespace)
		})
		if len(empty) == 0 {
			continue
		}
		if err := e.Ledger.ForgetFormer(ctx, rule.Name, empty); err != nil {
			e.log.Warn("The ledger can't be written", "error", err)
			return
		}
		forgotten = true
	}
	if forgotten {
		e.close()
		e.changed()
	}
}

// misplaced returns the namespaces, and ledger.Anywhere, that hold twins which do not belong there.
func (e *epoch) misplaced() map[string]bool {
	found := map[string]bool{}
	naming := e.Extent().Naming
	e.eachTwin(func(source, twin types.NamespacedName) {
		if targets := boundary.Targets(e.Rules, naming, source.Namespace); targets != nil && !slices.Contains(targets, twin.Namespace) {
			found[twin.Namespace], found[ledger.Anywhere] = true, true
		}
	})
	return found
}
