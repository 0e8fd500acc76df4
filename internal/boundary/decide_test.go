package boundary

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

func TestP3_CreationIsCreateOnly(t *testing.T) {
	d := Decide(newScene(t).Input)
	expect{action: Create}.check(t, d)
	metadata := d.Body["metadata"].(map[string]any)
	if metadata["resourceVersion"] != "1" || metadata["uid"] != nil {
		t.Errorf("not create-only: %v", metadata)
	}
	if d.Hash == "" || !strings.HasPrefix(d.Hash, hashVersion+"-") {
		t.Errorf("hash %q", d.Hash)
	}
}

func TestP3_UpdatesAreBound(t *testing.T) {
	s := newScene(t).crossed()
	set(s.Source, int64(9), "spec", "replicas")
	d := Decide(s.Input)
	expect{action: Apply}.check(t, d)
	metadata := d.Body["metadata"].(map[string]any)
	if metadata["uid"] != "uid-twin" || metadata["resourceVersion"] != "101" || d.UID != "uid-twin" || d.ResourceVersion != "101" {
		t.Errorf("not bound: %v, %q, %q", metadata, d.UID, d.ResourceVersion)
	}
	if d.Handover != nil {
		t.Errorf("a handover of nothing: %v", d.Handover)
	}
}

func TestN4_TheNamespaceOnTheOtherSide(t *testing.T) {
	for _, test := range []struct {
		name   string
		place  PlaceState
		want   expect
		create bool
	}{
		{"there, nobody's", PlaceState{}, expect{action: Create}, false},
		{"there, ours", PlaceState{Origin: "west", Writer: west.Writer()}, expect{action: Create}, false},
		{"there, another cluster's", PlaceState{Origin: "east", Writer: "east/main/u"}, expect{Refuse, UntilNamespace, "belongs to it"}, false},
		{"there, another instance's", PlaceState{Origin: "west", Writer: "west/second/uid-west"}, expect{Refuse, UntilNamespace, "belongs to it"}, false},
		{"not known yet", PlaceState{Unknown: true}, expect{Hold, UntilNamespace, ""}, false},
		{"not known yet, creatable", PlaceState{Unknown: true, Missing: true, Creatable: true}, expect{Hold, UntilNamespace, ""}, false},
		{"missing", PlaceState{Missing: true}, expect{Hold, UntilNamespace, ""}, false},
		{"missing, to be created", PlaceState{Missing: true, Creatable: true}, expect{action: Create}, true},
		{"not read yet", PlaceState{Unknown: true, Creatable: true}, expect{Hold, UntilNamespace, ""}, false},
		{"terminating", PlaceState{Terminating: true}, expect{Hold, UntilNamespace, ""}, false},
		{"terminating, creatable", PlaceState{Terminating: true, Creatable: true}, expect{Hold, UntilNamespace, ""}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := Decide(newScene(t, func(in *Input) { in.Namespace = test.place }).Input)
			test.want.check(t, d)
			if d.CreateNamespace != test.create {
				t.Errorf("CreateNamespace is %v", d.CreateNamespace)
			}
			// What can't be created leaves no returned status behind (T2), once that is known.
			withStatus := test.want
			if test.want.action != Create && !test.place.Unknown {
				withStatus = expect{action: ClearStatus}
			}
			d = Decide(newScene(t, func(in *Input) { in.Namespace = test.place }, sourceStatus(t, `{ready: true}`)).Input)
			withStatus.check(t, d)
		})
	}
}

func TestP4_AForeignObjectInTheWay(t *testing.T) {
	s := newScene(t).crossed(foreignTwin)
	d := Decide(s.Input)
	expect{Refuse, UntilPlaceFree, "Widget shop/blue on the other side was not created by this Isthmus"}.check(t, d)
	if !d.Blocked || d.Body != nil || d.Events[0].Reason != ReasonCreateFailed || !d.Events[0].Warning {
		t.Errorf("%+v", d)
	}
	dyingTwin(&s.Input)
	expect{Refuse, UntilPlaceFree, "was not created by"}.check(t, Decide(s.Input))
	s.Twin = nil
	expect{action: Create}.check(t, Decide(s.Input))
}

func TestN1_TheFirstKeepsThePlace(t *testing.T) {
	s := newScene(t, func(in *Input) {
		in.Naming = SameName{Pairs: NamespacePairs{"shop": "all", "other": "all"}}
		in.Place = types.NamespacedName{Namespace: "all", Name: "blue"}
	}).crossed()
	second := s.Input
	second.Key = types.NamespacedName{Namespace: "other", Name: "blue"}
	second.Source = object(t, strings.ReplaceAll(strings.ReplaceAll(blueWidget, "shop", "other"), "uid-blue", "uid-other"))
	d := Decide(second)
	expect{Refuse, UntilPlaceFree, "Widget all/blue on the other side is the twin of shop/blue, which came first"}.check(t, d)
	if !d.Blocked {
		t.Error("not counted as blocked")
	}
	// Nor does its absence or deselection touch the other's twin.
	second.Rules = []*Rule{widgetRule()}
	unmatched(&second)
	expect{action: Nothing}.check(t, Decide(second))
	second.Source = nil
	expect{action: Nothing}.check(t, Decide(second))
}

// The name in a stamp is text of others: it is told as it stands.
func TestN1_StrangeNamesAreToldAsTheyStand(t *testing.T) {
	s := newScene(t).crossed(func(in *Input) { set(in.Twin, "100%d/%s%!", "metadata", "annotations", AnnotationSource) })
	expect{Refuse, UntilPlaceFree, "Widget shop/blue on the other side is the twin of 100%d/%s%!, which came first"}.check(t, Decide(s.Input))
}

func TestO4_WhatIsDrift(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Input)
		want   string // in the reasons; empty: in step
	}{
		{"nothing", func(*Input) {}, ""},
		{"another resourceVersion", func(in *Input) { in.Source.SetResourceVersion("99"); in.Twin.SetResourceVersion("99") }, ""},
		{"a generation that changed nothing of what crosses", func(in *Input) { in.Source.SetGeneration(9) }, ""},
		{"a finalizer on the source", func(in *Input) { in.Source.SetFinalizers([]string{"a/b"}) }, ""},
		{"an annotation that does not cross", func(in *Input) {
			set(in.Source, "{}", "metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration")
		}, ""},
		{"a default that the server filled in", func(in *Input) { set(in.Twin, "x", "spec", "flag") }, ""},
		{"a value in another form", func(in *Input) { set(in.Twin, "2", "spec", "replicas") }, ""},
		{"others' label", func(in *Input) { set(in.Twin, "x", "metadata", "labels", "theirs") }, ""},
		{"spec", func(in *Input) { set(in.Source, int64(3), "spec", "replicas") }, "the source or its rule changed"},
		{"a label", func(in *Input) { set(in.Source, "x", "metadata", "labels", "new") }, "the source or its rule changed"},
		{"a label less", func(in *Input) { in.Source.SetLabels(nil) }, "the source or its rule changed"},
		{"annotations less", func(in *Input) { in.Source.SetAnnotations(nil) }, "the source or its rule changed"},
		{"an extra label", func(in *Input) { in.Rules[0].ExtraLabels = map[string]string{"a": "b"} }, "the source or its rule changed"},
		{"a key that is dropped now", func(in *Input) { in.Rules[0].DropKeys = []string{"note"} }, "the source or its rule changed"},
		{"the hash's version", func(in *Input) { set(in.Twin, "v0-0", "metadata", "annotations", AnnotationApplied) }, "the source or its rule changed"},
		{"no managedFields", func(in *Input) { in.Twin.SetManagedFields(nil) }, "no longer owned by isthmus"},
		{"a field lost", func(in *Input) {
			entries, _, _ := unstructured.NestedSlice(in.Twin.Object, "metadata", "managedFields")
			unstructured.RemoveNestedField(entries[0].(map[string]any), "fieldsV1", "f:spec", "f:image")
			set(in.Twin, entries, "metadata", "managedFields")
		}, "spec.image was changed or removed on the other side"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := Decide(newScene(t).crossed(test.change).Input)
			want := expect{action: Apply}
			if test.want == "" {
				want.action = Nothing
			}
			want.check(t, d)
			if !strings.Contains(strings.Join(d.Reasons, "; "), test.want) {
				t.Errorf("reasons %q", d.Reasons)
			}
		})
	}
}

func TestO3_APathAddedLaterIsHandedOver(t *testing.T) {
	s := newScene(t).crossed()
	s.Rules[0].RemoteOwned = []Path{MustPath("spec.replicas")}
	d := Decide(s.Input)
	expect{action: Apply}.check(t, d)
	want := object(t, `{apiVersion: example.io/v1, kind: Widget, metadata: {name: blue, namespace: shop, uid: uid-twin, resourceVersion: "101"}, spec: {replicas: 2}}`).Object
	if diff := cmp.Diff(want, d.Handover); diff != "" {
		t.Errorf("handover (-want +got):\n%s", diff)
	}
	if _, ok := d.Body["spec"].(map[string]any)["replicas"]; ok {
		t.Error("the path is in the body still")
	}
}

func TestF3_AFaultIsHeldUntilSomethingChanges(t *testing.T) {
	later := noon.Add(time.Minute)
	remember := func(in *Input) {
		in.Memory.FaultHash, in.Memory.Fault, in.Memory.RetryAt = Decide(*in).Hash, "spec.size: invalid", later
	}
	s := newScene(t, remember)
	d := Decide(s.Input)
	expect{Hold, UntilRetry, ""}.check(t, d)
	if d.RetryAt != later || !strings.Contains(strings.Join(d.Reasons, ";"), "spec.size: invalid") {
		t.Errorf("%v, %q", d.RetryAt, d.Reasons)
	}
	s.Now = later
	expect{action: Create}.check(t, Decide(s.Input))
	s = newScene(t, remember)
	set(s.Source, int64(4), "spec", "replicas")
	expect{action: Create}.check(t, Decide(s.Input))

	// An update that is refused holds the update, not the status.
	s = newScene(t).crossed(twinStatus(t, `{ready: true}`))
	set(s.Source, int64(4), "spec", "replicas")
	remember(&s.Input)
	expect{action: ReturnStatus}.check(t, Decide(s.Input))
	s.Source.Object["status"] = value(t, `{ready: true}`)
	expect{Hold, UntilRetry, ""}.check(t, Decide(s.Input))
}

func TestS1_WithoutRulesNothingHappens(t *testing.T) {
	expect{action: Nothing}.check(t, Decide(newScene(t, func(in *Input) { in.Rules[0] = widgetRule(); in.Naming = SameName{Pairs: NamespacePairs{}} }).Input))
	if Keeps(nil, object(t, blueWidget), SameName{}) {
		t.Error("an object matters without rules")
	}
	for verdict, change := range map[bool]func(*Rule){true: func(*Rule) {}, false: func(r *Rule) { r.Policy = PolicyAllowList }} {
		if got := Keeps([]*Rule{widgetRule(change)}, object(t, blueWidget), SameName{}); got != verdict {
			t.Errorf("Keeps is %v", got)
		}
	}
}

func TestReasonsAreGivenInOrderAndOnce(t *testing.T) {
	for _, s := range []*scene{
		newScene(t), newScene(t).crossed(), newScene(t).crossed(foreignTwin), newScene(t).crossed(unmatched), newScene(t).crossed(noSource),
		newScene(t, func(in *Input) { in.Rules = []*Rule{widgetRule(), widgetRule(func(r *Rule) { r.Name = "b" })} }),
	} {
		d := Decide(s.Input)
		seen := map[string]bool{}
		for _, r := range d.Reasons {
			if seen[r] || r == "" || strings.Contains(r, "%!") {
				t.Errorf("%q in %q", r, d.Reasons)
			}
			seen[r] = true
		}
	}
}
