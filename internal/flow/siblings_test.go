package flow

import (
	"fmt"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/store"
)

// sibling makes a flow of widgets towards a remote that has not been looked at yet.
func sibling(s *Siblings, remote string, change ...func(*Options)) *Flow {
	f := &Flow{Options: Options{
		Kind: schema.GroupVersionKind{Group: "example.io", Version: "v1", Kind: "Widget"}, Direction: boundary.ToRemote, Remote: remote, Siblings: s,
	}, state: State{Starting: true}}
	for _, c := range change {
		c(&f.Options)
	}
	s.join(f)
	return f
}

// runs gives a flow an epoch, whose twins are not listed yet, and returns their feed.
func runs(f *Flow) *store.Feed {
	e := &epoch{Flow: f, queue: newQueue(1), sources: store.New(store.Options{})}
	e.twins = store.New(store.Options{Index: func(o *unstructured.Unstructured) (store.Second, bool) {
		return store.Second{Name: nameOf(o)}, true
	}})
	feed := e.twins.Feed("")
	e.twinWatches.all = map[string]*watcher{"": {epoch: e, feed: feed}}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state, f.epoch = State{Active: true}, e
	return feed
}

func TestT5_WhatIsKnownOfOtherRemotes(t *testing.T) {
	blue := types.NamespacedName{Namespace: "shop", Name: "blue"}
	twin := &unstructured.Unstructured{Object: map[string]any{}}
	twin.SetNamespace(blue.Namespace)
	twin.SetName(blue.Name)
	twin.SetResourceVersion("5")
	s := &Siblings{}
	expect := func(of *Flow, remotes string, unknown bool) {
		t.Helper()
		have, haveUnknown := s.elsewhere(of, blue)
		if fmt.Sprint(have) != remotes || haveUnknown != unknown {
			t.Errorf("twins on %v, unknown %t, expected %s, %t", have, haveUnknown, remotes, unknown)
		}
	}
	met := s.Expect("b")
	a := sibling(s, "a")
	feed := runs(a)
	expect(a, "[]", true) // b is yet to come
	b := sibling(s, "b")
	sibling(s, "b", func(o *Options) { o.Kind.Kind = "Gadget" })
	met()
	expect(a, "[]", true) // it has not been looked at
	b.state = State{Reason: "not reached"}
	expect(a, "[]", false)
	of := runs(b)
	expect(a, "[]", true) // not listed
	reason := "forbidden"
	b.epoch.twinWatches.get("").trouble.Store(&reason)
	expect(a, "[]", false) // nor can it be
	if err := of.Replace([]any{sent(t, twin)}, "6"); err != nil {
		t.Fatal(err)
	}
	expect(a, "[b]", false)
	expect(b, "[]", true)
	if err := feed.Replace(nil, "6"); err != nil {
		t.Fatal(err)
	}
	expect(b, "[]", false)

	// What changes on one side is looked at on the other.
	s.twinChanged(b, blue, changes)
	if n := a.epoch.queue.Len(); n != 1 {
		t.Errorf("%d sources are queued", n)
	}
	var all sync.WaitGroup // with each other's locks
	for _, f := range []*Flow{a, b} {
		all.Go(func() {
			for range 100 {
				s.lookAgain(f, nil)
				s.elsewhere(f, blue)
				s.twinChanged(f, blue, resyncs)
			}
		})
	}
	all.Wait()
	s.leave(b)
	expect(a, "[]", false)

	var none *Siblings
	none.Expect("b")()
	if have, unknown := none.elsewhere(a, blue); len(have) > 0 || unknown {
		t.Errorf("without siblings: %v, %t", have, unknown)
	}
}
