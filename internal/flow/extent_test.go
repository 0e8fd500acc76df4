package flow

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/store"
)

func extentOf(withdrawn []string, namespaces ...string) *Extent {
	pairs := boundary.NamespacePairs{}
	for _, name := range namespaces {
		pairs[name] = "far-" + name
	}
	return &Extent{Naming: boundary.SameName{Pairs: pairs}, Withdrawn: setOf(withdrawn)}
}

func unready(x *Extent, names ...string) *Extent {
	x.Unready = setOf(names)
	return x
}

func TestWhatMovesBetweenExtents(t *testing.T) {
	for _, test := range []struct {
		name               string
		before, next       *Extent
		sources, withdrawn string
		ok                 bool
	}{
		{"nothing", extentOf(nil, "a"), extentOf(nil, "a"), "[]", "[]", true},
		{"one comes", extentOf(nil, "a"), extentOf(nil, "a", "b"), "[b]", "[]", true},
		{"one is withdrawn", extentOf(nil, "a", "b"), extentOf([]string{"b"}, "a"), "[b]", "[b]", true},
		{"one that had gone is said to be withdrawn", extentOf(nil, "a"), extentOf([]string{"b"}, "a"), "[]", "[b]", true},
		{"and is back", extentOf([]string{"b"}, "a"), extentOf(nil, "a", "b"), "[b]", "[b]", true},
		{"one is not ready any more", extentOf(nil, "a", "b"), unready(extentOf(nil, "a", "b"), "b"), "[b]", "[]", true},
		{"and is again", unready(extentOf(nil, "a", "b"), "b"), extentOf(nil, "a", "b"), "[b]", "[]", true},
		{"another naming", extentOf(nil, "a"), &Extent{Naming: boundary.SameName{}}, "[]", "[]", false},
	} {
		m, ok := test.before.movesTo(test.next)
		sources, withdrawn := slices.Sorted(maps.Keys(m.sources)), slices.Sorted(maps.Keys(m.withdrawn))
		if fmt.Sprint(sources) != test.sources || fmt.Sprint(withdrawn) != test.withdrawn || ok != test.ok || test.next.Follows(*test.before) != ok {
			t.Errorf("%s: %v, %v, %t", test.name, sources, withdrawn, ok)
		}
	}
}

func TestWhoseWithdrawalItIs(t *testing.T) {
	x := extentOf([]string{"shop"})
	at := func(namespace string) types.NamespacedName {
		return types.NamespacedName{Namespace: namespace, Name: "blue"}
	}
	if !x.withdrawn(boundary.ToRemote, at("shop"), at("far")) || x.withdrawn(boundary.ToRemote, at("far"), at("shop")) {
		t.Error("towards the remote side, the source's namespace counts")
	}
	if x.withdrawn(boundary.FromRemote, at("shop"), at("far")) || !x.withdrawn(boundary.FromRemote, at("far"), at("shop")) {
		t.Error("from the remote side, the import's namespace counts")
	}
}

// Who works by an extent may write by it until he leaves, whatever is in force by then.
func TestOvertaken(t *testing.T) {
	x := extents{}
	a, b := extentOf(nil, "a"), extentOf(nil, "b")
	x.set(a)
	first, second := x.enter(), x.enter()
	if x.overtaken() {
		t.Error("nothing has changed")
	}
	x.set(b)
	third := x.enter()
	first()
	if !x.overtaken() {
		t.Error("somebody works by the first one")
	}
	second()
	if x.overtaken() {
		t.Error("nobody works by the first one")
	}
	third()
}

// watchesOf opens watches on a store, and returns how to say which scopes are wanted, and what came of it.
func watchesOf(s *store.Store) (w *watches, open func(needed, spare []string) (fresh, closed []string)) {
	w = &watches{}
	return w, func(needed, spare []string) (fresh, closed []string) {
		for _, one := range w.open(needed, spare, func(scope string) *watcher {
			return &watcher{scope: scope, feed: s.Feed(scope), again: make(chan struct{}, 1)}
		}) {
			fresh = append(fresh, one.scope)
		}
		for _, one := range w.close(needed, spare) {
			closed = append(closed, one.scope)
			s.Drop(one.scope)
		}
		slices.Sort(closed)
		return fresh, closed
	}
}

// Watches come and go one by one; one that nobody waits for any more, or that is waited for again, goes on.
func TestWatchesFollowScopes(t *testing.T) {
	s := store.New(store.Options{})
	w, open := watchesOf(s)
	expect := func(needed, spare []string, wantFresh, wantClosed, waited string) {
		t.Helper()
		fresh, closed := open(needed, spare)
		var names []string
		for _, one := range w.needed() {
			names = append(names, one.scope)
		}
		if fmt.Sprint(fresh) != wantFresh || fmt.Sprint(closed) != wantClosed || fmt.Sprint(names) != waited {
			t.Errorf("new: %v, closed: %v, waited for: %v; expected %s, %s, %s", fresh, closed, names, wantFresh, wantClosed, waited)
		}
	}
	expect([]string{"a", "b"}, nil, "[a b]", "[]", "[a b]")
	b := w.get("b")
	expect([]string{"a", "c"}, []string{"b"}, "[c]", "[]", "[a c]")
	if !b.spare.Load() || w.get("b") != b {
		t.Error("the watch of what is left did not go on")
	}
	b.feed.Pass()
	expect([]string{"a", "b", "c"}, nil, "[]", "[]", "[a b c]")
	if b.spare.Load() || b.feed.Settled() {
		t.Error("it is not waited for again")
	}
	expect([]string{"c"}, []string{"d"}, "[d]", "[a b]", "[c]")
	if s.Fed("a") || !s.Fed("d") {
		t.Error("the feeds do not follow")
	}
}

// Whether all could be watched at once is asked when single watches have doubled, and not at each that is added.
func TestGrowth(t *testing.T) {
	g := growth{}
	g.begin(3)
	asked := 0
	for n := 4; n <= 1000; n++ {
		if g.beyond(n) {
			asked++
			if !g.take() || g.take() {
				t.Error("it is taken once")
			}
		}
	}
	if asked != 6 { // at 17, 35, 71, 143, 287, 575
		t.Errorf("asked %d times", asked)
	}
}

func TestWhoRefersAbroad(t *testing.T) {
	a := abroad{}
	blue, red := types.NamespacedName{Namespace: "shop", Name: "blue"}, types.NamespacedName{Namespace: "shop", Name: "red"}
	if !a.set(blue, []string{"x", "y"}) || a.set(blue, []string{"y"}) || a.set(red, nil) || !a.set(red, []string{"x"}) {
		t.Error("what is new is not told")
	}
	if got := a.referrers(setOf([]string{"x", "z"})); fmt.Sprint(got) != "[shop/red]" {
		t.Errorf("%v", got)
	}
	a.set(red, nil)
	if got := a.referrers(setOf([]string{"x"})); len(got) > 0 {
		t.Errorf("%v", got)
	}
}
