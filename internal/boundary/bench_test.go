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

// What every resync and every event that changes nothing costs.
func BenchmarkDecideInStep(b *testing.B) {
	s := sizable(b)
	if d := Decide(s.Input); d.Action != Nothing {
		b.Fatalf("%s: %q", d.Action, d.Reasons)
	}
	b.ReportAllocs()
	for b.Loop() {
		Decide(s.Input)
	}
}

func BenchmarkDecideCreate(b *testing.B) {
	s := sizable(b)
	s.Twin = nil
	s.Source.Object["status"] = nil
	b.ReportAllocs()
	for b.Loop() {
		Decide(s.Input)
	}
}
