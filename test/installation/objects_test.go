//go:build unix

package installation

import (
	"slices"
	"testing"

	"isthmus.dev/isthmus/test/harness"
)

// The comparison that other tests trust sees what comes, changes, goes, and comes back as another object, of kinds that it
// was told nothing of.
func TestAllObjectsAreCompared(t *testing.T) {
	h := harness.NewHub(t)
	namespace, group := h.ID+"-some", h.ID+".example.io"
	h.One.Apply(harness.WidgetCRD(group))
	h.One.Apply("{apiVersion: v1, kind: Namespace, metadata: {name: " + namespace + "}}")
	for _, name := range []string{"kept", "changed", "gone", "replaced"} {
		h.One.Apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: " + name + ", namespace: " + namespace + "}, data: {a: b}}")
	}
	h.Eventually(func() error { return h.One.There("serviceaccounts", namespace, "default") })
	before := h.One.AllObjects()
	if err := h.One.SameAs(before); err != nil {
		t.Fatal(err)
	}
	h.One.Patch("configmaps", namespace, "changed", "data: {a: c}")
	h.One.Delete("configmaps", namespace, "gone")
	h.One.Delete("configmaps", namespace, "replaced")
	h.One.Apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: replaced, namespace: " + namespace + "}, data: {a: b}}")
	h.One.Apply("{apiVersion: " + group + "/v1, kind: Widget, metadata: {name: new, namespace: " + namespace + "}}")
	in := " " + namespace + "/"
	want := []string{"another one than before: ConfigMap" + in + "replaced", "changed: ConfigMap" + in + "changed", "gone: ConfigMap" + in + "gone", "new: Widget." + group + in + "new"}
	if got := h.One.AllObjects().Since(before); !slices.Equal(got, want) {
		t.Errorf("got %q, expected %q", got, want)
	}
	h.One.Delete("customresourcedefinitions.apiextensions.k8s.io", "", "widgets."+group)
}
