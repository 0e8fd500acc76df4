package rbac

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"isthmus.dev/isthmus/api/v1alpha1"
)

// What the controller of endpoints takes: on every cluster, with Liqo's networks, and where Services cross.
var (
	receives = []string{
		"/clusterlinks.isthmus.dev/status: patch", "/clusterlinks.isthmus.dev: get,list,watch",
		"/endpointslices.discovery.k8s.io: get,list,watch,create,update,delete",
		"/events: create,patch", "/namespaces: get,list,watch",
	}
	reads = "/shadowendpointslices.isthmus.dev: get,list,watch"
	liqo  = []string{
		"/configurations.networking.liqo.io: get,list,watch", "/connections.networking.liqo.io: get,list,watch", "/ips.ipam.liqo.io: get,list,watch",
		"/customresourcedefinitions.apiextensions.k8s.io[configurations.networking.liqo.io]: get,list,watch",
		"/customresourcedefinitions.apiextensions.k8s.io[connections.networking.liqo.io]: get,list,watch",
		"/customresourcedefinitions.apiextensions.k8s.io[ips.ipam.liqo.io]: get,list,watch",
	}
	sends = []string{
		"/customresourcedefinitions.apiextensions.k8s.io[shadowendpointslices.isthmus.dev]: get,list,watch",
		"/nodes: get,list,watch", "/shadowendpointslices.isthmus.dev: get,list,watch,create,update,delete",
	}
)

// TestE2_ControllerGrantsOfEndpoints says all that endpoints add to what Crossings take.
func TestE2_ControllerGrantsOfEndpoints(t *testing.T) {
	none := []v1alpha1.Crossing{crossing("", "configmaps")}
	services := []v1alpha1.Crossing{crossing("", "services")}
	mirrors := []v1alpha1.Crossing{crossing("", "services", func(s *v1alpha1.CrossingSpec) { s.Direction = v1alpha1.FromRemote })}
	tests := []struct {
		name    string
		options ControllerOptions
		want    []string
	}{
		{"where no Services cross", ControllerOptions{Side: Local, Crossings: none}, append(slices.Clone(receives), reads)},
		{"where Services come back", ControllerOptions{Side: Local, Crossings: mirrors}, append(slices.Clone(receives), reads)},
		{"where they cross", ControllerOptions{Side: Local, Crossings: services}, slices.Concat(receives, sends)},
		{"with Liqo's networks", ControllerOptions{Side: Local, Crossings: services, LiqoNetworks: true}, slices.Concat(receives, sends, liqo)},
		{"on a remote without Services", ControllerOptions{Side: Remote, Crossings: none}, nil},
		{"on a remote with Services", ControllerOptions{Side: Remote, Crossings: services, LiqoNetworks: true}, []string{
			"/customresourcedefinitions.apiextensions.k8s.io[shadowendpointslices.isthmus.dev]: get,list,watch",
			"/shadowendpointslices.isthmus.dev: get,list,watch,create,patch,delete",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			without := lines(controllerGrants(t, tt.options))
			tt.options.Endpoints = true
			with := lines(controllerGrants(t, tt.options))
			compareAdded(t, without, with, tt.want)
		})
	}
}

// TestE2_ProviderGrantsOfEndpoints says all that endpoints add beside tenancy, and take alone.
func TestE2_ProviderGrantsOfEndpoints(t *testing.T) {
	for _, tt := range []struct {
		name     string
		networks bool
		want     []string
	}{
		{"by ClusterLinks", false, append(slices.Clone(receives), reads)},
		{"by Liqo's networks, too", true, slices.Concat(receives, []string{reads}, liqo)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := ProviderOptions{Instance: "controller", Namespace: "ours", LiqoNetworks: tt.networks}
			compareAdded(t, nil, lines(granted(t, Endpoints(o))), tt.want)
			without := lines(granted(t, Provider(o)))
			o.Endpoints = true
			compareAdded(t, without, lines(granted(t, Provider(o))), tt.want)

			o.LeaderElect = true
			compareAdded(t, nil, lines(granted(t, Endpoints(o))), append(slices.Clone(tt.want), "ours/leases.coordination.k8s.io[isthmus-controller]: get,create,patch,update"))
		})
	}
}

// compareAdded compares what is granted with what is wanted beside that which was granted before: nothing of this is lost.
func compareAdded(t *testing.T, before, got, added []string) {
	t.Helper()
	want := slices.Clone(before)
	for _, line := range added {
		if !slices.ContainsFunc(before, func(had string) bool { return covers(had, line) }) {
			want = append(want, line)
		}
	}
	if diff := cmp.Diff(sorted(want), sorted(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// covers reports whether a line allows all that another one does: its verbs, in order, begin with those.
func covers(had, line string) bool {
	return had == line || len(had) > len(line) && had[:len(line)] == line && had[len(line)] == ','
}
