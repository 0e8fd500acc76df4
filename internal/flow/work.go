package flow

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/store"
)

// mostSteps bounds how many actions follow each other at once for one source: an apply and a status are the usual
// case; more than a few means that something keeps changing, and others shall have their turn.
const mostSteps = 6

// work handles queued sources until the queue shuts down.
func (e *epoch) work(ctx context.Context) {
	for {
		key, shutdown := e.queue.Get()
		if shutdown {
			return
		}
		if ctx.Err() == nil {
			leave := e.extents.enter()
			e.handle(ctx, key)
			leave()
			e.states.doze(key, time.Now())
		}
		e.queue.done(key)
	}
}

// handle settles a source: its twin, and twins of it that are where they do not belong any more.
func (e *epoch) handle(ctx context.Context, key types.NamespacedName) {
	if e.blind.Load() != nil || !e.ready(key) {
		e.settleBlind(ctx, key)
		return // queued again when it is listed
	}
	t := e.turn(key)
	defer t.leave()
	t.take()
	for _, place := range e.places(key) {
		e.settle(ctx, key, place, t)
	}
}

// places returns where there is something to settle of a source: where its twins do not belong, and then where one does.
// The empty place is that of a source that has none, and no twin.
func (e *epoch) places(key types.NamespacedName) (places []types.NamespacedName) {
	source, twins := e.sources.Get(key), e.twins.Named(key)
	var place types.NamespacedName
	belongs := false
	if source != nil {
		place, belongs = boundary.Belongs(e.Rules, source, e.Extent().Naming, stampedRule(twins))
	}
	for _, twin := range twins {
		if at := twin.Key(); !belongs || at != place {
			places = append(places, at)
		}
	}
	if belongs || len(twins) == 0 {
		places = append(places, place)
	}
	return places
}

// stampedRule returns the rule in the stamp of one of a source's twins; empty: it has none.
func stampedRule(twins []store.Item) string {
	for _, twin := range twins {
		return twin.Label()
	}
	return ""
}

// settle decides about a source and one place, and acts, until there is nothing left to do at once. The place is empty
// for a source that has none, and no twin.
func (e *epoch) settle(ctx context.Context, key, place types.NamespacedName, t *turn) {
	confirmed := false
	for range mostSteps {
		if ctx.Err() != nil {
			return // a stop waits for the write in flight, and for no other
		}
		t.take()
		st := e.states.get(key)
		if place == (types.NamespacedName{}) {
			e.states.with(key, func(s *state) { s.uncertain = false }) // the watch has told that nothing is left to look at
		} else if st.uncertain {
			t.leave()
			if !e.lookAgain(ctx, key, place) {
				e.settleBlind(ctx, key)
				return
			}
			t.take()
		}
		twin := e.twinAt(place)
		if twin != nil && twin.GetUID() == st.deleted && twin.GetDeletionTimestamp() == nil {
			return // that it goes is on the way
		}
		in := e.input(key, twin, place)
		in.Confirmed = confirmed
		decision := boundary.Decide(in)
		t.leave()
		e.follow(in, decision)
		if decision.Action == boundary.Hold && decision.Until == boundary.UntilConfirmed {
			since := st.goneAt
			if since.IsZero() {
				since = e.lastListed()
			}
			if confirmed = e.confirm.covers(since); confirmed {
				continue
			}
			e.confirm.await(key, since)
			e.states.settle(key, pending)
			return
		}
		if e.log.Enabled(ctx, levelTrace) {
			e.log.Log(ctx, levelTrace, "Decided", "source", key, "place", place, "action", decision.Action, "reasons", decision.Reasons)
		}
		if !e.act(ctx, in, decision) {
			return
		}
	}
	e.queue.add(key, resyncs)
}

// twinAt returns what is at a place, as far as it is known.
func (e *epoch) twinAt(place types.NamespacedName) *unstructured.Unstructured {
	if twin := e.twins.Get(place); twin != nil {
		return twin
	}
	return e.blockers.at(place)
}

// input puts together what a decision depends on.
func (e *epoch) input(key types.NamespacedName, twin *unstructured.Unstructured, place types.NamespacedName) boundary.Input {
	x := e.Extent() // before the guard, which holds what changes with it
	source, twins := e.sources.Get(key), e.twins.Named(key)
	st := e.states.get(key)
	in := boundary.Input{
		Identity: e.Identity, Rules: e.Rules, Removed: e.Options.Removed, Waiting: e.Options.Waiting, Naming: x.Naming, Withdrawn: x.withdrawn(e.Direction, key, place), Unready: x.Unready[key.Namespace],
		Key: key, Source: source, Place: place, Twin: twin, Stamped: stampedRule(twins),
		Memory: st.memory, Guard: e.guard.get(), Now: time.Now(), Resolve: e.References.resolve,
	}
	in.Remote = e.Remote
	in.Elsewhere, in.ElsewhereUnknown = e.Siblings.elsewhere(e.Flow, key)
	if twin != nil {
		stamp, _ := boundary.ReadStamp(twin)
		// A source that was seen to come shows that the one before it is gone.
		replaced := source != nil && source.GetUID() == st.came && source.GetUID() != stamp.SourceUID
		if stamp.SourceUID == st.gone || replaced {
			in.Evidence = boundary.Observed
		}
	}
	in.MoreTwins = e.moreTwins(key.Namespace, twins, place)
	in.Trouble = e.trouble(source)
	remote, status := e.schemas()
	in.StatusSchema = status
	if source != nil {
		in.Undeclared = Undeclared(remote, source.Object)
		in.Memory.Crossed = e.crossed(source, st)
	}
	if twin == nil {
		in.Namespace = e.namespace(place.Namespace)
	}
	return in
}

// namespace returns the state of a namespace on the twins' side; a cluster-scoped twin needs none.
func (e *epoch) namespace(name string) boundary.PlaceState {
	if name == "" {
		return boundary.PlaceState{}
	}
	place := PlaceState(e.Namespaces(), name)
	place.Creatable = e.CreateNamespaces
	return place
}

// PlaceState returns what is known of a namespace, as a decision has it.
func PlaceState(all *cluster.Namespaces, name string) boundary.PlaceState {
	ns, known := all.Get(name)
	return boundary.PlaceState{
		Unknown: !known, Missing: !ns.Exists, Terminating: ns.Terminating,
		Origin: ns.Labels[boundary.LabelOrigin], Writer: ns.Annotations[boundary.AnnotationWriter],
	}
}
