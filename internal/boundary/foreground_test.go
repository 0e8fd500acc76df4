package boundary

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"
)

const (
	mine    = "example.io/mine" // of the source's side, or of any other writer
	carried = "example.io/carried"
)

var ours = west.Finalizer("host")

// holding is a rule that holds its sources, and a source that is held and has a finalizer of somebody else.
func holding(in *Input) {
	in.Remote = "host"
	in.Rules[0].DeletionPolicy = DeletionForeground
	finalizers(mine, ours)(in)
}
func finalizers(names ...string) func(*Input) {
	return func(in *Input) { in.Source.SetFinalizers(names) }
}
func background(in *Input) { in.Rules[0].DeletionPolicy = DeletionBackground }
func carrying(in *Input)   { in.Rules[0].CarryFinalizers = []string{carried} }
func moreTwins(in *Input)  { in.MoreTwins = true }
func ambiguous(in *Input) {
	in.Rules = append(in.Rules, widgetRule(func(r *Rule) { r.Name, r.DeletionPolicy = "more", DeletionForeground }))
}
func trouble(in *Input)  { in.Trouble = "the remote cluster can't be reached" }
func kindGoes(in *Input) { in.KindGoing = true }
func release(value string) func(*Input) {
	return func(in *Input) { set(in.Source, value, "metadata", "annotations", AnnotationRelease) }
}
func goneWithCarried(in *Input) {
	removed(RemovalDelete)(in)
	in.Removed[0].CarryFinalizers = []string{carried}
}

func TestD3_WhatHoldsASource(t *testing.T) {
	type m = []func(*Input)
	type names = []string
	const waits = "waits until its twin is gone, but the remote cluster can't be reached; to let it go now"
	sets := expect{action: SetFinalizers}
	noTwin := func(in *Input) { in.Twin = nil }
	blind := func(in *Input) { in.Twin, in.Blind = nil, true }
	place := func(s PlaceState) func(*Input) { return func(in *Input) { in.Twin, in.Namespace = nil, s } }
	drift := func(in *Input) { set(in.Source, int64(9), "spec", "replicas") }
	for _, test := range []struct {
		name   string
		change m
		want   expect
		names  names // that the source then has; nil: they are not set
	}{
		{"no twin: it is held first", m{noTwin, finalizers(mine)}, sets, names{mine, ours}},
		{"no twin: another writer's finalizer does not hold it", m{noTwin, finalizers(west.Finalizer("other"))}, sets, names{west.Finalizer("other"), ours}},
		{"no twin: held", m{noTwin}, expect{action: Create}, nil},
		{"no twin: Background", m{noTwin, background, finalizers()}, expect{action: Create}, nil},
		{"no twin: Background, held", m{noTwin, background}, sets, names{mine}},
		{"no twin: released", m{noTwin, release("true"), finalizers(mine)}, expect{action: Create}, nil},
		{"no twin: released, held", m{noTwin, release("true")}, sets, names{mine}},
		{"no twin: not released", m{noTwin, release("false")}, expect{action: Create}, nil},
		{"no twin: what could be carried is not there", m{noTwin, background, carrying, finalizers(mine)}, expect{action: Create}, nil},
		{"no twin: what is carried holds", m{noTwin, background, carrying, finalizers(mine, carried)}, sets, names{mine, carried, ours}},
		{"no twin: what is carried holds, but released", m{noTwin, background, carrying, release("true"), finalizers(mine, carried)}, expect{action: Create}, nil},
		{"no twin yet: namespace unknown", m{place(PlaceState{Unknown: true}), finalizers()}, expect{Hold, UntilNamespace, ""}, nil},
		{"no twin yet: namespace missing", m{place(PlaceState{Missing: true}), finalizers()}, expect{Hold, UntilNamespace, ""}, nil},
		{"no twin: not selected", m{noTwin, unmatched}, sets, names{mine}},
		{"no twin: not selected, what is carried stays", m{noTwin, unmatched, carrying, finalizers(carried, ours)}, sets, names{carried}},
		{"no twin: not selected, one elsewhere", m{noTwin, unmatched, moreTwins}, expect{action: Nothing}, nil},
		{"no twin: not selected nor held", m{noTwin, unmatched, finalizers(mine)}, expect{action: Nothing}, nil},
		{"no twin: its rule was removed", m{noTwin, goneWithCarried}, sets, names{mine}},
		{"no twin: two rules", m{noTwin, ambiguous}, expect{Refuse, UntilChange, "all select it"}, nil},
		{"no twin: two rules, released", m{noTwin, ambiguous, release("true")}, sets, names{mine}},
		{"no twin here: belongs elsewhere", m{noTwin, pairAway, moreTwins}, expect{action: Nothing}, nil},

		{"in step", nil, expect{action: Nothing}, nil},
		{"a twin, not held", m{finalizers(mine)}, sets, names{mine, ours}},
		{"a twin to be changed, not held", m{finalizers(mine), drift}, sets, names{mine, ours}},
		{"a twin that goes, not held", m{finalizers(mine), dyingTwin}, sets, names{mine, ours}},
		{"a twin to be changed, held", m{drift}, expect{action: Apply}, nil},
		{"a twin, Background", m{background}, sets, names{mine}},
		{"a twin, Background, what is carried stays", m{background, finalizers(carried, ours)}, sets, names{carried}},
		{"a twin, released", m{release("true")}, sets, names{mine}},
		{"a twin, released, what is carried stays", m{carrying, release("true"), finalizers(carried, ours)}, sets, names{carried}},
		{"a twin, not selected", m{unmatched}, expect{action: Delete}, nil},
		{"a twin that goes, not selected", m{unmatched, dyingTwin}, expect{Hold, UntilTwinGone, ""}, nil},
		{"a twin, not selected, released", m{unmatched, release("true")}, sets, names{mine}},
		{"a twin, its rule was removed", m{removed(RemovalDelete)}, expect{action: Delete}, nil},
		{"a twin, its rule was removed: Orphan", m{removed(RemovalOrphan)}, expect{action: Release}, nil},
		{"a twin that goes, its rule was removed: Orphan", m{removed(RemovalOrphan), dyingTwin}, expect{Hold, UntilTwinGone, ""}, nil},
		{"a twin elsewhere than it belongs", m{pairAway}, expect{action: Delete}, nil},
		{"a twin of an earlier source", m{newUID}, expect{action: Delete}, nil},
		{"a foreign object", m{foreignTwin}, expect{Refuse, UntilPlaceFree, "was not created by this Isthmus"}, nil},
		{"a foreign object, not held", m{foreignTwin, finalizers()}, expect{Refuse, UntilPlaceFree, "was not created by this Isthmus"}, nil},

		{"going, no twin", m{noTwin, dyingSource}, sets, names{mine}},
		{"going, a twin elsewhere", m{noTwin, dyingSource, moreTwins}, expect{action: Nothing}, nil},
		{"going, a foreign object", m{dyingSource, foreignTwin}, sets, names{mine}},
		{"going, no twin: what was carried leaves", m{noTwin, dyingSource, carrying, finalizers(carried, mine, ours)}, sets, names{mine}},
		{"going, no twin: the last leave", m{noTwin, dyingSource, carrying, finalizers(carried, ours)}, sets, names{}},
		{"going, no twin: what was carried leaves, held or not", m{noTwin, dyingSource, carrying, finalizers(mine, carried)}, sets, names{mine}},
		{"going, no twin: what is not carried stays", m{noTwin, dyingSource, finalizers(mine, carried, ours)}, sets, names{mine, carried}},
		{"going, no twin: of a removed rule", m{noTwin, dyingSource, goneWithCarried, finalizers(mine, carried, ours)}, sets, names{mine}},
		{"going, no twin: not selected, held", m{noTwin, dyingSource, carrying, unmatched, finalizers(mine, carried, ours)}, sets, names{mine}},
		{"going, no twin: not selected nor held", m{noTwin, dyingSource, carrying, unmatched, finalizers(mine, carried)}, expect{action: Nothing}, nil},
		{"going, no twin: two rules", m{noTwin, dyingSource, ambiguous}, sets, names{mine}},
		{"going, no twin: two rules, not held", m{noTwin, dyingSource, ambiguous, finalizers(mine)}, expect{Refuse, UntilChange, "all select it"}, nil},
		{"going", m{dyingSource}, expect{action: Delete}, nil},
		{"going, not confirmed", m{dyingSource, unproven}, expect{Hold, UntilConfirmed, ""}, nil},
		{"going, Background", m{dyingSource, background}, expect{action: Delete}, nil},
		{"going, not held", m{dyingSource, finalizers(mine)}, expect{action: Delete}, nil},
		{"going, two rules and a twin of one", m{dyingSource, ambiguous}, expect{action: Delete}, nil},
		{"going, and not selected", m{dyingSource, unmatched}, expect{action: Delete}, nil},
		{"going, and belongs elsewhere", m{dyingSource, pairAway}, expect{action: Delete}, nil},
		{"going, the twin too", m{dyingSource, dyingTwin}, expect{Hold, UntilTwinGone, ""}, nil},
		{"going, the twin too, Background", m{dyingSource, dyingTwin, background}, expect{Hold, UntilTwinGone, ""}, nil},
		{"going, the twin too, what is carried stays", m{dyingSource, dyingTwin, carrying, finalizers(carried)}, expect{Hold, UntilTwinGone, ""}, nil},
		{"going, a twin of an earlier source", m{dyingSource, newUID}, expect{action: Delete}, nil},
		{"going, released", m{dyingSource, carrying, release("true"), finalizers(mine, carried, ours)}, sets, names{mine}},
		{"going, released, of a removed rule", m{dyingSource, goneWithCarried, release("true"), finalizers(mine, carried, ours)}, sets, names{mine}},
		{"going, trouble", m{dyingSource, trouble}, expect{action: Delete, event: waits}, nil},
		{"going, the twin too, trouble", m{dyingSource, dyingTwin, trouble}, expect{Hold, UntilTwinGone, waits}, nil},
		{"going, trouble, not held", m{dyingSource, trouble, finalizers(mine)}, expect{action: Delete}, nil},
		{"going, trouble, held by what is carried", m{dyingSource, trouble, carrying, finalizers(carried)}, expect{action: Delete, event: waits}, nil},
		{"standing, trouble", m{trouble}, expect{action: Nothing}, nil},

		{"blind, no source", m{blind, noSource}, expect{action: Nothing}, nil},
		{"blind", m{blind, trouble}, expect{action: Nothing}, nil},
		{"blind, not held", m{blind, finalizers()}, expect{action: Nothing}, nil},
		{"blind, Background", m{blind, background}, expect{action: Nothing}, nil},
		{"blind, not selected", m{blind, unmatched}, expect{action: Nothing}, nil},
		{"blind, released", m{blind, release("true")}, sets, names{mine}},
		{"blind, its CRD goes", m{blind, kindGoes}, sets, names{mine}},
		{"blind, going", m{blind, dyingSource}, expect{Hold, UntilChange, ""}, nil},
		{"blind, going, trouble", m{blind, dyingSource, trouble}, expect{Hold, UntilChange, waits}, nil},
		{"blind, going, trouble, not held", m{blind, dyingSource, trouble, finalizers(mine)}, expect{Hold, UntilChange, ""}, nil},
		{"blind, going, trouble, not selected", m{blind, dyingSource, trouble, unmatched}, expect{Hold, UntilChange, waits}, nil},
		{"blind, going, trouble, held by what is carried", m{blind, dyingSource, trouble, carrying, finalizers(carried)}, expect{Hold, UntilChange, waits}, nil},
		{"blind, going, released", m{blind, dyingSource, carrying, release("true"), finalizers(mine, carried, ours)}, sets, names{mine}},
		{"blind, going, its CRD too", m{blind, dyingSource, carrying, kindGoes, finalizers(mine, carried, ours)}, sets, names{mine}},
		{"blind, going, its CRD too, nothing of ours", m{blind, dyingSource, kindGoes, finalizers(mine)}, expect{Hold, UntilChange, ""}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newScene(t, holding).crossed(test.change...)
			d := decideChecked(t, s.Input)
			test.want.check(t, d)
			if !slices.Equal(d.Finalizers, test.names) || (d.Finalizers == nil) != (test.names == nil) {
				t.Errorf("sets %q, want %q", d.Finalizers, test.names)
			}
		})
	}
}

func TestD3_WhatOfASourceNoRuleHolds(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Input)
		want   bool
	}{
		"held":               {func(*Input) {}, false},
		"Background":         {background, true},
		"Background, nobody": {func(in *Input) { background(in); finalizers(mine)(in) }, false},
		"not selected":       {unmatched, true},
		"released":           {release("true"), true},
		"carried":            {func(in *Input) { background(in); carrying(in); finalizers(carried, ours)(in) }, false},
		"without rules":      {noRules, true},
	} {
		in := newScene(t, holding, test.change).Input
		if got := Stray(in.Rules, in.Source, in.Naming, in.Identity, in.Remote); got != test.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestD3_FinalizerNames(t *testing.T) {
	long := strings.Repeat("a", 63)
	for _, test := range []struct {
		home, instance, remote, want string
	}{
		{"west", "main", "host", "isthmus.dev/west.main.host"},
		{"my-vcluster-0a1b2c3d", "isthmus", "host-1", "isthmus.dev/my-vcluster-0a1b2c3d.isthmus.host-1"},
		{long, "main", "host", "isthmus.dev/" + long[:52] + "-68477c9f18"},
		{long, "main", "home", "isthmus.dev/" + long[:52] + "-55178179df"},
		{long[:51], "main", "host-of-all", "isthmus.dev/" + long[:51] + "-11a8704d34"},
		{long, long, long, "isthmus.dev/" + long[:52] + "-6c85b8d81a"},
	} {
		id := Identity{Cluster: "else", Home: test.home, Instance: test.instance}
		if got := id.Finalizer(test.remote); got != test.want {
			t.Errorf("%s, %s, %s: got %s, want %s; sources carry the old name", test.home, test.instance, test.remote, got, test.want)
		}
	}
}

func TestD3_FinalizersTellWritersAndRemotesApart(t *testing.T) {
	type triple struct{ home, instance, remote string }
	label := rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?`)
	rapid.Check(t, func(t *rapid.T) {
		shared := rapid.SliceOfN(label, 1, 3).Draw(t, "shared") // else no two would have anything in common
		part := rapid.OneOf(label, rapid.SampledFrom(shared), rapid.Map(rapid.SampledFrom(shared), func(s string) string {
			return strings.Repeat(s, 63)[:62] + "z"
		}))
		draw := func(name string) triple {
			return triple{part.Draw(t, name+" home"), part.Draw(t, name+" instance"), part.Draw(t, name+" remote")}
		}
		name := func(of triple) string {
			name := Identity{Home: of.home, Instance: of.instance}.Finalizer(of.remote)
			if faults := validation.IsQualifiedName(name); len(faults) > 0 {
				t.Fatalf("%+v: %s: %q", of, name, faults)
			}
			return name
		}
		one, other := draw("one"), draw("other")
		if (name(one) == name(other)) != (one == other) {
			t.Fatalf("%+v and %+v: %s, %s", one, other, name(one), name(other))
		}
	})
}
