package rbac

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/install"
)

// installing returns an Installation of component x, in namespace there, of some manifests.
func installing(t *testing.T, manifests string, change ...func(*v1alpha1.InstallationSpec)) InstallationTarget {
	t.Helper()
	i := &v1alpha1.Installation{Spec: v1alpha1.InstallationSpec{
		Component: "x", Destination: &v1alpha1.Destination{Namespace: "there"}, Manifests: []v1alpha1.ManifestSource{{Inline: ptr.To(manifests)}},
	}}
	i.Name, i.Namespace = "x", "apps"
	for _, f := range change {
		f(&i.Spec)
	}
	bundle, err := install.Prepare([]install.Source{{Where: "a test", Text: []byte(manifests)}}, install.Options{
		Component: "x", Namespace: "there", Hub: "hub", InstallationNamespace: "apps", InstallationName: "x", UID: "u", Spec: i.Spec,
	})
	if err != nil {
		t.Fatal(err)
	}
	return InstallationTarget{i, bundle}
}

func installationGrants(t *testing.T, o InstallationOptions) []string {
	t.Helper()
	o.Instance, o.Namespace = "controller", "ours"
	objects, err := Installations(o)
	if err != nil {
		t.Fatal(err)
	}
	return lines(granted(t, objects))
}

const aService = "{apiVersion: v1, kind: Service, metadata: {name: s}}"

// TestI6_InstallationGrantsOnMember says all that is given on a member: first for one Service, then what a kind or a setting
// adds to that.
func TestI6_InstallationGrantsOnMember(t *testing.T) {
	want := []string{
		"/configmaps/finalizers[isthmus-anchor-x]: update",
		"/configmaps: list,watch",
		"/configmaps[isthmus-anchor-x]: get,create,patch,delete",
		"/leases.coordination.k8s.io: list",
		"/namespaces[kube-system]: get",
		"/namespaces[there]: get,list,watch,create,patch,delete",
		"/services: list,watch",
		"/services[s]: get,create,patch,delete",
		"isthmus-system/configmaps[isthmus-component-x]: get,create,patch,delete", // listed and watched as all are
	}
	base := installationGrants(t, InstallationOptions{Side: Remote, Targets: []InstallationTarget{installing(t, aService)}})
	if diff := cmp.Diff(sorted(want), sorted(base)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}

	keep := func(s *v1alpha1.InstallationSpec) { s.DeletionPolicy.Namespace = v1alpha1.NamespaceKeep }
	deleteCRDs := func(s *v1alpha1.InstallationSpec) { s.DeletionPolicy.CRDs = v1alpha1.CRDsDelete }
	kept := func(s *v1alpha1.InstallationSpec) { s.KeepNamespaces = []string{"kube-system"} }
	const crd = "\n---\n{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: gadgetry.example.io}, spec: {group: example.io, scope: Cluster, names: {kind: Gadget, plural: gadgetry}}}"
	tests := []struct {
		name, manifests string
		change          func(*v1alpha1.InstallationSpec)
		adds            []string
	}{
		{"a role", "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: r}}", nil, []string{
			"/clusterroles.rbac.authorization.k8s.io: list,watch", "/clusterroles.rbac.authorization.k8s.io[r]: get,create,patch,delete,escalate",
		}},
		{"a binding", "{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: b}, roleRef: {kind: ClusterRole, name: view}}", nil, []string{
			"/rolebindings.rbac.authorization.k8s.io: list,watch", "/rolebindings.rbac.authorization.k8s.io[b]: get,create,patch,delete",
			"/clusterroles.rbac.authorization.k8s.io[view]: bind",
		}},
		{"a binding that stays elsewhere", "{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: b, namespace: kube-system}, roleRef: {kind: Role, name: r}}", kept, []string{
			"kube-system/rolebindings.rbac.authorization.k8s.io: list,watch", "kube-system/rolebindings.rbac.authorization.k8s.io[b]: get,create,patch,delete",
			"kube-system/roles.rbac.authorization.k8s.io[r]: bind",
			"/namespaces[kube-system]: get,list,watch,patch",
		}},
		{"definitions", crd[5:], nil, []string{
			"/customresourcedefinitions.apiextensions.k8s.io: list,watch", "/customresourcedefinitions.apiextensions.k8s.io[gadgetry.example.io]: get,create,patch",
		}},
		{"definitions that go", crd[5:], deleteCRDs, []string{
			"/customresourcedefinitions.apiextensions.k8s.io: list,watch", "/customresourcedefinitions.apiextensions.k8s.io[gadgetry.example.io]: get,create,patch,delete",
			"/gadgetry.example.io: list,watch",
		}},
		{"objects of definitions", "{apiVersion: example.io/v1, kind: Gadget, metadata: {name: g}}" + crd, nil, []string{
			"/customresourcedefinitions.apiextensions.k8s.io: list,watch", "/customresourcedefinitions.apiextensions.k8s.io[gadgetry.example.io]: get,create,patch",
			"/gadgetry.example.io: list,watch", "/gadgetry.example.io[g]: get,create,patch,delete",
		}},
		{"a policy with parameters", "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: p}, spec: {paramKind: {apiVersion: v1, kind: Secret}}}", nil, []string{
			"/validatingadmissionpolicies.admissionregistration.k8s.io: list,watch", "/validatingadmissionpolicies.admissionregistration.k8s.io[p]: get,create,patch,delete",
			"/secrets: get",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			change := tt.change
			if change == nil {
				change = func(*v1alpha1.InstallationSpec) {}
			}
			got := installationGrants(t, InstallationOptions{Side: Remote, Targets: []InstallationTarget{installing(t, aService+"\n---\n"+tt.manifests, change)}})
			got = slices.DeleteFunc(got, func(line string) bool { return slices.Contains(base, line) })
			if diff := cmp.Diff(sorted(tt.adds), sorted(got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	t.Run("a namespace that stays", func(t *testing.T) {
		for _, line := range installationGrants(t, InstallationOptions{Side: Remote, Targets: []InstallationTarget{installing(t, aService, keep)}}) {
			if strings.HasPrefix(line, "/") && !strings.HasPrefix(line, "/namespaces[") || strings.HasPrefix(line, "/namespaces[there") && strings.Contains(line, "create") {
				t.Errorf("everywhere: %s", line)
			}
		}
	})
}

// TestI1_InstallationGrantsOnHub says all that is given on the hub.
func TestI1_InstallationGrantsOnHub(t *testing.T) {
	from := func(s *v1alpha1.InstallationSpec) {
		s.Manifests = []v1alpha1.ManifestSource{{ConfigMapRef: &v1alpha1.ManifestKeyRef{Name: "m"}}, {SecretRef: &v1alpha1.ManifestKeyRef{Name: "s"}}}
	}
	got := installationGrants(t, InstallationOptions{Side: Local, LeaderElect: true, Targets: []InstallationTarget{installing(t, aService, from)}})
	want := []string{
		"/clusterprofiles.multicluster.x-k8s.io: get,list,watch",
		"/events: create,patch",
		"/installations.isthmus.dev/status: patch,update",
		"/installations.isthmus.dev: get,list,watch,patch",
		"/namespaces[kube-system]: get",
		"apps/configmaps[m]: get,list,watch",
		"apps/secrets[s]: get,list,watch",
		"ours/leases.coordination.k8s.io[isthmus-controller]: get,create,patch,update",
	}
	if diff := cmp.Diff(sorted(want), sorted(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	local := func(s *v1alpha1.InstallationSpec) { s.Destination = nil }
	got = installationGrants(t, InstallationOptions{Side: Local, Targets: []InstallationTarget{installing(t, aService, local)}})
	for _, line := range []string{"there/services[s]: get,create,patch,delete", "isthmus-system/configmaps[isthmus-component-x]: get,list,watch,create,patch,delete", "/namespaces[there]: get,list,watch,patch"} {
		if !slices.Contains(got, line) {
			t.Errorf("no %s in %q", line, got)
		}
	}
	if slices.ContainsFunc(got, func(line string) bool { return strings.Contains(line, "clusterprofiles") }) {
		t.Errorf("ClusterProfiles are read without a destination: %q", got)
	}
}

func sorted(lines []string) []string {
	slices.Sort(lines)
	return lines
}
