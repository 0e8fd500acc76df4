package boundary

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/managedfields"
)

// lacking applies a body, lets others change the object, and returns what our entry lacks then; empty: nothing.
func lacking(t *testing.T, converter managedfields.TypeConverter, body string, change func(*server)) string {
	t.Helper()
	obj := object(t, body)
	server := newServer(t, converter, obj.GroupVersionKind())
	server.apply(obj.Object, FieldManager)
	if change != nil {
		change(server)
	}
	twin := server.twin()
	ours, ok := ownedBy(twin, FieldManager)
	if !ok {
		t.Fatalf("no Apply entry of ours in %v", twin.GetManagedFields())
	}
	desired := object(t, body).Object
	path, missing := lacks(desired, ours, twin)
	if diff := cmp.Diff(object(t, body).Object, desired); diff != "" {
		t.Errorf("the body was changed (-want +got):\n%s", diff)
	}
	if !missing {
		return ""
	}
	return path.String()
}

func widget(spec string) string {
	return `{apiVersion: example.io/v1, kind: Widget, metadata: {name: blue, namespace: shop, labels: {a.b/c: x, d: w}, annotations: {e.f/g: "1"}}, ` + spec + `}`
}

// What the server recorded for our own apply is never drift, whatever the shape (F2).
func TestO4_OwnApplyIsNoDrift(t *testing.T) {
	for _, spec := range []string{
		`spec: {replicas: 1, image: x}`, `spec: {}`, `spec: null`, `spec: {flag: null}`, `spec: {args: []}`, `spec: {args: null}`, `spec: {args: [a, b]}`,
		`spec: {tags: []}`, `spec: {tags: null}`, `spec: {tags: [a, b]}`, `spec: {ports: []}`, `spec: {nested: {inner: {list: []}}}`, `spec: {nested: {inner: {deep: {}}}}`,
		`spec: {nested: {inner: {}}}`, `spec: {nested: {}, replicas: 1}`, `spec: {selector: {}}`, `spec: {selector: {a: b}}`, `spec: {params: {}}`, `spec: {params: {a.b/c: d, e: ""}}`,
		`spec: {params: null}`, `spec: {tiers: {gold: {}}}`, `spec: {tiers: {gold: {size: 1, names: []}}}`, `spec: {tiers: {gold: {names: []}}}`, `spec: {tiers: {gold: {names: [x]}, tin: {zone: z}}}`,
		`spec: {ports: [{port: 80}]}`, `spec: {ports: [{port: 53}, {port: 53, protocol: UDP}, {port: 80, name: web, targetPort: 8080}]}`,
		`spec: {ports: [{port: 53, protocol: UDP}, {port: 53, weights: {}}]}`, `spec: {ports: [{port: 53, weights: {a: 1}}]}`,
		`spec: {pairs: [{a: 1}, {a: 1, b: 3}]}`, `spec: {pairs: [{a: 1, v: x}, {b: 3, v: why}, {a: 7}]}`, `spec: {pairs: [{}, {b: 2}, {a: 2}]}`,
		`extras: [], data: {}`, `extras: [x], data: {tls.crt: eA==}, type: Opaque, immutable: true`, `any: {x: {y: [], z: [1, {a: b}], n: null, f: 1.5}}`, `any: {}`,
	} {
		t.Run(spec, func(t *testing.T) {
			if path := lacking(t, widgetTypes(t), widget(spec), nil); path != "" {
				t.Errorf("lacks %s", path)
			}
			if path := lacking(t, managedfields.NewDeducedTypeConverter(), widget(spec), nil); path != "" {
				t.Errorf("lacks %s without a schema", path)
			}
		})
	}
}

// What others change or remove in our fields is found, and named exactly (O4, O6).
func TestO4_ForeignChangeIsNamed(t *testing.T) {
	put := func(value any, fields ...string) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) { set(o, value, fields...) }
	}
	drop := func(fields ...string) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) { unstructured.RemoveNestedField(o.Object, fields...) }
	}
	item := func(list string, i int, change func(map[string]any)) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) {
			items, _, _ := unstructured.NestedSlice(o.Object, "spec", list)
			change(items[i].(map[string]any))
			set(o, items, "spec", list)
		}
	}
	for _, test := range []struct {
		name, spec string
		change     func(*unstructured.Unstructured)
		want       string
	}{
		{"scalar changed", `spec: {replicas: 1, image: x}`, put(int64(5), "spec", "replicas"), "spec.replicas"},
		{"only scalar changed", `spec: {replicas: 1}`, put(int64(5), "spec", "replicas"), "spec.replicas"},
		{"scalar removed", `spec: {replicas: 1, image: x}`, drop("spec", "replicas"), "spec.replicas"},
		{"all removed", `spec: {replicas: 1}`, drop("spec"), "spec.replicas"},
		{"label changed", `spec: {}`, put("z", "metadata", "labels", "a.b/c"), `metadata.labels["a.b/c"]`},
		{"label removed", `spec: {}`, drop("metadata", "labels", "d"), "metadata.labels.d"},
		{"all labels removed", `spec: {}`, drop("metadata", "labels"), `metadata.labels["a.b/c"]`},
		{"annotation changed", `spec: {}`, put("z", "metadata", "annotations", "e.f/g"), `metadata.annotations["e.f/g"]`},
		{"atomic map", `spec: {selector: {a: b}, replicas: 1}`, put("z", "spec", "selector", "a"), "spec.selector"},
		{"atomic map gains a key", `spec: {selector: {a: b}}`, put("z", "spec", "selector", "other"), "spec.selector"},
		{"atomic list", `spec: {args: [a], replicas: 1}`, put([]any{"a", "b"}, "spec", "args"), "spec.args"},
		{"empty atomic list", `spec: {args: [], replicas: 1}`, put([]any{"b"}, "spec", "args"), "spec.args"},
		{"granular map", `spec: {params: {a: b, c: d}}`, put("z", "spec", "params", "c"), "spec.params.c"},
		{"whole granular map", `spec: {params: {a: b}}`, put("z", "spec", "params", "a"), "spec.params.a"},
		{"map of objects", `spec: {tiers: {gold: {size: 1, zone: a}}}`, put("z", "spec", "tiers", "gold", "zone"), "spec.tiers.gold.zone"},
		{"only field in a map of objects", `spec: {tiers: {gold: {size: 1}}}`, put(int64(2), "spec", "tiers", "gold", "size"), "spec.tiers.gold.size"},
		{"list item's field", `spec: {ports: [{port: 80, targetPort: 1}, {port: 81, targetPort: 2}]}`,
			item("ports", 1, func(m map[string]any) { m["targetPort"] = int64(3) }), "spec.ports[*].targetPort"},
		{"list item's map", `spec: {ports: [{port: 80, weights: {a.b: 1}}]}`,
			item("ports", 0, func(m map[string]any) { m["weights"] = map[string]any{"a.b": int64(2)} }), `spec.ports[*].weights["a.b"]`},
		{"list item removed", `spec: {ports: [{port: 53}, {port: 53, protocol: UDP}]}`, func(o *unstructured.Unstructured) {
			items, _, _ := unstructured.NestedSlice(o.Object, "spec", "ports")
			set(o, items[:1], "spec", "ports")
		}, "spec.ports[*]"},
		{"set item removed", `spec: {tags: [a, b]}`, put([]any{"b"}, "spec", "tags"), "spec.tags[*]"},
		{"empty object filled", `spec: {nested: {inner: {deep: {}}}}`, put("z", "spec", "nested", "inner", "deep", "x"), ""},
		{"field added", `spec: {replicas: 1}`, put("z", "spec", "image"), ""},
		{"set item added", `spec: {tags: [a]}`, put([]any{"a", "b"}, "spec", "tags"), ""},
		{"empty set filled", `spec: {tags: []}`, put([]any{"b"}, "spec", "tags"), ""},
		{"list item added", `spec: {ports: [{port: 80}]}`, func(o *unstructured.Unstructured) {
			items, _, _ := unstructured.NestedSlice(o.Object, "spec", "ports")
			set(o, append(items, map[string]any{"port": int64(9), "protocol": "TCP"}), "spec", "ports")
		}, ""},
		{"label added", `spec: {}`, put("z", "metadata", "labels", "new"), ""},
		{"top-level data", `data: {tls.crt: eA==, b: eA==}`, put("eQ==", "data", "tls.crt"), `data["tls.crt"]`},
		{"top-level scalar", `immutable: true`, put(false, "immutable"), "immutable"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := lacking(t, widgetTypes(t), widget(test.spec), func(s *server) { s.update("kubectl-edit", test.change) })
			if got != test.want {
				t.Errorf("lacks %q, want %q", got, test.want)
			}
		})
	}
}

// Another applier that forces its value onto a field takes it from us.
func TestO4_ForcedApplyIsNamed(t *testing.T) {
	got := lacking(t, widgetTypes(t), widget(`spec: {replicas: 1, params: {a: b}}`), func(s *server) {
		s.apply(object(t, widget(`spec: {params: {a: c}}`)).Object, "argocd")
	})
	if want := "spec.params.a"; got != want {
		t.Errorf("lacks %q, want %q", got, want)
	}
}

func TestO4_OnlyOurApplyEntryCounts(t *testing.T) {
	fields := map[string]any{"f:spec": map[string]any{"f:replicas": map[string]any{}}}
	entry := func(manager, operation, subresource string, fields any) map[string]any {
		return map[string]any{"manager": manager, "operation": operation, "subresource": subresource, "apiVersion": "example.io/v1",
			"fieldsType": "FieldsV1", "fieldsV1": fields}
	}
	for _, test := range []struct {
		name    string
		entries any
		want    bool
	}{
		{"ours", []any{entry("kubectl", "Update", "", fields), entry(FieldManager, "Apply", "", fields)}, true},
		{"no managedFields", nil, false},
		{"an update of ours", []any{entry(FieldManager, "Update", "", fields)}, false},
		{"our status", []any{entry(FieldManager, "Apply", "status", fields)}, false},
		{"another's", []any{entry("isthmus2", "Apply", "", fields)}, false},
		{"without fields", []any{entry(FieldManager, "Apply", "", nil)}, false},
		{"unreadable", []any{entry(FieldManager, "Apply", "", map[string]any{"f:spec": []any{}})}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			twin := object(t, blueWidget)
			if test.entries != nil {
				set(twin, test.entries, "metadata", "managedFields")
			}
			if _, got := appliedSet(twin); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// handed runs a whole handover as the flow does: our first body, what others do, the handover, and our body without
// the paths. It returns the handover body and the spec that is left.
func handed(t *testing.T, body, without string, change func(*unstructured.Unstructured), paths ...string) (map[string]any, *unstructured.Unstructured) {
	t.Helper()
	s := newServer(t, widgetTypes(t), widgetGVK)
	s.apply(object(t, body).Object, FieldManager)
	if change != nil {
		s.update("somebody", change)
	}
	var remoteOwned []Path
	for _, p := range paths {
		remoteOwned = append(remoteOwned, MustPath(p))
	}
	twin := s.twin()
	before := twin.DeepCopy()
	place := nameOf(twin)
	over := handover(twin, place, remoteOwned)
	if diff := cmp.Diff(before, twin); diff != "" {
		t.Errorf("the twin was changed (-want +got):\n%s", diff)
	}
	if over != nil {
		if err := s.tryApply(over, HandoverManager, false); err != nil {
			t.Fatalf("handover: %v", err)
		}
	}
	s.apply(object(t, without).Object, FieldManager)
	return over, s.twin()
}

func TestO3_HandoverKeepsTheValue(t *testing.T) {
	for _, test := range []struct {
		name, body, without string
		change              func(*unstructured.Unstructured)
		paths               []string
		over, left          string // spec of the handover body ("null": none), and of the twin afterwards
	}{
		{name: "a scalar", body: `spec: {replicas: 1, image: x}`, without: `spec: {image: x}`, paths: []string{"spec.replicas"},
			over: `{replicas: 1}`, left: `{replicas: 1, image: x}`},
		{name: "a scalar that somebody changed", body: `spec: {replicas: 1, image: x}`, without: `spec: {image: x}`, paths: []string{"spec.replicas"},
			change: func(o *unstructured.Unstructured) { set(o, int64(5), "spec", "replicas") }, over: `null`, left: `{replicas: 5, image: x}`},
		{name: "a subtree", body: `spec: {image: x, nested: {inner: {deep: {x: q}, list: [a]}}}`, without: `spec: {image: x}`, paths: []string{"spec.nested.inner"},
			over: `{nested: {inner: {deep: {x: q}, list: [a]}}}`, left: `{image: x, nested: {inner: {deep: {x: q}, list: [a]}}}`},
		{name: "several paths", body: `spec: {image: x, replicas: 1, selector: {a: b}, params: {a.b/c: d, e: f}}`, without: `spec: {image: x, params: {e: f}}`,
			paths: []string{"spec.selector", "spec.replicas", `spec.params["a.b/c"]`}, over: `{replicas: 1, selector: {a: b}, params: {a.b/c: d}}`,
			left: `{image: x, replicas: 1, selector: {a: b}, params: {a.b/c: d, e: f}}`},
		{name: "in items", body: `spec: {ports: [{port: 80, nodePort: 1}, {port: 81, protocol: UDP, nodePort: 2}]}`, without: `spec: {ports: [{port: 80}, {port: 81, protocol: UDP}]}`,
			paths: []string{"spec.ports[*].nodePort"}, over: `{ports: [{port: 80, protocol: TCP, nodePort: 1}, {port: 81, protocol: UDP, nodePort: 2}]}`,
			left: `{ports: [{port: 80, protocol: TCP, nodePort: 1}, {port: 81, protocol: UDP, nodePort: 2}]}`},
		{name: "only in the items that have it", body: `spec: {ports: [{port: 80, nodePort: 1}, {port: 81}]}`, without: `spec: {ports: [{port: 80}]}`,
			paths: []string{"spec.ports[*].nodePort"}, over: `{ports: [{port: 80, protocol: TCP, nodePort: 1}]}`, left: `{ports: [{port: 80, protocol: TCP, nodePort: 1}]}`},
		{name: "not in others' items", body: `spec: {ports: [{port: 80, nodePort: 1}]}`, without: `spec: {ports: [{port: 80}]}`,
			change: func(o *unstructured.Unstructured) {
				set(o, []any{map[string]any{"port": int64(7), "protocol": "TCP", "nodePort": int64(70)}, map[string]any{"port": int64(80), "protocol": "TCP", "nodePort": int64(1)}}, "spec", "ports")
			},
			paths: []string{"spec.ports[*].nodePort"}, over: `{ports: [{port: 80, protocol: TCP, nodePort: 1}]}`,
			left: `{ports: [{port: 7, protocol: TCP, nodePort: 70}, {port: 80, protocol: TCP, nodePort: 1}]}`},
		{name: "two paths in different items", body: `spec: {ports: [{port: 80, nodePort: 1}, {port: 81, targetPort: 5}, {port: 82, nodePort: 3, targetPort: 6}]}`,
			without: `spec: {ports: [{port: 80}, {port: 81}, {port: 82}]}`, paths: []string{"spec.ports[*].nodePort", "spec.ports[*].targetPort"},
			over: `{ports: [{port: 80, protocol: TCP, nodePort: 1}, {port: 81, protocol: TCP, targetPort: 5}, {port: 82, protocol: TCP, nodePort: 3, targetPort: 6}]}`,
			left: `{ports: [{port: 80, protocol: TCP, nodePort: 1}, {port: 81, protocol: TCP, targetPort: 5}, {port: 82, protocol: TCP, nodePort: 3, targetPort: 6}]}`},
		{name: "nothing of ours", body: `spec: {image: x}`, without: `spec: {image: x}`, paths: []string{"spec.replicas", "spec.ports[*].nodePort", "status", "metadata.labels.none"},
			over: `null`, left: `{image: x}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			over, twin := handed(t, widget(test.body), widget(test.without), test.change, test.paths...)
			if diff := cmp.Diff(value(t, test.over), over["spec"]); diff != "" {
				t.Errorf("handover (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(value(t, test.left), twin.Object["spec"]); diff != "" {
				t.Errorf("what is left (-want +got):\n%s", diff)
			}
		})
	}
}

func TestO3_HandoverOfMetadata(t *testing.T) {
	without := `{apiVersion: example.io/v1, kind: Widget, metadata: {name: blue, namespace: shop, labels: {d: w}}}`
	over, twin := handed(t, widget(`spec: {}`), without, nil, `metadata.labels["a.b/c"]`, `metadata.annotations["e.f/g"]`)
	want := map[string]any{
		"apiVersion": "example.io/v1", "kind": "Widget",
		"metadata": map[string]any{"name": "blue", "namespace": "shop", "uid": "uid-twin", "resourceVersion": "101",
			"labels": map[string]any{"a.b/c": "x"}, "annotations": map[string]any{"e.f/g": "1"}},
	}
	if diff := cmp.Diff(want, over); diff != "" {
		t.Errorf("handover (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"a.b/c": "x", "d": "w"}, twin.GetLabels()); diff != "" {
		t.Errorf("labels left (-want +got):\n%s", diff)
	}
}
