package boundary

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// bodyOf is the apply body of a source without the stamp, as the remote side is to see it.
func bodyOf(t *testing.T, source string, change func(*Input)) map[string]any {
	t.Helper()
	s := newScene(t, func(in *Input) {
		in.Source = object(t, source)
		in.Rules[0].Kind = in.Source.GroupVersionKind()
		in.Rules[0].ReturnStatus = false
		in.Key, in.Place = nameOf(in.Source), nameOf(in.Source)
	})
	if change != nil {
		change(&s.Input)
	}
	before := s.Source.DeepCopy()
	d := Decide(s.Input)
	if d.Action != Create {
		t.Fatalf("%s: %q", d.Action, d.Reasons)
	}
	if diff := cmp.Diff(before, s.Source); diff != "" {
		t.Errorf("the source was changed (-want +got):\n%s", diff)
	}
	body := (&unstructured.Unstructured{Object: d.Body}).DeepCopy()
	for _, key := range stampKeys {
		unstructured.RemoveNestedField(body.Object, "metadata", "labels", key)
		unstructured.RemoveNestedField(body.Object, "metadata", "annotations", key)
	}
	for _, field := range []string{"labels", "annotations"} {
		if len(rawMetadata(body, field)) == 0 {
			unstructured.RemoveNestedField(body.Object, "metadata", field)
		}
	}
	unstructured.RemoveNestedField(body.Object, "metadata", "resourceVersion")
	return body.Object
}

func remoteOwns(paths ...string) func(*Input) {
	return func(in *Input) {
		for _, p := range paths {
			in.Rules[0].RemoteOwned = append(in.Rules[0].RemoteOwned, MustPath(p))
		}
	}
}

func TestO1_WhatCrosses(t *testing.T) {
	undeclared := func(paths ...string) func(*Input) {
		return func(in *Input) {
			for _, p := range paths {
				in.Undeclared = append(in.Undeclared, MustPath(p))
			}
		}
	}
	for _, test := range []struct {
		name, source string
		change       func(*Input)
		want         string
	}{
		{
			"P6: metadata stays but for labels and annotations",
			`{apiVersion: example.io/v1, kind: Widget, metadata: {name: blue, namespace: shop, uid: u, resourceVersion: "1", generation: 4, generateName: bl, creationTimestamp: "2030-01-01T00:00:00Z",
			  finalizers: [a/b], ownerReferences: [{name: x}], managedFields: [{manager: m}], selfLink: x, deletionGracePeriodSeconds: 1, labels: {a: b}, annotations: {c: d, kubectl.kubernetes.io/last-applied-configuration: "{}"}}, spec: {x: 1}, status: {x: 1}}`, nil,
			`{apiVersion: example.io/v1, kind: Widget, metadata: {name: blue, namespace: shop, labels: {a: b}, annotations: {c: d}}, spec: {x: 1}}`,
		},
		{
			"every other top-level field crosses, null and empty ones too",
			`{apiVersion: example.io/v1, kind: Widget, metadata: {name: blue, namespace: shop, uid: u, labels: null}, spec: null, data: {}, list: [], flag: false, nullable: {a: null}}`, nil,
			`{apiVersion: example.io/v1, kind: Widget, metadata: {name: blue, namespace: shop}, spec: null, data: {}, list: [], flag: false, nullable: {a: null}}`,
		},
		{
			"a Secret",
			`{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: shop, uid: u}, type: kubernetes.io/tls, immutable: true, data: {tls.crt: eA==}, stringData: {x: "1"}}`, nil,
			`{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: shop}, type: kubernetes.io/tls, immutable: true, data: {tls.crt: eA==}, stringData: {x: "1"}}`,
		},
		{
			"a Service keeps what a server allocates",
			`{apiVersion: v1, kind: Service, metadata: {name: s, namespace: shop, uid: u}, spec: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ipFamilies: [IPv4], ipFamilyPolicy: SingleStack, healthCheckNodePort: 5, type: NodePort, ports: [{port: 80, nodePort: 30000}, {port: 81, nodePort: 30001}]}}`, nil,
			`{apiVersion: v1, kind: Service, metadata: {name: s, namespace: shop}, spec: {ipFamilyPolicy: SingleStack, type: NodePort, ports: [{port: 80}, {port: 81}]}}`,
		},
		{
			"a headless Service stays headless",
			`{apiVersion: v1, kind: Service, metadata: {name: s, namespace: shop, uid: u}, spec: {clusterIP: None, clusterIPs: [None], ipFamilies: [IPv4], ports: [{port: 80}]}}`, nil,
			`{apiVersion: v1, kind: Service, metadata: {name: s, namespace: shop}, spec: {clusterIP: None, clusterIPs: [None], ports: [{port: 80}]}}`,
		},
		{
			"an external name",
			`{apiVersion: v1, kind: Service, metadata: {name: s, namespace: shop, uid: u}, spec: {type: ExternalName, externalName: x.example}}`, nil,
			`{apiVersion: v1, kind: Service, metadata: {name: s, namespace: shop}, spec: {type: ExternalName, externalName: x.example}}`,
		},
		{
			"a claim",
			`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: s, namespace: shop, uid: u, annotations: {pv.kubernetes.io/bind-completed: "yes", a: b}}, spec: {volumeName: pv-1, accessModes: [ReadWriteOnce]}}`, nil,
			`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: s, namespace: shop, annotations: {a: b}}, spec: {accessModes: [ReadWriteOnce]}}`,
		},
		{
			"a Job",
			`{apiVersion: batch/v1, kind: Job, metadata: {name: s, namespace: shop, uid: u, labels: {controller-uid: x, a: b}}, spec: {selector: {matchLabels: {controller-uid: x}}, template: {metadata: {labels: {controller-uid: x, job-name: s, c: d}}}}}`, nil,
			`{apiVersion: batch/v1, kind: Job, metadata: {name: s, namespace: shop, labels: {a: b}}, spec: {template: {metadata: {labels: {c: d}}}}}`,
		},
		{
			"a Job with a selector of its own",
			`{apiVersion: batch/v1, kind: Job, metadata: {name: s, namespace: shop, uid: u}, spec: {manualSelector: true, selector: {matchLabels: {c: d}}, template: {metadata: {labels: {c: d}}}}}`, nil,
			`{apiVersion: batch/v1, kind: Job, metadata: {name: s, namespace: shop}, spec: {manualSelector: true, selector: {matchLabels: {c: d}}, template: {metadata: {labels: {c: d}}}}}`,
		},
		{
			"Argo CD's operation",
			`{apiVersion: argoproj.io/v1alpha1, kind: Application, metadata: {name: s, namespace: shop, uid: u}, operation: {x: 1}, spec: {p: q}}`, nil,
			`{apiVersion: argoproj.io/v1alpha1, kind: Application, metadata: {name: s, namespace: shop}, spec: {p: q}}`,
		},
		{
			"a default holds for its versions alone",
			`{apiVersion: argoproj.io/v1, kind: Application, metadata: {name: s, namespace: shop, uid: u}, operation: {x: 1}}`, nil,
			`{apiVersion: argoproj.io/v1, kind: Application, metadata: {name: s, namespace: shop}, operation: {x: 1}}`,
		},
		{
			"O3: remote-owned fields do not cross",
			`{apiVersion: example.io/v1, kind: Widget, metadata: {name: blue, namespace: shop, uid: u, labels: {a.b/c: d, e: f}, annotations: {g: h}}, operation: 1, spec: {replicas: 1, image: x, ports: [{p: 1, m: 2}, 5, {p: 3}]}}`,
			remoteOwns("spec.replicas", "operation", "spec.ports[*].m", `metadata.labels["a.b/c"]`, "metadata.annotations.g", "spec.none.such"),
			`{apiVersion: example.io/v1, kind: Widget, metadata: {name: blue, namespace: shop, labels: {e: f}}, spec: {image: x, ports: [{p: 1}, 5, {p: 3}]}}`,
		},
		{
			"O3: whole labels and annotations can be the target's",
			`{apiVersion: example.io/v1, kind: Widget, metadata: {name: blue, namespace: shop, uid: u, labels: {e: f}, annotations: {g: h}}, spec: {}}`,
			remoteOwns("metadata.labels", "metadata.annotations"),
			`{apiVersion: example.io/v1, kind: Widget, metadata: {name: blue, namespace: shop}, spec: {}}`,
		},
		{
			"O3: even what names the twin can't be given away",
			`{apiVersion: example.io/v1, kind: Widget, metadata: {name: blue, namespace: shop, uid: u, labels: {e: f}}, spec: {}}`,
			remoteOwns("metadata", "apiVersion", "kind"),
			`{apiVersion: example.io/v1, kind: Widget, metadata: {name: blue, namespace: shop}, spec: {}}`,
		},
		{
			"O7: undeclared fields are left out",
			`{apiVersion: example.io/v1, kind: Widget, metadata: {name: blue, namespace: shop, uid: u}, spec: {a: 1, new: {x: 1}, list: [{new: 1, b: 2}, {b: 3}]}, more: 1}`,
			undeclared("spec.new", "spec.list[*].new", "more"),
			`{apiVersion: example.io/v1, kind: Widget, metadata: {name: blue, namespace: shop}, spec: {a: 1, list: [{b: 2}, {b: 3}]}}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := bodyOf(t, test.source, test.change)
			if diff := cmp.Diff(object(t, test.want).Object, got); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
		})
	}
}

func TestP2_KeysThatDoNotCross(t *testing.T) {
	reserved := []string{
		"isthmus.dev/anything", "vcluster.loft.sh/force-sync", "kupe.cloud/tenant", "offloading.liqo.io/x",
		"isthmus.dev/allow-reflection", "isthmus.dev/skip-reflection", "liqo.io/allow-reflection", "liqo.io/skip-reflection",
		"kubectl.kubernetes.io/last-applied-configuration",
	}
	dropped := []string{
		"argocd.argoproj.io/tracking-id", "argocd.argoproj.io/refresh", "meta.helm.sh/release-name", "meta.helm.sh/release-namespace",
		"kapp.k14s.io/app", "applyset.kubernetes.io/part-of", "deployment.kubernetes.io/revision",
	}
	free := []string{"a", "app.kubernetes.io/name", "argocd.argoproj.io/sync-wave", "isthmus.development/x", "liqo.io/remote", "helm.sh/chart", "meta.helm.sh", "xmeta.helm.sh/a"}
	for _, test := range []struct {
		name                    string
		rule                    func(*Rule)
		reserved, dropped, free bool
	}{
		{"defaults", func(*Rule) {}, false, false, true},
		{"all dropped", func(r *Rule) { r.DropKeys = free }, false, false, false},
		{"all kept", func(r *Rule) {
			r.KeepKeys = append(append([]string{"isthmus.dev/*", "vcluster.loft.sh/*", "kubectl.kubernetes.io/*"}, reserved...), dropped...)
		}, false, true, true},
		{"kept and dropped", func(r *Rule) { r.KeepKeys, r.DropKeys = dropped, dropped }, false, false, true},
		{"kept by prefix", func(r *Rule) {
			r.KeepKeys = []string{"argocd.argoproj.io/*", "meta.helm.sh/*", "kapp.k14s.io/*", "applyset.kubernetes.io/*", "deployment.kubernetes.io/*"}
		}, false, true, true},
		{"a pattern without a slash is a plain key", func(r *Rule) { r.DropKeys, r.KeepKeys = []string{"a*", "*"}, []string{"*", "isthmus*"} }, false, false, true},
	} {
		rule := widgetRule(test.rule)
		for _, group := range []struct {
			keys []string
			want bool
		}{{reserved, test.reserved}, {dropped, test.dropped}, {free, test.free}} {
			for _, key := range group.keys {
				if got := rule.crosses(key); got != group.want {
					t.Errorf("%s: %s crosses: %v", test.name, key, got)
				}
			}
		}
	}
	for _, key := range reserved {
		if !ReservedKey(key) {
			t.Errorf("%s is not reserved", key)
		}
	}
}

func TestO2_LabelsAndAnnotations(t *testing.T) {
	source := `{apiVersion: example.io/v1, kind: Widget, metadata: {name: blue, namespace: shop, uid: u, labels: {team: red, tier: web}, annotations: {note: x}}}`
	got := bodyOf(t, source, func(in *Input) {
		in.Rules[0].DropKeys = []string{"team"}
		in.Rules[0].RemoteOwned = []Path{MustPath("metadata.labels.extra")}
		in.Rules[0].ExtraLabels = map[string]string{"team": "blue", "tier": "extra", "extra": "yes", LabelOrigin: "forged"}
	})
	want := map[string]any{"name": "blue", "namespace": "shop", "labels": map[string]any{"team": "blue", "tier": "extra", "extra": "yes"}, "annotations": map[string]any{"note": "x"}}
	if diff := cmp.Diff(want, got["metadata"]); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
}

func TestO2_TheStampCantBeForged(t *testing.T) {
	s := newScene(t, func(in *Input) { in.Rules[0].ExtraLabels = map[string]string{LabelOrigin: "forged"} }).crossed()
	if stamp, whole := ReadStamp(s.Twin); !whole || stamp.Origin != "west" {
		t.Errorf("stamp %v, whole %v", stamp, whole)
	}
}

func TestO7_UndeclaredFieldsAreReportedOnce(t *testing.T) {
	undeclared := func(in *Input) { in.Undeclared = []Path{MustPath("spec.image"), MustPath(`spec["x.y"]`)} }
	report := `left out: spec.image, spec["x.y"]`
	s := newScene(t, undeclared)
	expect{action: Create, event: report}.check(t, Decide(s.Input))
	s.crossedQuietly()
	expect{action: Nothing}.check(t, Decide(s.Input)) // no Event
	s.Undeclared = nil                                // the remote schema learns the field
	expect{action: Apply}.check(t, Decide(s.Input))
}

// crossedQuietly is crossed for a scene whose Create comes with Events.
func (s *scene) crossedQuietly() {
	server := newServer(s.t, widgetTypes(s.t), widgetGVK)
	server.apply(Decide(s.Input).Body, FieldManager)
	s.Twin = server.twin()
}

func TestO3_PathsThroughListsNeedKeys(t *testing.T) {
	schema := &Schema{Type: "object", Properties: map[string]*Schema{"spec": {Type: "object", Properties: map[string]*Schema{
		"keyed":  {Type: "array", ListType: "map", ListMapKeys: []string{"name"}, Items: &Schema{Type: "object", Properties: map[string]*Schema{"n": {}}}},
		"atomic": {Type: "array", Items: &Schema{Type: "object", Properties: map[string]*Schema{"n": {}}}},
		"free":   {PreserveUnknown: true},
		"whole":  {Type: "object", MapType: "atomic", Properties: map[string]*Schema{"n": {}}},
	}}}}
	for path, ok := range map[string]bool{
		"spec.keyed[*].n": true, "spec.atomic[*].n": false, "spec.atomic": true, "spec.free.x[*].n": false, "spec.none[*].n": true, "metadata.labels.a": true,
		"spec.keyed[*].name": false, "spec.whole": true, "spec.whole.n": false,
	} {
		rule := widgetRule(func(r *Rule) { r.RemoteOwned = []Path{MustPath(path)} })
		if err := rule.CheckRemoteOwned(schema); (err == nil) != ok || err != nil && !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestO1_DefaultsBranchOnNoOtherKind(t *testing.T) {
	for _, row := range kindDefaults {
		gvk := schema.GroupVersionKind{Group: row.group, Kind: row.kind, Version: "v1alpha1"}
		if got := defaultsOf(gvk); got.kind != row.kind || got.group != row.group {
			t.Errorf("%v has no row", gvk)
		}
		gvk.Group = "other.example"
		if got := defaultsOf(gvk); got.kind != "" {
			t.Errorf("%v has the row of another group", gvk)
		}
	}
}
