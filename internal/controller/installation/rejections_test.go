//go:build unix

package installation

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

const anInstallation = `
apiVersion: isthmus.dev/v1alpha1
kind: Installation
metadata: {name: NAME, namespace: default}
spec:
  component: thing
  destination:
    clusterProfileRef: {name: apac-1, namespace: fleet}
    namespace: thing
  manifests: [{inline: "{}"}]
`

// withoutDestination is an Installation on the hub itself.
const withoutDestination = `
apiVersion: isthmus.dev/v1alpha1
kind: Installation
metadata: {name: NAME, namespace: default}
spec:
  component: thing
  manifests: [{inline: "{}"}]
`

func object(t *testing.T, name, text string, change ...string) *unstructured.Unstructured {
	t.Helper()
	text = strings.ReplaceAll(text, "NAME", name)
	for i := 0; i < len(change); i += 2 {
		if !strings.Contains(text, change[i]) {
			t.Fatalf("there is no %q to change", change[i])
		}
		text = strings.ReplaceAll(text, change[i], change[i+1])
	}
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

// invalid fails the test unless the server refused an object as invalid, for what is at a path.
func invalid(t *testing.T, err error, path string, words ...string) {
	t.Helper()
	if !apierrors.IsInvalid(err) {
		t.Fatalf("expected the server to refuse it as invalid, got %v", err)
	}
	for _, word := range append(words, path) {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the refusal lacks %q: %v", word, err)
		}
	}
}

func TestI2_NamesAreValidatedAtAdmission(t *testing.T) {
	e := newEnv(t, "rejecting")
	for name, c := range map[string]struct {
		path   string
		change []string
		words  []string
	}{
		"bad-namespace":             {"spec.destination.namespace", []string{"    namespace: thing", "    namespace: Thing_1"}, nil},
		"long-namespace":            {"spec.destination.namespace", []string{"    namespace: thing", "    namespace: " + strings.Repeat("a", 64)}, nil},
		"missing-target-namespace":  {"spec.destination.namespace", []string{"    namespace: thing\n", ""}, []string{"Required"}},
		"missing-profile-name":      {"spec.destination.clusterProfileRef.name", []string{"name: apac-1, ", ""}, []string{"Required"}},
		"empty-profile-name":        {"spec.destination.clusterProfileRef.name", []string{"name: apac-1", `name: ""`}, nil},
		"missing-profile-namespace": {"spec.destination.clusterProfileRef.namespace", []string{", namespace: fleet", ""}, []string{"Required"}},
		"bad-profile-namespace":     {"spec.destination.clusterProfileRef.namespace", []string{"namespace: fleet", "namespace: Fleet/1"}, nil},
		"missing-profile":           {"spec.destination.clusterProfileRef", []string{"    clusterProfileRef: {name: apac-1, namespace: fleet}\n", ""}, []string{"Required"}},
		"bad-component":             {"spec.component", []string{"component: thing", "component: a.b"}, nil},
		"bad-keep":                  {"spec.keepNamespaces", []string{"  manifests:", "  keepNamespaces: [Kube]\n  manifests:"}, nil},
		"no-manifests":              {"spec.manifests", []string{`[{inline: "{}"}]`, "[]"}, nil},
		"two-sources":               {"spec.manifests[0]", []string{`{inline: "{}"}`, `{inline: "{}", configMapRef: {name: a}}`}, []string{"exactly one"}},
		"legacy": {"clusterProfileRef is not taken here", []string{"  component: thing", "  component: thing\n  clusterProfileRef: {name: apac-1, namespace: fleet}"},
			[]string{"destination: {clusterProfileRef: {name: …, namespace: …}, namespace: …}"}},
	} {
		t.Run(name, func(t *testing.T) {
			invalid(t, e.client.Create(t.Context(), object(t, name, anInstallation, c.change...)), c.path, c.words...)
		})
	}
}

func TestI1_DestinationIsImmutable(t *testing.T) {
	e := newEnv(t, "rejecting")
	e.stop() // nobody is to hold what this makes
	for name, c := range map[string]struct {
		before string
		change []string
		after  string
	}{
		"other-name":      {anInstallation, []string{"name: apac-1", "name: apac-2"}, anInstallation},
		"other-profile":   {anInstallation, []string{"namespace: fleet", "namespace: other"}, anInstallation},
		"other-namespace": {anInstallation, []string{"    namespace: thing", "    namespace: other"}, anInstallation},
		"removed":         {anInstallation, nil, withoutDestination},
		"added":           {withoutDestination, nil, anInstallation},
	} {
		t.Run(name, func(t *testing.T) {
			created := object(t, name, c.before)
			if err := e.client.Create(t.Context(), created); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = e.client.Delete(t.Context(), created) })
			changed := object(t, name, c.after, c.change...)
			changed.SetResourceVersion(created.GetResourceVersion())
			invalid(t, e.client.Update(t.Context(), changed), "destination is immutable", "delete the Installation and create another one")
			same := created.DeepCopy()
			same.SetLabels(map[string]string{"a": "b"})
			if err := e.client.Update(t.Context(), same, &client.UpdateOptions{}); err != nil {
				t.Errorf("what is not changed is not refused: %v", err)
			}
		})
	}
}
