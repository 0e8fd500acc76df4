package chart

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/rbac"
)

// The rights in the chart are exactly those that isthmus rbac --installations prints for a hub whose Installations go to
// members.
func TestI1_RightsOfTheChartAreThoseOfAHub(t *testing.T) {
	const values = `
clusterID: hub
instance: two
offloading: {enabled: false}
installations:
  enabled: true
  manifests:
  - {namespace: apps, configMaps: [a, b], secrets: [c]}
  - {namespace: other, secrets: [d]}
`
	ref := func(name string) *v1alpha1.ManifestKeyRef { return &v1alpha1.ManifestKeyRef{Name: name} }
	target := func(namespace string, manifests ...v1alpha1.ManifestSource) rbac.InstallationTarget {
		i := &v1alpha1.Installation{Spec: v1alpha1.InstallationSpec{Destination: &v1alpha1.Destination{Namespace: "there"}, Manifests: manifests}}
		i.Namespace = namespace
		return rbac.InstallationTarget{Installation: i}
	}
	want, err := rbac.Installations(rbac.InstallationOptions{
		Side: rbac.Local, Instance: "two", Namespace: namespace, LeaderElect: true,
		Targets: []rbac.InstallationTarget{
			target("apps", v1alpha1.ManifestSource{ConfigMapRef: ref("a")}, v1alpha1.ManifestSource{ConfigMapRef: ref("b")}, v1alpha1.ManifestSource{SecretRef: ref("c")}),
			target("other", v1alpha1.ManifestSource{SecretRef: ref("d")}),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	objects := rendered(t, values)
	if diff := cmp.Diff(grantsOf(t, unstructuredOf(t, want)), grantsOf(t, ofTheController(objects)), cmp.AllowUnexported(grant{})); diff != "" {
		t.Errorf("-needed +rendered:\n%s", diff)
	}
}

// The controllers that run, and the access providers that they share.
func TestI1_InstallationsAmongTheControllers(t *testing.T) {
	tests := []struct{ values, controllers, providers string }{
		{least, "reflection", ""},
		{least + "provider: {enabled: true}\ninstallations: {enabled: true}", "reflection,tenancy,installation", `{"providers":[]}`},
		{least + "offloading: {enabled: false}\ninstallations: {enabled: true, clusterProfiles: {enabled: false}}", "installation", ""},
		{least + "offloading: {clusterProfiles: {enabled: true, providers: [{name: a}]}}\ninstallations: {enabled: true, clusterProfiles: {providers: [{name: a}, {name: b}]}}",
			"reflection,installation", `{"providers":[{"name":"a"},{"name":"b"}]}`},
	}
	for _, tt := range tests {
		t.Run(tt.values, func(t *testing.T) {
			objects := rendered(t, tt.values)
			text := strings.Join(argsOf(t, objects), " ")
			if !strings.Contains(text, "--controllers="+tt.controllers+" ") || strings.Contains(text, "--clusterprofile-provider-file=") != (tt.providers != "") {
				t.Errorf("args: %s", text)
			}
			var got string
			for _, u := range ofKind(objects, "ConfigMap") {
				if text, ok, _ := unstructured.NestedString(u.Object, "data", "providers.json"); ok {
					got = text
				}
			}
			if got != tt.providers {
				t.Errorf("providers: got %q, expected %q", got, tt.providers)
			}
		})
	}
}

func rendered(t *testing.T, values string) []*unstructured.Unstructured {
	t.Helper()
	manifests, err := render(t, values)
	if err != nil {
		t.Fatal(err)
	}
	return objectsIn(t, manifests)
}
