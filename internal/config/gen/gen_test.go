package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"isthmus.dev/isthmus/internal/config"
)

const root = "../../.."

func TestReferenceIsUpToDate(t *testing.T) {
	files, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is stale, run go generate ./internal/config (-want +got):\n%s", name, diff)
		}
	}
}

// compiled returns the shipped schema.
func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "docs/reference/sync.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("sync.schema.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("sync.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func TestExamplesFitTheSchemaAndLoad(t *testing.T) {
	schema := compiled(t)
	var examples []string
	for _, folder := range []string{"", "vcluster"} {
		found, err := filepath.Glob(filepath.Join(root, "examples", folder, "*.yaml"))
		if err != nil || len(found) == 0 {
			t.Fatalf("no examples in examples/%s: %v", folder, err)
		}
		examples = append(examples, found...)
	}
	for _, path := range examples {
		t.Run(filepath.Base(path), func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := config.Parse(filepath.Base(path), data); err != nil {
				t.Errorf("Parse: %v", err)
			}
			content := value(t, string(data))
			if file := content.(map[string]any); file["plugin"] != nil { // a vcluster.yaml
				content = file["plugin"].(map[string]any)[config.PluginName].(map[string]any)["config"]
			}
			if err := schema.Validate(content); err != nil {
				t.Errorf("schema: %v", err)
			}
		})
	}
}

func value(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// The schema may be laxer than Parse, never stricter, and it knows keys, types, values and bounds.
func TestSchemaAgreesWithParse(t *testing.T) {
	schema := compiled(t)
	const head = "version: v1\nsyncResources:\n- apiVersion: v1\n  kind: Secret\n  direction: toHost\n"
	const virtual = "naming: VirtualCluster\nvirtualCluster: {name: shop, hostNamespace: vcluster-acme--shop}\n" + head
	tests := []struct {
		name, text string
		valid      bool
	}{
		{"minimal", "version: v1\n", true},
		{"rule", head, true},
		{"no rules", "version: v1\nsyncResources: []\n", true},
		{"all scalars", "version: v1\nlog_level: trace\nevents_enabled: false\nmax_concurrent_reconciles: 100\ncreateNamespaces: true\nmassDeletion: Allow\n", true},
		{"glob", head + "  selector: {matchNamespaces: ['team-[^a-c]?*', x], excludeNamespaces: ['*-tmp']}\n", true},
		{"filters", "version: v1\nglobalFilters:\n  include: [{namespace: 'a-*', resources: [Secret, v1/Secret]}, {resources: [apps/v1/Deployment]}]\n", true},
		{"longest name", head + "  name: a23456789012345678901234567890123456789012345678901234567890abc\n", true},
		{"apiVersion with dots", "version: v1\nsyncResources: [{apiVersion: a.b-c.d/v1beta1, kind: X, direction: toHost}]\n", true},
		{"empty label", head + "  extraLabels: {a: ''}\n  selector: {matchLabels: {}}\n", true},
		{"keys", head + "  dropKeys: [a, b.c/d, b.c/*]\n  keepKeys: []\n  hostOwnedFields: [data, spec.a]\n", true},
		{"unknown key", "version: v1\nnope: 1\n", false},
		{"no version", "syncResources: []\n", false},
		{"wrong version", "version: v2\n", false},
		{"too many workers", head + "  workers: 101\n", false},
		{"no workers", head + "  workers: 0\n", false},
		{"number as label", head + "  extraLabels: {a: 1}\n", false},
		{"unknown direction", "version: v1\nsyncResources: [{apiVersion: v1, kind: X, direction: toMember}]\n", false},
		{"import", "version: v1\nsyncResources: [{apiVersion: v1, kind: X, direction: fromHost, mode: mirror, targetNamespace: a, virtualControlledBy: true, clusterScoped: true}]\n", true},
		{"unknown mode", head + "  mode: copy\n", false},
		{"ownership", head + "  specOwnership: Exclusive\n", true},
		{"unknown ownership", head + "  specOwnership: Mine\n", false},
		{"virtual cluster", virtual + "  hostNamespace: argocd\n  enforceTenantProject: true\n  selectorIncludeOwnerLabels: false\n  includeForeignCopies: true\n", true},
		{"patches", head + "  patches: [{path: 'spec.rules[*].backendRefs[0]', type: rewriteRef}, {path: 'metadata.annotations[\"a.b/c\"]', type: none}]\n", true},
		{"unknown naming", "version: v1\nnaming: vcluster\n", false},
		{"virtual cluster without a namespace", "version: v1\nnaming: VirtualCluster\nvirtualCluster: {name: shop}\n", false},
		{"no patches", head + "  patches: []\n", false},
		{"patch without a type", head + "  patches: [{path: spec.a}]\n", false},
		{"patch of an unknown type", head + "  patches: [{path: spec.a, type: rewrite}]\n", false},
		{"patch with a template", head + "  patches: [{path: spec.a, type: none, expression: b}]\n", false},
		{"no namespaces", "version: v1\nnamespaces: {}\n", false},
		{"empty list", head + "  selector: {matchNamespaces: []}\n", false},
		{"bad name", head + "  name: a b\n", false},
		{"long name", head + "  name: a23456789012345678901234567890123456789012345678901234567890abcd\n", false},
		{"bad apiVersion", "version: v1\nsyncResources: [{apiVersion: a/b/c, kind: X, direction: toHost}]\n", false},
		{"null", "version: v1\nnamespaces:\n", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := config.Parse("f", []byte(tt.text)); (err == nil) != tt.valid {
				t.Errorf("Parse: %v, want valid = %v", err, tt.valid)
			}
			if err := schema.Validate(value(t, tt.text)); (err == nil) != tt.valid {
				t.Errorf("schema: %v, want valid = %v", err, tt.valid)
			}
		})
	}
}
