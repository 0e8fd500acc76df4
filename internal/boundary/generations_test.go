package boundary

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestT3_ObservedGenerationInTheSourcesTerms(t *testing.T) {
	for _, test := range []struct {
		name         string
		g            generations
		status, have string
		want         string
	}{
		{"the twin's generation", generations{twin: 5, source: 9, held: true}, `{observedGeneration: 5}`, `null`, `{observedGeneration: 9}`},
		{"an earlier one, none before", generations{5, 9, true}, `{observedGeneration: 4}`, `null`, `{observedGeneration: 8}`},
		{"an earlier one, one before", generations{5, 9, true}, `{observedGeneration: 4}`, `{observedGeneration: 6}`, `{observedGeneration: 6}`},
		{"an earlier one, too much before", generations{5, 9, true}, `{observedGeneration: 4}`, `{observedGeneration: 9}`, `{observedGeneration: 8}`},
		{"a later one", generations{5, 9, true}, `{observedGeneration: 7}`, `{observedGeneration: 3}`, `{observedGeneration: 3}`},
		{"not held", generations{5, 9, false}, `{observedGeneration: 5}`, `null`, `{observedGeneration: 8}`},
		{"not held, one before", generations{5, 9, false}, `{observedGeneration: 5}`, `{observedGeneration: 7}`, `{observedGeneration: 7}`},
		{"a decimal string", generations{5, 9, true}, `{observedGeneration: "5"}`, `null`, `{observedGeneration: "9"}`},
		{"a decimal string, an integer before", generations{5, 9, true}, `{observedGeneration: "4"}`, `{observedGeneration: 2}`, `{observedGeneration: "2"}`},
		{"not a number", generations{5, 9, true}, `{observedGeneration: five}`, `null`, `{observedGeneration: five}`},
		{"null", generations{5, 9, true}, `{observedGeneration: null}`, `null`, `{observedGeneration: null}`},
		{"conditions", generations{5, 9, true}, `{conditions: [{type: A, observedGeneration: 5}, {type: B, observedGeneration: 4}, {type: C}]}`,
			`{conditions: [{type: B, observedGeneration: 2}]}`, `{conditions: [{type: A, observedGeneration: 9}, {type: B, observedGeneration: 2}, {type: C}]}`},
		{"conditions in another order before", generations{5, 9, true}, `{conditions: [{type: A, observedGeneration: 4}, {type: B, observedGeneration: 4}]}`,
			`{conditions: [{type: B, observedGeneration: 2}, {type: A, observedGeneration: 3}]}`, `{conditions: [{type: A, observedGeneration: 3}, {type: B, observedGeneration: 2}]}`},
		{"conditions in lists, as Gateway API has them", generations{5, 9, true},
			`{parents: [{parentRef: {name: a}, conditions: [{type: A, observedGeneration: 5}]}, {parentRef: {name: b}, conditions: [{type: A, observedGeneration: 4}]}]}`,
			`{parents: [{parentRef: {name: b}, conditions: [{type: A, observedGeneration: 3}]}]}`,
			`{parents: [{parentRef: {name: a}, conditions: [{type: A, observedGeneration: 9}]}, {parentRef: {name: b}, conditions: [{type: A, observedGeneration: 3}]}]}`},
		{"lists in lists", generations{5, 9, true}, `{a: [{b: [{conditions: [{type: A, observedGeneration: 5}]}]}]}`, `null`, `{a: [{b: [{conditions: [{type: A, observedGeneration: 9}]}]}]}`},
		{"an item's own, beside its conditions", generations{5, 9, true}, `{a: [{observedGeneration: 5, conditions: [{observedGeneration: 5}]}]}`, `null`,
			`{a: [{observedGeneration: 5, conditions: [{observedGeneration: 9}]}]}`},
		{"not deeper in objects", generations{5, 9, true}, `{other: {observedGeneration: 5, conditions: [{observedGeneration: 5}]}}`, `null`,
			`{other: {observedGeneration: 5, conditions: [{observedGeneration: 5}]}}`},
		{"not in embedded objects", generations{5, 9, true}, `{l: [{apiVersion: v1, kind: X, conditions: [{observedGeneration: 5}]}], conditions: [{apiVersion: v1, kind: X, observedGeneration: 5}]}`, `null`,
			`{l: [{apiVersion: v1, kind: X, conditions: [{observedGeneration: 5}]}], conditions: [{apiVersion: v1, kind: X, observedGeneration: 5}]}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			status, have := value(t, test.status), value(t, test.have)
			got := test.g.translate(status, have)
			if diff := cmp.Diff(value(t, test.want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(value(t, test.status), status); diff != "" {
				t.Errorf("the twin's status was changed (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(got, test.g.translate(status, got)); diff != "" {
				t.Errorf("translating again changes it (-once +twice):\n%s", diff)
			}
		})
	}
}
