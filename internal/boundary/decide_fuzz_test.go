package boundary

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8sjson "sigs.k8s.io/json"
)

// decode reads any JSON object as a server's client does; ok is false for what no client would hand on.
func decode(text string) (map[string]any, bool) {
	var m map[string]any
	return m, k8sjson.UnmarshalCaseSensitivePreserveInts([]byte(text), &m) == nil
}

// FuzzDecide: whatever a source and a twin look like, Decide neither panics nor touches what is not ours (P3).
func FuzzDecide(f *testing.F) {
	encode := func(obj *unstructured.Unstructured) string {
		if obj == nil {
			return ""
		}
		encoded, err := json.Marshal(obj.Object)
		if err != nil {
			f.Fatal(err)
		}
		return string(encoded)
	}
	for _, s := range []*scene{
		newScene(f), newScene(f).crossed(), newScene(f).crossed(foreignTwin), newScene(f).crossed(dyingTwin), newScene(f).crossed(newUID), newScene(f).crossed(noSource),
		newScene(f).crossed(twinStatus(f, `{observedGeneration: 1, conditions: [{type: A, observedGeneration: "1"}], parents: [{conditions: [{observedGeneration: 1}]}]}`)),
	} {
		f.Add(encode(s.Source), encode(s.Twin), byte(0))
		f.Add(encode(s.Source), encode(s.Twin), byte(0xff))
	}
	for _, odd := range []string{`{}`, `{"metadata":null,"spec":null,"status":7}`, `{"metadata":[],"status":[]}`, `{"metadata":{"labels":{"a":1},"annotations":[],"managedFields":{"a":"b"}}}`,
		`{"metadata":{"managedFields":[null,{"manager":"isthmus","operation":"Apply","fieldsV1":{"f:spec":{"k:{":{}}}}]}}`} {
		f.Add(odd, odd, byte(1))
	}
	f.Fuzz(func(t *testing.T, source, twin string, bits byte) {
		in := newScene(t).Input
		in.Source, in.Twin = nil, nil
		if m, ok := decode(source); ok {
			in.Source = &unstructured.Unstructured{Object: m}
		}
		if m, ok := decode(twin); ok {
			in.Twin = &unstructured.Unstructured{Object: m}
		}
		for i, change := range []func(*Input){inferred, unproven, paused, allowList, pairAway, removed(RemovalOrphan), otherRule, remoteOwns("spec.ports[*].name", "spec.replicas", "metadata.labels")} {
			if bits&(1<<i) != 0 && (len(in.Rules) > 0 || i < 3) {
				change(&in)
			}
		}
		decideChecked(t, in)
	})
}

// FuzzManagedFields: whatever stands in managedFields, it is read without a panic, and what we own whole lacks nothing.
func FuzzManagedFields(f *testing.F) {
	for _, fields := range []string{
		`{"f:metadata":{"f:labels":{"f:a.b/c":{}}},"f:spec":{"f:replicas":{},"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}},"f:tags":{"v:\"a\"":{}}}}`,
		`{}`, `{"f:spec":{}}`, `{"f:spec":{".":{}}}`, `{"f:spec":{"f:list":{"i:0":{}}}}`, `{"f:spec":null}`, `{"k:{}":{}}`, `{"v:":{}}`, `{"x":{}}`, `{"f:spec":{"k:{\"a\":[1]}":{}}}`,
	} {
		f.Add(fields, `{"spec":{"replicas":1,"ports":[{"port":80},{"port":81}],"tags":["a"],"m":{"x":{}}},"metadata":{"labels":{"a.b/c":"d"}}}`)
	}
	f.Fuzz(func(t *testing.T, fields, content string) {
		set, ok := decode(fields)
		body, okBody := decode(content)
		if !ok || !okBody {
			return
		}
		entry := func(manager string) any {
			return map[string]any{"manager": manager, "operation": "Apply", "apiVersion": "example.io/v1", "fieldsType": "FieldsV1", "fieldsV1": set}
		}
		twin := &unstructured.Unstructured{Object: map[string]any{}}
		for k, v := range body {
			twin.Object[k] = v
		}
		twin.Object["metadata"] = map[string]any{"name": "blue", "labels": rawMetadata(&unstructured.Unstructured{Object: body}, "labels"), "managedFields": []any{entry("other"), entry(FieldManager), 7, nil}}
		othersSet(twin)
		paths := []Path{MustPath("spec"), MustPath("spec.ports[*].port"), MustPath("spec.m.x"), MustPath(`metadata.labels["a.b/c"]`)}
		if over := handover(twin, nameOf(twin), paths); over != nil {
			if _, err := json.Marshal(over); err != nil {
				t.Fatal(err)
			}
		}
		ours, ok := ownedBy(twin, FieldManager)
		if !ok {
			return
		}
		lacks(body, ours, twin)
		if path, missing := lacks(map[string]any{"metadata": nil}, ours, twin); !missing || len(path) == 0 {
			// labels and annotations of every body are there, the stamp's at least
			if metadata := asObject(ours["f:metadata"]); len(metadata) == 0 {
				t.Fatalf("metadata of nobody is not missing")
			}
		}
		whole := ownFields{}
		for k := range body {
			whole["f:"+k] = map[string]any{}
		}
		delete(body, "metadata")
		twin.SetManagedFields(nil)
		if path, missing := lacks(body, whole, twin); missing && path[0].Field != "metadata" {
			t.Fatalf("%s is missing of what is ours whole", path)
		}
	})
}
