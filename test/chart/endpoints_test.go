package chart

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/rbac"
)

// With endpoints, the rights in the chart are exactly those that isthmus rbac --endpoints prints: on a consumer, on a provider,
// and on a cluster that only receives. The controller is told to run, and of Liqo's networks.
func TestE2_RightsOfTheChartAreThoseOfEndpoints(t *testing.T) {
	consumer := func(entries string) string {
		return least + "offloading: {reflection: {customResources: [" + entries + "]}}\n"
	}
	const receiver = "offloading: {enabled: false}\n"
	for name, tt := range map[string]struct{ values, controllers string }{
		"a consumer whose Services cross":   {consumer("{version: v1, resource: services}, {version: v1, resource: configmaps}"), "reflection,endpoints"},
		"one whose Services do not cross":   {consumer("{version: v1, resource: configmaps}"), "reflection,endpoints"},
		"one that mirrors Services":         {consumer("{version: v1, resource: services, direction: FromRemote}"), "reflection,endpoints"},
		"one with other things of the name": {consumer("{group: example.io, version: v1, resource: services}"), "reflection,endpoints"},
		"a provider":                        {receiver + "provider: {enabled: true, consumers: [{name: a, resources: [{resources: [services]}, {group: isthmus.dev, resources: [shadowendpointslices]}], subject: {kind: User, name: a}, namespaces: {patterns: ['*']}}]}\n", "tenancy,endpoints"},
		"one that receives only":            {receiver, "endpoints"},
	} {
		for _, liqo := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, Liqo %t", name, liqo), func(t *testing.T) {
				objects := rendered(t, tt.values+fmt.Sprintf("endpoints: {enabled: true, liqoNetworks: %t}\n", liqo))
				if diff := cmp.Diff(grantsOf(t, unstructuredOf(t, endpointsWant(t, objects, tt.controllers, liqo))), grantsOf(t, ofTheController(objects)), cmp.AllowUnexported(grant{})); diff != "" {
					t.Errorf("-needed +rendered:\n%s", diff)
				}
				args := argsOf(t, objects)
				if !slices.Contains(args, "--controllers="+tt.controllers) || slices.Contains(args, "--liqo-networks") != liqo {
					t.Errorf("args: %s", strings.Join(args, " "))
				}
			})
		}
	}
}

// endpointsWant are the roles that isthmus rbac prints for what is rendered.
func endpointsWant(t *testing.T, objects []*unstructured.Unstructured, controllers string, liqo bool) []runtime.Object {
	t.Helper()
	provider := rbac.ProviderOptions{Instance: "controller", Namespace: namespace, LeaderElect: true, Endpoints: true, LiqoNetworks: liqo}
	switch controllers {
	case "endpoints":
		return rbac.Endpoints(provider)
	case "tenancy,endpoints":
		for _, c := range fromObjects[v1alpha1.Consumer](t, ofKind(objects, "Consumer")) {
			provider.Resources = append(provider.Resources, c.Spec.Resources...)
		}
		return rbac.Provider(provider)
	}
	want, err := rbac.Controller(rbac.ControllerOptions{
		Crossings: fromObjects[v1alpha1.Crossing](t, ofKind(objects, "Crossing")), Side: rbac.Local,
		Instance: "controller", Namespace: namespace, LeaderElect: true, Endpoints: true, LiqoNetworks: liqo,
	})
	if err != nil {
		t.Fatal(err)
	}
	return want
}

// argsOf are the arguments of the controller.
func argsOf(t *testing.T, objects []*unstructured.Unstructured) []string {
	t.Helper()
	containers, _, err := unstructured.NestedSlice(ofKind(objects, "Deployment")[0].Object, "spec", "template", "spec", "containers")
	if err != nil {
		t.Fatal(err)
	}
	args, _, err := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
	if err != nil {
		t.Fatal(err)
	}
	return args
}
