package boundary

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

var (
	shopCluster = VirtualCluster{Name: "vc", HostNamespace: "host"}
	kupe        = Former{System: FormerKupe, Cluster: shopCluster}
	vcluster    = Former{System: FormerVCluster, Cluster: shopCluster}
)

// inVirtualCluster lets the scene's source cross by vCluster's names.
func inVirtualCluster(in *Input) {
	in.Naming = VirtualClusterNaming{Cluster: shopCluster}
	in.Place = types.NamespacedName{Namespace: "host", Name: "blue-x-shop-x-vc"}
}

// hostMarks are the labels and annotations of the copy that another system made of the scene's source.
func hostMarks(kupe bool) (labels, annotations map[string]any) {
	labels = map[string]any{"vcluster.loft.sh/managed-by": "vc", "vcluster.loft.sh/namespace": "shop", "color": "blue"}
	annotations = map[string]any{
		"vcluster.loft.sh/object-name": "blue", "vcluster.loft.sh/object-namespace": "shop", "vcluster.loft.sh/object-uid": "uid-blue", "note": "hello",
	}
	if kupe {
		labels["kupe.cloud/managed-by"], labels["kupe.cloud/tenant"] = "vcluster-sync", "acme"
	}
	return labels, annotations
}

// at makes an object at the scene's place.
func (s *scene) at(labels, annotations, spec map[string]any) map[string]any {
	return map[string]any{
		"apiVersion": "example.io/v1", "kind": "Widget", "spec": spec,
		"metadata": map[string]any{"name": s.Place.Name, "namespace": s.Place.Namespace, "labels": labels, "annotations": annotations},
	}
}

func TestP3_WhatIsAdopted(t *testing.T) {
	type marks struct{ labels, annotations map[string]any }
	for _, test := range []struct {
		name   string
		former Former
		kupe   bool // whose marks there are: the plugin's, or vCluster's own
		change func(in *Input, m marks)
		want   AdoptOutcome
		why    string
	}{
		{"a copy of the plugin", kupe, true, nil, AdoptTake, "is of the kupe plugin"},
		{"a copy of vCluster", vcluster, false, nil, AdoptTake, "is of vCluster"},
		{"vCluster's, for the plugin's", kupe, false, nil, AdoptRefuse, "does not carry the marks of the kupe plugin"},
		{"the plugin's in a shared namespace", kupe, true, func(_ *Input, m marks) { m.labels["vcluster.loft.sh/managed-by"] = "host" }, AdoptTake, ""},
		{"vCluster's in a shared namespace", vcluster, false, func(_ *Input, m marks) { m.labels["vcluster.loft.sh/managed-by"] = "host" }, AdoptRefuse, "of another virtual cluster, host"},
		{"another virtual cluster's", kupe, true, func(_ *Input, m marks) { m.labels["vcluster.loft.sh/managed-by"] = "vc2" }, AdoptRefuse, "of another virtual cluster, vc2"},
		{"no marker of the plugin", kupe, true, func(_ *Input, m marks) { delete(m.labels, "vcluster.loft.sh/managed-by") }, AdoptTake, ""},
		{"no marker of vCluster", vcluster, false, func(_ *Input, m marks) { delete(m.labels, "vcluster.loft.sh/managed-by") }, AdoptRefuse, "does not carry"},
		{"another manager of the plugin", kupe, true, func(_ *Input, m marks) { m.labels["kupe.cloud/managed-by"] = "else" }, AdoptRefuse, "does not carry"},
		{"another name", kupe, true, func(_ *Input, m marks) { m.annotations["vcluster.loft.sh/object-name"] = "red" }, AdoptRefuse, "for another source, shop/red"},
		{"another namespace", vcluster, false, func(_ *Input, m marks) { m.annotations["vcluster.loft.sh/object-namespace"] = "else" }, AdoptRefuse, "for another source, else/blue"},
		{"an earlier object", kupe, true, func(in *Input, _ marks) { newUID(in) }, AdoptRefuse, "came from an earlier object of this name (UID uid-blue, now uid-again)"},
		{"no UID", kupe, true, func(_ *Input, m marks) { delete(m.annotations, "vcluster.loft.sh/object-uid") }, AdoptRefuse, "does not carry"},
		{"a damaged UID", kupe, true, func(_ *Input, m marks) { m.annotations["vcluster.loft.sh/object-uid"] = int64(7) }, AdoptRefuse, "does not carry"},
		{"a source that goes", kupe, true, func(in *Input, _ marks) { dyingSource(in) }, AdoptRefuse, "is being deleted"},
		{"a source that no rule selects", kupe, true, func(in *Input, _ marks) { unmatched(in) }, AdoptNone, ""},
		{"a source that two rules select", kupe, true, func(in *Input, _ marks) {
			in.Rules = append(in.Rules, widgetRule(func(r *Rule) { r.Name = "more" }))
		}, AdoptRefuse, "rules widgets, more all select it"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newScene(t, inVirtualCluster)
			labels, annotations := hostMarks(test.kupe)
			if test.change != nil {
				test.change(&s.Input, marks{labels, annotations})
			}
			s.Twin = &unstructured.Unstructured{Object: s.at(labels, annotations, map[string]any{"replicas": int64(1)})}
			s.Twin.SetUID("uid-twin")
			s.Twin.SetResourceVersion("5")
			a := Adopt(s.Input, test.former)
			if a.Outcome != test.want || !strings.Contains(a.Why, test.why) {
				t.Errorf("%q, %q", a.Outcome, a.Why)
			}
			if (a.Body != nil) != (test.want == AdoptTake) {
				t.Errorf("body %v", a.Body)
			}
			if a.Body == nil {
				return
			}
			if metadata := asObject(a.Body["metadata"]); metadata["uid"] != "uid-twin" || metadata["resourceVersion"] != "5" {
				t.Errorf("not bound to what was looked at: %v", metadata)
			}
		})
	}
}

func TestP3_WhatIsThereAlready(t *testing.T) {
	s := newScene(t)
	if a := Adopt(s.Input, kupe); a.Outcome != AdoptCreate {
		t.Errorf("nothing there: %+v", a)
	}
	dyingSource(&s.Input)
	if a := Adopt(s.Input, kupe); a.Outcome != AdoptNone {
		t.Errorf("nothing there, and a source that goes: %+v", a)
	}
	s = newScene(t).crossed()
	if a := Adopt(s.Input, kupe); a.Outcome != AdoptOurs {
		t.Errorf("ours: %+v", a)
	}
	set(s.Twin, "shop/red", "metadata", "annotations", AnnotationSource)
	if a := Adopt(s.Input, kupe); a.Outcome != AdoptRefuse || !strings.Contains(a.Why, "is the twin of shop/red") {
		t.Errorf("ours for another: %+v", a)
	}
}

// Copies in the virtual cluster say where they came from by name.
func TestP3_WhichImportsAreAdopted(t *testing.T) {
	for from, want := range map[string]AdoptOutcome{"host/blue": AdoptTake, "host/red": AdoptRefuse, "": AdoptRefuse, "a/b/c": AdoptRefuse} {
		s := newScene(t, func(in *Input) {
			in.Identity = Identity{Cluster: "host", Home: "west", Instance: "main", ClusterUID: "uid-host"}
			in.Rules[0].Direction, in.Rules[0].ReturnStatus, in.Rules[0].TargetNamespace = FromRemote, false, "shop"
			in.Naming = Import{From: []string{"host"}}
			in.Source.SetNamespace("host")
			in.Key.Namespace = "host"
		})
		s.Twin = &unstructured.Unstructured{Object: s.at(map[string]any{"kupe.cloud/managed-by": "vcluster-sync"}, map[string]any{"kupe.cloud/synced-from": from}, nil)}
		if a := Adopt(s.Input, kupe); a.Outcome != want {
			t.Errorf("%q: %q, %q", from, a.Outcome, a.Why)
		}
		if a := Adopt(s.Input, vcluster); a.Outcome != AdoptRefuse {
			t.Errorf("%q, by vCluster: %q, %q", from, a.Outcome, a.Why)
		}
	}
}

func TestP3_WhichFormerIdentityIsAdopted(t *testing.T) {
	old := Identity{Cluster: "old", Home: "old", Instance: "main", ClusterUID: "uid-west"}
	former := Former{System: FormerOrigin, Home: "old", Instance: "main"}
	replaced := former
	replaced.Replaced = "uid-before"
	for _, test := range []struct {
		name   string
		former Former
		change func(in *Input) // of the former run
		later  func(in *Input)
		want   AdoptOutcome
		why    string
	}{
		{"the former ID", former, nil, nil, AdoptTake, "is of cluster ID old, instance main"},
		{"another ID", Former{System: FormerOrigin, Home: "older", Instance: "main"}, nil, nil, AdoptRefuse, "belongs to cluster ID old, instance main"},
		{"another instance", Former{System: FormerOrigin, Home: "old", Instance: "second"}, nil, nil, AdoptRefuse, "belongs to cluster ID old, instance main"},
		{"an earlier object", former, nil, newUID, AdoptRefuse, "came from an earlier object"},
		{"a damaged stamp", former, nil, func(in *Input) {
			unstructured.RemoveNestedField(in.Twin.Object, "metadata", "annotations", AnnotationApplied)
		}, AdoptRefuse, "does not carry the marks of cluster ID old"},
		{"a copy of a twin", former, nil, func(in *Input) { set(in.Twin, "shop/red", "metadata", "annotations", AnnotationTwin) }, AdoptRefuse, "does not carry"},
		{"another cluster", former, func(in *Input) { in.Identity.ClusterUID = "uid-before" }, newUID, AdoptRefuse, "add --replaced-cluster uid-before"},
		{"a replaced cluster", replaced, func(in *Input) { in.Identity.ClusterUID = "uid-before" }, newUID, AdoptTake, "the cluster that this one replaced (UID of kube-system uid-before)"},
		{"an earlier object of this cluster", replaced, nil, newUID, AdoptRefuse, "came from an earlier object"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newScene(t, func(in *Input) { in.Identity = old })
			if test.change != nil {
				test.change(&s.Input)
			}
			s.crossed(func(in *Input) { in.Identity = west })
			if test.later != nil {
				test.later(&s.Input)
			}
			a := Adopt(s.Input, test.former)
			if a.Outcome != test.want || !strings.Contains(a.Why, test.why) {
				t.Errorf("%q, %q", a.Outcome, a.Why)
			}
			if len(a.Managers) > 0 {
				t.Errorf("our own entry is let go of: %v", a.Managers)
			}
		})
	}
}

// The rule of a former stamp keeps its source (S5).
func TestS5_TheFormerRuleKeepsItsSource(t *testing.T) {
	former := Former{System: FormerOrigin, Home: "old", Instance: "main"}
	s := newScene(t, func(in *Input) {
		in.Identity = Identity{Cluster: "old", Home: "old", Instance: "main", ClusterUID: "uid-west"}
	})
	s.crossed(func(in *Input) { in.Identity = west })
	s.Rules = append(s.Rules, widgetRule(func(r *Rule) { r.Name = "more" }))
	claim, _ := former.Claim(s.Twin, ToRemote, west)
	s.Stamped = claim.Rule
	if a := Adopt(s.Input, former); a.Outcome != AdoptTake || a.Rule.Name != "widgets" {
		t.Errorf("%+v", a)
	}
}

// After an adoption the former manager owns nothing: the next run is in step, and a field that the source drops goes.
func TestO1_TheFormerManagerLetsGo(t *testing.T) {
	for _, applied := range []bool{true, false} {
		s := newScene(t, inVirtualCluster, func(in *Input) { in.Rules[0].RemoteOwned = []Path{MustPath("spec.replicas")} })
		server := newServer(t, widgetTypes(t), widgetGVK)
		labels, annotations := hostMarks(true)
		labels["extra"] = "more"
		made := s.at(labels, annotations, map[string]any{"image": "nginx", "replicas": int64(9)})
		if applied {
			server.apply(made, "generic-sync")
		} else {
			server.update("generic-sync", func(o *unstructured.Unstructured) { maps.Copy(o.Object, made) })
		}
		server.update("kubectl", func(o *unstructured.Unstructured) {
			set(o, "yes", "metadata", "annotations", "theirs")
			set(o, "other", "metadata", "labels", "kupe.cloud/tenant")
		})
		s.Twin = server.twin()
		a := Adopt(s.Input, kupe)
		if want := "is of the kupe plugin; keeps what the source does not have: metadata.labels.extra"; a.Why != want {
			t.Errorf("%q, expected %q", a.Why, want)
		}
		if diff := cmp.Diff([]string{"generic-sync"}, a.Managers); diff != "" {
			t.Error(diff)
		}

		server.apply(a.Body, FieldManager)
		s.Twin = server.twin()
		tidy := Adopt(s.Input, kupe)
		if tidy.Outcome != AdoptTidy {
			t.Errorf("before the managers let go: %+v", tidy)
		}
		patch := LetGo(s.Twin, a.Rule, a.Managers)
		var paths []string
		for _, op := range patch {
			paths = append(paths, op["op"].(string)+" "+op["path"].(string))
		}
		want := []string{
			"test /metadata/uid", "replace /metadata/resourceVersion", "replace /metadata/managedFields",
			"remove /metadata/labels/kupe.cloud~1managed-by",
		}
		if diff := cmp.Diff(want, paths); diff != "" {
			t.Error(diff)
		}
		set(s.Twin, patch[2]["value"], "metadata", "managedFields")
		if LetGo(s.Twin, a.Rule, a.Managers) != nil {
			t.Error("there is still something to let go of")
		}
		unstructured.RemoveNestedField(s.Twin.Object, "metadata", "labels", "kupe.cloud/managed-by")
		if d := Decide(s.Input); d.Action != Nothing {
			t.Errorf("the next run: %s %q", d.Action, d.Reasons)
		}
	}
}

func TestN4_WhichNamespacesAreAdopted(t *testing.T) {
	former := Former{System: FormerOrigin, Home: "old", Instance: "main"}
	for writer, want := range map[string]bool{
		"old/main/uid-west": true, "old/second/uid-west": false, "old/main/uid-else": false, "west/main/uid-west": false, "": false,
	} {
		ns := object(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: far, uid: u, resourceVersion: \"3\", labels: {isthmus.dev/origin: old}, annotations: {isthmus.dev/writer: \""+writer+"\"}}\n")
		body := former.AdoptNamespace(ns, ToRemote, west)
		if (body != nil) != want {
			t.Errorf("%q: %v", writer, body)
		}
		if want && asObject(body["metadata"])["uid"] != "u" {
			t.Errorf("not bound: %v", body)
		}
		if kupe.AdoptNamespace(ns, ToRemote, west) != nil {
			t.Errorf("%q: by another system", writer)
		}
	}
}

// The remote side's ID is in the stamps of imports alone: under another one, the present cluster ID names them.
func TestP3_ImportsUnderAFormerRemoteID(t *testing.T) {
	identity := func(remote string) Identity {
		return Identity{Cluster: remote, Home: "west", Instance: "main", ClusterUID: "uid-host"}
	}
	s := newScene(t, func(in *Input) {
		in.Identity = identity("old")
		in.Rules[0].Direction, in.Rules[0].ReturnStatus = FromRemote, false
		in.Naming = Import{}
	})
	s.crossed(func(in *Input) { in.Identity = identity("new") })
	for home, want := range map[string]AdoptOutcome{"west": AdoptTake, "old": AdoptRefuse} {
		if a := Adopt(s.Input, Former{System: FormerOrigin, Home: home, Instance: "main"}); a.Outcome != want {
			t.Errorf("%s: %q, %q", home, a.Outcome, a.Why)
		}
	}
}
