package flow

import (
	"context"
	"errors"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/ledger"
	"isthmus.dev/isthmus/internal/store"
)

// errWider ends an epoch that has come to watch many namespaces one by one, and may watch all at once.
var errWider = errors.New("all namespaces can be watched at once")

// begin opens the watches of an epoch, which follow the extent from then on.
func (e *epoch) begin() {
	e.moving.Lock()
	defer e.moving.Unlock()
	want := e.scopes(e.plan, e.Extent())
	fresh := e.open(want)
	e.grown.begin(e.singles(want))
	e.live = e
	e.start(fresh)
	if want.unseen {
		e.log.Warn("Twins may be left in namespaces of their cluster that no rule uses any more, but RBAC lets only those in use be watched: they stay until it allows to list and watch them in all namespaces")
	}
	if e.plan.heldUnseen {
		e.log.Warn("Sources may still be held in namespaces that no rule uses any more, but RBAC lets only those in use be watched: they stay held until it allows to list and watch them in all namespaces")
	}
}

// leave ends that the epoch's watches follow the extent.
func (e *epoch) leave() {
	e.moving.Lock()
	defer e.moving.Unlock()
	if e.live == e {
		e.live = nil
	}
}

// move takes the next extent in force. What is new is known to be unlisted before it is in force, so nothing there counts
// as absent. The caller holds moving.
func (e *epoch) move(ctx context.Context, next *Extent, m move) {
	e.guard.suspend()
	fresh := e.open(e.scopes(e.plan, next))
	var gaps []*store.Gap
	if e.plan.watched && e.plan.sourcesWide && e.plan.source.Namespaced {
		gaps = e.gaps(next, m)
	}
	e.extents.set(next)
	e.start(fresh)
	for _, gap := range gaps {
		gap.Open()
		e.run(func(ctx context.Context) { e.fill(ctx, gap) })
	}
	e.ForgetUntouched(ctx)
	e.close()
	e.sources.Sift(m.sources)

	of := affected{sources: m.sources, twins: map[string]bool{}}
	if e.Direction == boundary.FromRemote {
		of.twins = m.withdrawn
	} else {
		of = of.and(affected{sources: m.withdrawn})
	}
	e.enqueue(of.has)
	for _, source := range e.abroad.referrers(m.sources) {
		e.queue.add(source, resyncs)
	}
	e.guard.look(of)
	if e.grown.beyond(e.singles(e.scopes(e.plan, next))) {
		e.check()
	}
}

// gaps announces to the store, which is fed by one watch, the namespaces whose sources it has not kept so far, and ends
// the waiting for those that are not of concern any more.
func (e *epoch) gaps(next *Extent, m move) (gaps []*store.Gap) {
	before, _ := boundary.SourceNamespaces(e.Rules, e.Extent().Naming)
	after, _ := boundary.SourceNamespaces(e.Rules, next.Naming)
	had, has := setOf(before), setOf(after)
	for namespace := range m.sources {
		switch {
		case has[namespace] && !had[namespace]:
			gaps = append(gaps, e.sources.Await(namespace))
		case !has[namespace]:
			e.sources.Dismiss(namespace)
		}
	}
	return gaps
}

// open registers what is to be watched, and returns the watches that are new. The caller holds moving.
func (e *epoch) open(want scopes) (fresh []*watcher) {
	p := e.plan
	selector := e.sourceSelector()
	sources := e.sourceWatches.open(want.sources, want.held, func(scope string) *watcher {
		w := e.watcher(e.from, p.source, scope, selector, e.sources.Feed(scope))
		w.passed = sync.OnceFunc(func() {
			e.log.Warn("Sources may still be held in a namespace that no rule uses any more, but RBAC does not let it be watched: they stay held until it does", "namespace", scope)
		})
		return w
	})
	twins := e.twinWatches.open(want.twins, want.former, func(scope string) *watcher {
		w := e.watcher(e.to, p.twin, scope, e.twinSelector(), e.twins.Feed(scope))
		w.passed = sync.OnceFunc(func() {
			e.log.Warn("Twins may be left in a namespace of their cluster that no rule uses any more, but RBAC does not let it be watched: they stay until it does", "namespace", scope)
		})
		return w
	})
	return slices.Concat(sources, twins)
}

// start runs watches that are new. The caller holds moving.
func (e *epoch) start(fresh []*watcher) {
	for _, w := range fresh {
		var ctx context.Context
		ctx, w.stop = context.WithCancel(e.ctx)
		e.run(func(context.Context) { w.run(ctx) })
	}
}

// close ends the watches that are not wanted any more. The caller holds moving.
func (e *epoch) close() {
	want := e.scopes(e.plan, e.Extent())
	for _, w := range e.sourceWatches.close(want.sources, want.held) {
		w.stop()
		e.sources.Drop(w.scope)
	}
	for _, w := range e.twinWatches.close(want.twins, want.former) {
		w.stop()
		e.twins.Drop(w.scope)
	}
}

// closeForgotten ends the watches of namespaces that the ledger does not name any more.
func (e *epoch) closeForgotten() {
	e.moving.Lock()
	defer e.moving.Unlock()
	e.close()
}

// twinSelector is the label selector for the server: twins of the sources' cluster.
func (e *epoch) twinSelector() string { return boundary.LabelOrigin + "=" + e.Identity.Cluster }

// twinsUnseen reports whether there may be twins in namespaces that nobody knows and RBAC does not let us look for.
func (e *epoch) twinsUnseen() bool {
	return !e.plan.twinsWide && slices.Contains(e.former(), ledger.Anywhere)
}

// fill lists the sources of a namespace that one watch of all has passed over so far, until that succeeds or is not needed
// any more.
func (e *epoch) fill(ctx context.Context, gap *store.Gap) {
	delay := wait.Backoff{Duration: retryFirst, Factor: 2, Jitter: 0.2, Steps: 8, Cap: recheckMost}
	told := ""
	for ctx.Err() == nil && gap.IsOpen() {
		err := e.list(ctx, gap)
		var replaced *replacedError
		switch {
		case err == nil, ctx.Err() != nil:
			return
		case errors.As(err, &replaced):
			e.end(err)
			return
		case isConnection(err):
			e.from.doubt()
		}
		if reason := cluster.Reason(err); reason != told {
			told = reason
			e.log.Warn("Listing failed and is tried again", "side", e.from.Role(), "namespace", gap.Namespace(), "reason", reason, "error", err)
		}
		pause(ctx, delay.Step())
	}
}

func (e *epoch) list(ctx context.Context, gap *store.Gap) error {
	ctx, err := e.from.trust(ctx)
	if err != nil {
		return err
	}
	objects, _, err := e.from.List(ctx, e.plan.source, gap.Namespace(), metav1.ListOptions{LabelSelector: e.sourceSelector()})
	if err == nil {
		gap.Fill(objects)
	}
	return err
}

// singles returns how many namespaces a side is watched one by one, of the side with more of them.
func (e *epoch) singles(want scopes) int {
	n := 0
	if !e.plan.sourcesWide {
		n = len(want.sources)
	}
	if !e.plan.twinsWide {
		n = max(n, len(want.twins))
	}
	return n
}

// growth tells when so many namespaces are watched one by one that it pays to ask whether all could be watched at once:
// when there are twice as many as at the last time.
type growth struct {
	mu    sync.Mutex
	limit int
	ask   bool
}

func (g *growth) begin(singles int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limit = 2 * max(fewNamespaces, singles)
}

// beyond reports whether it is time to ask.
func (g *growth) beyond(singles int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if singles <= g.limit {
		return false
	}
	g.limit, g.ask = 2*singles, true
	return true
}

// take reports whether it was to be asked, and that it is done.
func (g *growth) take() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	ask := g.ask
	g.ask = false
	return ask
}
