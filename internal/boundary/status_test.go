package boundary

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestT2_StatusIsReturnedWhole(t *testing.T) {
	for _, test := range []struct {
		name        string
		twin, have  string // the twin's status, and the source's; "null": none
		want        Action
		status      string
		withoutTwin bool
	}{
		{name: "first", twin: `{ready: true, conditions: [{type: A}]}`, have: `null`, want: ReturnStatus, status: `{ready: true, conditions: [{type: A}]}`},
		{name: "the same", twin: `{ready: true, conditions: [{type: A}]}`, have: `{ready: true, conditions: [{type: A}]}`, want: Nothing},
		{name: "a field less", twin: `{ready: true}`, have: `{ready: true, old: 1}`, want: ReturnStatus, status: `{ready: true}`},
		{name: "a deep field less", twin: `{a: {b: {c: 1}}}`, have: `{a: {b: {c: 1, d: 2}}}`, want: ReturnStatus, status: `{a: {b: {c: 1}}}`},
		{name: "O5: edited on the source", twin: `{ready: true}`, have: `{ready: false}`, want: ReturnStatus, status: `{ready: true}`},
		{name: "the order of a list", twin: `{l: [1, 2]}`, have: `{l: [2, 1]}`, want: ReturnStatus, status: `{l: [1, 2]}`},
		{name: "an item less", twin: `{l: [1]}`, have: `{l: [1, 2]}`, want: ReturnStatus, status: `{l: [1]}`},
		{name: "another type", twin: `{a: "1"}`, have: `{a: 1}`, want: ReturnStatus, status: `{a: "1"}`},
		{name: "another type of container", twin: `{a: {b: 1}}`, have: `{a: [1]}`, want: ReturnStatus, status: `{a: {b: 1}}`},
		{name: "a scalar where there was an object", twin: `{a: 1}`, have: `{a: {b: 1}}`, want: ReturnStatus, status: `{a: 1}`},
		{name: "no status left", twin: `null`, have: `{ready: true}`, want: ClearStatus},
		{name: "an empty status left", twin: `{}`, have: `{ready: true}`, want: ClearStatus},
		{name: "no status anywhere", twin: `null`, have: `null`, want: Nothing},
		{name: "an empty status, none before", twin: `{}`, have: `null`, want: Nothing},
		{name: "none, an empty one before", twin: `null`, have: `{}`, want: Nothing},
		{name: "none, an always empty object before", twin: `null`, have: `{loadBalancer: {}}`, want: Nothing},
		{name: "null and empty lists are nothing", twin: `{a: 1, b: null, c: []}`, have: `{a: 1}`, want: Nothing},
		{name: "null and empty lists were nothing", twin: `{a: 1}`, have: `{a: 1, b: null, c: [], d: {}}`, want: Nothing},
		{name: "an empty object says something", twin: `{state: {running: {}}}`, have: `{state: {waiting: {}}}`, want: ReturnStatus, status: `{state: {running: {}}}`},
		{name: "an empty object says something, first", twin: `{state: {running: {}}}`, have: `null`, want: ReturnStatus, status: `{state: {running: {}}}`},
		{name: "numbers in another form", twin: `{a: 1.0, b: 2}`, have: `{a: 1, b: 2}`, want: Nothing},
		{name: "without a twin", twin: `null`, have: `{ready: true}`, want: ClearStatus, withoutTwin: true},
		{name: "without a twin and status", twin: `null`, have: `null`, want: Create, withoutTwin: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newScene(t).crossed(sourceStatus(t, test.have), twinStatus(t, test.twin))
			if test.withoutTwin {
				s.Twin = nil
				if test.want == ClearStatus {
					s.Namespace.Terminating = true // a Create would come first
				}
			}
			before := s.Twin.DeepCopy()
			d := Decide(s.Input)
			expect{action: test.want}.check(t, d)
			if test.want == ReturnStatus {
				if diff := cmp.Diff(value(t, test.status), d.Status); diff != "" {
					t.Errorf("status (-want +got):\n%s", diff)
				}
			}
			if test.want == ReturnStatus || test.want == ClearStatus {
				if d.UID != "uid-blue" || d.StatusHash == "" {
					t.Errorf("bound to %q, hash %q", d.UID, d.StatusHash)
				}
			}
			if diff := cmp.Diff(before, s.Twin); diff != "" {
				t.Errorf("the twin was changed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestT1_OnlyWhereTheRuleAsksForIt(t *testing.T) {
	without := func(in *Input) { in.Rules[0].ReturnStatus = false }
	expect{action: Nothing}.check(t, Decide(newScene(t).crossed(without, twinStatus(t, `{ready: true}`)).Input))
	expect{action: Nothing}.check(t, Decide(newScene(t).crossed(without, sourceStatus(t, `{ready: true}`)).Input))
	s := newScene(t).crossed(without, sourceStatus(t, `{ready: true}`), foreignTwin)
	expect{Refuse, UntilPlaceFree, "was not created by"}.check(t, Decide(s.Input))
}

func TestT2_NoTwinThatTheStatusCouldSpeakOf(t *testing.T) {
	type m = []func(*Input)
	noTwin := func(in *Input) { in.Twin = nil }
	for name, change := range map[string]m{
		"a foreign object in the way": {foreignTwin},
		"the twin of another":         {func(in *Input) { set(in.Twin, "shop/red", "metadata", "annotations", AnnotationSource) }},
		"terminating, without a twin": {dyingSource, noTwin},
		"terminating, blocked":        {dyingSource, foreignTwin},
		"held after a deletion":       {noTwin, func(in *Input) { in.Memory.Crossed = true; in.Rules[0].OnTwinDeleted = TwinDeletedHold }},
		"a fault": {noTwin, func(in *Input) {
			in.Memory.FaultHash, in.Memory.RetryAt = Decide(*in).Hash, noon.AddDate(0, 0, 1)
		}},
	} {
		s := newScene(t).crossed(append(change, sourceStatus(t, `{ready: true}`))...)
		d := Decide(s.Input)
		if d.Action != ClearStatus || d.UID != "uid-blue" || len(d.Events) > 0 {
			t.Errorf("%s: %s, %q, %v", name, d.Action, d.Reasons, d.Events)
		}
		writers("local-controller")(&s.Input) // a status that was not returned is none of ours
		if d := Decide(s.Input); d.Action == ClearStatus || !strings.Contains(strings.Join(d.Reasons, " "), "left alone") {
			t.Errorf("%s: %s, %q", name, d.Action, d.Reasons)
		}
		writers("local-controller", west.StatusManager())(&s.Input)
		if d := Decide(s.Input); d.Action != ClearStatus {
			t.Errorf("%s, written by both: %s, %q", name, d.Action, d.Reasons)
		}
		delete(s.Source.Object, "status")
		if d := Decide(s.Input); d.Action == ClearStatus {
			t.Errorf("%s: cleared again", name)
		}
	}
}

// What the source's server makes of a status is taken for the status that was written.
func TestF2_AStatusThatTheServerWritesOtherwise(t *testing.T) {
	s := newScene(t).crossed(twinStatus(t, `{a: 1, b: 2}`))
	d := Decide(s.Input)
	expect{action: ReturnStatus}.check(t, d)
	s.Source.Object["status"] = value(t, `{a: 1, b: "two", c: filled}`)
	s.Memory.StatusWritten, s.Memory.StatusResult, s.Memory.StatusOf = d.StatusHash, StatusHash(s.Source.Object["status"]), d.UID
	expect{action: Nothing}.check(t, Decide(s.Input))
	set(s.Source, "edited", "status", "c")
	expect{action: ReturnStatus}.check(t, Decide(s.Input))
	set(s.Source, "filled", "status", "c")
	set(s.Twin, int64(3), "status", "a")
	expect{action: ReturnStatus}.check(t, Decide(s.Input))
}

func TestT2_WhatTheSourcesSideDeclares(t *testing.T) {
	schema := &Schema{Type: "object", Properties: map[string]*Schema{
		"phase": {Type: "string", Default: "Pending"},
		"conditions": {Type: "array", Items: &Schema{Type: "object", Properties: map[string]*Schema{
			"type": {Type: "string"}, "status": {Type: "string", Default: "Unknown"}, "observedGeneration": {Type: "integer"},
		}}},
	}}
	withSchema := func(in *Input) { in.StatusSchema = schema }
	withDefault := func(in *Input) {
		declared := *schema
		declared.Default = value(t, `{conditions: [{type: Ready, status: Unknown}]}`)
		in.StatusSchema = &declared
	}
	for _, test := range []struct {
		name, twin, have string
		schema           func(*Input)
		want             Action
		status           string
	}{
		{"undeclared fields stay away", `{phase: A, new: 1, conditions: [{type: R, status: "True", more: 1}, {type: S, status: "True"}]}`, `null`, withSchema, ReturnStatus,
			`{phase: A, conditions: [{type: R, status: "True"}, {type: S, status: "True"}]}`},
		{"… and are no reason to write", `{phase: A, new: 1}`, `{phase: A}`, withSchema, Nothing, ``},
		{"nothing declared is left", `{new: 1}`, `{phase: A}`, withSchema, ClearStatus, ``},
		{"defaults are no reason to write", `{conditions: [{type: R}]}`, `{phase: Pending, conditions: [{type: R, status: Unknown}]}`, withSchema, Nothing, ``},
		{"another value than the default", `{conditions: []}`, `{phase: Done}`, withSchema, ReturnStatus, `{conditions: []}`},
		{"a status that the server fills in is none", `null`, `{phase: Pending, conditions: [{type: Ready, status: Unknown}]}`, withDefault, Nothing, ``},
		{"a status beside the one that the server fills in", `null`, `{phase: Done, conditions: [{type: Ready, status: Unknown}]}`, withDefault, ClearStatus, ``},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := Decide(newScene(t).crossed(twinStatus(t, test.twin), sourceStatus(t, test.have), test.schema).Input)
			expect{action: test.want}.check(t, d)
			if test.want == ReturnStatus {
				if diff := cmp.Diff(value(t, test.status), d.Status); diff != "" {
					t.Errorf("status (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestStatusOfEveryType(t *testing.T) {
	for _, twin := range []string{`null`, `1`, `text`, `true`, `[1]`, `[]`, `{}`, `{conditions: 1}`, `{conditions: [1, [2], {observedGeneration: {}}]}`, `{observedGeneration: [1]}`, `{observedGeneration: 1.5}`} {
		for _, have := range []string{`null`, `1`, `text`, `[1]`, `{conditions: {a: b}}`, `{conditions: [{type: 1}], observedGeneration: x}`} {
			s := newScene(t).crossed(twinStatus(t, twin), sourceStatus(t, have))
			d := Decide(s.Input)
			switch d.Action {
			case Nothing, ReturnStatus, ClearStatus:
			default:
				t.Errorf("twin %s, source %s: %s", twin, have, d.Action)
			}
			if d.Action == ReturnStatus {
				s.Source.Object["status"] = d.Status
				if d := Decide(s.Input); d.Action != Nothing {
					t.Errorf("twin %s, source %s: not settled by what was returned: %s", twin, have, d.Action)
				}
			}
		}
	}
}

func TestO5_ASourcesOwnStatusNeverCrosses(t *testing.T) {
	for _, change := range []func(*Input){sourceStatus(t, `{own: 1}`), func(in *Input) { in.Rules[0].ReturnStatus = false; in.Source.Object["status"] = value(t, `{own: 1}`) }} {
		d := Decide(newScene(t, change).Input)
		if _, ok := d.Body["status"]; ok || d.Action != Create {
			t.Errorf("%s with status %v", d.Action, d.Body["status"])
		}
	}
	s := newScene(t).crossed()
	before := Decide(newSceneLike(s).Input).Hash
	sourceStatus(t, `{own: 1}`)(&s.Input)
	if after := Decide(newSceneLike(s).Input).Hash; after != before {
		t.Error("the hash depends on the source's status")
	}
}

func TestStatusHash(t *testing.T) {
	hashOf := func(text string) string { return StatusHash(value(t, text)) }
	if hashOf(`{a: 1, b: 2}`) != hashOf(`{b: 2, a: 1}`) || hashOf(`null`) != hashOf(`{}`) || StatusHash(nil) != hashOf(`{}`) {
		t.Error("equal statuses have different hashes")
	}
	if hashOf(`{a: {running: {}}}`) == hashOf(`{a: {waiting: {}}}`) || hashOf(`{a: 1}`) == hashOf(`{a: "1"}`) {
		t.Error("different statuses have equal hashes")
	}
}
