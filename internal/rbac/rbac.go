// Package rbac turns rules into the least Roles and ClusterRoles that running them needs.
//
// What is needed is written down once, in the table of needs.go. Everything here is a set of grants, each a single verb
// on a single resource in a single place: a rule adds its own, and nothing else depends on it.
package rbac

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus.dev/isthmus/internal/boundary"
)

// Side is a side of the boundary.
type Side string

// The sides: Local holds the sources, Remote the twins.
const (
	Local  Side = "local"
	Remote Side = "remote"
)

// Options say whom to allow what.
type Options struct {
	// Rules are those to run.
	Rules []*boundary.Rule
	// Naming says where the twins of a direction belong; nil: under the same names.
	Naming func(boundary.Direction) boundary.Naming
	// CreateNamespaces says whether missing counterparts are created.
	CreateNamespaces bool
	// NamespacesGiven says that the rules' namespaces are there before the rules, so that these create none.
	NamespacesGiven bool
	// Events says whether Events are written on the sources.
	Events bool
	// Side is the cluster that the roles are for.
	Side Side
	// Instance is the name of this Isthmus among those of its cluster; Name that of its roles, by default
	// isthmus-<instance>-<side>.
	Instance, Name string
	// Namespace is where the ledger lives.
	Namespace string
	// LeaderElect says whether one of several instances is elected.
	LeaderElect bool
	// Home is the host namespace of the virtual cluster whose plugin it is for, which is there as long as the plugin runs;
	// empty: it is for no plugin.
	Home string
	// Subject is who gets the roles.
	Subject Subject
	// Resources finds the resource of a kind; nil guesses (Guess).
	Resources func(schema.GroupVersionKind) (Resource, error)

	// extra is what is needed besides, and ledgers says that there is a ledger for each remote, whose names are not known.
	extra   []need
	ledgers bool
}

// Subject is a user, or else a service account.
type Subject struct {
	User                      string
	Namespace, ServiceAccount string
}

// Resource is how an API serves a kind.
type Resource struct {
	// Name is the plural.
	Name string
	// ClusterScoped kinds have no namespace.
	ClusterScoped bool
	// Guessed resources were made up from the kind.
	Guessed bool
}

// Generate returns the objects to apply: on the local side the ledger's namespace, then ClusterRole, Roles and their
// bindings, in an order that depends on the rules alone.
func Generate(o Options) ([]runtime.Object, error) {
	grants, err := grantsFor(o)
	if err != nil {
		return nil, err
	}
	return objects(o, grants), nil
}

// grantsFor collects what the rules need.
func grantsFor(o Options) (grantSet, error) {
	if o.Side != Local && o.Side != Remote {
		return nil, fmt.Errorf("side %q: expected %s or %s", o.Side, Local, Remote)
	}
	if o.Resources == nil {
		o.Resources = func(kind schema.GroupVersionKind) (Resource, error) { return Guess(kind), nil }
	}
	if o.Naming == nil {
		o.Naming = func(direction boundary.Direction) boundary.Naming {
			if direction == boundary.FromRemote {
				return boundary.Import{}
			}
			return boundary.SameName{}
		}
	}
	grants := grantSet{}
	for _, n := range append(always(o), o.extra...) {
		grants.add(n, place{})
	}
	for _, rule := range o.Rules {
		resource, err := o.Resources(rule.Kind)
		if err != nil {
			return nil, fmt.Errorf("rule %s: looking up the resource of %s: %w", rule.Name, rule.Kind, err)
		}
		resource.ClusterScoped = resource.ClusterScoped || rule.ClusterScoped
		where := placeOf(o, rule, resource)
		for _, n := range needsOf(o, rule, resource, where) {
			grants.add(n, where)
		}
	}
	return grants, nil
}
