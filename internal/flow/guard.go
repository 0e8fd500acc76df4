package flow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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

	mu      sync.Mutex
	current boundary.Guard
	allowed bool
	told    bool // deletes are paused, and that was said
	// fresh are twins that were created while deletes were held: they are no reason to take the deletes for few.
	fresh map[types.UID]bool
}

func newGuard(e *epoch) *guard {
	return &guard{epoch: e, current: boundary.Guard{Paused: true}}
}

func (g *guard) get() boundary.Guard {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.current
}

// created takes in that a twin was created.
func (g *guard) created(uid types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.current.Paused {
		return
	}
	if g.fresh == nil {
		g.fresh = map[types.UID]bool{}
	}
	g.fresh[uid] = true
}

func (g *guard) isFresh(uid types.UID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.fresh[uid]
}

// suspend holds inferred deletes until recount has looked at all of them.
func (g *guard) suspend() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.current.Paused, g.allowed = true, false
}

// recount looks at every twin, once everything is listed, and lets inferred deletes go on unless they are too many.
func (g *guard) recount() {
	e := g.epoch
	if !e.synced() {
		return
	}
	var twins []*unstructured.Unstructured
	e.twins.Each("", func(o *unstructured.Unstructured) bool {
		twins = append(twins, o)
		return true
	})
	ours, deletes := 0, 0
	for _, twin := range twins {
		source, ok := e.Identity.SourceOf(twin)
		if !ok || g.isFresh(twin.GetUID()) {
			continue
		}
		ours++
		in := e.input(source, twin, types.NamespacedName{Namespace: twin.GetNamespace(), Name: twin.GetName()})
		in.Guard, in.Confirmed = boundary.Guard{}, true
		if boundary.Decide(in).Guarded {
			deletes++
		}
	}

	g.mu.Lock()
	tooMany := deletes >= massLeast && 2*deletes > ours
	was := g.current.Paused
	g.current = boundary.Guard{Deletes: deletes, Twins: ours}
	g.current.Paused = tooMany && !g.allowed && e.MassDeletion != boundary.MassDeletionAllow
	now, tell := g.current.Paused, g.current.Paused && !g.told
	g.told = now
	if !now {
		g.fresh = nil
	}
	g.mu.Unlock()
	if tell {
		e.log.Warn(fmt.Sprintf("Deletes are paused: %d of %d twins would go for a reason that was only inferred. Look whether the sources are really gone; annotate the ledger, or set massDeletion: Allow, to let them go", deletes, ours))
	}
	if was && !now {
		e.enqueueAll()
	}
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
	e.twins.Each("", func(o *unstructured.Unstructured) bool {
		if _, ok := e.Identity.SourceOf(o); ok {
			stamp, _ := boundary.ReadStamp(o)
			left[stamp.Rule] = true
		}
		return true
	})
	strays := e.strays()
	holding := func(namespace string) bool { return strays[namespace] || e.sourcesHidden(namespace) }
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

// forgetFormer drops from the ledger the former namespaces of rules in which no twin of theirs is left.
func (e *epoch) forgetFormer(ctx context.Context) {
	misplaced := sync.OnceValue(e.misplaced)
	for _, rule := range e.Rules {
		former := e.Ledger.Former(rule.Name)
		if len(former) == 0 {
			continue
		}
		empty := slices.DeleteFunc(former, func(namespace string) bool { return misplaced()[namespace] || e.twinsHidden(namespace) })
		if len(empty) == 0 {
			continue
		}
		if err := e.Ledger.ForgetFormer(ctx, rule.Name, empty); err != nil {
			e.log.Warn("The ledger can't be written", "error", err)
			return
		}
	}
}

// misplaced returns the namespaces, and ledger.Anywhere, that hold twins which do not belong there.
func (e *epoch) misplaced() map[string]bool {
	found := map[string]bool{}
	e.twins.Each("", func(o *unstructured.Unstructured) bool {
		source, ok := e.Identity.SourceOf(o)
		if targets := boundary.Targets(e.Rules, e.Naming, source.Namespace); ok && targets != nil && !slices.Contains(targets, o.GetNamespace()) {
			found[o.GetNamespace()], found[ledger.Anywhere] = true, true
		}
		return true
	})
	return found
}
