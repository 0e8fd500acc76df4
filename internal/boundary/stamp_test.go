package boundary

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

func TestP1_TheWholeStampIsWritten(t *testing.T) {
	s := newScene(t, func(in *Input) {
		in.Naming, in.Place = SameName{Pairs: NamespacePairs{"shop": "shop-west"}}, types.NamespacedName{Namespace: "shop-west", Name: "blue"}
	}).crossed()
	stamp, whole := ReadStamp(s.Twin)
	want := Stamp{
		Origin: "west", Writer: "west/main/uid-west", Rule: "widgets",
		Source: types.NamespacedName{Namespace: "shop", Name: "blue"}, Twin: types.NamespacedName{Namespace: "shop-west", Name: "blue"},
		SourceUID: "uid-blue", SourceGeneration: 3, Applied: Decide(newSceneLike(s).Input).Hash,
	}
	if diff := cmp.Diff(want, stamp); diff != "" || !whole {
		t.Errorf("whole %v (-want +got):\n%s", whole, diff)
	}
	if stamp, ok := west.StampOf(s.Twin); !ok || stamp.Source != s.Key {
		t.Errorf("N2: the way back leads to %v, %v", stamp.Source, ok)
	}
}

// newSceneLike is a scene before its source crossed.
func newSceneLike(s *scene) *scene {
	in := s.Input
	in.Twin = nil
	return &scene{s.t, in}
}

func TestP5_ProvenanceIsReadFromTheStamp(t *testing.T) {
	annotate := func(key string, value any) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) { set(o, value, "metadata", "annotations", key) }
	}
	for _, test := range []struct {
		name   string
		change func(*unstructured.Unstructured)
		want   Provenance
	}{
		{"untouched", func(*unstructured.Unstructured) {}, OursForThis},
		{"copied under another name", func(o *unstructured.Unstructured) { o.SetName("copy") }, Foreign},
		{"copied to another namespace", func(o *unstructured.Unstructured) { o.SetNamespace("copy") }, Foreign},
		{"another cluster", func(o *unstructured.Unstructured) { set(o, "east", "metadata", "labels", LabelOrigin) }, Foreign},
		{"another writer", annotate(AnnotationWriter, "west/second/uid-west"), Foreign},
		{"another kube-system UID", annotate(AnnotationWriter, "west/main/uid-other"), Foreign},
		{"another twin", annotate(AnnotationTwin, "shop/red"), Foreign},
		{"a twin that is no name", annotate(AnnotationTwin, "a/b/c"), Foreign},
		{"another source", annotate(AnnotationSource, "shop/red"), OursForAnother},
		{"a cluster-scoped source", annotate(AnnotationSource, "blue"), OursForAnother},
		{"a source that is no name", annotate(AnnotationSource, "/blue"), Foreign},
		{"a source without a name", annotate(AnnotationSource, "shop/"), Foreign},
		{"a source with too many parts", annotate(AnnotationSource, "a/b/c"), Foreign},
		{"a generation that is no number", annotate(AnnotationSourceGeneration, "three"), Foreign},
		{"a generation that is no string", annotate(AnnotationSourceGeneration, int64(3)), Foreign},
		{"another source UID", annotate(AnnotationSourceUID, "uid-other"), OursForThis},
		{"another rule", annotate(AnnotationRule, "others"), OursForThis},
		{"another hash", annotate(AnnotationApplied, "v0-1"), OursForThis},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newScene(t).crossed()
			test.change(s.Twin)
			if got := west.Provenance(s.Twin, s.Key); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
			if _, ok := west.StampOf(s.Twin); ok == (test.want == Foreign) {
				t.Errorf("SourceOf says %v", ok)
			}
		})
	}
}

func TestP5_AMissingKeyMakesItForeign(t *testing.T) {
	for _, key := range stampKeys {
		for _, damage := range []struct {
			name  string
			apply func(m map[string]any)
		}{
			{"removed", func(m map[string]any) { delete(m, key) }},
			{"emptied", func(m map[string]any) { m[key] = "" }},
			{"null", func(m map[string]any) { m[key] = nil }},
			{"not a string", func(m map[string]any) { m[key] = true }},
		} {
			t.Run(key+" "+damage.name, func(t *testing.T) {
				s := newScene(t).crossed()
				for _, field := range []string{"labels", "annotations"} {
					if m := rawMetadata(s.Twin, field); m[key] != nil {
						damage.apply(m)
					}
				}
				if got := west.Provenance(s.Twin, s.Key); got != Foreign {
					t.Errorf("got %v", got)
				}
				d := Decide(s.Input)
				expect{Refuse, UntilPlaceFree, "was not created by this Isthmus"}.check(t, d)
				if !d.Blocked {
					t.Error("not counted as blocked")
				}
			})
		}
	}
}

func TestP5_AKeyThatOthersChangedMakesItForeign(t *testing.T) {
	for _, key := range stampKeys {
		t.Run(key, func(t *testing.T) {
			s := newScene(t)
			server := newServer(t, widgetTypes(t), widgetGVK)
			server.apply(Decide(s.Input).Body, FieldManager)
			server.update("somebody", func(o *unstructured.Unstructured) { set(o, "x", "metadata", "annotations", "note") })
			if got := west.Provenance(server.twin(), s.Key); got != OursForThis {
				t.Fatalf("after a change of something else: %v", got)
			}
			server.update("somebody", func(o *unstructured.Unstructured) {
				for _, field := range []string{"labels", "annotations"} {
					if rawMetadata(o, field)[key] != nil {
						set(o, "1", "metadata", field, key) // reads well for most keys
					}
				}
			})
			if got := west.Provenance(server.twin(), s.Key); got != Foreign {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestP5_NamesAreWrittenAndReadBack(t *testing.T) {
	for _, n := range []types.NamespacedName{{Namespace: "a", Name: "b"}, {Name: "b"}, {Namespace: "a-x-b", Name: "c-x-d.e"}} {
		if got, ok := parseName(FormatName(n)); !ok || got != n {
			t.Errorf("%v: read back as %v, %v", n, got, ok)
		}
	}
	for _, text := range []string{"", "/", "a/", "/a", "a/b/c", "//"} {
		if got, ok := parseName(text); ok {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}
