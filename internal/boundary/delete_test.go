package boundary

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func pairAway(in *Input)  { in.Naming = SameName{Pairs: NamespacePairs{"shop": "elsewhere"}} }
func pairGone(in *Input)  { in.Naming = SameName{Pairs: NamespacePairs{"other": "shop"}} }
func withdrawn(in *Input) { in.Withdrawn = true }
func unready(in *Input)   { in.Unready = true }
func releasedSource(in *Input) {
	in.Source.SetAnnotations(map[string]string{AnnotationRelease: "true"})
	in.Source.SetFinalizers([]string{in.Identity.Finalizer(in.Remote)})
}
func filterAway(in *Input) { in.Rules[0].Namespaces.Exclude = []string{"shop"} }
func allowList(in *Input)  { in.Rules[0].Policy = PolicyAllowList }
func ruleWaits(in *Input)  { in.Rules, in.Waiting = nil, []string{in.Rules[0].Name} }
func otherRule(in *Input)  { in.Rules = []*Rule{widgetRule(func(r *Rule) { r.Name = "others" })} }

// The rows of the deletion table that Decide settles. The kept rows before them are the flow's: it does not ask then.
func TestD_DeletionTable(t *testing.T) {
	type m = []func(*Input)
	for _, test := range []struct {
		name   string
		change m
		want   expect
		clear  bool // the status that was returned is removed first
	}{
		{"rule removed: Delete", m{removed(RemovalDelete)}, expect{action: Delete}, false},
		{"rule removed: Delete, for many at once", m{removed(RemovalDelete), inferred, paused}, expect{action: Delete}, false},
		{"rule removed: Delete, source unseen", m{removed(RemovalDelete), noSource, unproven}, expect{Hold, UntilConfirmed, ""}, false},
		{"rule removed: Orphan", m{removed(RemovalOrphan)}, expect{action: Release}, false},
		{"rule removed: Orphan, source gone", m{removed(RemovalOrphan), noSource, inferred}, expect{action: Release}, false},
		{"rule removed: Orphan, twin terminating", m{removed(RemovalOrphan), dyingTwin}, expect{Hold, UntilTwinGone, ""}, false},
		{"rule removed: Orphan, twin foreign", m{removed(RemovalOrphan), foreignTwin}, expect{action: Nothing}, false},
		{"rule removed, another one selects the source", m{removed(RemovalOrphan), otherRule}, expect{action: Apply}, false},
		{"rule removed, another one selects the source for another place", m{removed(RemovalOrphan), otherRule, pairAway}, expect{action: Delete}, false},
		{"… which the guard holds", m{removed(RemovalDelete), otherRule, pairAway, inferred, paused}, expect{Hold, UntilGuard, ""}, false},
		{"another rule was removed", m{func(in *Input) { in.Removed = []RemovedRule{{Name: "others", OnRemoval: RemovalOrphan}} }, noSource}, expect{action: Delete}, false},

		{"rule not known for now, source gone", m{ruleWaits, noSource}, expect{Hold, UntilChange, ""}, false},
		{"rule not known for now, source terminating", m{ruleWaits, dyingSource}, expect{Hold, UntilChange, ""}, false},
		{"rule not known for now, another one selects the source", m{ruleWaits, otherRule}, expect{action: Apply}, false},
		{"rule not known for now, twin foreign", m{ruleWaits, noSource, foreignTwin}, expect{action: Nothing}, false},
		{"another rule is not known for now", m{func(in *Input) { in.Waiting = []string{"others"} }, noSource}, expect{action: Delete}, false},

		{"pair changed", m{pairAway}, expect{action: Delete}, false},
		{"pair changed, for many at once", m{pairAway, inferred, paused}, expect{Hold, UntilGuard, ""}, false},
		{"pair changed, source gone and unconfirmed", m{pairAway, noSource, unproven}, expect{Hold, UntilConfirmed, ""}, false},
		{"pair changed, twin foreign", m{pairAway, foreignTwin}, expect{action: Nothing}, false},
		{"pair removed", m{pairGone, inferred}, expect{action: Delete}, true},
		{"pair removed, source not read any more", m{pairGone, inferred, noSource}, expect{action: Delete}, true},

		{"pair removed, for many at once", m{pairGone, inferred, paused}, expect{Hold, UntilGuard, ""}, false},
		{"pair removed on purpose, for many at once", m{pairGone, inferred, paused, withdrawn}, expect{action: Delete}, true},
		{"pair removed on purpose, source not read any more", m{pairGone, inferred, paused, withdrawn, noSource}, expect{action: Delete}, true},
		{"pair removed on purpose, unconfirmed", m{pairGone, inferred, paused, withdrawn, noSource, unproven}, expect{Hold, UntilConfirmed, ""}, false},
		{"pair removed on purpose, twin foreign", m{pairGone, withdrawn, foreignTwin}, expect{action: Nothing}, false},
		{"pair changed, though it was said to be removed", m{pairAway, inferred, paused, withdrawn}, expect{Hold, UntilGuard, ""}, false},
		{"absence, though the pair was said to be removed", m{noSource, inferred, paused, withdrawn}, expect{Hold, UntilGuard, ""}, false},
		{"another UID, though the pair was said to be removed", m{newUID, inferred, paused, withdrawn}, expect{Hold, UntilGuard, ""}, false},

		{"pair not ready, source gone", m{unready, noSource}, expect{Hold, UntilNamespace, ""}, false},
		{"pair not ready, source terminating", m{unready, dyingSource}, expect{Hold, UntilNamespace, ""}, false},
		{"pair not ready, source another", m{unready, newUID}, expect{Hold, UntilNamespace, ""}, false},
		{"pair not ready, not selected any more", m{unready, unmatched}, expect{Hold, UntilNamespace, ""}, false},
		{"pair not ready, rule removed", m{unready, removed(RemovalDelete)}, expect{Hold, UntilNamespace, ""}, false},
		{"pair not ready, to be created", m{unready, func(in *Input) { in.Twin = nil }}, expect{Hold, UntilNamespace, ""}, false},
		{"pair not ready, no twin and not selected", m{unready, unmatched, func(in *Input) { in.Twin = nil }}, expect{action: Nothing}, false},
		{"pair not ready, twin foreign, source gone", m{unready, noSource, foreignTwin}, expect{action: Nothing}, false},
		{"pair not ready, the source let go by its annotation", m{unready, releasedSource}, expect{action: SetFinalizers}, false},

		{"absence inferred", m{noSource, inferred}, expect{action: Delete}, false},
		{"absence inferred, for many at once", m{noSource, inferred, paused}, expect{Hold, UntilGuard, ""}, false},
		{"absence inferred, not confirmed", m{noSource, inferred, unproven}, expect{Hold, UntilConfirmed, ""}, false},
		{"absence observed", m{noSource}, expect{action: Delete}, false},
		{"absence observed while the guard holds others", m{noSource, paused}, expect{action: Delete}, false},
		{"absence observed, not confirmed", m{noSource, unproven}, expect{Hold, UntilConfirmed, ""}, false},
		{"absence, twin terminating", m{noSource, dyingTwin}, expect{Hold, UntilTwinGone, ""}, false},
		{"absence, twin foreign", m{noSource, foreignTwin}, expect{action: Nothing}, false},
		{"absence, no twin", m{noSource, func(in *Input) { in.Twin = nil }}, expect{action: Nothing}, false},
		{"absence, all rules gone from both lists", m{noSource, noRules, inferred}, expect{action: Delete}, false},

		{"labels no longer match", m{unmatched}, expect{action: Delete}, true},
		{"selector changed for many", m{unmatched, inferred, paused}, expect{Hold, UntilGuard, ""}, false},
		{"not allowed any more", m{allowList}, expect{action: Delete}, true},
		{"not allowed any more, source not read", m{allowList, noSource}, expect{action: Delete}, true},
		{"namespace filtered out", m{filterAway, inferred}, expect{action: Delete}, true},
		{"namespace filtered out, source not read", m{filterAway, inferred, noSource}, expect{action: Delete}, true},
		{"deleted in a filtered flow", m{func(in *Input) { in.Rules[0].Namespaces.Include = []string{"shop"} }, noSource}, expect{action: Delete}, false},
		{"unselected without status return", m{unmatched, func(in *Input) { in.Rules[0].ReturnStatus = false }}, expect{action: Delete}, false},

		{"terminating", m{dyingSource}, expect{action: Delete}, false},
		{"terminating, not confirmed", m{dyingSource, unproven}, expect{Hold, UntilConfirmed, ""}, false},
		{"terminating, for many at once", m{dyingSource, inferred, paused}, expect{action: Delete}, false},
		{"terminating, twin terminating", m{dyingSource, dyingTwin}, expect{Hold, UntilTwinGone, ""}, false},
		{"terminating, twin foreign", m{dyingSource, foreignTwin}, expect{action: Nothing}, false},
		{"terminating and not selected, inferred for many", m{dyingSource, unmatched, inferred, paused}, expect{Hold, UntilGuard, ""}, false},

		{"another UID", m{newUID}, expect{action: Delete}, false},
		{"another UID, inferred for many", m{newUID, inferred, paused}, expect{Hold, UntilGuard, ""}, false},
		{"another UID, twin terminating", m{newUID, dyingTwin}, expect{Hold, UntilTwinGone, ""}, false},
		{"another UID, twin foreign", m{newUID, foreignTwin}, expect{Refuse, UntilPlaceFree, "was not created by this Isthmus"}, false},
		{"another UID, and terminating", m{newUID, dyingSource}, expect{action: Delete}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newScene(t).crossed(test.change...)
			d := Decide(s.Input)
			test.want.check(t, d)
			if d.ClearFirst != test.clear {
				t.Errorf("ClearFirst is %v", d.ClearFirst)
			}
			if d.Action == Delete || d.Action == Release {
				if d.UID != s.Twin.GetUID() || d.ResourceVersion != s.Twin.GetResourceVersion() || d.UID == "" || d.ResourceVersion == "" {
					t.Errorf("bound to %q, %q", d.UID, d.ResourceVersion)
				}
			}
		})
	}
}

func TestF8_WhatTheGuardCounts(t *testing.T) {
	type m = []func(*Input)
	for name, test := range map[string]struct {
		change m
		want   bool
	}{
		"inferred absence":   {m{noSource, inferred}, true},
		"inferred and held":  {m{noSource, inferred, paused}, true},
		"observed absence":   {m{noSource}, false},
		"another UID":        {m{newUID, inferred}, true},
		"pair changed":       {m{pairAway, inferred}, true},
		"changed selection":  {m{unmatched, inferred}, true},
		"pair removed":       {m{pairGone, inferred}, true},
		"… on purpose":       {m{pairGone, inferred, withdrawn}, false},
		"terminating source": {m{dyingSource, inferred}, false},
		"rule removed":       {m{removed(RemovalDelete), inferred}, false},
		"in step":            {m{inferred}, false},
	} {
		if got := Decide(newScene(t).crossed(test.change...).Input); got.Guarded != test.want {
			t.Errorf("%s: counted %v, want %v", name, got.Guarded, test.want)
		}
	}
	d := Decide(newScene(t).crossed(noSource, inferred, paused).Input)
	if text := strings.Join(d.Reasons, " "); !strings.Contains(text, "6 of 10") {
		t.Errorf("the count is not told: %s", text)
	}
}

// Nothing is inherited by an object that came back: its twin goes, is waited for, and is made anew.
func TestD2_ASourceThatCameBack(t *testing.T) {
	s := newScene(t).crossed(newUID, twinStatus(t, `{ready: true}`))
	expect{action: Delete}.check(t, Decide(s.Input))
	dyingTwin(&s.Input)
	expect{Hold, UntilTwinGone, ""}.check(t, Decide(s.Input))
	s.Twin = nil
	d := Decide(s.Input)
	expect{action: Create}.check(t, d)
	if got := d.Body["metadata"].(map[string]any)["annotations"].(map[string]any)[AnnotationSourceUID]; got != "uid-again" {
		t.Errorf("stamped for %v", got)
	}
}

func TestD4_ATwinThatOthersDelete(t *testing.T) {
	job := func(in *Input) { in.Rules[0].Kind.Group, in.Rules[0].Kind.Kind = "batch", "Job" }
	hold := func(in *Input) { in.Rules[0].OnTwinDeleted = TwinDeletedHold }
	recreate := func(in *Input) { in.Rules[0].OnTwinDeleted = TwinDeletedRecreate }
	crossed := func(in *Input) { in.Memory.Crossed = true }
	type m = []func(*Input)
	for _, test := range []struct {
		name   string
		change m
		want   expect
	}{
		{"terminating: it is awaited", m{dyingTwin}, expect{Hold, UntilTwinGone, ""}},
		{"gone: it is made anew", m{crossed, func(in *Input) { in.Twin = nil }}, expect{action: Create}},
		{"gone: Hold", m{crossed, hold, func(in *Input) { in.Twin = nil }}, expect{Hold, UntilChange, ""}},
		{"gone: a Job", m{crossed, job, func(in *Input) { in.Twin = nil }}, expect{Hold, UntilChange, ""}},
		{"gone: a Job that is wanted back", m{crossed, job, recreate, func(in *Input) { in.Twin = nil }}, expect{action: Create}},
		{"a Job that has not crossed yet", m{job, func(in *Input) { in.Twin = nil }}, expect{action: Create}},
		{"Hold, and another object in its place", m{crossed, hold, foreignTwin}, expect{Refuse, UntilPlaceFree, "was not created by"}},
	} {
		t.Run(test.name, func(t *testing.T) { test.want.check(t, Decide(newScene(t).crossed(test.change...).Input)) })
	}
}

func TestD4_DefaultsOfKinds(t *testing.T) {
	for kind, want := range map[string]bool{
		"batch/v1/Job": true, "/v1/Pod": true, "argoproj.io/v1alpha1/Workflow": true, "tekton.dev/v1/PipelineRun": true, "tekton.dev/v1beta1/TaskRun": true,
		"apps/v1/Deployment": false, "batch/v1/CronJob": false, "example.io/v1/Job": false, "/v1/Service": false,
	} {
		parts := strings.Split(kind, "/")
		rule := widgetRule(func(r *Rule) { r.Kind.Group, r.Kind.Version, r.Kind.Kind = parts[0], parts[1], parts[2] })
		if got := rule.HoldsDeletedTwins(); got != want {
			t.Errorf("%s: got %v", kind, got)
		}
	}
}

// A place that is not the source's is never written to, whatever is asked.
func TestN1_NothingIsCreatedElsewhere(t *testing.T) {
	s := newScene(t)
	s.Place = types.NamespacedName{Namespace: "elsewhere", Name: "blue"}
	expect{action: Nothing}.check(t, Decide(s.Input))
}

// Before all are listed, nobody could count: no number of twins is told.
func TestF8_HeldBeforeAllAreListed(t *testing.T) {
	d := Decide(newScene(t).crossed(noSource, inferred, func(in *Input) { in.Guard = Guard{Paused: true} }).Input)
	expect{Hold, UntilGuard, ""}.check(t, d)
	if why := strings.Join(d.Reasons, "; "); !strings.Contains(why, "not everything is listed") || strings.Contains(why, "0 of 0") {
		t.Errorf("the reasons are %s", why)
	}
}
