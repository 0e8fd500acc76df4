package boundary

import (
	"fmt"
	"strings"
	"testing"
)

// sizable returns a scene in step, of a source of about 1 KiB.
func sizable(t tester) *scene {
	s := newScene(t, func(in *Input) {
		params := map[string]any{}
		for i := range 12 {
			params[fmt.Sprintf("key-%d", i)] = strings.Repeat("x", 40)
		}
		set(in.Source, params, "spec", "params")
		set(in.Source, value(t, `[{port: 80, name: http, targetPort: 8080}, {port: 443, name: https}]`), "spec", "ports")
	})
	return s.crossed(twinStatus(t, `{observedGeneration: 1, conditions: [{type: Ready, status: "True", observedGeneration: 1}]}`),
		sourceStatus(t, `{observedGeneration: 3, conditions: [{type: Ready, status: "True", observedGeneration: 3}]}`))
}

// deciding measures decisions about a scene.
func deciding(b *testing.B, s *scene, action Action) {
	if d := Decide(s.Input); d.Action != action {
		b.Fatalf("%s: %q", d.Action, d.Reasons)
	}
	b.ReportAllocs()
	for b.Loop() {
		Decide(s.Input)
	}
}

// What every resync and every event that changes nothing costs.
func BenchmarkDecideInStep(b *testing.B) { deciding(b, sizable(b), Nothing) }

func BenchmarkDecideCreate(b *testing.B) {
	s := sizable(b)
	s.Twin = nil
	s.Source.Object["status"] = nil
	deciding(b, s, Create)
}

func BenchmarkDecideApply(b *testing.B) {
	s := sizable(b)
	set(s.Source, int64(7), "spec", "replicas")
	deciding(b, s, Apply)
}

func BenchmarkDecideReturnStatus(b *testing.B) {
	s := sizable(b)
	twinStatus(b, `{observedGeneration: 1, conditions: [{type: Ready, status: "False", observedGeneration: 1}]}`)(&s.Input)
	deciding(b, s, ReturnStatus)
}

func BenchmarkTranslateOneReference(b *testing.B) {
	source := sizable(b).Source
	set(source, value(b, `{name: other, kind: Widget}`), "spec", "ref")
	rule := widgetRule(func(r *Rule) {
		var err error
		if r.Patches, err = CompilePatches([]Patch{{Path: MustPath("spec.ref"), Type: RewriteRef}}); err != nil {
			b.Fatal(err)
		}
	})
	key := nameOf(source)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := rule.Patches.Apply(source.Object, key, SameName{}.Translator(rule, nil)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHash(b *testing.B) {
	body := sizable(b).Source.Object
	b.ReportAllocs()
	for b.Loop() {
		Hash(body)
	}
}

func BenchmarkUndeclared(b *testing.B) {
	s := &Schema{Type: "object", Properties: map[string]*Schema{"spec": {Type: "object", Properties: map[string]*Schema{
		"replicas": {Type: "integer"}, "image": {Type: "string"}, "params": {Type: "object", Additional: &Schema{Type: "string"}},
		"ports": {Type: "array", Items: &Schema{Type: "object", Properties: map[string]*Schema{
			"port": {Type: "integer"}, "name": {Type: "string"}, "targetPort": {Type: "integer"},
		}}},
	}}}}
	source := sizable(b).Source.Object
	delete(source, "status")
	b.ReportAllocs()
	for b.Loop() {
		if len(s.Undeclared(source)) > 0 {
			b.Fatal("all of it is declared")
		}
	}
}
