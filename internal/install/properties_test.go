package install

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"isthmus.dev/isthmus/api/v1alpha1"
)

// drawn are manifests of a few kinds in a few namespaces, of which some are kept.
func drawn(t *rapid.T) (objects []map[string]any, o Options) {
	namespaces := []string{"", "from", "kept", "there", "other"}
	kinds := []struct{ apiVersion, kind string }{
		{"v1", "ConfigMap"}, {"v1", "Secret"}, {"v1", "ServiceAccount"}, {"apps/v1", "Deployment"}, {"batch/v1", "Job"},
		{"rbac.authorization.k8s.io/v1", "ClusterRole"}, {"rbac.authorization.k8s.io/v1", "RoleBinding"}, {"v1", "Namespace"},
		{"admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"},
	}
	for i := range rapid.IntRange(1, 12).Draw(t, "objects") {
		kind := rapid.SampledFrom(kinds).Draw(t, "kind")
		metadata := map[string]any{"name": fmt.Sprint("o", i)}
		if namespace := rapid.SampledFrom(namespaces).Draw(t, "namespace"); namespace != "" {
			metadata["namespace"] = namespace
		}
		object := map[string]any{"apiVersion": kind.apiVersion, "kind": kind.kind, "metadata": metadata}
		referred := rapid.SampledFrom(namespaces[1:]).Draw(t, "referred")
		switch kind.kind {
		case "RoleBinding":
			object["subjects"] = []any{map[string]any{"kind": "ServiceAccount", "name": "a", "namespace": referred}}
		case "ValidatingWebhookConfiguration":
			object["webhooks"] = []any{map[string]any{"clientConfig": map[string]any{"service": map[string]any{"name": "s", "namespace": referred}}}}
		}
		objects = append(objects, object)
	}
	o = options()
	if rapid.Bool().Draw(t, "keep") {
		o.Spec.KeepNamespaces = []string{"kept"}
	}
	return objects, o
}

func asList(t fataler, objects []map[string]any) []Source {
	t.Helper()
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
	if err != nil {
		t.Fatal(err)
	}
	return []Source{{Where: "m", Text: text}}
}

// TestI4_Properties: nothing is lost and nothing is added; every namespaced object is in the destination or in a namespace
// that is kept, with an anchor there; the order of phases is kept; preparing again says the same.
func TestI4_Properties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		objects, o := drawn(t)
		moved := map[string]bool{}
		for _, object := range objects {
			metadata := object["metadata"].(map[string]any)
			namespace, _ := metadata["namespace"].(string)
			inside := !slices.Contains([]string{"ClusterRole", "Namespace", "ValidatingWebhookConfiguration"}, object["kind"].(string))
			if inside && namespace != "" && namespace != o.Namespace && !slices.Contains(o.Spec.KeepNamespaces, namespace) {
				moved[namespace] = true
			}
		}
		b, err := Prepare(asList(t, objects), o)
		if err != nil {
			t.Fatal(err)
		}
		anchored := map[string]bool{}
		for _, anchor := range b.Anchors {
			anchored[anchor.GetNamespace()] = true
		}
		count, last := 0, -1
		for _, phase := range b.Phases {
			at := slices.Index(phaseNames, phase.Name)
			if at <= last || len(phase.Objects) == 0 {
				t.Errorf("phase %s with %d objects after %d", phase.Name, len(phase.Objects), last)
			}
			last = at
			for _, object := range phase.Objects {
				if object.Shared {
					continue
				}
				count++
				if n := object.GetNamespace(); n != "" && (!anchored[n] || n != o.Namespace && !slices.Contains(o.Spec.KeepNamespaces, n)) {
					t.Errorf("%s %s is in %s", object.GetKind(), object.GetName(), n)
				}
				checkReferences(t, object.Unstructured, moved)
			}
		}
		namespaces := 0
		for _, object := range objects {
			if object["kind"] == "Namespace" {
				namespaces++
			}
		}
		if count != len(objects)-namespaces || len(b.Inventory()) != count+len(b.Anchors) {
			t.Errorf("%d objects of %d, of which %d are Namespaces; %d entries", count, len(objects), namespaces, len(b.Inventory()))
		}
		again, err := Prepare(asList(t, objects), o)
		if err != nil || again.Revision != b.Revision {
			t.Errorf("again: %v, %s after %s", err, again.Revision, b.Revision)
		}
	})
}

// checkReferences fails where an object refers to a namespace that the manifests' objects were moved away from.
func checkReferences(t *rapid.T, u *unstructured.Unstructured, moved map[string]bool) {
	for _, reference := range references[u.GroupVersionKind().GroupKind()] {
		each(u.Object, reference.path, func(holder map[string]any) {
			if namespace, ok := holder[reference.field].(string); ok && moved[namespace] {
				t.Errorf("%s %s refers to %s", u.GetKind(), u.GetName(), namespace)
			}
		})
	}
}

// TestI5_OrderLosesNothing: the order of removal has every entry once, whatever the entries.
func TestI5_OrderLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var entries []v1alpha1.InventoryEntry
		for range rapid.IntRange(0, 20).Draw(t, "entries") {
			entries = append(entries, v1alpha1.InventoryEntry{
				Group:   rapid.SampledFrom([]string{"", "apps", "example.io", "rbac.authorization.k8s.io", "admissionregistration.k8s.io", "apiextensions.k8s.io"}).Draw(t, "group"),
				Kind:    rapid.SampledFrom([]string{"ConfigMap", "Namespace", "CustomResourceDefinition", "Deployment", "Thing"}).Draw(t, "kind"),
				Version: "v1", Name: rapid.SampledFrom([]string{"a", "isthmus-anchor-x", "isthmus-anchor-y"}).Draw(t, "name"),
			})
		}
		var got []v1alpha1.InventoryEntry
		for _, group := range Order("x", slices.Clone(entries)) {
			if len(group) == 0 {
				t.Error("an empty group")
			}
			got = append(got, group...)
		}
		order := func(a, b v1alpha1.InventoryEntry) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }
		slices.SortFunc(got, order)
		slices.SortFunc(entries, order)
		if !slices.Equal(got, entries) {
			t.Errorf("got %v of %v", got, entries)
		}
	})
}

// FuzzPrepare: whatever the text, there is an error or something to apply, and neither panics nor is partial.
func FuzzPrepare(f *testing.F) {
	for _, text := range []string{everyPhase, "a: b", "{}", "--- |\n x", "apiVersion: v1\nkind: List\nitems: [[], null, {}]", "\x1f\x8b", "a: &a [*a]", `{"kind":"List","items":[{"kind":"X"}]}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		b, err := Prepare([]Source{{Where: "m", Text: text}}, options())
		if (err == nil) == (b == nil) {
			t.Fatalf("%v, %v", b, err)
		}
		if err != nil {
			return
		}
		for _, phase := range b.Phases {
			for _, object := range phase.Objects {
				if object.GetName() == "" || object.GetKind() == "" || !object.Shared && object.GetAnnotations()[v1alpha1.InstallationAnnotation] == "" {
					t.Fatalf("%v", object.Object)
				}
			}
		}
	})
}
