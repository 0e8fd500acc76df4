package store

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// What comes out of a store is what went in, with and without a dictionary.
func TestObjectsComeBackAsTheyWent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := New(Options{})
		f := s.Feed("")
		if rapid.Bool().Draw(t, "dictionary") {
			for i := range dictionaryAfter {
				source, _ := widgets(i)
				if err := f.Add(came(source)); err != nil {
					t.Fatal(err)
				}
			}
		}
		want := plain("a", "x", "7")
		want.SetUID(types.UID(rapid.SampledFrom([]string{"", "odd", strings.Repeat("long", 60)}).Draw(t, "uid")))
		want.Object["spec"] = rapid.MapOf(rapid.String(), rapid.String().AsAny()).Draw(t, "spec")
		if err := f.Replace([]any{came(want)}, "9"); err != nil {
			t.Fatal(err)
		}
		have := s.Get(key("a", "x"))
		if diff := cmp.Diff(want.Object, have.Object); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
		item := s.Item(key("a", "x"))
		if item.UID() != want.GetUID() || item.ResourceVersion() != "7" || item.Deleting() {
			t.Fatalf("%q %q %t", item.UID(), item.ResourceVersion(), item.Deleting())
		}
	})
}

// Thousands of objects, more than are kept decoded, are each told apart.
func TestManyObjects(t *testing.T) {
	s := New(Options{})
	f := s.Feed("")
	var list []any
	want := map[types.NamespacedName]*unstructured.Unstructured{}
	for i := range 1000 {
		source, twin := widgets(i)
		for _, o := range []*unstructured.Unstructured{source, twin} {
			want[keyOf(o)] = o
			list = append(list, came(o))
		}
	}
	must(t, f.Replace(list, "90000"))
	if s.dictionary.made.Load() == nil {
		t.Error("no dictionary was made")
	}
	for k, o := range want {
		if diff := cmp.Diff(o.Object, s.Get(k).Object); diff != "" {
			t.Fatalf("%s: -want +got:\n%s", k, diff)
		}
	}
	if s.Get(key("team-1", "nobody")) != nil || s.Item(key("team-1", "nobody")).Exists() {
		t.Error("there is what nobody brought")
	}
}

// What is known of an object without decoding it is told as it came.
func TestItems(t *testing.T) {
	s := New(Options{Index: func(o *unstructured.Unstructured) (Second, bool) {
		owner := o.GetLabels()["owner"]
		return Second{key("owner", owner), "label of " + owner, types.UID("uid of " + owner)}, owner != ""
	}})
	f := s.Feed("")
	o := plain("a", "x", "7")
	o.SetUID("one")
	o.SetLabels(map[string]string{"owner": "p"})
	must(t, unstructured.SetNestedField(o.Object, "2026-01-01T00:00:00Z", "metadata", "deletionTimestamp"))
	must(t, f.Add(came(o)))
	must(t, f.Add(object("a", "y", "8")))
	item := s.Item(key("a", "x"))
	name, ok := item.Second()
	got := fmt.Sprintln(item.Key(), item.UID(), item.ResourceVersion(), item.Deleting(), name, ok, item.Label(), item.SecondUID())
	if want := "a/x one 7 true owner/p true label of p uid of p\n"; got != want {
		t.Errorf("%sexpected %s", got, want)
	}
	if name, ok := s.Item(key("a", "y")).Second(); ok || s.Item(key("a", "y")).Label() != "" || s.Item(key("a", "y")).SecondUID() != "" {
		t.Errorf("an object without a second name has %s", name)
	}
	if named := s.Named(key("owner", "p")); len(named) != 1 || named[0].Object().GetName() != "x" {
		t.Errorf("found by the second name: %v", named)
	}
	if (Item{}).Object() != nil || (Item{}).Exists() {
		t.Error("no item stands for an object")
	}
}

// What is kept decoded is bounded by number and by size.
func TestRecentIsBounded(t *testing.T) {
	s := New(Options{})
	f := s.Feed("")
	for i := range 3 * recentMost {
		source, _ := widgets(i)
		must(t, f.Add(came(source)))
		s.Get(keyOf(source))
	}
	if n := len(s.recent.kept); n != recentMost {
		t.Errorf("%d objects are kept decoded", n)
	}
	large := plain("a", "large", "90000")
	large.Object["data"] = strings.Repeat("x", 2*recentBytes)
	must(t, f.Add(came(large)))
	must(t, f.Add(object("a", "small", "90001")))
	s.Get(key("a", "large"))
	s.Get(key("a", "small"))
	if s.recent.bytes > recentBytes {
		t.Errorf("%d bytes are kept", s.recent.bytes)
	}
	if s.Get(key("a", "large")).Object["data"] != large.Object["data"] {
		t.Error("a large object is not what it was")
	}
}
