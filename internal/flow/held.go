package flow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/ledger"
	"isthmus.dev/isthmus/internal/observe"
	"isthmus.dev/isthmus/internal/store"
	"isthmus.dev/isthmus/internal/wire"
)

// vigil looks after the sources that are held for their twins while the flow can't run: else nobody would say why they
// do not go, or let them go (D3).
type vigil struct {
	flow  *Flow
	epoch *epoch // in which sources alone are watched; nil: none
	stop  func()
}

// blindness is why a flow does not run.
type blindness struct {
	reason string
	// kindGoing: the CRD of the sources is being deleted.
	kindGoing bool
}

// keep begins to look after the sources, or goes on, with why the flow does not run now.
func (v *vigil) keep(ctx context.Context, why error) {
	f := v.flow
	if !f.mayHold() {
		return
	}
	p, kindGoing, err := f.prepareSources(ctx)
	if errors.Is(err, cluster.ErrNotServed) {
		v.end() // without their kind there are no sources
	}
	if err != nil {
		f.log.Debug("Sources that are held can't be looked at", "reason", cluster.Reason(err), "error", err)
		return
	}
	if v.epoch != nil && (v.epoch.ctx.Err() != nil || !sameCRD(v.epoch.plan.sourceCRD, p.sourceCRD)) {
		v.end()
	}
	if v.epoch == nil {
		v.begin(ctx, p)
	}
	now := blindness{f.unreachable(), kindGoing}
	if now.reason == "" {
		now.reason = why.Error()
	}
	if before := v.epoch.blind.Swap(&now); *before != now {
		v.epoch.enqueueAll()
	}
}

func (v *vigil) begin(ctx context.Context, p *plan) {
	ctx, cancel := context.WithCancelCause(ctx)
	e := v.flow.newEpoch(ctx, cancel, p)
	e.blind.Store(&blindness{})
	var tasks sync.WaitGroup
	e.run = e.runner(ctx, &tasks)
	e.begin()
	e.run(e.work)
	v.epoch = e
	v.stop = func() {
		cancel(nil)
		e.leave()
		e.queue.ShutDown()
		tasks.Wait()
	}
}

func (v *vigil) end() {
	if v.epoch != nil {
		v.stop()
		v.epoch = nil
	}
}

// prepareSources is prepare for the sources' side alone. kindGoing: their CRD is being deleted.
func (f *Flow) prepareSources(ctx context.Context) (p *plan, kindGoing bool, err error) {
	p = &plan{}
	if err := f.identify(ctx, f.From); err != nil {
		return nil, false, err
	}
	if p.source, err = f.From.Resource(ctx, f.Kind); err != nil {
		return nil, false, err
	}
	if !boundary.BuiltinGroup(f.Kind.Group) {
		if p.sourceCRD, err = f.From.CRD(ctx, p.source.GroupResource()); err != nil {
			return nil, false, err
		}
	}
	return p, p.sourceCRD != nil && p.sourceCRD.Terminating, f.scopeSources(ctx, p)
}

// unreachable says that the twins' cluster can't be reached; empty: it can.
func (f *Flow) unreachable() string {
	if h := f.To.Health(); !h.Reached && h.Err != nil {
		return fmt.Sprintf("the %s cluster can't be reached (%s)", f.To.Role(), cluster.Reason(h.Err))
	}
	return ""
}

// settleBlind decides, and does, what can be decided about a source while nothing is known of its twin.
func (e *epoch) settleBlind(ctx context.Context, key types.NamespacedName) {
	if !e.mayHold() {
		return
	}
	source := e.sources.Get(key)
	if source == nil || len(source.GetFinalizers()) == 0 {
		return
	}
	in := e.input(key, nil, types.NamespacedName{})
	in.Blind = true
	if now := e.blind.Load(); now != nil {
		in.Trouble, in.KindGoing = now.reason, now.kindGoing
	}
	if d := boundary.Decide(in); d.Action != boundary.Nothing {
		e.act(ctx, in, d)
	}
}

// trouble says why the twin of a source that is terminating can't be seen to at the moment; empty: it can.
func (e *epoch) trouble(source *unstructured.Unstructured) string {
	if source == nil || source.GetDeletionTimestamp() == nil {
		return ""
	}
	if text := e.unreachable(); text != "" {
		return text
	}
	for _, w := range e.twinWatches.needed() {
		if reason := w.trouble.Load(); reason != nil && !w.feed.Settled() {
			return fmt.Sprintf("twins can't be listed in %s", w.awaited())
		}
	}
	return ""
}

// moreTwins reports whether a source of a namespace with these twins has one at another place, or may have.
func (e *epoch) moreTwins(namespace string, twins []store.Item, place types.NamespacedName) bool {
	return !e.twinsKnown(namespace) || slices.ContainsFunc(twins, func(twin store.Item) bool { return twin.Key() != place })
}

// patchFinalizers sets the finalizers of a source in the state that was decided on.
func (e *epoch) patchFinalizers(ctx context.Context, source *unstructured.Unstructured, d boundary.Decision) (*wire.Object, error) {
	return e.jsonPatch(ctx, e.from, e.plan.source, nameOf(source), boundary.FinalizersPatch(source, d.Finalizers), boundary.FieldManager)
}

// setFinalizers carries out boundary.SetFinalizers (D3).
func (e *epoch) setFinalizers(ctx context.Context, in boundary.Input, d boundary.Decision) bool {
	source, err := e.patchFinalizers(ctx, in.Source, d)
	if err != nil {
		return e.failed(ctx, in, d, boundary.OpPatch, err)
	}
	e.metrics.Operation(observe.OperationUpdate, observe.StatusSuccess)
	e.queue.Forget(in.Key)
	e.log.Debug("Set the finalizers of the source", "source", in.Key, "finalizers", d.Finalizers, "reasons", d.Reasons)
	if gone(source) {
		return false // the watch tells
	}
	return !e.sources.Put(source)
}

// gone reports whether what a server answered about an object is its last state: it was being deleted, and nothing held it.
func gone(obj metav1.Object) bool {
	return obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0
}

// lookAfterHeld looks again at sources that are terminating while the twins' cluster can't be reached, for no event
// tells of that.
func (e *epoch) lookAfterHeld() {
	if !e.mayHold() || e.unreachable() == "" {
		return
	}
	var keys []types.NamespacedName
	e.sources.Each("", func(source store.Item) bool {
		if source.Deleting() {
			keys = append(keys, source.Key())
		}
		return true
	})
	for _, key := range keys {
		e.queue.add(key, resyncs)
	}
}

// forgetHeld drops from the ledger the namespaces in which no rule holds sources any more and none is held, and ends
// their watches.
func (e *epoch) forgetHeld(ctx context.Context) {
	if !e.mayHold() {
		return
	}
	e.moving.Lock() // else one that is about to be used again could be forgotten
	defer e.moving.Unlock()
	if e.extents.overtaken() {
		return
	}
	strays, forgotten := sync.OnceValue(e.strays), false
	for _, rule := range e.Rules {
		left := e.Ledger.HeldIn(rule.Name)
		if rule.MayHold() {
			names, listed := rule.SourceNamespaces(e.Extent().Naming)
			if !listed {
				continue // they hold anywhere
			}
			present := setOf(names)
			left = slices.DeleteFunc(left, func(namespace string) bool { return present[namespace] })
		}
		free := slices.DeleteFunc(left, func(namespace string) bool { return strays()[namespace] || e.sourcesHidden(namespace) })
		if len(free) == 0 {
			continue
		}
		if err := e.Ledger.ForgetHeld(ctx, rule.Name, free); err != nil {
			e.log.Warn("The ledger can't be written", "error", err)
			return
		}
		forgotten = true
	}
	if forgotten {
		e.close()
	}
}

// strays returns the namespaces, and ledger.Anywhere, with sources that carry our finalizer although no rule holds them.
func (e *epoch) strays() map[string]bool {
	strays, naming := map[string]bool{}, e.Extent().Naming
	e.sources.Each("", func(source store.Item) bool {
		if boundary.Stray(e.Rules, source.Head(), naming, e.Identity, e.Remote) {
			strays[source.Key().Namespace], strays[ledger.Anywhere] = true, true
		}
		return true
	})
	return strays
}

// sourcesHidden reports whether there may be sources in a namespace that are not listed.
func (e *epoch) sourcesHidden(namespace string) bool {
	return e.plan.watched && len(e.sourceWatches.list()) > 0 && hidden(e.sources, namespace)
}
