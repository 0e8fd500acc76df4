package rbac

import (
	"cmp"
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

// grant is the smallest thing to allow: one verb on one resource, in one place.
type grant struct {
	namespace       string // empty: everywhere
	group, resource string
	name            string // empty: objects of any name
	verb            string
}

// grantSet is a set of grants.
type grantSet map[grant]bool

// add grants a need of a rule whose objects are at a place.
func (s grantSet) add(n need, where place) {
	namespaces := where.namespaces
	switch {
	case n.namespace != "":
		namespaces = []string{n.namespace}
	case n.cluster || where.anywhere:
		namespaces = []string{""}
	}
	names := n.names
	if names == nil {
		names = []string{""}
	}
	for _, namespace := range namespaces {
		for _, name := range names {
			for _, verb := range n.verbs {
				s[grant{namespace, n.group, n.resource, name, verb}] = true
			}
		}
	}
}

// covered reports whether another grant of the set allows as much and more.
func (s grantSet) covered(g grant) bool {
	wider := []grant{
		{"", g.group, g.resource, "", g.verb},
		{"", g.group, g.resource, g.name, g.verb},
		{g.namespace, g.group, g.resource, "", g.verb},
	}
	return slices.ContainsFunc(wider, func(w grant) bool { return w != g && s[w] })
}

// resourceKey is what the verbs of a policy rule are about.
type resourceKey struct{ group, resource, name string }

// policies folds the grants into policy rules, by namespace, in a fixed order. A grant that a wider one covers is left out.
func (s grantSet) policies() map[string][]rbacv1.PolicyRule {
	verbs := map[string]map[resourceKey][]string{}
	for g := range s {
		if s.covered(g) {
			continue
		}
		if verbs[g.namespace] == nil {
			verbs[g.namespace] = map[resourceKey][]string{}
		}
		key := resourceKey{g.group, g.resource, g.name}
		verbs[g.namespace][key] = append(verbs[g.namespace][key], g.verb)
	}
	policies := map[string][]rbacv1.PolicyRule{}
	for namespace, byKey := range verbs {
		keys := slices.SortedFunc(maps.Keys(byKey), func(a, b resourceKey) int {
			return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.resource, b.resource), cmp.Compare(a.name, b.name))
		})
		for _, key := range keys {
			policies[namespace] = merge(policies[namespace], key, inOrder(byKey[key]))
		}
	}
	return policies
}

// merge appends a policy rule, or extends the last one where that says the same: the names of one resource, or the
// resources of one group that go without names, can share a rule without widening it.
func merge(rules []rbacv1.PolicyRule, key resourceKey, verbs []string) []rbacv1.PolicyRule {
	if len(rules) > 0 {
		last := &rules[len(rules)-1]
		if last.APIGroups[0] == key.group && slices.Equal(last.Verbs, verbs) {
			named := len(last.ResourceNames) > 0
			switch {
			case named && key.name != "" && last.Resources[0] == key.resource:
				last.ResourceNames = append(last.ResourceNames, key.name)
				return rules
			case !named && key.name == "":
				last.Resources = append(last.Resources, key.resource)
				return rules
			}
		}
	}
	rule := rbacv1.PolicyRule{APIGroups: []string{key.group}, Resources: []string{key.resource}, Verbs: verbs}
	if key.name != "" {
		rule.ResourceNames = []string{key.name}
	}
	return append(rules, rule)
}

// verbOrder is the order in which people write verbs.
var verbOrder = []string{"get", "list", "watch", "create", "patch", "update", "delete", "escalate", "bind"}

func inOrder(verbs []string) []string {
	slices.SortFunc(verbs, func(a, b string) int {
		return cmp.Compare(slices.Index(verbOrder, a), slices.Index(verbOrder, b))
	})
	return verbs
}
