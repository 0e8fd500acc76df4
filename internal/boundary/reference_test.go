package boundary

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// referring is a source in the virtual cluster acme that refers to other objects of some kinds.
func referring(t *testing.T, refs string, resolve Resolver) *scene {
	return newScene(t, func(in *Input) {
		in.Naming = VirtualClusterNaming{Cluster: acme, Kinds: toAcme.Kinds}
		in.Resolve = resolve
		in.Rules[0].Patches = compile(t, "any.refs[*] rewriteRef")
		in.Source.Object["any"] = map[string]any{"refs": value(t, refs)}
		in.Place = types.NamespacedName{Namespace: acme.HostNamespace, Name: acme.HostName("shop", "blue")}
	})
}

// refersTo are the names in the references of an apply body.
func refersTo(d Decision) (names []string) {
	refs, _, _ := unstructured.NestedSlice(d.Body, "any", "refs")
	for _, ref := range refs {
		name, _ := asObject(ref)["name"].(string)
		names = append(names, name)
	}
	return names
}

func TestX3_WhatAReferenceToAnObjectBecomes(t *testing.T) {
	const nomad = `[{group: example.io, kind: Nomad, name: red, namespace: shop}]`
	own, shared := acme.HostName("shop", "red"), acme.SharedName("shop", "red")
	known := func(r Resolution) Resolver { return func(Object) Resolution { return r } }
	at := func(namespace, name string) Resolution {
		return Resolution{true, true, types.NamespacedName{Namespace: namespace, Name: name}}
	}
	for _, test := range []struct {
		name    string
		refs    string
		resolve Resolver
		want    expect
		refers  string
		absent  bool
		roams   bool
	}{
		{"in the shared namespace", nomad, known(at("platform", shared)), expect{action: Create}, shared, false, true},
		{"in its own", nomad, known(at(acme.HostNamespace, own)), expect{action: Create}, own, false, true},
		{"nowhere", nomad, known(Resolution{Known: true}), expect{action: Create}, own, true, true},
		{"not known where", nomad, known(Resolution{}), expect{Hold, UntilReference, ""}, "", false, true},
		{"not asked", nomad, nil, expect{action: Create}, own, false, true},
		{"of a kind with one place", `[{group: example.io, kind: Widget, name: red}]`, known(at(acme.HostNamespace, own)), expect{action: Create}, own, false, false},
		{"of a kind with one place, nowhere", `[{group: example.io, kind: Widget, name: red}]`, known(Resolution{Known: true}), expect{action: Create}, own, true, false},
		{"of a kind with one place, not known", `[{group: example.io, kind: Widget, name: red}]`, known(Resolution{}), expect{action: Create}, own, false, false},
		{"of a core kind that vCluster carries", `[{apiVersion: v1, kind: Service, name: red}]`, known(Resolution{Known: true}), expect{action: Create}, own, false, false},
		{"of a core kind that vCluster carries for pods", `[{apiVersion: v1, kind: Secret, name: red}]`, known(Resolution{Known: true}), expect{action: Create, event: "refers to what no rule carries, and vCluster itself only where a pod uses it: any.refs[0] refers to Secret shop/red"}, own, false, false},
		{"of a kind that no rule has", `[{apiVersion: other.io/v1, kind: Widget, name: red}]`, known(at("x", "y")), expect{action: Create, event: "refers to what does not cross by any rule: any.refs[0] refers to Widget shop/red"}, own, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := Decide(referring(t, test.refs, test.resolve).Input)
			test.want.check(t, d)
			if names := strings.Join(refersTo(d), " "); names != test.refers {
				t.Errorf("it refers to %q, expected %q", names, test.refers)
			}
			if absent := d.Absent != ""; absent != test.absent {
				t.Errorf("absent: %q", d.Absent)
			}
			var roams []Object
			if test.roams {
				roams = []Object{{schema.GroupKind{Group: "example.io", Kind: "Nomad"}, types.NamespacedName{Namespace: "shop", Name: "red"}}}
			}
			if diff := cmp.Diff(roams, d.Roaming); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A decision says into which other namespaces the source refers, for their counterparts may change.
func TestX2_WhichNamespacesASourceRefersInto(t *testing.T) {
	s := newScene(t, func(in *Input) {
		in.Naming = SameName{Pairs: NamespacePairs{"shop": "shop", "far": "away"}, Origin: "west"}
		in.Rules[0].Patches = compile(t, "any.refs[*] rewriteRef", "any.namespaces[*] rewriteNamespace")
		in.Source.Object["any"] = map[string]any{
			"refs": value(t, `[{apiVersion: v1, kind: Secret, name: red}, {apiVersion: v1, kind: Secret, name: red, namespace: shop},
{apiVersion: v1, kind: Secret, name: red, namespace: far}, {apiVersion: v1, kind: Namespace, name: unknown}, {apiVersion: v1, kind: Namespace, name: far}]`),
			"namespaces": value(t, `[shop, near, far]`),
		}
	})
	d := Decide(s.Input)
	expect{action: Create, event: "refers to what does not cross by any rule"}.check(t, d)
	slices.Sort(d.Abroad)
	if diff := cmp.Diff([]string{"far", "near", "unknown"}, d.Abroad); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// What moves is followed by an apply; what is not known keeps a twin, and a status, as they are.
func TestX3_AReferenceFollowsItsObject(t *testing.T) {
	place := Resolution{true, true, types.NamespacedName{Namespace: acme.HostNamespace, Name: "here"}}
	s := referring(t, `[{group: example.io, kind: Nomad, name: red, namespace: shop}]`, func(Object) Resolution { return place }).crossed()
	expect{action: Nothing}.check(t, Decide(s.Input))
	place.Place = types.NamespacedName{Namespace: "platform", Name: "there"}
	d := Decide(s.Input)
	expect{action: Apply}.check(t, d)
	if diff := cmp.Diff([]string{"there"}, refersTo(d)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	place = Resolution{}
	d = Decide(s.Input)
	expect{Hold, UntilReference, ""}.check(t, d)
	if want := "any.refs[0] refers to Nomad shop/red, and in which namespace that is on the other side is not known yet"; d.Reasons[len(d.Reasons)-1] != want {
		t.Errorf("%q", d.Reasons)
	}
	twinStatus(t, "{ready: true}")(&s.Input)
	expect{Hold, UntilReference, ""}.check(t, Decide(s.Input))
	// What the deletion table says comes first.
	newUID(&s.Input)
	expect{action: Delete}.check(t, Decide(s.Input))
	dyingSource(&s.Input)
	expect{action: Delete}.check(t, Decide(s.Input))
}

// References to objects that are not there are told when these have had time to come, once.
func TestX3_AbsentObjectsAreToldAfterAWhile(t *testing.T) {
	absent := map[string]bool{"red": true, "green": true}
	s := referring(t, `[{group: example.io, kind: Widget, name: red}, {group: example.io, kind: Widget, name: green}, {group: example.io, kind: Widget, name: grey}]`,
		func(o Object) Resolution {
			return Resolution{Known: true, Crosses: !absent[o.Name.Name], Place: types.NamespacedName{Namespace: acme.HostNamespace, Name: acme.HostName(o.Name.Namespace, o.Name.Name)}}
		})
	d := Decide(s.Input)
	expect{action: Create}.check(t, d)
	const told = "refers to objects that do not exist, or that no rule selects: any.refs[0] refers to Widget shop/red, which becomes Widget "
	if !strings.HasPrefix(d.Absent, told) || strings.Contains(d.Absent, "grey") {
		t.Errorf("%q", d.Absent)
	}
	s.crossed()
	expect{action: Nothing}.check(t, Decide(s.Input)) // as after a restart
	s.Memory.AbsentSince = noon.Add(time.Second - AbsentGrace)
	expect{action: Nothing}.check(t, Decide(s.Input))
	s.Memory.AbsentSince = noon.Add(-AbsentGrace)
	d = Decide(s.Input)
	expect{Nothing, "", told}.check(t, d)
	if !d.Events[0].Warning || d.Events[0].Reason != ReasonPatchFailed {
		t.Errorf("%+v", d.Events[0])
	}
	set(s.Source, int64(9), "spec", "replicas")
	expect{Apply, "", told}.check(t, Decide(s.Input))
	s.Memory.Absent = d.Absent
	expect{action: Apply}.check(t, Decide(s.Input))
	absent["green"] = false // another text
	expect{Apply, "", told}.check(t, Decide(s.Input))
	absent["red"] = false
	if d = Decide(s.Input); d.Absent != "" {
		t.Errorf("%q", d.Absent)
	}
	expect{action: Apply}.check(t, d)
}
