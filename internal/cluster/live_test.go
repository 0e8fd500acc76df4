package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"isthmus.dev/isthmus/internal/controlplane"
)

// crd returns a CRD of kind in group live.example.io, with or without a status subresource.
func crd(kind string, status bool) string {
	plural := strings.ToLower(kind) + "s"
	sub := ""
	if status {
		sub = "subresources: {status: {}}"
	}
	return fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[2]s.live.example.io}
spec:
  group: live.example.io
  scope: Namespaced
  names: {kind: %[1]s, plural: %[2]s, singular: %[3]s, listKind: %[1]sList}
  versions:
  - name: v1
    served: true
    storage: true
    %[4]s
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: integer, default: 2}
              port: {x-kubernetes-int-or-string: true}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
              bare: {type: object}
              labels: {type: object, additionalProperties: {type: string}}
              items: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name], items: {type: object, required: [name], properties: {name: {type: string}, nested: {type: object, properties: {a: {type: string}}}}}}
              embedded: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
`, kind, plural, strings.ToLower(kind), sub)
}

func live(t *testing.T) (*controlplane.Cluster, *Cluster) {
	t.Helper()
	cp := controlplane.Shared(t, "remote")
	c, _ := connect(t, cp.Kubeconfig())
	return cp, c
}

func apply(t *testing.T, cp *controlplane.Cluster, manifest string) {
	t.Helper()
	if err := cp.Apply(t.Context(), []byte(manifest)); err != nil {
		t.Fatal(err)
	}
}

func gvk(apiVersion, kind string) schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(apiVersion, kind)
}

func TestLiveDiscovery(t *testing.T) {
	cp, c := live(t)
	apply(t, cp, crd("Gadget", true)+"---"+crd("Plain", false))
	uid, err := c.UID(t.Context())
	if err != nil || uid != string(cp.UID()) {
		t.Errorf("UID %q, %v; want %q", uid, err, cp.UID())
	}
	for _, tc := range []struct {
		gvk                schema.GroupVersionKind
		resource           string
		namespaced, status bool
	}{
		{gvk("v1", "ConfigMap"), "configmaps", true, false},
		{gvk("v1", "Namespace"), "namespaces", false, true},
		{gvk("v1", "Service"), "services", true, true},
		{gvk("apps/v1", "Deployment"), "deployments", true, true},
		{gvk("networking.k8s.io/v1", "Ingress"), "ingresses", true, true},
		{gvk("live.example.io/v1", "Gadget"), "gadgets", true, true},
		{gvk("live.example.io/v1", "Plain"), "plains", true, false},
	} {
		r, err := c.Resource(t.Context(), tc.gvk)
		if err != nil || r.GroupVersionResource != tc.gvk.GroupVersion().WithResource(tc.resource) || r.Namespaced != tc.namespaced || r.Status != tc.status {
			t.Errorf("%v: %+v, %v", tc.gvk, r, err)
		}
		if !r.Verbs.HasAll("get", "list", "watch", "patch") {
			t.Errorf("%v: verbs %v", tc.gvk, r.Verbs)
		}
	}
	for _, none := range []schema.GroupVersionKind{gvk("none.example.io/v1", "X"), gvk("live.example.io/v9", "Gadget"), gvk("live.example.io/v1", "X"), gvk("v1", "X")} {
		if _, err := c.Resource(t.Context(), none); !errors.Is(err, ErrNotServed) {
			t.Errorf("%v: %v", none, err)
		}
		if _, err := c.Schema(t.Context(), none); !errors.Is(err, ErrNotServed) {
			t.Errorf("schema of %v: %v", none, err)
		}
	}
}

func TestLiveCRD(t *testing.T) {
	cp, c := live(t)
	gr := schema.GroupResource{Group: "live.example.io", Resource: "comets"}
	var calls atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c.WatchCRD(ctx, gr, func() { calls.Add(1) })
	eventually(t, 10*time.Second, "the watch of an absent CRD begins", func() bool { return calls.Load() > 0 })
	if got, err := c.CRD(t.Context(), gr); got != nil || err != nil {
		t.Errorf("absent: %+v, %v", got, err)
	}
	if got, err := c.CRD(t.Context(), schema.GroupResource{Resource: "configmaps"}); got != nil || err != nil {
		t.Errorf("built in: %+v, %v", got, err)
	}
	before := calls.Load()
	apply(t, cp, crd("Comet", true))
	eventually(t, 10*time.Second, "the CRD's coming is told", func() bool { return calls.Load() > before })
	got, err := c.CRD(t.Context(), gr)
	if err != nil || got == nil || got.UID == "" || got.Generation != 1 || got.Terminating || !got.Established {
		t.Fatalf("present: %+v, %v", got, err)
	}
	first := got.UID

	// A finalizer holds an object, and with it the CRD.
	obj := object("live.example.io/v1", "Comet", "default", "held")
	obj.SetFinalizers([]string{"example.io/hold"})
	comets := c.Dynamic().Resource(gr.WithVersion("v1")).Namespace("default")
	if _, err := comets.Create(t.Context(), obj, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	before = calls.Load()
	if err := c.Dynamic().Resource(crds).Delete(t.Context(), gr.String(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "the CRD is seen terminating", func() bool {
		got, err := c.CRD(t.Context(), gr)
		return err == nil && got != nil && got.Terminating && calls.Load() > before
	})
	if _, err := comets.Patch(t.Context(), "held", types.JSONPatchType, []byte(`[{"op":"remove","path":"/metadata/finalizers"}]`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "the CRD is gone", func() bool {
		got, err := c.CRD(t.Context(), gr)
		return err == nil && got == nil
	})
	apply(t, cp, crd("Comet", true))
	if got, err := c.CRD(t.Context(), gr); err != nil || got == nil || got.UID == first {
		t.Errorf("come back: %+v, %v", got, err)
	}
	// The cluster is shared with the next run of this test.
	if err := c.Dynamic().Resource(crds).Delete(t.Context(), gr.String(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "the CRD is gone again", func() bool {
		got, err := c.CRD(t.Context(), gr)
		return err == nil && got == nil
	})
}

func object(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"namespace": namespace, "name": name},
	}}
}

// O7: what the schema does not declare is exactly what the server refuses to apply or drops, path by path.
func TestO7_LiveSchemaAgreesWithTheServer(t *testing.T) {
	cp, c := live(t)
	apply(t, cp, crd("Schematic", true))
	for _, tc := range []struct {
		name, content string
		undeclared    []string
	}{
		{"crd", `
apiVersion: live.example.io/v1
kind: Schematic
spec: {size: 1, port: http, free: {a: {b: 1}}, bare: {}, labels: {any: x}, items: [{name: a, nested: {a: x}}], embedded: {apiVersion: v1, kind: X, metadata: {name: n}, spec: {z: 1}}}`, nil},
		{"crd, undeclared", `
apiVersion: live.example.io/v1
kind: Schematic
spec: {nope: 1, items: [{name: a, nested: {b: x}}], bare: {lost: 1}}`, []string{"spec.bare.lost", "spec.items[*].nested.b", "spec.nope"}},
		{"configmap", `
apiVersion: v1
kind: ConfigMap
data: {a: b}
stuff: {}`, []string{"stuff"}},
		{"service", `
apiVersion: v1
kind: Service
spec: {ports: [{port: 80, targetPort: http, colour: red}], selector: {a: b}, mood: bad}`, []string{"spec.mood", "spec.ports[*].colour"}},
		{"deployment", `
apiVersion: apps/v1
kind: Deployment
spec:
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec: {containers: [{name: c, image: i, resources: {limits: {cpu: 1}}, livenessProbe: {httpGet: {port: 80, verb: GET}}}]}`, []string{"spec.template.spec.containers[*].livenessProbe.httpGet.verb"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			u := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(tc.content), &u.Object); err != nil {
				t.Fatal(err)
			}
			r, err := c.Resource(t.Context(), u.GroupVersionKind())
			if err != nil {
				t.Fatal(err)
			}
			s, err := c.Schema(t.Context(), u.GroupVersionKind())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range s.Undeclared(u.Object) {
				got = append(got, p.String())
			}
			slices.Sort(got)
			if !slices.Equal(got, tc.undeclared) {
				t.Errorf("undeclared: %v, want %v", got, tc.undeclared)
			}
			u.SetName("probe")
			body, err := u.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			_, err = c.Dynamic().Resource(r.GroupVersionResource).Namespace("default").Patch(t.Context(), "probe", types.ApplyPatchType, body,
				metav1.PatchOptions{FieldManager: "t", DryRun: []string{metav1.DryRunAll}})
			refusedByServer := err != nil && strings.Contains(err.Error(), "field not declared in schema")
			if (len(tc.undeclared) > 0) != refusedByServer {
				t.Errorf("the server says: %v", err)
			}
		})
	}
}

func TestLiveSchemaWithoutReadingCRDs(t *testing.T) {
	cp, admin := live(t)
	apply(t, cp, crd("Veiled", true)+`---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: veiled}
rules: [{apiGroups: [live.example.io], resources: [veileds], verbs: [get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: veiled}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: veiled}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: veiled}]
`)
	path, err := cp.UserKubeconfig("veiled")
	if err != nil {
		t.Fatal(err)
	}
	c, _ := connect(t, path)
	kind := gvk("live.example.io/v1", "Veiled")
	if _, err := c.CRD(t.Context(), schema.GroupResource{Group: "live.example.io", Resource: "veileds"}); !apierrors.IsForbidden(err) || Reason(err) != ReasonForbidden {
		t.Fatalf("reading the CRD: %v", err)
	}
	// The document trails the CRD.
	eventually(t, 30*time.Second, "the OpenAPI document has the kind", func() bool {
		_, err := c.Schema(t.Context(), kind)
		return err == nil
	})
	mine, err := c.Schema(t.Context(), kind)
	if err != nil {
		t.Fatal(err)
	}
	full, err := admin.Schema(t.Context(), kind)
	if err != nil {
		t.Fatal(err)
	}
	content := map[string]any{"spec": map[string]any{
		"nope": int64(1), "free": map[string]any{"a": int64(1)}, "bare": map[string]any{"lost": int64(1)},
		"items": []any{map[string]any{"name": "a", "x": int64(1)}},
	}}
	if a, b := fmt.Sprint(mine.Undeclared(content)), fmt.Sprint(full.Undeclared(content)); a != b || len(full.Undeclared(content)) != 3 {
		t.Errorf("without the CRD %s, with it %s", a, b)
	}
	for verb, want := range map[string]bool{"list": true, "delete": false} {
		if ok, err := c.Can(t.Context(), verb, schema.GroupVersionResource{Group: "live.example.io", Version: "v1", Resource: "veileds"}, "", "default"); err != nil || ok != want {
			t.Errorf("may %s: %v, %v", verb, ok, err)
		}
	}
}
