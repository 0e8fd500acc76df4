package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/boundary"
)

// asks is what a consumer may do with its NamespaceRequests. Their status is the provider's.
var asks = []string{"get", "list", "watch", "create", "patch", "update", "delete"}

// Consumer returns the policy rules that a consumer's Isthmus needs on its provider, by namespace, under "" those for the
// whole cluster: for its requests in the namespace of that name, and for the kinds that are granted in its namespaces.
func Consumer(requests string, granted map[string][]v1alpha1.RequestedResource) map[string][]rbacv1.PolicyRule {
	o := Options{Side: Remote}
	grants := grantSet{}
	for _, n := range always(o) {
		grants.add(n, place{})
	}
	grants.add(need{group: v1alpha1.GroupVersion.Group, resource: "namespacerequests", verbs: asks, namespace: requests}, place{})
	for namespace, resources := range granted {
		where := place{namespaces: []string{namespace}}
		grants.add(need{resource: "namespaces", names: where.namespaces, verbs: watch, cluster: true}, where)
		for _, r := range resources {
			for _, n := range needsOf(o, ruleFor(r), Resource{Name: r.Resource}, where) {
				grants.add(n, where)
			}
		}
	}
	return grants.policies()
}

// ruleFor returns the rule whose rights on the remote side an access stands for.
func ruleFor(r v1alpha1.RequestedResource) *boundary.Rule {
	rule := &boundary.Rule{Kind: schema.GroupVersionKind{Group: r.Group}, Direction: boundary.ToRemote}
	if r.Access == v1alpha1.AccessRead {
		rule.Direction, rule.Mode = boundary.FromRemote, boundary.ModeMirror
	}
	return rule
}
