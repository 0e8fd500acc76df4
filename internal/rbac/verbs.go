package rbac

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus.dev/isthmus/internal/boundary"
)

// Verb is something that a rule does with its kind.
type Verb struct {
	Verb, Subresource string
}

// Verbs lists what a rule does with its kind on a side, for those who ask the server whether it may. resource is the plural.
func Verbs(side Side, rule *boundary.Rule, resource schema.GroupResource) (verbs []Verb) {
	status := resource.Resource + "/status"
	for _, n := range needsOf(Options{Side: side}, rule, Resource{Name: resource.Resource}, place{anywhere: true}) {
		for _, verb := range n.verbs {
			switch {
			case n.group != resource.Group:
			case n.resource == resource.Resource:
				verbs = append(verbs, Verb{Verb: verb})
			case n.resource == status:
				verbs = append(verbs, Verb{Verb: verb, Subresource: "status"})
			}
		}
	}
	return verbs
}
