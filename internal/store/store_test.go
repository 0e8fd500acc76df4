package store

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"isthmus.dev/isthmus/internal/wire"
)

func object(namespace, name, version string, labels ...string) *wire.Object {
	return came(plain(namespace, name, version, labels...))
}

// came returns an object as a server sends it.
func came(o *unstructured.Unstructured) *wire.Object {
	object, err := wire.Of(o)
	if err != nil {
		panic(err)
	}
	return object
}

func plain(namespace, name, version string, labels ...string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetNamespace(namespace)
	o.SetName(name)
	o.SetResourceVersion(version)
	set := map[string]string{}
	for _, l := range labels {
		set[l] = "yes"
	}
	o.SetLabels(set)
	return o
}

func key(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// recorder writes down what a store tells.
type recorder struct{ lines []string }

func (r *recorder) options() Options {
	return Options{
		Keep:    func(o *unstructured.Unstructured) bool { return o.GetLabels()["dropped"] == "" },
		Changed: r.changed,
		Listed:  func(scope string) { r.lines = append(r.lines, "listed "+scope) },
	}
}

func (r *recorder) changed(c Change) {
	version := func(i Item) string {
		if !i.Exists() {
			return "-"
		}
		return i.ResourceVersion()
	}
	r.lines = append(r.lines, fmt.Sprintf("%s %s→%s live=%t", c.Key, version(c.Old), version(c.New), c.Live))
}

// told compares what was told since the last call.
func (r *recorder) told(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, r.lines); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	r.lines = nil
}

// must fails the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestListsAndEvents(t *testing.T) {
	var r recorder
	s := New(r.options())
	f := s.Feed("")
	if s.Synced("a") || s.AllSynced() {
		t.Error("synced before anything was listed")
	}
	must(t, f.Replace([]any{object("a", "x", "3"), object("a", "y", "4", "dropped")}, "5"))
	r.told(t, "a/x -→3 live=false", "listed ")
	if !s.Synced("a") || !s.AllSynced() || s.Len() != 1 || s.Get(key("a", "y")) != nil {
		t.Error("not what was listed")
	}
	must(t, f.Update(object("a", "x", "6")))
	must(t, f.Add(object("b", "z", "7")))
	must(t, f.Update(object("b", "z", "8", "dropped"))) // it stopped to matter
	must(t, f.Delete(object("a", "x", "9")))
	must(t, f.Delete(object("a", "x", "9"))) // told twice
	r.told(t, "a/x 3→6 live=true", "b/z -→7 live=true", "b/z 7→- live=true", "a/x 6→- live=true")

	must(t, f.Add(object("a", "x", "10")))
	r.told(t, "a/x -→10 live=true")
	must(t, f.Replace(nil, "12"))
	r.told(t, "a/x 10→- live=false", "listed ")
}

func TestAnswersToOwnWrites(t *testing.T) {
	var r recorder
	s := New(r.options())
	f := s.Feed("")
	must(t, f.Replace(nil, "5"))
	r.told(t, "listed ")

	s.Put(object("a", "x", "7"))
	if s.Get(key("a", "x")).GetResourceVersion() != "7" {
		t.Error("an answer is not known")
	}
	r.told(t)
	must(t, f.Add(object("a", "x", "7"))) // the watch tells it too, and others shall hear of it
	r.told(t, "a/x 7→7 live=true")

	must(t, f.Delete(object("a", "x", "8")))
	s.Put(object("a", "x", "7")) // an answer that comes late brings nothing back
	if s.Get(key("a", "x")) != nil {
		t.Error("an old answer brought back what the watch saw go")
	}
	s.Put(object("a", "x", "10")) // created again, and the answer overtakes the event of the deletion
	must(t, f.Delete(object("a", "x", "9")))
	if s.Get(key("a", "x")).GetResourceVersion() != "10" {
		t.Error("the event of an earlier deletion removed what came after it")
	}
	must(t, f.Replace(nil, "9")) // so does a list from before it
	if s.Get(key("a", "x")) == nil {
		t.Error("an earlier list removed what came after it")
	}
	must(t, f.Bookmark("20"))
	s.Put(object("a", "y", "15"))
	if s.Get(key("a", "y")) != nil {
		t.Error("an answer older than a bookmark was taken for news")
	}
}

// A restored cluster answers with older versions, and is right.
func TestRestoredCluster(t *testing.T) {
	var r recorder
	s := New(r.options())
	f := s.Feed("")
	must(t, f.Replace([]any{object("a", "x", "30"), object("a", "y", "31")}, "40"))
	r.lines = nil
	must(t, f.Replace([]any{object("a", "x", "12")}, "20"))
	r.told(t, "a/x 30→- live=false", "a/x -→12 live=false", "a/y 31→- live=false", "listed ")
}

func TestScopes(t *testing.T) {
	s := New(Options{})
	a, b := s.Feed("a"), s.Feed("b")
	must(t, a.Replace([]any{object("a", "x", "1")}, "2"))
	if !s.Synced("a") || s.Synced("b") || s.Synced("c") || s.AllSynced() {
		t.Error("the scopes are not told apart")
	}
	must(t, b.Replace([]any{object("b", "x", "1")}, "2"))
	must(t, a.Replace(nil, "3"))
	if s.Get(key("a", "x")) != nil || s.Get(key("b", "x")) == nil {
		t.Error("a list of one scope changed another")
	}
}

func TestOnlyObjects(t *testing.T) {
	if err := New(Options{}).Feed("").Add("text"); err == nil {
		t.Error("a string was taken for an object")
	}
}

// Whatever comes in which order, the store ends with what the server has, and its index with it.
func TestConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := New(Options{Index: func(o *unstructured.Unstructured) (Second, bool) {
			return Second{key("owner", o.GetLabels()["owner"]), "a label", "a UID"}, o.GetLabels()["owner"] != ""
		}})
		f := s.Feed("")
		if err := f.Replace(nil, "1"); err != nil {
			t.Fatal(err)
		}
		server := map[string]*wire.Object{}
		version := 1
		var late []*wire.Object // answers that are on their way
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			name := rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "name")
			version++
			next := plain("a", name, strconv.Itoa(version))
			next.SetLabels(map[string]string{"owner": rapid.SampledFrom([]string{"", "p", "q"}).Draw(t, "owner")})
			current := came(next)
			var err error
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0: // others write
				server[name] = current
				err = f.Update(current)
			case 1: // we write, and the answer comes before, or long after, the event
				server[name] = current
				if rapid.Bool().Draw(t, "before") {
					s.Put(current)
				} else {
					late = append(late, current)
				}
				err = f.Update(current)
			case 2:
				if server[name] != nil {
					delete(server, name)
					err = f.Delete(current)
				}
			case 3: // a cut watch
				var all []any
				for _, o := range server {
					all = append(all, o)
				}
				err = f.Replace(all, strconv.Itoa(version))
			case 4:
				for _, o := range late {
					s.Put(o)
				}
				late = nil
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, o := range late {
			s.Put(o)
		}
		owned := map[string]int{}
		for name, want := range server {
			if have := s.Get(key("a", name)); have == nil || have.GetResourceVersion() != want.GetResourceVersion() {
				t.Fatalf("%s is %v, want version %s", name, have, want.GetResourceVersion())
			}
			owned[want.GetLabels()["owner"]]++
		}
		if s.Len() != len(server) {
			t.Fatalf("%d objects, want %v", s.Len(), slices.Collect(maps.Keys(server)))
		}
		for _, owner := range []string{"p", "q"} {
			if n := len(s.Named(key("owner", owner))); n != owned[owner] {
				t.Fatalf("%d objects of %s, want %d", n, owner, owned[owner])
			}
		}
	})
}

// A feed for all has passed over a namespace that matters from now on: a list of it alone fills the gap.
func TestGaps(t *testing.T) {
	for _, test := range []struct {
		name string
		// between happens after the gap is open, and before its list, of a1 at 3 and a2 at 4, comes.
		between func(f *Feed, s *Store)
		told    []string
		synced  bool
	}{
		{"nothing", func(*Feed, *Store) {}, []string{"a/a1 -→3 live=false", "a/a2 -→4 live=false", "listed a"}, true},
		{"one changes", func(f *Feed, _ *Store) { _ = f.Update(object("a", "a1", "9")) },
			[]string{"a/a1 -→9 live=true", "a/a2 -→4 live=false", "listed a"}, true},
		{"one goes, which the list still has", func(f *Feed, _ *Store) { _ = f.Delete(object("a", "a1", "9")) },
			[]string{"a/a2 -→4 live=false", "listed a"}, true},
		{"one comes and goes", func(f *Feed, _ *Store) {
			_ = f.Add(object("a", "a3", "8"))
			_ = f.Delete(object("a", "a3", "9"))
		}, []string{"a/a3 -→8 live=true", "a/a3 8→- live=true", "a/a1 -→3 live=false", "a/a2 -→4 live=false", "listed a"}, true},
		{"all are listed", func(f *Feed, _ *Store) { _ = f.Replace([]any{object("a", "a2", "9"), object("b", "b1", "2")}, "10") },
			[]string{"a/a2 -→9 live=false", "listed ", "listed a"}, true},
		{"it does not matter any more", func(_ *Feed, s *Store) { s.Dismiss("a") }, []string{"listed a"}, true},
		{"it matters anew", func(_ *Feed, s *Store) { s.Await("a") }, []string{"listed a"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			matters := map[string]bool{"b": true}
			var r recorder
			options := r.options()
			options.Keep = func(o *unstructured.Unstructured) bool { return matters[o.GetNamespace()] }
			s := New(options)
			f := s.Feed("")
			must(t, f.Replace([]any{object("a", "a1", "1"), object("b", "b1", "2")}, "2"))
			r.lines = nil
			g := s.Await("a")
			if s.Synced("a") || s.Settled("a") || s.AllSynced() || !s.Synced("b") {
				t.Error("what is in the gap counts as known, or other namespaces do not")
			}
			must(t, f.Replace([]any{object("a", "a1", "1"), object("b", "b1", "2")}, "2"))
			if g.IsOpen() || s.Synced("a") {
				t.Error("a list that passed over the namespace closed the gap")
			}
			matters["a"] = true
			g.Open()
			r.lines = nil
			test.between(f, s)
			g.Fill([]*wire.Object{object("a", "a1", "3"), object("a", "a2", "4")})
			r.told(t, test.told...)
			if g.IsOpen() || s.Synced("a") != test.synced || s.AllSynced() != test.synced {
				t.Errorf("synced: %t, all: %t, waits: %v", s.Synced("a"), s.AllSynced(), s.Awaited())
			}
		})
	}
}

// What ends is forgotten, is told as not seen live, and brings nothing any more.
func TestFeedsThatEnd(t *testing.T) {
	var r recorder
	s := New(r.options())
	a, b := s.Feed("a"), s.Feed("b")
	must(t, a.Replace([]any{object("a", "one", "1")}, "1"))
	must(t, b.Replace([]any{object("b", "one", "1"), object("b", "two", "1")}, "1"))
	r.lines = nil
	s.Drop("a")
	r.told(t, "a/one 1→- live=false")
	must(t, a.Add(object("a", "two", "2")))
	must(t, a.Replace([]any{object("a", "one", "3")}, "3"))
	r.told(t)
	if s.Fed("a") || s.Synced("a") || s.Len() != 2 || !s.AllSynced() {
		t.Error("a feed that ended goes on")
	}
	// One that begins again starts from nothing.
	again := s.Feed("a")
	if s.Synced("a") || s.AllSynced() {
		t.Error("it counts as listed")
	}
	must(t, again.Replace([]any{object("a", "one", "3")}, "3"))
	r.told(t, "a/one -→3 live=false", "listed a")
	must(t, a.Delete(object("a", "one", "4")))
	r.told(t)
}

// What Keep does not admit any more is forgotten where that is asked for.
func TestSift(t *testing.T) {
	var r recorder
	options := r.options()
	kept := true
	options.Keep = func(o *unstructured.Unstructured) bool { return kept || o.GetName() == "held" }
	s := New(options)
	must(t, s.Feed("").Replace([]any{object("a", "one", "1"), object("a", "held", "1"), object("b", "one", "1")}, "1"))
	kept, r.lines = false, nil
	s.Sift(map[string]bool{"a": true, "c": true})
	r.told(t, "a/one 1→- live=false")
	if s.Len() != 2 {
		t.Errorf("%d objects are left", s.Len())
	}
}

// What is listed waits, packed, until the list is complete. What begins to matter meanwhile is not lost, and what stops to is
// not kept.
func TestPackedLists(t *testing.T) {
	for _, test := range []struct {
		name      string
		meanwhile func(s *Store, matters map[string]bool)
		told      []string
	}{
		{"nothing happens", func(*Store, map[string]bool) {}, []string{"a/x -→4 live=false"}},
		{"a namespace begins to matter", func(s *Store, matters map[string]bool) {
			g := s.Await("b")
			matters["b"] = true
			g.Open()
		}, []string{"a/x -→4 live=false", "b/y -→5 live=false"}},
		{"a namespace stops to matter", func(s *Store, matters map[string]bool) {
			delete(matters, "a")
			s.Sift(map[string]bool{"a": true})
		}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			matters := map[string]bool{"a": true}
			var r recorder
			options := r.options()
			options.Keep = func(head *unstructured.Unstructured) bool { return matters[head.GetNamespace()] }
			s := New(options)
			f := s.Feed("")
			waiting := []any{f.Pack(object("a", "x", "4")), f.Pack(object("b", "y", "5"))}
			test.meanwhile(s, matters)
			must(t, f.Replace(waiting, "6"))
			slices.Sort(r.lines)
			r.told(t, append(test.told, "listed ")...)
		})
	}
}
