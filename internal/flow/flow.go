// Package flow runs the rules of one kind in one direction between two clusters: it watches both sides, queues the
// sources that changed, asks boundary.Decide what to do, does it, and takes in the answers. It decides nothing itself.
package flow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

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
	Naming  boundary.Naming
	// TwinNamespaces are the remote namespaces in which twins belong; nil: any. FormerNamespaces are those in which
	// twins of earlier runs may be left, by the ledger.
	TwinNamespaces, FormerNamespaces []string
	// HeldIn are the namespaces of sources, or ledger.Anywhere, in which some may carry our finalizer, by the ledger (D3).
	HeldIn []string

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
			f.setState(waiting(err), nil)
			held.keep(ctx, err)
			f.waitKick(ctx, delay)
			most := recheckMost
			if isConnection(err) {
				most = watchRetryMost
			}
			delay = min(2*delay, most)
			continue
		}
		held.end()
		delay = recheckFirst
		began := time.Now()
		done, err := f.runEpoch(ctx, plan)
		if done {
			return
		}
		if err != nil && ctx.Err() == nil {
			f.setState(waiting(err), nil)
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
func waiting(err error) State {
	var replaced *replacedError
	return State{Reason: err.Error(), Replaced: errors.As(err, &replaced)}
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

func (f *Flow) waitKick(ctx context.Context, most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-f.kick:
	case <-timer.C:
	}
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
		f.Siblings.lookAgain(f)
	}
	for _, rule := range f.Rules {
		f.Metrics.SetRuleActive(rule.Name, string(rule.Direction), rule.Kind.Kind, s.Active)
	}
	if changed && s.Active {
		f.log.Info("The flow runs")
	} else if changed {
		f.log.Warn("The flow waits", "reason", s.Reason)
	}
}

// plan is how both sides serve the kind at the moment.
type plan struct {
	source, twin       cluster.Resource
	sourceCRD, twinCRD *cluster.CRD
	schema             *boundary.Schema          // what the remote side declares
	statusSchema       *boundary.Schema          // what the local side declares of status
	gaps               map[string][]boundary.Gap // what can't cross, by rule
	sourceScopes       []string
	twinScopes         []string
	// formerScopes are watched for twins too, where RBAC still allows it; unseen: there may be twins in namespaces that
	// nobody knows and RBAC does not let us look for.
	formerScopes []string
	unseen       bool
	// heldScopes are watched besides for sources that carry our finalizer, where RBAC still allows it; heldUnseen: there
	// may be some where it does not let us look.
	heldScopes []string
	heldUnseen bool
}

// prepare asks both sides whether and how the flow can run. The plan may be partly filled in together with an error,
// which says what is waited for.
func (f *Flow) prepare(ctx context.Context) (p *plan, err error) {
	defer func() {
		if fault := f.caught(recover()); fault != nil {
			p, err = nil, fault
		}
	}()
	p = &plan{}
	if err := f.identify(ctx, f.From, f.To); err != nil {
		return nil, err
	}
	if p.source, err = f.From.Resource(ctx, f.Kind); err != nil && !(errors.Is(err, cluster.ErrNotServed) && len(f.Rules) == 0) {
		return f.guess(p), err
	}
	watched := len(f.Rules) > 0 || len(f.HeldIn) > 0 && err == nil
	if p.twin, err = f.To.Resource(ctx, f.Kind); err != nil {
		return f.guess(p), err
	}
	if !watched {
		p.source = p.twin
	}
	if p.source.Namespaced != p.twin.Namespaced {
		return p, fmt.Errorf("%s is namespaced on one side and cluster-scoped on the other", f.Kind.Kind)
	}
	for _, rule := range f.Rules {
		if !p.twin.Namespaced && rule.Mode != boundary.ModeMirror && !rule.ClusterScoped {
			return p, fmt.Errorf("rule %s: %s is cluster-scoped: such kinds cross only as a mirror, or under vCluster's names where the rule says clusterScoped: true", rule.Name, f.Kind.Kind)
		}
	}
	if p.sourceCRD, err = f.crd(ctx, f.From.Cluster, p.source.GroupResource()); err != nil {
		return p, err
	}
	if p.twinCRD, err = f.crd(ctx, f.To.Cluster, p.twin.GroupResource()); err != nil {
		return p, err
	}
	if p.schema, err = f.To.Schema(ctx, f.Kind); err != nil {
		return p, fmt.Errorf("the %s schema of %s: %w", f.To.Role(), f.Kind.Kind, err)
	}
	var sources *boundary.Schema
	if len(f.Rules) > 0 {
		if sources, err = f.From.Schema(ctx, f.Kind); err != nil {
			return p, fmt.Errorf("the %s schema of %s: %w", f.From.Role(), f.Kind.Kind, err)
		}
	}
	p.gaps = map[string][]boundary.Gap{}
	for _, rule := range f.Rules {
		returns := rule.ReturnsFrom(f.Remote)
		if returns && !p.source.Status {
			return p, fmt.Errorf("rule %s asks for statusSync, but %s has no status subresource on the %s cluster: status could not be told from spec", rule.Name, f.Kind.Kind, f.From.Role())
		}
		if returns && !p.twin.Status {
			return p, fmt.Errorf("rule %s asks for statusSync, but %s has no status subresource on the %s cluster", rule.Name, f.Kind.Kind, f.To.Role())
		}
		if err := rule.CheckRemoteOwned(p.schema); err != nil {
			return p, err
		}
		if returns {
			p.statusSchema, _ = sources.At(boundary.Path{{Field: "status"}})
		}
		p.gaps[rule.Name] = rule.Gaps(sources, p.schema)
		if rule.Mode == boundary.ModeMirror {
			status, declared := p.schema.At(boundary.Path{{Field: "status"}})
			if declared && p.schema != nil && !p.twin.Status {
				return p, fmt.Errorf("rule %s is a mirror, but %s has no status subresource on the %s cluster to take its status", rule.Name, f.Kind.Kind, f.To.Role())
			}
			p.statusSchema = status
		}
	}
	if watched {
		if err := f.scopeSources(ctx, p); err != nil {
			return p, err
		}
	}
	return p, f.scopeTwins(ctx, p)
}

// identify makes sure that clusters are those of the ledger (F7).
func (f *Flow) identify(ctx context.Context, ends ...End) error {
	for _, side := range ends {
		uid, err := side.Cluster.UID(ctx)
		if err != nil {
			return err
		}
		if uid != side.UID {
			return &replacedError{fmt.Sprintf("the %s cluster is another one than before (its kube-system has UID %s, the ledger says %s): nothing is touched; if it was replaced on purpose, delete the ledger and start again",
				side.Role(), uid, side.UID)}
		}
	}
	return nil
}

// guess fills in where the CRD of a kind that is not served would be, so that its coming can be watched for.
func (f *Flow) guess(p *plan) *plan {
	known := p.twin
	if p.source.Resource != "" {
		known = p.source
	}
	if known.Resource == "" {
		known.GroupVersionResource, _ = meta.UnsafeGuessKindToResource(f.Kind)
	}
	if p.source.Resource == "" {
		p.source.GroupVersionResource = known.GroupVersionResource
	}
	if p.twin.Resource == "" {
		p.twin.GroupVersionResource = known.GroupVersionResource
	}
	return p
}

// crd reads the CRD behind a resource; nil: there is none. A terminating one is as good as not served.
func (f *Flow) crd(ctx context.Context, c *cluster.Cluster, gr schema.GroupResource) (*cluster.CRD, error) {
	if boundary.BuiltinGroup(gr.Group) {
		return nil, nil
	}
	crd, err := c.CRD(ctx, gr)
	if err != nil {
		return nil, err
	}
	if crd != nil && crd.Terminating {
		return nil, fmt.Errorf("%s cluster: the CRD of %s is being deleted", c.Role(), f.Kind.Kind)
	}
	return crd, nil
}

// scopeSources finds out how to watch sources: with one watch where RBAC allows it, else, or where the rules stay in a
// few namespaces, with one a namespace.
func (f *Flow) scopeSources(ctx context.Context, p *plan) (err error) {
	if !p.source.Namespaced {
		p.sourceScopes = []string{""}
		return nil
	}
	sources, listable := f.sourceNamespaces()
	if listable && len(sources) <= fewNamespaces {
		p.sourceScopes = sources
	} else if p.sourceScopes, err = f.scopesOf(ctx, f.From.Cluster, p.source, sources, listable); err != nil {
		return err
	}
	return f.scopeHeld(ctx, p)
}

// scopeHeld adds the namespaces that no rule takes sources from any more, but in which some may carry our finalizer.
func (f *Flow) scopeHeld(ctx context.Context, p *plan) error {
	if slices.Contains(p.sourceScopes, "") {
		return nil
	}
	if slices.Contains(f.HeldIn, ledger.Anywhere) {
		all, err := f.scopesOf(ctx, f.From.Cluster, p.source, nil, true)
		if err != nil {
			return err
		}
		if slices.Contains(all, "") {
			p.sourceScopes = all
			return nil
		}
		p.heldUnseen = true
	}
	for _, namespace := range f.HeldIn {
		if namespace != ledger.Anywhere && !slices.Contains(p.sourceScopes, namespace) {
			p.heldScopes = append(p.heldScopes, namespace)
		}
	}
	return nil
}

// scopeTwins finds out how to watch twins: with one watch where RBAC allows it, else with one a namespace.
func (f *Flow) scopeTwins(ctx context.Context, p *plan) (err error) {
	if !p.twin.Namespaced {
		p.twinScopes = []string{""}
		return nil
	}
	p.twinScopes, err = f.scopesOf(ctx, f.To.Cluster, p.twin, f.TwinNamespaces, f.TwinNamespaces != nil)
	if err != nil || slices.Contains(p.twinScopes, "") {
		return err
	}
	for _, namespace := range f.FormerNamespaces {
		switch {
		case namespace == ledger.Anywhere:
			p.unseen = true
		case !slices.Contains(p.twinScopes, namespace):
			p.formerScopes = append(p.formerScopes, namespace)
		}
	}
	return nil
}

// mayHold reports whether sources may carry our finalizer.
func (f *Flow) mayHold() bool {
	return len(f.HeldIn) > 0 || slices.ContainsFunc(f.Rules, (*boundary.Rule).MayHold)
}

// fewNamespaces is how many watches of one namespace each are taken for less than one of the whole cluster.
const fewNamespaces = 8

func (f *Flow) scopesOf(ctx context.Context, c *cluster.Cluster, r cluster.Resource, namespaces []string, listable bool) ([]string, error) {
	for _, verb := range []string{"list", "watch"} {
		ok, err := c.Can(ctx, verb, r.GroupVersionResource, "", "")
		if err != nil {
			return nil, err
		}
		if ok {
			continue
		}
		if !listable {
			return nil, fmt.Errorf("%s cluster: RBAC lacks the verb %s on %s in all namespaces, and the rules do not say in which namespaces it would do", c.Role(), verb, r.GroupResource())
		}
		return namespaces, nil
	}
	return []string{""}, nil
}

// sourceNamespaces returns the local namespaces that the rules stay in, where these can be listed.
func (f *Flow) sourceNamespaces() ([]string, bool) {
	set := map[string]bool{}
	for _, rule := range f.Rules {
		names, ok := rule.SourceNamespaces(f.Naming)
		if !ok {
			return nil, false
		}
		for _, name := range names {
			set[name] = true
		}
	}
	names := make([]string, 0, len(set))
	for name := range set {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, true
}
