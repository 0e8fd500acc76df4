package flow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/store"
)

// epoch is a stretch of time in which both sides serve the kind from the same CRDs. What a flow knows of objects lives
// in it, so that after a break everything that is absent counts as inferred.
type epoch struct {
	*Flow
	plan     *plan
	sources  *store.Store
	twins    *store.Store
	blockers *blockers
	queue    *queue
	states   *states
	guard    *guard
	confirm  *confirmer
	from     *side      // where the sources are
	to       *side      // where the twins are
	watchers []*watcher // of both sides
	// twinWatchers watch the namespaces that twins belong in.
	twinWatchers []*watcher
	end          context.CancelCauseFunc
	ctx          context.Context // of the epoch, for watches that outlive a decision
	// dry are the dryRun options of all writes: an epoch that only looks asks what a server would make of them.
	dry []string

	listedAt  atomic.Pointer[time.Time] // when a scope was listed last
	announced atomic.Bool               // the siblings were told that all twins are listed

	schemaMu   sync.RWMutex    // guards plan.schema and plan.statusSchema
	undeclared map[string]bool // what was logged of undeclared fields; guarded by schemaMu
	waiting    waitList
	roaming    roaming
	blind      atomic.Pointer[blindness] // what keeps the flow from running; nil: it runs
	deciding   sync.Mutex                // held by a resync that decides
	wound      map[string]bool           // removed rules that are wound down
}

// errServing ends an epoch whose ground is gone; the lifecycle then waits for it to come back.
var errServing = errors.New("how a side serves the kind changed")

// runEpoch watches and works until ctx ends or the epoch's ground is gone. done: all rules are wound down.
func (f *Flow) runEpoch(ctx context.Context, p *plan) (done bool, err error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer func() {
		if fault := f.caught(recover()); fault != nil {
			done, err = false, fault
		}
	}()
	e := f.newEpoch(ctx, end, p)
	if err := e.recordCRD(ctx); err != nil {
		return false, err
	}
	if p.twin.Namespaced {
		f.Namespaces()
	}

	var tasks sync.WaitGroup
	run := e.runner(ctx, &tasks)
	e.watchSources(run)
	for _, scope := range p.twinScopes {
		w := e.watcher(e.to, p.twin, scope, boundary.LabelOrigin+"="+f.Identity.Cluster, e.twins.Feed(scope))
		e.watchers, e.twinWatchers = append(e.watchers, w), append(e.twinWatchers, w)
		run(w.run)
	}
	for _, scope := range p.formerScopes {
		feed := e.twins.Feed(scope)
		w := e.watcher(e.to, p.twin, scope, boundary.LabelOrigin+"="+f.Identity.Cluster, feed)
		w.pass = sync.OnceFunc(func() {
			e.log.Warn("Twins may be left in a namespace of their cluster that no rule uses any more, but RBAC does not let it be watched: they stay until it does", "namespace", scope)
			feed.Pass()
		})
		run(w.run)
	}
	if p.unseen {
		e.log.Warn("Twins may be left in namespaces of their cluster that no rule uses any more, but RBAC lets only those in use be watched: they stay until it allows to list and watch them in all namespaces")
	}
	for range f.workers() + 1 { // one is left for changes
		run(e.work)
	}
	run(e.supervise)
	f.tellGaps(p.gaps)
	f.setState(State{Active: true}, e)
	e.enqueueAll() // a namespace may have become known before the flow could be told of it
	e.listedAgain()

	<-ctx.Done()
	e.queue.ShutDown()
	cause := context.Cause(ctx)
	waitFor(cause, &tasks, &e.blockers.tasks)
	if errors.Is(cause, errDone) {
		return true, nil
	}
	return false, cause
}

// newEpoch makes an epoch that watches nothing yet.
func (f *Flow) newEpoch(ctx context.Context, end context.CancelCauseFunc, p *plan) *epoch {
	e := &epoch{
		Flow: f, plan: p, states: newStates(), end: end, ctx: ctx,
		queue: newQueue(f.name, f.workers()), wound: map[string]bool{}, undeclared: map[string]bool{},
		from: newSide(f.From), to: newSide(f.To),
	}
	e.confirm = newConfirmer(e)
	e.guard = newGuard(e)
	e.blockers = newBlockers(e)
	e.sources = store.New(store.Options{
		Keep: func(o *unstructured.Unstructured) bool {
			return boundary.Keeps(f.Rules, o, f.Naming) || f.Identity.Holds(o, f.Remote)
		},
		Trim:    func(o *unstructured.Unstructured) { boundary.TrimSource(f.Rules, o) },
		Listing: e.guard.suspend,
		Changed: e.sourceChanged,
		Listed:  e.listed,
	})
	e.twins = store.New(store.Options{
		Index: func(o *unstructured.Unstructured) (types.NamespacedName, bool) {
			return f.Identity.SourceOf(o)
		},
		Listing: e.guard.suspend,
		Changed: e.twinChanged,
		Listed:  e.listed,
	})
	return e
}

// watchSources watches the sources, each watch in a task of its own.
func (e *epoch) watchSources(run func(task func(context.Context))) {
	selector := e.sourceSelector()
	for _, scope := range e.plan.sourceScopes {
		w := e.watcher(e.from, e.plan.source, scope, selector, e.sources.Feed(scope))
		e.watchers = append(e.watchers, w)
		run(w.run)
	}
	for _, scope := range e.plan.heldScopes {
		feed := e.sources.Feed(scope)
		w := e.watcher(e.from, e.plan.source, scope, selector, feed)
		w.pass = sync.OnceFunc(func() {
			e.log.Warn("Sources may still be held in a namespace that no rule uses any more, but RBAC does not let it be watched: they stay held until it does", "namespace", scope)
			feed.Pass()
		})
		run(w.run)
	}
	if e.plan.heldUnseen {
		e.log.Warn("Sources may still be held in namespaces that no rule uses any more, but RBAC lets only those in use be watched: they stay held until it allows to list and watch them in all namespaces")
	}
}

// workers is the most that any of the rules asks for.
func (f *Flow) workers() int {
	n := 1
	for _, rule := range f.Rules {
		n = max(n, rule.Workers)
	}
	return n
}

// sourceSelector is the label selector for the server: the rules' own, when they agree. A source that is held has to be
// seen whatever its labels.
func (e *epoch) sourceSelector() string {
	if e.mayHold() {
		return ""
	}
	selector := ""
	for i, rule := range e.Rules {
		if i > 0 && rule.Selector.String() != selector {
			return ""
		}
		selector = rule.Selector.String()
	}
	return selector
}

// recordCRD writes down which CRD the sources come from.
func (e *epoch) recordCRD(ctx context.Context) error {
	if e.plan.sourceCRD == nil || len(e.Rules) == 0 {
		return nil
	}
	gr := e.plan.source.GroupResource()
	if before := e.Ledger.CRD(e.Direction, gr); before != "" && before != e.plan.sourceCRD.UID {
		e.log.Warn("The sources' CRD is another one than before: what is absent now counts as inferred", "before", before, "now", e.plan.sourceCRD.UID)
	}
	return e.Ledger.RecordCRD(ctx, e.Direction, gr, e.plan.sourceCRD.UID)
}

// awaited says what is not listed yet, and why.
func (e *epoch) awaited() string {
	var texts []string
	for _, w := range e.watchers {
		if text := w.awaited(); text != "" {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, ", ")
}

// unseen says where twins, or sources that are held, may be left that RBAC does not let us see.
func (e *epoch) unseen() (texts []string) {
	hidden := func(s *store.Store, scopes []string) string {
		return strings.Join(slices.DeleteFunc(slices.Clone(scopes), func(scope string) bool { return !s.Settled(scope) || s.Synced(scope) }), ", ")
	}
	if names := hidden(e.twins, e.plan.formerScopes); names != "" {
		texts = append(texts, "twins may be left in namespaces that no rule uses any more, but RBAC does not let them be listed: "+names)
	}
	if e.plan.unseen {
		texts = append(texts, "twins may be left in namespaces that no rule uses any more, but RBAC lets only those in use be listed")
	}
	if names := hidden(e.sources, e.plan.heldScopes); names != "" {
		texts = append(texts, "sources may still be held in namespaces that no rule uses any more, but RBAC does not let them be listed: "+names)
	}
	if e.plan.heldUnseen {
		texts = append(texts, "sources may still be held in namespaces that no rule uses any more, but RBAC lets only those in use be listed")
	}
	return texts
}

// synced reports whether both sides are listed.
func (e *epoch) synced() bool { return e.sources.AllSynced() && e.twins.AllSynced() }

// ready reports whether both sides are listed as far as a source is concerned.
func (e *epoch) ready(key types.NamespacedName) bool {
	if e.sourceScope(key.Namespace) && !e.sources.Settled(key.Namespace) {
		return false
	}
	targets := boundary.Targets(e.Rules, e.Naming, key.Namespace)
	if targets == nil {
		return e.twins.AllSynced()
	}
	for _, namespace := range targets {
		if !e.twins.Synced(namespace) {
			return false
		}
	}
	return true
}

// sourceScope reports whether a namespace is watched for sources at all; one that is not has none.
func (e *epoch) sourceScope(namespace string) bool {
	return slices.Contains(e.plan.sourceScopes, "") || slices.Contains(e.plan.sourceScopes, namespace) ||
		slices.Contains(e.plan.heldScopes, namespace)
}

// deselected reports whether no rule takes a source, which is known only because it is held.
func (e *epoch) deselected(source *unstructured.Unstructured) bool {
	return e.Identity.Holds(source, e.Remote) && !boundary.Keeps(e.Rules, source, e.Naming)
}

// sourceChanged takes in a change of a source.
func (e *epoch) sourceChanged(c store.Change) {
	e.states.with(c.Key, func(s *state) {
		if c.Live && c.Old != nil && (c.New == nil || c.New.GetUID() != c.Old.GetUID() || e.deselected(c.New) && !e.deselected(c.Old)) {
			s.gone, s.goneAt = c.Old.GetUID(), time.Now()
		}
		if c.New != nil && c.New.GetDeletionTimestamp() != nil && s.goneAt.IsZero() {
			s.goneAt = time.Now()
		}
		if c.Live && c.New != nil && (c.Old == nil || c.New.GetUID() != c.Old.GetUID()) {
			s.came = c.New.GetUID()
		}
		if c.Live && s.changed.IsZero() {
			s.changed = time.Now()
		}
	})
	e.queue.add(c.Key, laneOf(c))
	e.sourceMoved(c)
}

// twinChanged takes in a change of a twin.
func (e *epoch) twinChanged(c store.Change) {
	keys := map[types.NamespacedName]bool{}
	for _, obj := range []*unstructured.Unstructured{c.Old, c.New} {
		if obj == nil {
			continue
		}
		if source, ok := e.Identity.SourceOf(obj); ok {
			keys[source] = true
		}
	}
	for _, key := range e.waiting.at(c.Key) {
		keys[key] = true
	}
	moved := len(keys) > 1 || c.Old == nil || c.New == nil
	for key := range keys {
		if moved {
			e.Siblings.twinChanged(e.Flow, key, laneOf(c))
		}
		if c.Live {
			e.states.with(key, func(s *state) {
				if s.statusChanged.IsZero() {
					s.statusChanged = time.Now()
				}
			})
		}
		e.queue.add(key, laneOf(c))
	}
}

func laneOf(c store.Change) lane {
	if c.Live {
		return changes
	}
	return resyncs
}

// listed queues everything of a scope that has just been listed: what came before its other side was listed was
// passed over.
func (e *epoch) listed(string) {
	now := time.Now()
	e.listedAt.Store(&now)
	e.enqueueAll()
	if e.twins.AllSynced() && e.announced.CompareAndSwap(false, true) {
		e.Siblings.lookAgain(e.Flow)
	}
	e.listedAgain()
	e.guard.recount()
	e.log.Debug("Listed", "sources", e.sources.Len(), "twins", e.twins.Len())
}

// lastListed returns when a scope was listed last: absences of which no event told were found by then.
func (e *epoch) lastListed() time.Time {
	if at := e.listedAt.Load(); at != nil {
		return *at
	}
	return time.Now()
}

// enqueueAll queues every source and the source of every twin.
func (e *epoch) enqueueAll() { e.enqueue(func(types.NamespacedName) bool { return true }) }

// enqueue queues the sources, and the sources of twins, that match.
func (e *epoch) enqueue(match func(source types.NamespacedName) bool) {
	var keys []types.NamespacedName
	e.sources.Each("", func(o *unstructured.Unstructured) bool {
		keys = append(keys, types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()})
		return true
	})
	e.twins.Each("", func(o *unstructured.Unstructured) bool {
		if source, ok := e.Identity.SourceOf(o); ok {
			keys = append(keys, source)
		}
		return true
	})
	for _, key := range keys {
		if match(key) {
			e.queue.add(key, resyncs)
		}
	}
}

// namespaceChanged queues the sources whose twins belong into a remote namespace; "": into any. When one comes, the
// right to watch it comes with it or soon after.
func (e *epoch) namespaceChanged(name string) {
	for _, w := range e.twinWatchers {
		if w.scope != "" && w.scope == name {
			w.hurry()
		}
	}
	e.enqueue(func(source types.NamespacedName) bool {
		return name == "" || e.goesInto(source, name)
	})
}

// goesInto reports whether a source's twin belongs into a namespace.
func (e *epoch) goesInto(key types.NamespacedName, namespace string) bool {
	if targets := boundary.Targets(e.Rules, e.Naming, key.Namespace); targets != nil {
		return slices.Contains(targets, namespace)
	}
	source := e.sources.Get(key)
	if source == nil {
		return false
	}
	place, ok := boundary.Belongs(e.Rules, source, e.Naming, stampedRule(e.twins.ByIndex(key)))
	return ok && place.Namespace == namespace
}

// supervise looks after what no event tells: the ground that the epoch stands on, the guard, and the end of a wind-down.
func (e *epoch) supervise(ctx context.Context) {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.kick:
			e.revalidate(ctx)
		case <-ticker.C:
			e.sweep(ctx)
		}
	}
}

// sweepEvery is how often an epoch tidies up; nothing waits for it but held deletes that somebody allows.
const sweepEvery = 5 * time.Second

// revalidate ends the epoch when a side no longer serves the kind from the same CRD, and takes in a changed schema.
func (e *epoch) revalidate(ctx context.Context) {
	fresh, err := e.prepare(ctx)
	if ctx.Err() != nil {
		return
	}
	var replaced *replacedError
	if errors.As(err, &replaced) {
		e.end(err)
		return
	}
	if err != nil {
		if fresh == nil || isConnection(err) {
			e.log.Debug("Looking at both sides again failed", "error", err)
			time.AfterFunc(recheckFirst, e.check)
			return
		}
		e.end(fmt.Errorf("%w: %w", errServing, err))
		return
	}
	if !sameCRD(fresh.sourceCRD, e.plan.sourceCRD) || !sameCRD(fresh.twinCRD, e.plan.twinCRD) {
		e.end(fmt.Errorf("%w: the CRD of %s is another one than before", errServing, e.Kind.Kind))
		return
	}
	if crdGeneration(fresh.twinCRD) != crdGeneration(e.plan.twinCRD) || crdGeneration(fresh.sourceCRD) != crdGeneration(e.plan.sourceCRD) {
		e.log.Info("A schema changed; all objects are looked at again")
		e.schemaMu.Lock()
		e.plan.schema, e.plan.statusSchema = fresh.schema, fresh.statusSchema
		e.plan.sourceCRD, e.plan.twinCRD = fresh.sourceCRD, fresh.twinCRD
		clear(e.undeclared)
		e.schemaMu.Unlock()
		e.tellGaps(fresh.gaps)
		e.states.forgetFaults()
		e.enqueueAll()
	}
}

// schemas returns what both sides declare at the moment.
func (e *epoch) schemas() (remote, status *boundary.Schema) {
	e.schemaMu.RLock()
	defer e.schemaMu.RUnlock()
	return e.plan.schema, e.plan.statusSchema
}
