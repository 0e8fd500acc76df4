package chart

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/rbac"
)

// fromObjects turns rendered objects into their Go types.
func fromObjects[T any](t testing.TB, objects []*unstructured.Unstructured) []T {
	t.Helper()
	out := make([]T, len(objects))
	for i, u := range objects {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, &out[i], true); err != nil {
			t.Fatalf("%s: %v", u.GetName(), err)
		}
	}
	return out
}

// entries are entries of customResources that differ in all that rights depend on.
func entries() (all []string) {
	for _, kind := range []string{"version: v1, resource: configmaps", "group: example.io, version: v2, resource: widgets", "group: networking.k8s.io, version: v1, resource: ingresses", "group: apps, version: v1, resource: deployments"} {
		for _, rest := range []string{"", ", type: DenyList, workers: 7", ", deletionPolicy: Foreground", ", status: {return: false}", ", status: {from: b}", ", direction: FromRemote"} {
			all = append(all, kind+rest)
		}
	}
	return all
}

// The rights in the chart are exactly those that isthmus rbac --crossings says the rendered Crossings need.
func TestS1_RightsOfTheChartAreThoseOfItsCrossings(t *testing.T) {
	sets := [][]string{nil}
	for _, entry := range entries() {
		sets = append(sets, []string{entry})
	}
	sets = append(sets,
		[]string{"version: v1, resource: configmaps", "version: v1, resource: configmaps, direction: FromRemote", "group: example.io, version: v2, resource: widgets"},
		[]string{"version: v1, resource: secrets", "group: example.io, version: v1, resource: " + strings.Repeat("long", 15), "name: second, version: v1, resource: secrets, status: {return: false}"},
	)
	for i, set := range sets {
		// All combinations of what else adds rights, over the sets.
		leaderElect, profiles, liqo := i%2 == 0, i%3 == 0, i%4 == 0
		text := fmt.Sprintf("clusterID: c\nreplicas: 1\ninstance: i%d\nleaderElection: {enabled: %t}\noffloading:\n  namespaceSource: %s\n  clusterProfiles: {enabled: %t}\n  reflection:\n    customResources:\n", i, leaderElect, map[bool]string{true: "liqo", false: "offloading"}[liqo], profiles)
		for _, entry := range set {
			text += "    - {" + entry + "}\n"
		}
		if len(set) == 0 {
			text += "      []\n"
		}
		t.Run(fmt.Sprint(set), func(t *testing.T) {
			manifests, err := render(t, text)
			if err != nil {
				t.Fatal(err)
			}
			objects := objectsIn(t, manifests)
			crossings := fromObjects[v1alpha1.Crossing](t, ofKind(objects, "Crossing"))
			if len(crossings) != len(set) {
				t.Fatalf("%d Crossings for %d entries", len(crossings), len(set))
			}
			want, err := rbac.Controller(rbac.ControllerOptions{
				Crossings: crossings, Side: rbac.Local, Instance: fmt.Sprint("i", i), Namespace: namespace,
				LeaderElect: leaderElect, ClusterProfiles: profiles, Liqo: liqo,
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(grantsOf(t, unstructuredOf(t, want)), grantsOf(t, ofTheController(objects)), cmp.AllowUnexported(grant{})); diff != "" {
				t.Errorf("-needed +rendered:\n%s", diff)
			}
		})
	}
}

// The rights of a provider in the chart are exactly those that its Consumers take.
func TestS1_RightsOfTheChartAreThoseOfItsConsumers(t *testing.T) {
	const rest = ", subject: {kind: User, name: a}, namespaces: {patterns: ['*']}}\n"
	for i, consumers := range [][]string{
		nil,
		{"{name: a, resources: [{resources: [configmaps, secrets]}]" + rest},
		{"{name: a, resources: [{resources: [configmaps], access: Read}, {group: example.io, resources: [widgets, gadgets], access: Write}]" + rest},
		{"{name: a, resources: [{group: example.io, resources: ['*']}, {group: apps, resources: [deployments]}]" + rest, "{name: b, resources: [{group: networking.k8s.io, resources: [ingresses]}, {group: example.io, resources: [widgets], access: Read}]" + rest},
	} {
		text := fmt.Sprintf("replicas: 1\ninstance: i%d\nleaderElection: {enabled: %t}\noffloading: {enabled: false}\nprovider:\n  enabled: true\n  consumers:\n", i, i%2 == 0)
		for _, consumer := range consumers {
			text += "  - " + consumer
		}
		if len(consumers) == 0 {
			text += "    []\n"
		}
		t.Run(fmt.Sprint(consumers), func(t *testing.T) {
			manifests, err := render(t, text)
			if err != nil {
				t.Fatal(err)
			}
			objects := objectsIn(t, manifests)
			var allowed []v1alpha1.AllowedResources
			for _, c := range fromObjects[v1alpha1.Consumer](t, ofKind(objects, "Consumer")) {
				allowed = append(allowed, c.Spec.Resources...)
			}
			want := rbac.Provider(rbac.ProviderOptions{Resources: allowed, Instance: fmt.Sprint("i", i), Namespace: namespace, LeaderElect: i%2 == 0})
			if diff := cmp.Diff(grantsOf(t, unstructuredOf(t, want)), grantsOf(t, ofTheController(objects)), cmp.AllowUnexported(grant{})); diff != "" {
				t.Errorf("-needed +rendered:\n%s", diff)
			}
		})
	}
}
