package rbac

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/boundary"
)

// requestsCRD is the definition of NamespaceRequests. When it is being deleted, so are the requests, and nobody gave a
// namespace back.
const requestsCRD = "namespacerequests.isthmus.dev"

// ProviderOptions say what a provider's controller of tenancy is allowed.
type ProviderOptions struct {
	// Resources are the kinds that Consumers may have, of all Consumers together.
	Resources []v1alpha1.AllowedResources
	// Instance is the name of the controller among those of its cluster; Name that of its roles, by default
	// isthmus-<instance>-tenancy.
	Instance, Name string
	// Namespace is where its Lease is; LeaderElect says whether it has one.
	Namespace   string
	LeaderElect bool
	// Endpoints says whether the controller of endpoints runs beside it.
	Endpoints bool
	// LiqoNetworks says whether that takes links from what Liqo says of networks, too.
	LiqoNetworks bool
	// Subject is who gets the roles.
	Subject Subject
}

// Provider returns the objects to apply for a provider's controller of tenancy. Kubernetes lets nobody hand out rights that he
// does not hold, unless he may bind or escalate; so the controller holds, in all namespaces, each verb that it may have to hand
// out, and neither of those.
func Provider(o ProviderOptions) []runtime.Object {
	if o.Name == "" {
		o.Name = "isthmus-" + o.Instance + "-tenancy"
	}
	needs := providerNeeds(o)
	if o.Endpoints {
		needs = append(needs, receiverNeeds(o.LiqoNetworks)...)
	}
	return o.objects(needs)
}

// objects renders what is needed in all namespaces, and the Lease.
func (o ProviderOptions) objects(needs []need) []runtime.Object {
	if o.LeaderElect {
		needs = append(needs, need{
			group: "coordination.k8s.io", resource: "leases", names: []string{boundary.OwnName(o.Instance)}, verbs: []string{"get", "create", "patch", "update"}, namespace: o.Namespace,
		})
	}
	grants := grantSet{}
	for _, n := range needs {
		grants.add(n, place{anywhere: true})
	}
	return objects(Options{Side: Remote, Name: o.Name, Instance: o.Instance, Subject: o.Subject}, grants)
}

// own are the verbs on what the controller makes, compares, puts back and removes.
var own = []string{"get", "list", "watch", "create", "update", "delete"}

func providerNeeds(o ProviderOptions) []need {
	isthmus := v1alpha1.GroupVersion.Group
	needs := []need{
		{group: isthmus, resource: "consumers", verbs: slices.Concat(watch, []string{"patch"})}, // their finalizer
		{group: isthmus, resource: "consumers/status", verbs: []string{"patch"}},
		{group: isthmus, resource: "namespacerequests", verbs: asks}, // to hand them out
		{group: isthmus, resource: "namespacerequests/status", verbs: []string{"patch"}},
		{resource: "namespaces", verbs: slices.Concat(watch, write)},
		{group: "apiextensions.k8s.io", resource: "customresourcedefinitions", names: []string{requestsCRD}, verbs: []string{"get"}},
	}
	for _, resource := range []string{"roles", "rolebindings", "clusterroles", "clusterrolebindings"} {
		needs = append(needs, need{group: rbacv1.GroupName, resource: resource, verbs: own})
	}
	for _, allowed := range o.Resources {
		for _, resource := range allowed.Resources {
			needs = append(needs, handedOut(allowed.Group, resource, allowed.Access)...)
		}
	}
	return needs
}

// handedOut is what a kind that is allowed takes to be handed out; "*" are all kinds of the group.
func handedOut(group, resource string, access v1alpha1.CrossingAccess) []need {
	requested := v1alpha1.RequestedResource{Group: group, Resource: resource, Access: access}
	needs := needsOf(Options{Side: Remote}, ruleFor(requested), Resource{Name: resource, ClusterScoped: true}, place{anywhere: true})
	if resource == v1alpha1.AllResources {
		for i := range needs {
			if needs[i].resource == "customresourcedefinitions" {
				needs[i].names = nil // nobody knows yet which are asked for
			}
		}
	}
	return needs
}
