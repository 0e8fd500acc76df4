// Package flow runs the rules of one kind in one direction between two clusters: it watches both sides, queues the
// sources that changed, asks boundary.Decide what to do, does it, and takes in the answers. It decides nothing itself.
package flow

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/ledger"
	"isthmus.dev/isthmus/internal/observe"
)

// How long things are waited for. A failed object is tried again after retryFirst, then twice as long each time, up to
// retryMost (F3).
const (
	retryFirst   = 500 * time.Millisecond
	retryMost    = 30 * time.Second
	faultFirst   = 5 * time.Second
	faultMost    = 5 * time.Minute
	recheckFirst = 2 * time.Second
	recheckMost  = 30 * time.Second
	// writeTimeout bounds one write; after a stop, the write in flight gets stopGrace.
	writeTimeout = 30 * time.Second
	stopGrace    = 3 * time.Second
)

// Options are what a Flow runs with.
type Options struct {
	Identity boundary.Identity
	Kind     schema.GroupVersionKind
	// Rules are the rules of the kind; Removed those of earlier runs that are to be wound down (D5).
	Rules   []*boundary.Rule
	Removed []boundary.RemovedRule
	// Waiting names rules of the kind whose twins stay as they are for now.
	Waiting []string
	// Extent is the first one: Flow.Extent tells the one in force.
	Extent Extent

	// Direction says which side is which: From is where the sources are, To where the twins are.
	Direction boundary.Direction
	From, To  End
	// Remote is the cluster ID of the other side than the local one. Siblings are the flows towards other remotes that
	// share the sources with this one; nil: there are none.
	Remote   string
	Siblings *Siblings
	// Namespaces returns those of the twins' side, which are watched from the first call on: a flow of a cluster-scoped
	// kind makes none.
	Namespaces       func() *cluster.Namespaces
	CreateNamespaces bool
	// References lead to the objects of other flows.
	References   *References
	MassDeletion boundary.MassDeletion
	Ledger       *ledger.Ledger
	Events       *observe.Events
	Metrics      *observe.Metrics
	Logger       *slog.Logger
	// Rights is the command that prints the rights, named where they are missing; empty: none is.
	Rights string
	// Changed is called, from anywhere, when the flow, or what is left of its twins, stands otherwise; it must not block.
	Changed func()
	// TwinMoved is called, from anywhere, when a source may have come to have a twin, or have none any more; it must not
	// block. Nil: nobody wants to know.
	TwinMoved func(source types.NamespacedName)
}

// End is one end of a flow: a cluster, and the UID of its namespace kube-system by the ledger.
type End struct {
	*cluster.Cluster
	UID string
}

// Flow runs the rules of one kind in one direction.
type Flow struct {
	Options
	name    string
	log     *slog.Logger
	metrics *observe.FlowMetrics

	extents extents
	held    bool       // sources may have been held by rules of earlier runs (D3)
	moving  sync.Mutex // held while scopes change, or what the ledger has of them
	live    *epoch     // the one whose watches follow the extent, which may be a vigil's; guarded by moving

	kick chan struct{} // something that the lifecycle depends on may have changed

	mu    sync.Mutex
	state State
	epoch *epoch
	gaps  map[string][]boundary.Gap // by rule
	open  map[string]bool           // scopes of twins that the server let us list

	tallies tallies
}

// State is how a flow stands.
type State struct {
	// Active: both sides are watched and work is done. Ready: besides, all is listed for the first time.
	Active, Ready bool
	// Starting: neither side has been looked at yet.
	Starting bool
	// Replaced: a cluster is another one than the ledger names.
	Replaced bool
	// TwinsNotServed: the twins' side does not serve the kind, so there are none.
	TwinsNotServed bool
	// Reason says why it is not active.
	Reason string
}

// Gaps returns, by rule, what can't cross because the twins' side does not declare it, or as something else (O7): known
// as soon as both sides have told what they declare, before anything crosses.
func (f *Flow) Gaps() map[string][]boundary.Gap {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.gaps
}

// tellGaps takes in what can't cross, and says it of each rule of which it is something else than before.
func (f *Flow) tellGaps(gaps map[string][]boundary.Gap) {
	before := f.Gaps()
	f.mu.Lock()
	f.gaps = gaps
	f.mu.Unlock()
	f.changed()
	for _, rule := range f.Rules {
		message := boundary.GapsMessage(gaps[rule.Name])
		f.Metrics.SetRuleUndeclared(rule.Name, string(rule.Direction), rule.Kind.Kind, len(gaps[rule.Name]))
		switch was := boundary.GapsMessage(before[rule.Name]); {
		case message == was:
		case message == "":
			f.log.Info("All fields of the kind cross now", "rule", rule.Name)
		default:
			f.log.Warn("Fields that the twins' side does not declare do not cross", "rule", rule.Name, "side", f.To.Role(), "fields", message)
		}
	}
}

// New makes a Flow; Run runs it.
func New(o Options) *Flow {
	f := &Flow{
		Options: o,
		name:    strings.ToLower(o.Kind.Kind),
		log:     o.Logger.With("kind", o.Kind.Kind, "group", o.Kind.Group),
		metrics: o.Metrics.ForFlow(string(o.Direction), o.Kind.Kind),
		kick:    make(chan struct{}, 1),
		state:   State{Starting: true, Reason: "starting"},
	}
	f.extents.set(&o.Extent)
	f.held = len(f.heldIn()) > 0
	o.Siblings.join(f)
	o.References.join(f)
	return f
}

// State returns how the flow stands.
func (f *Flow) State() State {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.state
	if s.Active && f.epoch != nil {
		s.Ready = f.epoch.synced()
		if !s.Ready {
			s.Reason = "not listed yet: " + f.epoch.awaited()
		}
	}
	return s
}

// Unseen says where twins, or sources that are held, may be left that RBAC does not let us see.
func (f *Flow) Unseen() []string {
	if e := f.current(); e != nil {
		return e.unseen()
	}
	return nil
}

// Held returns how many deletes the guard holds, of how many twins (F8); 0: none.
func (f *Flow) Held() (deletes, twins int) {
	if e := f.current(); e != nil {
		if g := e.guard.get(); g.Paused {
			return g.Deletes, g.Twins
		}
	}
	return 0, 0
}

// MayHaveWritten reports whether the flow may have written twins in a namespace: it does so only where it has listed.
func (f *Flow) MayHaveWritten(namespace string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open[""] || f.open[namespace]
}

// opened takes in that the server lets us list a scope of twins.
func (f *Flow) opened(scope string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open == nil {
		f.open = map[string]bool{}
	}
	f.open[scope] = true
}

// Name returns the kind, for messages.
func (f *Flow) Name() string { return f.Kind.Kind }

// NamespaceChanged tells the flow that the state of a remote namespace changed; "": of all of them.
func (f *Flow) NamespaceChanged(name string) {
	if e := f.current(); e != nil {
		defer e.rescue()
		e.namespaceChanged(name)
	}
}

// Run runs the flow until ctx ends, or until all its rules are removed ones and wound down. Whatever is wrong on
// either side is waited for (F1, S7).
func (f *Flow) Run(ctx context.Context) {
	defer f.Siblings.leave(f)
	defer f.References.leave(f)
	defer f.metrics.Close()
	crds := crdWatch{flow: f}
	defer crds.stop()
	held := vigil{flow: f}
	defer held.end()
	delay, rest := recheckFirst, faultFirst
	for ctx.Err() == nil {
		plan, err := f.prepare(ctx)
		if plan != nil {
			crds.watch(ctx, plan)
		}
		if err != nil {
			state := f.waiting(err)
			state.TwinsNotServed = plan != nil && plan.twinsNotServed
			f.setState(state, nil)
			held.keep(ctx, err)
			most := recheckMost
			if isConnection(err) {
				most = watchRetryMost
			}
			if f.waitKick(ctx, delay) {
				delay = recheckFirst // what changed may take a moment until it is served
			} else {
				delay = min(2*delay, most)
			}
			continue
		}
		held.end()
		delay = recheckFirst
		began := time.Now()
		done, err := f.runEpoch(ctx, plan)
		if done {
			return
		}
		if errors.Is(err, errWider) {
			continue
		}
		if err != nil && ctx.Err() == nil {
			f.setState(f.waiting(err), nil)
			if !panicked(err) || time.Since(began) > faultMost {
				rest = faultFirst
			}
			if panicked(err) {
				pause(ctx, rest)
				rest = min(2*rest, faultMost)
			} else {
				f.waitKick(ctx, recheckFirst)
			}
		}
	}
}

// waiting is the state of a flow that an error keeps from running.
func (f *Flow) waiting(err error) State {
	var replaced *replacedError
	return State{Reason: RemediedBy(err, f.Rights).Error(), Replaced: errors.As(err, &replaced)}
}

// crdWatch lets the lifecycle look again when the kind's CRD changes on either side.
type crdWatch struct {
	flow    *Flow
	watched schema.GroupResource
	cancel  context.CancelFunc
}

func (w *crdWatch) watch(ctx context.Context, p *plan) {
	gr := p.source.GroupResource()
	if gr == w.watched || boundary.BuiltinGroup(gr.Group) {
		return
	}
	w.stop()
	ctx, w.cancel = context.WithCancel(ctx)
	w.watched = gr
	w.flow.From.WatchCRD(ctx, gr, w.flow.check)
	w.flow.To.WatchCRD(ctx, p.twin.GroupResource(), w.flow.check)
}

func (w *crdWatch) stop() {
	if w.cancel != nil {
		w.cancel()
	}
}

// check makes the lifecycle look at both sides again.
func (f *Flow) check() {
	select {
	case f.kick <- struct{}{}:
	default:
	}
}

// LookAgain has what the flow waits for looked at again soon: rights may have been given.
func (f *Flow) LookAgain() { f.check() }

// waitKick waits until something changed, which it reports, and no longer than most.
func (f *Flow) waitKick(ctx context.Context, most time.Duration) (kicked bool) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-f.kick:
		return true
	case <-timer.C:
	}
	return false
}

// pause waits, whatever happens meanwhile.
func pause(ctx context.Context, span time.Duration) {
	timer := time.NewTimer(span)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

func (f *Flow) setState(s State, e *epoch) {
	f.mu.Lock()
	changed := f.state != s
	turned := f.state.Active != s.Active || f.state.Starting
	f.state, f.epoch = s, e
	f.mu.Unlock()
	if turned {
		f.Siblings.lookAgain(f, nil)
	}
	for _, rule := range f.Rules {
		f.Metrics.SetRuleActive(rule.Name, string(rule.Direction), rule.Kind.Kind, s.Active)
	}
	if changed && s.Active {
		f.log.Info("The flow runs")
	} else if changed {
		f.log.Warn("The flow waits", "reason", s.Reason)
	}
	f.changed()
}
