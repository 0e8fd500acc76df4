package boundary

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"pgregory.net/rapid"
)

// checker is what testing and rapid have in common.
type checker interface {
	tester
	Errorf(format string, args ...any)
}

// checkPatches holds what patches do against what the paths say, worked out one value at a time.
func checkPatches(t checker, object map[string]any, patches []Patch) {
	t.Helper()
	compiled, err := CompilePatches(patches)
	if err != nil {
		return
	}
	again, err := CompilePatches(reversed(patches))
	if err != nil {
		t.Fatalf("in another order: %v", err)
	}
	before := runtime.DeepCopyJSON(object)
	for _, tr := range []Translator{toAcme, toRegion} {
		out, refs, err := compiled.Apply(object, blueSource, tr)
		if diff := cmp.Diff(before, object); diff != "" {
			t.Fatalf("the source was changed:\n%s", diff)
		}
		out2, refs2, err2 := again.Apply(object, blueSource, tr)
		if diff := cmp.Diff(out, out2); diff != "" || fmt.Sprint(err) != fmt.Sprint(err2) || fmt.Sprint(refs) != fmt.Sprint(refs2) {
			t.Errorf("in another order: %v, %v, then %v, %v\n%s", refs, err, refs2, err2, diff)
		}
		if err != nil {
			if out != nil || refs != nil {
				t.Errorf("%v, and yet something is returned (X4)", err)
			}
			continue
		}
		was, is := leaves(object, nil, nil), leaves(out, nil, nil)
		for text, leaf := range was {
			now, there := is[text]
			if protected(patches, leaf.at) && (!there || now.value != leaf.value) {
				t.Errorf("%s is now %v, and no patch is for it: %v", text, now.value, patches)
			}
		}
		for text, leaf := range is {
			if _, there := was[text]; !there && protected(patches, leaf.at) {
				t.Errorf("%s is new, and no patch is for it: %v", text, patches)
			}
		}
		if _, namesStay := tr.(SameNames); namesStay && len(refs) == 0 && !same(out, object) {
			t.Errorf("nothing was translated, but the object was copied")
		}
	}
}

type leaf struct {
	at    Path
	value any
}

// leaves lists scalars and what is empty, by path.
func leaves(v any, at Path, into map[string]leaf) map[string]leaf {
	if into == nil {
		into = map[string]leaf{}
	}
	switch content := v.(type) {
	case map[string]any:
		for k, child := range content {
			leaves(child, at.Field(k), into)
		}
		if len(content) == 0 {
			into[at.String()] = leaf{at, "{}"}
		}
	case []any:
		for i, child := range content {
			leaves(child, at.with(inItem(i)), into)
		}
		if len(content) == 0 {
			into[at.String()] = leaf{at, "[]"}
		}
	default:
		into[at.String()] = leaf{at, v}
	}
	return into
}

// protected reports whether the most specific patch that covers a place is none, or there is no such patch.
func protected(patches []Patch, at Path) bool {
	var best *Patch
	for i, patch := range patches {
		if patch.Path[0].Field != "status" && covers(patch.Path, at) && (best == nil || moreSpecific(patch.Path, best.Path)) {
			best = &patches[i]
		}
	}
	return best == nil || best.Type == PatchNone
}

func covers(path, at Path) bool {
	if len(path) > len(at) {
		return false
	}
	for i, step := range path {
		if step != at[i] && !(step.EachItem && at[i].IsIndex) {
			return false
		}
	}
	return true
}

func moreSpecific(a, b Path) bool {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return b[i].EachItem
		}
	}
	return len(a) > len(b)
}

const fuzzObject = `{"spec":{"a":[{"name":"db","namespace":"bank","kind":"Secret"},{"name":"web"}],"s":{"matchLabels":{"release":"r"}},"n":["x","y"]},
	"metadata":{"annotations":{"a.io/b":"db"}},"status":{"a":{"name":"db-x-shop-x-acme"}}}`

func FuzzPatches(f *testing.F) {
	for _, lines := range []string{
		"spec.a[*] rewriteRef\nspec.a[0].name none", "spec.s rewriteLabelSelector\nspec.n[*] rewriteName\nspec.n[1] none", "spec none\nspec.a[0] rewriteHostRef",
		"spec.a[*] rewriteName", `metadata.annotations["a.io/b"] rewriteNamespace`, "status none", "spec.a[0] rewriteRef\nspec.a[*] none\nspec.a[*].x.y rewriteName",
	} {
		f.Add(fuzzObject, lines)
	}
	f.Add(`{"spec":{"s":{},"":[[{}]],"a":null}}`, "spec.s rewriteLabelSelector\nspec.a rewriteRef\nspec[\"x\"][*][0] rewriteRef")
	f.Fuzz(func(t *testing.T, object, lines string) {
		var content map[string]any
		if json.Unmarshal([]byte(object), &content) != nil {
			return
		}
		checkPatches(t, content, readPatches(lines))
	})
}

// readPatches reads a few patches, as many as can be read.
func readPatches(lines string) []Patch {
	var patches []Patch
	for line := range strings.Lines(lines) {
		text, patchType, _ := strings.Cut(strings.TrimSpace(line), " ")
		if path, err := ParsePath(text); err == nil && len(path) <= 6 && len(patches) < 6 {
			patches = append(patches, Patch{path, PatchType(patchType)})
		}
	}
	return patches
}

func FuzzBackTranslate(f *testing.F) {
	f.Add(fuzzObject, "spec.a[*] rewriteRef", "status.a.name rewriteName\nstatus.b none")
	f.Add(`{"spec":{"a":[{"name":"x"}]},"status":[[{"name":"x-x-shop-x-acme","namespace":3}],"x"]}`, "spec.a[0].name rewriteName", "status[*] rewriteNamespace")
	f.Fuzz(func(t *testing.T, object, lines, statusLines string) {
		var content map[string]any
		p, err := CompilePatches(readPatches(lines))
		q, err2 := CompilePatches(readPatches(statusLines))
		if json.Unmarshal([]byte(object), &content) != nil || err != nil || err2 != nil {
			return
		}
		_, refs, err := p.Apply(content, blueSource, toAcme)
		if err != nil {
			return
		}
		before := runtime.DeepCopyJSON(content)
		got := q.BackTranslate(content["status"], refs)
		if diff := cmp.Diff(before, content); diff != "" {
			t.Fatalf("the twin's status was changed:\n%s", diff)
		}
		// Only names and namespaces that a reference was translated to are ever replaced, and by nothing but its own.
		was, is := leaves(content["status"], nil, nil), leaves(got, nil, nil)
		if len(was) != len(is) {
			t.Errorf("%d values became %d", len(was), len(is))
		}
		for at, leaf := range was {
			if now := is[at]; now.value != leaf.value && !isTranslation(refs, leaf.value, now.value) {
				t.Errorf("%s: %v became %v", at, leaf.value, now.value)
			}
		}
	})
}

func isTranslation(refs []Translated, from, to any) bool {
	for _, ref := range refs {
		if from == ref.To.Name && to == ref.From.Name || from == ref.To.Namespace && to == ref.From.Namespace {
			return true
		}
	}
	return false
}

// Objects and paths are drawn from the same few fields, so that they meet.
func TestX2_PatchesDoWhatTheirPathsSay(t *testing.T) {
	fields := rapid.SampledFrom([]string{"a", "b", "name", "namespace", "matchLabels"})
	var draw func(t *rapid.T, depth int) any
	draw = func(t *rapid.T, depth int) any {
		switch kind := rapid.IntRange(0, 9).Draw(t, "type"); {
		case depth == 0 || kind < 3:
			return rapid.SampledFrom([]any{"x", "bank", "db", "", nil, int64(1)}).Draw(t, "scalar")
		case kind < 6:
			list := []any{}
			for range rapid.IntRange(0, 3).Draw(t, "length") {
				list = append(list, draw(t, depth-1))
			}
			return list
		}
		object := map[string]any{}
		for range rapid.IntRange(0, 3).Draw(t, "size") {
			object[fields.Draw(t, "field")] = draw(t, depth-1)
		}
		return object
	}
	rapid.Check(t, func(t *rapid.T) {
		object := map[string]any{"a": draw(t, 5), "b": draw(t, 4)}
		var patches []Patch
		for range rapid.IntRange(1, 5).Draw(t, "patches") {
			patches = append(patches, drawPatch(t, object))
		}
		checkPatches(t, object, patches)
	})
}

// drawPatch draws a patch of a place that the object has, of a type that mostly fits.
func drawPatch(t *rapid.T, object map[string]any) Patch {
	var path Path
	var v any = object
	for len(path) == 0 || rapid.IntRange(0, 3).Draw(t, "deeper") > 0 {
		switch content := v.(type) {
		case map[string]any:
			if len(content) == 0 {
				return Patch{path, PatchNone}
			}
			field := rapid.SampledFrom(sortedKeys(content)).Draw(t, "field")
			path, v = path.Field(field), content[field]
			continue
		case []any:
			if len(content) == 0 {
				return Patch{path.Items(), PatchNone}
			}
			index := rapid.IntRange(0, len(content)-1).Draw(t, "index")
			if v = content[index]; rapid.Bool().Draw(t, "every item") {
				path = path.Items()
			} else {
				path = path.with(inItem(index))
			}
			continue
		}
		break
	}
	fitting := []PatchType{PatchNone, PatchNone}
	switch v.(type) {
	case string:
		fitting = []PatchType{PatchNone, RewriteName, RewriteNamespace}
	case map[string]any:
		fitting = []PatchType{PatchNone, RewriteRef, RewriteRef, RewriteHostRef, RewriteLabelSelector}
	}
	return Patch{path, rapid.SampledFrom(fitting).Draw(t, "type")}
}

func BenchmarkApplyPatches(b *testing.B) {
	object := map[string]any{"spec": value(b, `{parentRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: gw, namespace: infra}], rules: [
		{matches: [{path: {type: PathPrefix, value: /a}}], backendRefs: [{group: "", kind: Service, name: a, port: 80}, {group: "", kind: Service, name: b, port: 80}]},
		{matches: [{path: {type: PathPrefix, value: /b}}], backendRefs: [{group: "", kind: Service, name: c, namespace: bank, port: 80}]}]}`)}
	p := compile(b, "spec.parentRefs[*] rewriteHostRef", "spec.rules[*].backendRefs[*] rewriteRef")
	var tr Translator = toAcme
	b.ReportAllocs()
	for b.Loop() {
		if _, refs, err := p.Apply(object, blueSource, tr); err != nil || len(refs) != 4 {
			b.Fatal(refs, err)
		}
	}
}

func BenchmarkApplyPatchesThatMatchNothing(b *testing.B) {
	object := map[string]any{"spec": value(b, `{rules: [{matches: [{path: {type: PathPrefix, value: /a}}]}], a: {b: {c: d}}}`)}
	p := compile(b, "spec.parentRefs[*] rewriteHostRef", "spec.rules[*].backendRefs[*] rewriteRef", "spec.a.b.x rewriteName")
	var tr Translator = toAcme
	b.ReportAllocs()
	for b.Loop() {
		if out, _, err := p.Apply(object, blueSource, tr); err != nil || !same(out, object) {
			b.Fatal(err)
		}
	}
}
