package rbac

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"isthmus.dev/isthmus/api/v1alpha1"
)

func crossing(group, resource string, change ...func(*v1alpha1.CrossingSpec)) v1alpha1.Crossing {
	c := v1alpha1.Crossing{Spec: v1alpha1.CrossingSpec{Resource: v1alpha1.GroupVersionResource{Group: group, Version: "v1", Resource: resource}}}
	c.Name = resource
	for _, f := range change {
		f(&c.Spec)
	}
	return c
}

func controllerGrants(t fataler, o ControllerOptions) grantSet {
	o.Instance, o.Namespace = "controller", "ours"
	objects, err := Controller(o)
	if err != nil {
		t.Fatal(err)
	}
	return granted(t, objects)
}

// S1: without Crossings, the controller may do nothing with any kind but its own and what these need.
func TestS1_ControllerWithoutCrossings(t *testing.T) {
	tests := []struct {
		name    string
		options ControllerOptions
		want    []string
	}{
		{"local", ControllerOptions{Side: Local}, []string{
			"/crossings.isthmus.dev: get,list,watch,patch",
			"/crossings.isthmus.dev/status: patch,update",
			"/events: create,patch",
			"/namespaceoffloadings.isthmus.dev: get,list,watch,patch",
			"/namespaceoffloadings.isthmus.dev/status: patch,update",
			"/namespaces: get,list,watch",
			"/remoteclusters.isthmus.dev: get,list,watch,patch",
			"/remoteclusters.isthmus.dev/status: patch,update",
			"ours/configmaps: get,create,patch,update,delete",
			"ours/secrets: get,list,watch",
		}},
		{"remote", ControllerOptions{Side: Remote}, []string{"/namespaces: get,list,watch,create,patch,delete"}},
		{"remote, where Liqo makes the namespaces", ControllerOptions{Side: Remote, Liqo: true}, []string{"/namespaces: get,list,watch"}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, lines(controllerGrants(t, tt.options))); diff != "" {
			t.Errorf("%s: -want +got:\n%s", tt.name, diff)
		}
	}
}

// TestControllerGrants says all that an option or a Crossing adds.
func TestControllerGrants(t *testing.T) {
	foreground := func(s *v1alpha1.CrossingSpec) { s.DeletionPolicy = "Foreground" }
	silent := func(s *v1alpha1.CrossingSpec) { s.Status = &v1alpha1.StatusReturn{Return: ptr.To(false)} }
	from := func(s *v1alpha1.CrossingSpec) { s.Direction = v1alpha1.FromRemote }
	const widgetsCRD = "/customresourcedefinitions.apiextensions.k8s.io[widgets.example.io]: get,list,watch"
	tests := []struct {
		name    string
		options ControllerOptions
		want    []string
	}{
		{"leader election", ControllerOptions{Side: Local, LeaderElect: true}, []string{"ours/leases.coordination.k8s.io[isthmus-controller]: get,create,patch,update"}},
		{"ClusterProfiles", ControllerOptions{Side: Local, ClusterProfiles: true}, []string{"/clusterprofiles.multicluster.x-k8s.io: get,list,watch"}},
		{"Liqo", ControllerOptions{Side: Local, Liqo: true}, []string{
			"/namespacemaps.offloading.liqo.io: get,list,watch", "/customresourcedefinitions.apiextensions.k8s.io[namespacemaps.offloading.liqo.io]: get,list,watch",
		}},
		{"sources", ControllerOptions{Side: Local, Crossings: []v1alpha1.Crossing{crossing("example.io", "widgets")}}, []string{
			widgetsCRD, "/widgets.example.io/status: patch", "/widgets.example.io: get,list,watch",
		}},
		{"sources without status", ControllerOptions{Side: Local, Crossings: []v1alpha1.Crossing{crossing("", "services", silent)}}, []string{
			"/services: get,list,watch",
		}},
		{"sources that are held", ControllerOptions{Side: Local, Crossings: []v1alpha1.Crossing{crossing("", "services", foreground, silent)}}, []string{
			"/services: get,list,watch,patch",
		}},
		{"mirrors", ControllerOptions{Side: Local, Crossings: []v1alpha1.Crossing{crossing("example.io", "widgets", from)}}, []string{
			widgetsCRD, "/widgets.example.io/status: patch", "/widgets.example.io: get,list,watch,create,patch,delete",
		}},
		{"twins", ControllerOptions{Side: Remote, Crossings: []v1alpha1.Crossing{crossing("example.io", "widgets", foreground)}}, []string{
			widgetsCRD, "/widgets.example.io: get,list,watch,create,patch,delete",
		}},
		{"a kind that is mirrored from there", ControllerOptions{Side: Remote, Crossings: []v1alpha1.Crossing{crossing("", "configmaps", from)}}, []string{
			"/configmaps: get,list,watch", "/events: create,patch",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			base := lines(controllerGrants(t, ControllerOptions{Side: tt.options.Side}))
			got := slices.DeleteFunc(lines(controllerGrants(t, tt.options)), func(line string) bool { return slices.Contains(base, line) })
			slices.Sort(tt.want)
			slices.Sort(got)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// What several Crossings are allowed is what each is allowed alone, together, in any order.
func TestControllerGrantsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := ControllerOptions{Side: rapid.SampledFrom([]Side{Local, Remote}).Draw(t, "side")}
		union := controllerGrants(t, o)
		for i := range rapid.IntRange(0, 4).Draw(t, "crossings") {
			c := crossing(rapid.SampledFrom([]string{"", "example.io"}).Draw(t, "group"), rapid.SampledFrom([]string{"widgets", "configmaps", "secrets", "namespaces"}).Draw(t, "resource"))
			c.Name = fmt.Sprint(i)
			c.Spec.Direction = rapid.SampledFrom([]v1alpha1.CrossingDirection{"", v1alpha1.ToRemote, v1alpha1.FromRemote}).Draw(t, "direction")
			c.Spec.DeletionPolicy = rapid.SampledFrom([]string{"", "Background", "Foreground"}).Draw(t, "deletion")
			maps.Copy(union, controllerGrants(t, ControllerOptions{Side: o.Side, Crossings: []v1alpha1.Crossing{c}}))
			o.Crossings = append(o.Crossings, c)
		}
		together := controllerGrants(t, o)
		for g := range union {
			if !together.allows(g) {
				t.Errorf("lost: %+v", g)
			}
		}
		for g := range together {
			if !union.allows(g) || together.covered(g) || strings.ContainsAny(g.group+g.resource+g.verb+g.name, "*") {
				t.Errorf("superfluous: %+v", g)
			}
		}
	})
}

func TestControllerRefusesWhatItCannotUnderstand(t *testing.T) {
	for want, change := range map[string]func(*v1alpha1.CrossingSpec){
		"expected version and resource":         func(s *v1alpha1.CrossingSpec) { s.Resource.Version = "" },
		`spec.resource.resource "*"`:            func(s *v1alpha1.CrossingSpec) { s.Resource.Resource = "*" },
		`spec.resource.resource "widgets/scale`: func(s *v1alpha1.CrossingSpec) { s.Resource.Resource = "widgets/scale" },
		`spec.resource.group "*"`:               func(s *v1alpha1.CrossingSpec) { s.Resource.Group = "*" },
		`spec.direction "Up"`:                   func(s *v1alpha1.CrossingSpec) { s.Direction = "Up" },
	} {
		_, err := Controller(ControllerOptions{Side: Local, Crossings: []v1alpha1.Crossing{crossing("example.io", "widgets", change)}})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `the Crossing "widgets"`) {
			t.Errorf("got %v, expected %s", err, want)
		}
	}
}
