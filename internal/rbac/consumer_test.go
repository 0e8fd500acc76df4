package rbac

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"isthmus.dev/isthmus/api/v1alpha1"
)

// What a consumer gets: kinds in its namespaces, and cluster-wide nothing but names.
func TestConsumer(t *testing.T) {
	got := Consumer("isthmus-consumer-west", map[string][]v1alpha1.RequestedResource{
		"a": {{Resource: "secrets"}, {Group: "example.io", Resource: "widgets", Access: v1alpha1.AccessWrite}},
		"b": {{Group: "example.io", Resource: "gadgets", Access: v1alpha1.AccessRead}},
		"c": nil,
	})
	watched, written := []string{"get", "list", "watch"}, []string{"get", "list", "watch", "create", "patch", "delete"}
	want := map[string][]rbacv1.PolicyRule{
		"": {
			{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: watched, ResourceNames: []string{"a", "b", "c"}},
			{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"}, ResourceNames: []string{"kube-system"}},
			{APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, Verbs: watched, ResourceNames: []string{"gadgets.example.io", "widgets.example.io"}},
		},
		"a": {
			{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: written},
			{APIGroups: []string{"example.io"}, Resources: []string{"widgets"}, Verbs: written},
		},
		"b": {{APIGroups: []string{"example.io"}, Resources: []string{"gadgets"}, Verbs: watched}},
		"isthmus-consumer-west": {
			{APIGroups: []string{"isthmus.dev"}, Resources: []string{"namespacerequests"}, Verbs: []string{"get", "list", "watch", "create", "patch", "update", "delete"}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// The provider's controller holds what it hands out, and can neither bind nor escalate.
func TestProvider(t *testing.T) {
	objects := Provider(ProviderOptions{
		Instance: "controller", Namespace: "isthmus-system", LeaderElect: true, Subject: Subject{User: "controller"},
		Resources: []v1alpha1.AllowedResources{
			{Group: "example.io", Resources: []string{"widgets"}, Access: v1alpha1.AccessWrite},
			{Group: "example.io", Resources: []string{"gadgets"}, Access: v1alpha1.AccessRead},
			{Group: "apps", Resources: []string{"*"}, Access: v1alpha1.AccessWrite},
		},
	})
	want := []string{
		"/*.apps: get,list,watch,create,patch,delete",
		"/clusterrolebindings.rbac.authorization.k8s.io: get,list,watch,create,update,delete",
		"/clusterroles.rbac.authorization.k8s.io: get,list,watch,create,update,delete",
		"/consumers.isthmus.dev: get,list,watch,patch",
		"/consumers.isthmus.dev/status: patch",
		"/customresourcedefinitions.apiextensions.k8s.io[gadgets.example.io]: get,list,watch",
		"/customresourcedefinitions.apiextensions.k8s.io[namespacerequests.isthmus.dev]: get",
		"/customresourcedefinitions.apiextensions.k8s.io[widgets.example.io]: get,list,watch",
		"/gadgets.example.io: get,list,watch",
		"/namespacerequests.isthmus.dev: get,list,watch,create,patch,update,delete",
		"/namespacerequests.isthmus.dev/status: patch",
		"/namespaces: get,list,watch,create,patch,delete",
		"/rolebindings.rbac.authorization.k8s.io: get,list,watch,create,update,delete",
		"/roles.rbac.authorization.k8s.io: get,list,watch,create,update,delete",
		"/widgets.example.io: get,list,watch,create,patch,delete",
		"isthmus-system/leases.coordination.k8s.io[isthmus-controller]: get,create,patch,update",
	}
	got := lines(granted(t, objects))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Whatever a consumer is granted, the controller may hand out.
func TestProviderHoldsWhatConsumersGet(t *testing.T) {
	allowed := []v1alpha1.AllowedResources{
		{Resources: []string{"secrets", "configmaps"}, Access: v1alpha1.AccessWrite},
		{Group: "example.io", Resources: []string{"gadgets"}, Access: v1alpha1.AccessRead},
		{Group: "example.org", Resources: []string{"*"}, Access: v1alpha1.AccessWrite},
	}
	held := grantSet{}
	for _, n := range providerNeeds(ProviderOptions{Resources: allowed}) {
		held.add(n, place{anywhere: true})
	}
	var roles []runtime.Object
	for namespace, rules := range Consumer("own", map[string][]v1alpha1.RequestedResource{"x": {
		{Resource: "secrets"}, {Group: "example.io", Resource: "gadgets", Access: v1alpha1.AccessRead},
		{Group: "example.org", Resource: "oxen"}, {Group: "example.org", Resource: "carts", Access: v1alpha1.AccessRead},
	}}) {
		if namespace == "" {
			roles = append(roles, &rbacv1.ClusterRole{Rules: rules})
		} else {
			roles = append(roles, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}, Rules: rules})
		}
	}
	for g := range granted(t, roles) {
		wildcard := g
		wildcard.resource = "*"
		if !held.allows(g) && !held.allows(wildcard) {
			t.Errorf("handed out but not held: %+v", g)
		}
	}
}
