package cluster

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"isthmus.dev/isthmus/internal/boundary"
)

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	if err := utiljson.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestSchemaOfCRD(t *testing.T) {
	for name, tc := range map[string]struct {
		in   string
		want *boundary.Schema
	}{
		"scalars": {`{type: object, properties: {a: {type: string, nullable: true}, c: {type: integer, default: 3}, b: {type: boolean, default: false}}}`,
			&boundary.Schema{Type: "object", Properties: map[string]*boundary.Schema{
				"a": {Type: "string", Nullable: true}, "c": {Type: "integer", Default: int64(3)}, "b": {Type: "boolean", Default: false},
			}}},
		"maps": {`{type: object, properties: {labels: {type: object, additionalProperties: {type: string}}, any: {type: object, additionalProperties: true}}}`,
			&boundary.Schema{Type: "object", Properties: map[string]*boundary.Schema{
				"labels": {Type: "object", Additional: &boundary.Schema{Type: "string"}},
				"any":    {Type: "object", Additional: &boundary.Schema{PreserveUnknown: true}},
			}}},
		"lists": {`{type: object, properties: {l: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name, port], items: {type: object, properties: {name: {type: string}}}}}}`,
			&boundary.Schema{Type: "object", Properties: map[string]*boundary.Schema{
				"l": {Type: "array", ListType: "map", ListMapKeys: []string{"name", "port"},
					Items: &boundary.Schema{Type: "object", Properties: map[string]*boundary.Schema{"name": {Type: "string"}}}},
			}}},
		"marks": {`{type: object, properties: {
			p: {x-kubernetes-preserve-unknown-fields: true}, o: {type: object, x-kubernetes-preserve-unknown-fields: true},
			e: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true},
			i: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}, m: {type: object, x-kubernetes-map-type: atomic, properties: {k: {type: string}}}}}`,
			&boundary.Schema{Type: "object", Properties: map[string]*boundary.Schema{
				"p": {PreserveUnknown: true}, "o": {Type: "object", PreserveUnknown: true},
				"e": {Type: "object", EmbeddedResource: true, PreserveUnknown: true}, "i": {IntOrString: true},
				"m": {Type: "object", MapType: "atomic", Properties: map[string]*boundary.Schema{"k": {Type: "string"}}},
			}}},
		"an object that declares nothing loses everything": {`{type: object, properties: {e: {type: object}}}`,
			&boundary.Schema{Type: "object", Properties: map[string]*boundary.Schema{"e": {Type: "object"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, schemaOfCRD(parse(t, tc.in))); diff != "" {
				t.Error(diff)
			}
		})
	}
	if s := schemaOfCRD(nil); !s.PreserveUnknown {
		t.Errorf("without a schema: %+v", s)
	}
}

const definitions = `
io.k8s.Thing:
  type: object
  properties:
    metadata: {allOf: [{$ref: "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}], default: {}}
    spec: {allOf: [{$ref: "#/components/schemas/io.k8s.Spec"}], default: {}}
io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta: {type: object, properties: {name: {type: string}}}
io.k8s.apimachinery.pkg.api.resource.Quantity: {oneOf: [{type: string}, {type: number}]}
io.k8s.Port: {type: object, properties: {port: {type: integer, default: 0}, protocol: {type: string, default: TCP}, target: {format: int-or-string, oneOf: [{type: integer}, {type: string}]}}}
io.k8s.Selector: {type: object, x-kubernetes-map-type: atomic, properties: {a: {type: string}}}
io.k8s.Raw: {type: object}
io.k8s.JSON: {description: any JSON}
io.k8s.Spec:
  type: object
  properties:
    ports: {type: array, items: {allOf: [{$ref: "#/components/schemas/io.k8s.Port"}], default: {}}, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [port, protocol], x-kubernetes-patch-strategy: merge, x-kubernetes-patch-merge-key: port}
    volumes: {type: array, items: {$ref: "#/components/schemas/io.k8s.Port"}, x-kubernetes-patch-strategy: "merge,retainKeys", x-kubernetes-patch-merge-key: name}
    finalizers: {type: array, items: {type: string}, x-kubernetes-patch-strategy: merge}
    memory: {$ref: "#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity"}
    selector: {$ref: "#/components/schemas/io.k8s.Selector"}
    atomic: {allOf: [{$ref: "#/components/schemas/io.k8s.Spec"}], x-kubernetes-map-type: atomic}
    raw: {$ref: "#/components/schemas/io.k8s.Raw"}
    json: {$ref: "#/components/schemas/io.k8s.JSON"}
    self: {$ref: "#/components/schemas/io.k8s.Spec"}
    lost: {$ref: "#/components/schemas/io.k8s.Lost"}
`

func TestSchemaOfDefinition(t *testing.T) {
	s := schemaOfDefinition(parse(t, definitions), "io.k8s.Thing", false)
	spec := s.Properties["spec"]
	if spec.Default != nil || s.Properties["metadata"].PreserveUnknown != true {
		t.Errorf("spec default %v, metadata %+v", spec.Default, s.Properties["metadata"])
	}
	if spec.Properties["self"] != spec {
		t.Error("a type that contains itself is not shared")
	}
	port := spec.Properties["ports"].Items
	if port != spec.Properties["volumes"].Items {
		t.Error("a definition was converted twice")
	}
	want := &boundary.Schema{Type: "object", Properties: map[string]*boundary.Schema{
		"port": {Type: "integer"}, "protocol": {Type: "string", Default: "TCP"}, "target": {IntOrString: true},
	}}
	if diff := cmp.Diff(want, port); diff != "" {
		t.Error(diff)
	}
	for field, want := range map[string]boundary.Schema{
		"ports":      {ListType: "map", ListMapKeys: []string{"port", "protocol"}},
		"volumes":    {ListType: "map", ListMapKeys: []string{"name"}},
		"finalizers": {ListType: "set"},
	} {
		got := spec.Properties[field]
		if got.ListType != want.ListType || !cmp.Equal(got.ListMapKeys, want.ListMapKeys) {
			t.Errorf("%s: %s by %v", field, got.ListType, got.ListMapKeys)
		}
	}
	if s := spec.Properties["memory"]; !s.IntOrString || s.Type != "" {
		t.Errorf("quantity: %+v", s)
	}
	if s := spec.Properties["selector"]; s.MapType != "atomic" {
		t.Errorf("selector: %+v", s)
	}
	for _, free := range []string{"raw", "json", "lost"} {
		if s := spec.Properties[free]; !s.PreserveUnknown {
			t.Errorf("%s: %+v", free, s)
		}
	}
	content := map[string]any{}
	if err := json.Unmarshal([]byte(`{"spec":{"ports":[{"port":1,"x":1}],"self":{"self":{"y":1}},"raw":{"z":1},"lost":{"z":1}}}`), &content); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range s.Undeclared(content) {
		got = append(got, p.String())
	}
	if diff := cmp.Diff([]string{"spec.ports[*].x", "spec.self.self.y"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestAnnotatedReferenceIsItsOwn(t *testing.T) {
	s := schemaOfDefinition(parse(t, definitions), "io.k8s.Thing", false).Properties["spec"]
	if a := s.Properties["atomic"]; a == s || a.MapType != "atomic" || s.MapType != "" {
		t.Errorf("annotated: %q, shared: %q", a.MapType, s.MapType)
	}
	if a := s.Properties["atomic"]; len(a.Properties) != len(s.Properties) {
		t.Errorf("an annotated reference to an enclosing type has %d fields, not %d", len(a.Properties), len(s.Properties))
	}
}

func TestStandsAlone(t *testing.T) {
	d := parse(t, definitions)
	if standsAlone(d["io.k8s.Thing"]) {
		t.Error("a built-in kind looks like one of a CRD")
	}
	if !standsAlone(parse(t, `{type: object, properties: {metadata: {$ref: "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}, spec: {type: object}}}`)) {
		t.Error("a CRD's kind is not recognized")
	}
}
