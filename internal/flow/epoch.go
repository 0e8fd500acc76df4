package flow

import (
	"context"
	"errors"
	"maps"
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
	from     *side // where the sources are
	to       *side // where the twins are
	// sourceWatches and twinWatches are those that run.
	sourceWatches, twinWatches watches
	run                        func(task func(context.Context)) // in a task of the epoch
	grown                      growth
	end                        context.CancelCauseFunc
	ctx                        context.Context // of the epoch, for watches that outlive a decision
	// dry are the dryRun options of all writes: an epoch that only looks asks what a server would make of them.
	dry []string

	listedAt  atomic.Pointer[time.Time] // when a scope was listed last
	announced atomic.Bool               // the siblings were told that all twins are listed

	schemaMu   sync.RWMutex    // guards plan.schema and plan.statusSchema
	undeclared map[string]bool // what was logged of undeclared fields; guarded by schemaMu
	waiting    waitList
	roaming    roaming
	abroad     abroad
	blind      atomic.Pointer[blindness] // what keeps the flow from running; nil: it runs
	deciding   sync.Mutex                // held by a resync that decides while there are changes
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
	e.run = e.runner(ctx, &tasks)
	e.begin()
	defer e.leave()
	for range f.workers() + 1 { // one is left for changes
		e.run(e.work)
	}
	e.run(e.supervise)
	f.tellGaps(p.gaps)
	f.setState(State{Active: true}, e)
	e.enqueueAll() // a namespace may have become known before the flow could be told of it
	e.listedAgain()

	<-ctx.Done()
	e.leave()
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
		Flow: f, plan: p, states: newStates(f.changed), end: end, ctx: ctx,
		queue: newQueue(f.workers()), wound: map[string]bool{}, undeclared: map[string]bool{},
		from: newSide(f.From), to: newSide(f.To),
	}
	e.confirm = newConfirmer(e)
	e.guard = newGuard(e)
	e.blockers = newBlockers(e)
	e.sources = store.New(store.Options{
		Keep: func(o *unstructured.Unstructured) bool {
			return boundary.Keeps(f.Rules, o, f.Extent().Naming) || f.Identity.Holds(o, f.Remote)
		},
		Slim:    true,
		Listing: e.guard.suspend,
		Changed: e.sourceChanged,
		Listed:  e.sourcesListed,
	})
	e.twins = store.New(store.Options{
		Index:   f.indexTwin,
		Listing: e.guard.suspend,
		Changed: e.twinChanged,
		Listed:  e.twinsListed,
	})
	return e
}

// indexTwin returns whose twin an object is, and by which rule; ours is false for what is no twin of ours.
func (f *Flow) indexTwin(o *unstructured.Unstructured) (source store.Second, ours bool) {
	stamp, ours := f.Identity.StampOf(o)
	return store.Second{Name: stamp.Source, Label: stamp.Rule, UID: stamp.SourceUID}, ours
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
	for _, w := range slices.Concat(e.sourceWatches.needed(), e.twinWatches.needed()) {
		if text := w.awaited(); text != "" {
			texts = append(texts, text)
		}
	}
	for _, namespace := range e.sources.Awaited() {
		texts = append(texts, namespace+" on the "+e.from.Role()+" cluster")
	}
	return strings.Join(texts, ", ")
}

// unseen says where twins, or sources that are held, may be left that RBAC does not let us see.
func (e *epoch) unseen() (texts []string) {
	hidden := func(all *watches) string {
		var names []string
		for _, w := range all.list() {
			if w.spare.Load() && w.feed.Settled() && !w.feed.Listed() {
				names = append(names, w.scope)
			}
		}
		return strings.Join(names, ", ")
	}
	if names := hidden(&e.twinWatches); names != "" {
		texts = append(texts, "twins may be left in namespaces that no rule uses any more, but RBAC does not let them be listed: "+names)
	}
	if e.twinsUnseen() {
		texts = append(texts, "twins may be left in namespaces that no rule uses any more, but RBAC lets only those in use be listed")
	}
	if names := hidden(&e.sourceWatches); names != "" {
		texts = append(texts, "sources may still be held in namespaces that no rule uses any more, but RBAC does not let them be listed: "+names)
	}
	if e.plan.heldUnseen {
		texts = append(texts, "sources may still be held in namespaces that no rule uses any more, but RBAC lets only those in use be listed")
	}
	return texts
}

// synced reports whether both sides are listed.
func (e *epoch) synced() bool { return e.sources.AllSynced() && e.twins.AllSynced() }

// ready reports whether both sides are listed as far as a source is concerned. A namespace that is not watched for
// sources has none.
func (e *epoch) ready(key types.NamespacedName) bool {
	if e.sources.Fed(key.Namespace) && !e.sources.Settled(key.Namespace) {
		return false
	}
	return e.targetsListed(key.Namespace)
}

// targetsListed reports whether the twins are listed where those of a namespace's sources belong.
func (e *epoch) targetsListed(namespace string) bool {
	targets := boundary.Targets(e.Rules, e.Extent().Naming, namespace)
	if targets == nil {
		return e.twins.AllSynced()
	}
	return !slices.ContainsFunc(targets, func(target string) bool { return !e.twins.Synced(target) })
}

// twinsKnown reports whether it is known which twins the sources of a namespace have. Where all were listed once, a
// namespace that comes later holds none of others.
func (e *epoch) twinsKnown(namespace string) bool {
	return e.twins.AllSynced() || e.announced.Load() && e.targetsListed(namespace)
}

// deselected reports whether no rule takes a source, which is known only because it is held.
func (e *epoch) deselected(source store.Item) bool {
	o := source.Object()
	return e.Identity.Holds(o, e.Remote) && !boundary.Keeps(e.Rules, o, e.Extent().Naming)
}

// sourceChanged takes in a change of a source. An echo of what we wrote brings nothing to decide: that was decided on
// once more when the answer came.
func (e *epoch) sourceChanged(c store.Change) {
	if c.Echo && !c.New.Deleting() {
		return
	}
	if going := c.New.Exists() && c.New.Deleting(); c.Live || going {
		e.states.with(c.Key, func(s *state) {
			if c.Live && c.Old.Exists() && (!c.New.Exists() || c.New.UID() != c.Old.UID() || e.deselected(c.New) && !e.deselected(c.Old)) {
				s.gone, s.goneAt = c.Old.UID(), time.Now()
			}
			if going && s.goneAt.IsZero() {
				s.goneAt = time.Now()
			}
			if c.Live && c.New.Exists() && (!c.Old.Exists() || c.New.UID() != c.Old.UID()) {
				s.came = c.New.UID()
			}
			if c.Live && s.changed.IsZero() {
				s.changed = time.Now()
			}
		})
	}
	if c.Live || !c.New.Exists() { // all that a list holds is queued when it has been taken in (sourcesListed)
		e.queue.add(c.Key, laneOf(c))
	}
	e.sourceMoved(c)
}

// twinChanged takes in a change of a twin. An echo of what we wrote is news only for other sources, that wait for its
// place.
func (e *epoch) twinChanged(c store.Change) {
	if c.Echo && !c.New.Deleting() {
		for _, key := range e.waiting.at(c.Key) {
			e.queue.add(key, laneOf(c))
		}
		return
	}
	keys := map[types.NamespacedName]bool{}
	for _, twin := range []store.Item{c.Old, c.New} {
		if !twin.Exists() {
			continue
		}
		if source, ok := twin.Second(); ok {
			keys[source] = true
		}
	}
	for _, key := range e.waiting.at(c.Key) {
		keys[key] = true
	}
	var listed types.NamespacedName // is queued when all of the list has been taken in (twinsListed)
	if !c.Live && c.New.Exists() {
		listed, _ = c.New.Second()
	}
	moved := len(keys) > 1 || !c.Old.Exists() || !c.New.Exists()
	if moved {
		e.changed()
	}
	for key := range keys {
		if moved {
			e.Siblings.twinChanged(e.Flow, key, laneOf(c))
			e.twinMoved(key)
		}
		if c.Live {
			e.states.with(key, func(s *state) {
				if s.statusChanged.IsZero() {
					s.statusChanged = time.Now()
				}
			})
		}
		if key != listed {
			e.queue.add(key, laneOf(c))
		}
	}
}

func laneOf(c store.Change) lane {
	if c.Live {
		return changes
	}
	return resyncs
}

// sourcesListed queues everything of a scope of sources that has just been listed: what came before its other side was
// listed was passed over.
func (e *epoch) sourcesListed(scope string) {
	of := affected{all: scope == "", sources: map[string]bool{scope: true}}
	e.listed(of.has, of)
}

// twinsListed does so for a scope of twins.
func (e *epoch) twinsListed(scope string) {
	of := affected{all: scope == "", twins: map[string]bool{scope: true}}
	into := e.goesInto(scope)
	match := func(source, twin types.NamespacedName) bool { return of.has(source, twin) || into(source) }
	switch {
	case e.twins.AllSynced() && e.announced.CompareAndSwap(false, true):
		match = everything // that a source has no other twin is known now
		e.Siblings.lookAgain(e.Flow, nil)
	case scope != "":
		e.Siblings.lookAgain(e.Flow, into)
	}
	e.listed(match, of)
}

// listed queues what matches of what was just listed, and lets the guard count it.
func (e *epoch) listed(match func(source, twin types.NamespacedName) bool, of affected) {
	now := time.Now()
	e.listedAt.Store(&now)
	e.enqueue(match)
	e.listedAgain()
	e.guard.look(of)
	e.changed()
	e.log.Debug("Listed", "sources", e.sources.Len(), "twins", e.twins.Len())
}

// affected says what a change concerns: everything, or what has its source, or its twin, in certain namespaces.
type affected struct {
	all            bool
	sources, twins map[string]bool
}

func (a affected) has(source, twin types.NamespacedName) bool {
	return a.all || a.sources[source.Namespace] || a.twins[twin.Namespace]
}

func (a affected) and(b affected) affected {
	both := affected{all: a.all || b.all, sources: map[string]bool{}, twins: map[string]bool{}}
	for _, one := range []affected{a, b} {
		maps.Copy(both.sources, one.sources)
		maps.Copy(both.twins, one.twins)
	}
	return both
}

func everything(_, _ types.NamespacedName) bool { return true }

// lastListed returns when a scope was listed last: absences of which no event told were found by then.
func (e *epoch) lastListed() time.Time {
	if at := e.listedAt.Load(); at != nil {
		return *at
	}
	return time.Now()
}

// enqueueAll queues every source and the source of every twin.
func (e *epoch) enqueueAll() { e.enqueue(everything) }

// enqueue queues the sources, and the sources of twins, that match. twin is empty for a source.
func (e *epoch) enqueue(match func(source, twin types.NamespacedName) bool) {
	var keys []types.NamespacedName
	e.sources.Each("", func(source store.Item) bool {
		keys = append(keys, source.Key())
		return true
	})
	keys = slices.DeleteFunc(keys, func(source types.NamespacedName) bool { return !match(source, types.NamespacedName{}) })
	e.eachTwin(func(source, twin types.NamespacedName) {
		if match(source, twin) {
			keys = append(keys, source)
		}
	})
	for _, key := range keys {
		e.queue.add(key, resyncs)
	}
}

// eachTwin calls do for every twin of ours and its source.
func (e *epoch) eachTwin(do func(source, twin types.NamespacedName)) {
	var pairs [][2]types.NamespacedName
	e.twins.EachIndexed(func(source types.NamespacedName, twin store.Item) {
		pairs = append(pairs, [2]types.NamespacedName{source, twin.Key()})
	})
	for _, pair := range pairs {
		do(pair[0], pair[1])
	}
}

// namespaceChanged queues the sources whose twins belong into a remote namespace; "": into any. When one comes, the
// right to watch it comes with it or soon after.
func (e *epoch) namespaceChanged(name string) {
	if w := e.twinWatches.get(name); w != nil && name != "" {
		w.hurry()
	}
	into := e.goesInto(name)
	e.enqueue(func(source, _ types.NamespacedName) bool { return name == "" || into(source) })
}

// goesInto returns what reports whether a source's twin belongs into a namespace, as things are now.
func (e *epoch) goesInto(namespace string) func(source types.NamespacedName) bool {
	naming := e.Extent().Naming
	known := map[string]bool{} // by namespaces of sources whose twins have one place
	return func(key types.NamespacedName) bool {
		if into, ok := known[key.Namespace]; ok {
			return into
		}
		if targets := boundary.Targets(e.Rules, naming, key.Namespace); targets != nil {
			known[key.Namespace] = slices.Contains(targets, namespace)
			return known[key.Namespace]
		}
		source := e.sources.Get(key)
		if source == nil {
			return false
		}
		place, ok := boundary.Belongs(e.Rules, source, naming, stampedRule(e.twins.Named(key)))
		return ok && place.Namespace == namespace
	}
}

// schemas returns what both sides declare at the moment.
func (e *epoch) schemas() (remote, status *boundary.Schema) {
	e.schemaMu.RLock()
	defer e.schemaMu.RUnlock()
	return e.plan.schema, e.plan.statusSchema
}
