package boundary

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"
)

func TestP3_WhateverTheInput(t *testing.T) {
	seen := map[Action]int{}
	rapid.Check(t, func(t *rapid.T) { seen[decideChecked(t, drawInput(t)).Action]++ })
	t.Log(seen)
}

func TestDecideTakesAnyJunk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := newScene(t).Input
		in.Source, in.Twin = &unstructured.Unstructured{Object: junkMap(t, 4)}, nil
		if rapid.Bool().Draw(t, "twin") {
			in.Twin = &unstructured.Unstructured{Object: junkMap(t, 4)}
		}
		decideChecked(t, in)
	})
	in := newScene(t).Input
	in.Source = &unstructured.Unstructured{}
	decideChecked(t, in)
	in.Twin = &unstructured.Unstructured{}
	decideChecked(t, in)
}

func TestP2P6_WhatNeverCrosses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := newScene(t).Input
		in.Source = drawSource(t, drawWidget(t))
		in.Rules[0].KeepKeys = rapid.SliceOf(rapid.SampledFrom([]string{"isthmus.dev/*", "kupe.cloud/tenant", "vcluster.loft.sh/*", "meta.helm.sh/*", "liqo.io/*"})).Draw(t, "keep")
		body := wanted(&in).body
		metadata := body["metadata"].(map[string]any)
		stamp := Stamp{}.annotations()
		for k := range metadata["annotations"].(map[string]any) {
			_, stamped := stamp[k]
			if ReservedKey(k) && !stamped && k != AnnotationApplied && k != AnnotationSourceGeneration {
				t.Fatalf("annotation %s crosses", k)
			}
		}
		for k := range metadata["labels"].(map[string]any) {
			if ReservedKey(k) && k != LabelOrigin {
				t.Fatalf("label %s crosses", k)
			}
		}
		if got := sortedKeys(metadata); !cmp.Equal(got, []string{"annotations", "labels", "name", "namespace"}) {
			t.Fatalf("metadata %v crosses", got)
		}
		if _, ok := body["status"]; ok {
			t.Fatalf("status crosses")
		}
		for k, v := range in.Source.Object {
			if k != "metadata" && k != "status" && !cmp.Equal(body[k], v) {
				t.Fatalf("%s: %v became %v", k, v, body[k])
			}
		}
	})
}

func TestO4_TheHashSaysWhatCrosses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := newScene(t).Input
		in.Source = drawSource(t, drawWidget(t))
		want := wanted(&in).hash
		same := in
		same.Source = shuffled(t, in.Source)
		same.Source.SetGeneration(in.Source.GetGeneration() + 1)
		same.Source.SetResourceVersion("other")
		same.Source.SetFinalizers([]string{"other"})
		same.Source.Object["status"] = junk(t, 2)
		if got := wanted(&same).hash; got != want {
			t.Fatalf("the hash depends on what does not cross")
		}
		other := in
		other.Source = in.Source.DeepCopy()
		content := wanted(&in).body
		field := rapid.SampledFrom(append(sortedKeys(content["spec"].(map[string]any)), "new")).Draw(t, "field")
		other.Source.Object["spec"].(map[string]any)[field] = rapid.SampledFrom([]any{"another", map[string]any{"a": "another"}, []any{nil}}).Draw(t, "value")
		if got := wanted(&other).hash; got == want {
			t.Fatalf("a change of spec.%s does not change the hash", field)
		}
	})
}

// shuffled is the same object out of another decoder, its maps filled in another order.
func shuffled(t *rapid.T, obj *unstructured.Unstructured) *unstructured.Unstructured {
	var walk func(v any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			out := map[string]any{}
			for _, k := range rapid.Permutation(sortedKeys(v)).Draw(t, "order") {
				out[k] = walk(v[k])
			}
			return out
		case []any:
			out := make([]any, len(v))
			for i := range v {
				out[i] = walk(v[i])
			}
			return out
		}
		return v
	}
	return &unstructured.Unstructured{Object: walk(obj.Object).(map[string]any)}
}

// Applied once, it is in step; what others do is healed by one apply, and then it is in step again (O4, F2).
func TestF2_AppliedOnceItIsInStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := newScene(t).Input
		in.Source = drawSource(t, drawWidget(t))
		delete(in.Source.Object, "status")
		d := decideChecked(t, in)
		if d.Action == Nothing { // a policy key is no matter under All; a copy is
			t.Skip()
		}
		server := newServer(t, widgetTypes(t), widgetGVK)
		server.apply(d.Body, FieldManager)
		settle := func(after string, writes int) {
			for range writes {
				in.Twin = server.twin()
				if d = decideChecked(t, in); d.Action == Nothing {
					return
				}
				if d.Action != Apply {
					t.Fatalf("after %s: %s, %q", after, d.Action, d.Reasons)
				}
				if d.Handover != nil {
					if err := server.tryApply(d.Handover, HandoverManager, false); err != nil {
						t.Fatal(err)
					}
				}
				server.apply(d.Body, FieldManager)
			}
			in.Twin = server.twin()
			if d = decideChecked(t, in); d.Action != Nothing {
				t.Fatalf("after %s and %d writes: %s, %q", after, writes, d.Action, d.Reasons)
			}
		}
		settle("the first apply", 0)
		server.update("somebody", func(o *unstructured.Unstructured) { o.Object["spec"] = drawWidget(t)["spec"] })
		settle("a change by others", 1)
		in.Source.Object["spec"] = drawWidget(t)["spec"]
		settle("a change of the source", 1)
		in.Rules[0].RemoteOwned = []Path{MustPath(rapid.SampledFrom([]string{"spec.replicas", "spec.ports[*].name", "spec.params", "spec.nested.inner", "metadata.labels.a"}).Draw(t, "remoteOwned"))}
		before := server.twin()
		settle("a path that the target side owns now", 1)
		if diff := cmp.Diff(prune(before.Object["spec"]), prune(in.Twin.Object["spec"])); diff != "" {
			t.Fatalf("the handover changed values (-want +got):\n%s", diff)
		}
	})
}

func TestS4_AnyPartOfAStampBars(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		source := drawSource(t, drawWidget(t))
		field := rapid.SampledFrom([]string{"labels", "annotations"}).Draw(t, "field")
		for _, key := range rapid.SliceOfN(rapid.SampledFrom(stampKeys), 1, 8).Draw(t, "keys") {
			set(source, runtime.DeepCopyJSONValue(junk(t, 1)), "metadata", field, key)
		}
		if got := widgetRule().Selects(source, SameName{}); got.Verdict != NotSelected {
			t.Fatalf("selected: %s", got.Reason)
		}
	})
}

func TestP5_AnyDamageOfAStampMakesItForeign(t *testing.T) {
	whole := newScene(t).crossed().Twin
	rapid.Check(t, func(t *rapid.T) {
		twin := whole.DeepCopy()
		for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom(stampKeys), 1, 8, rapid.ID).Draw(t, "keys") {
			delete(rawMetadata(twin, "labels"), key)
			delete(rawMetadata(twin, "annotations"), key)
		}
		if got := west.Provenance(twin, newScene(t).Key); got != Foreign {
			t.Fatalf("got %v", got)
		}
	})
}

// drawPath draws a path that leads somewhere into a value, or past it.
func drawPath(t *rapid.T, v any) Path {
	var p Path
	for {
		switch content := v.(type) {
		case map[string]any:
			if keys := sortedKeys(content); len(keys) > 0 {
				key := rapid.SampledFrom(keys).Draw(t, "key")
				p, v = p.Field(key), content[key]
				break
			}
			return p.Field("none")
		case []any:
			if len(content) == 0 {
				return p.Items().Field("none")
			}
			p, v = p.Items(), content[0]
		default:
			return p
		}
		if len(p) > 0 && rapid.IntRange(0, 3).Draw(t, "stop") == 0 {
			return p
		}
	}
}

// find reports whether a path names anything in a value.
func find(v any, p Path) bool {
	if len(p) == 0 {
		return true
	}
	if list, ok := v.([]any); ok && p[0].EachItem {
		for _, item := range list {
			if find(item, p[1:]) {
				return true
			}
		}
		return false
	}
	child, present := asObject(v)[p[0].Field]
	return present && !p[0].EachItem && find(child, p[1:])
}

func TestO3_WithoutChangesNothingInPlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := any(junkMap(t, 4))
		p := drawPath(t, v)
		before := runtime.DeepCopyJSONValue(v)
		got := without(v, p)
		if diff := cmp.Diff(before, v); diff != "" {
			t.Fatalf("without %s changed its input (-want +got):\n%s", p, diff)
		}
		if len(p) > 0 && !p[len(p)-1].EachItem && find(got, p) {
			t.Fatalf("without %s is %v", p, got)
		}
		if diff := cmp.Diff(got, without(got, p)); diff != "" {
			t.Fatalf("without %s twice:\n%s", p, diff)
		}
		if !find(v, p) && !cmp.Equal(v, got) {
			t.Fatalf("without %s, which names nothing, changed %v to %v", p, v, got)
		}
	})
}

func TestPathsAreWrittenAndReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Path{{Field: rapid.StringN(1, 8, -1).Draw(t, "first")}}
		for range rapid.IntRange(0, 4).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "each") {
				p = p.Items()
			} else {
				p = p.Field(rapid.StringN(1, 8, -1).Draw(t, "field"))
			}
		}
		got, err := ParsePath(p.String())
		if err != nil || !cmp.Equal(p, got) {
			t.Fatalf("%q: %v, %v", p.String(), got, err)
		}
	})
}

// drawSchema draws a schema over the keys of junk.
func drawSchema(t *rapid.T, depth int) *Schema {
	if depth == 0 || rapid.IntRange(0, 6).Draw(t, "no schema") == 0 {
		return nil
	}
	s := &Schema{Type: rapid.SampledFrom([]string{"object", "object", "object", "array", "string", ""}).Draw(t, "type")}
	switch s.Type {
	case "object":
		s.Properties = map[string]*Schema{}
		for _, k := range rapid.SliceOfNDistinct(rapid.SampledFrom(junkKeys), 0, 5, rapid.ID).Draw(t, "properties") {
			s.Properties[k] = drawSchema(t, depth-1)
			if s.Properties[k] != nil && rapid.Bool().Draw(t, "defaulted") {
				s.Properties[k].Default = map[string]any{"object": map[string]any{}, "array": []any{}, "string": "filled", "": int64(1)}[s.Properties[k].Type]
			}
		}
		s.PreserveUnknown = rapid.IntRange(0, 4).Draw(t, "preserve") == 0
		s.EmbeddedResource = rapid.IntRange(0, 4).Draw(t, "embedded") == 0
		if rapid.IntRange(0, 4).Draw(t, "map") == 0 {
			s.Additional = drawSchema(t, depth-1)
		}
	case "array":
		s.Items = drawSchema(t, depth-1)
	}
	return s
}

func TestO7_WithoutTheUndeclaredAllIsDeclared(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, content := drawSchema(t, 4), junkMap(t, 4)
		before := runtime.DeepCopyJSON(content)
		found := s.Undeclared(content)
		var rest any = content
		seen := map[string]bool{}
		for _, p := range found {
			if seen[p.String()] || !find(content, p) {
				t.Fatalf("%s is reported twice, or is not there", p)
			}
			if _, declared := s.At(p); declared {
				t.Fatalf("%s is reported, and declared", p)
			}
			seen[p.String()] = true
			rest = without(rest, p)
		}
		if left := s.Undeclared(rest.(map[string]any)); len(left) > 0 {
			t.Fatalf("left undeclared: %v of %v", left, found)
		}
		if diff := cmp.Diff(before, content); diff != "" {
			t.Fatalf("the content was changed (-want +got):\n%s", diff)
		}
	})
}

func TestT2_DefaultsAreFilledInOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, v := drawSchema(t, 4), junk(t, 4)
		before := runtime.DeepCopyJSONValue(v)
		once := s.FillDefaults(v)
		if diff := cmp.Diff(before, v); diff != "" {
			t.Fatalf("the value was changed (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(once, s.FillDefaults(once)); diff != "" {
			t.Fatalf("filled twice (-once +twice):\n%s", diff)
		}
		if m, ok := v.(map[string]any); ok {
			for k := range maps.Keys(m) {
				if _, there := once.(map[string]any)[k]; !there {
					t.Fatalf("%s was lost", k)
				}
			}
		}
	})
}

func TestReservedKeysAreReservedWhateverTheRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SampledFrom(reservedKeys).Draw(t, "reserved")
		key = strings.Replace(key, "*", rapid.StringMatching(`[a-z]{1,5}`).Draw(t, "name"), 1)
		rule := &Rule{KeepKeys: []string{key, strings.SplitAfter(key, "/")[0] + "*"}}
		if rule.crosses(key) {
			t.Fatalf("%s crosses", key)
		}
	})
}
