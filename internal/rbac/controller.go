package rbac

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/boundary"
)

// ControllerOptions say what "isthmus controller --controllers=reflection" is to be allowed, and whom.
type ControllerOptions struct {
	// Crossings are the kinds that cross.
	Crossings []v1alpha1.Crossing
	// Side is the cluster that the roles are for: Local, which the controller serves, or Remote, one that does not give
	// namespaces on request. On one that does, its provider grants what is needed there.
	Side Side
	// Instance is --instance of the controller; Name is that of the roles, by default isthmus-<instance>-<side>.
	Instance, Name string
	// Namespace is the controller's own on the local cluster: ledgers, the Lease, the kubeconfigs.
	Namespace string
	// LeaderElect says whether one of several replicas is elected.
	LeaderElect bool
	// ClusterProfiles says whether RemoteClusters may name ClusterProfiles.
	ClusterProfiles bool
	// Liqo says whether Liqo's NamespaceMaps say which namespaces have counterparts, which Liqo makes then.
	Liqo bool
	// Endpoints says whether the controller of endpoints runs, too.
	Endpoints bool
	// LiqoNetworks says whether that takes links from what Liqo says of networks, too.
	LiqoNetworks bool
	// Subject is who gets the roles.
	Subject Subject
}

// Controller returns the objects to apply so that the controller may do what its Crossings need on one side, and no more:
// on the local side its namespace, then ClusterRole, Roles and their bindings. An error names the Crossing that can't be
// understood.
func Controller(o ControllerOptions) ([]runtime.Object, error) {
	options := Options{
		Side: o.Side, Instance: o.Instance, Name: o.Name, Namespace: o.Namespace, LeaderElect: o.LeaderElect, Subject: o.Subject,
		Events: true, NamespacesGiven: true, ledgers: true,
		// Namespaces come and go while the controller runs, and Roles would have to come and go with them.
		Naming:    func(boundary.Direction) boundary.Naming { return boundary.SameName{} },
		Resources: func(kind schema.GroupVersionKind) (Resource, error) { return Resource{Name: kind.Kind}, nil },
		extra:     controllerNeeds(o),
	}
	for i := range o.Crossings {
		rule, err := ruleOf(&o.Crossings[i])
		if err != nil {
			return nil, fmt.Errorf("the Crossing %q: %w", o.Crossings[i].Name, err)
		}
		options.Rules = append(options.Rules, rule)
	}
	if o.Endpoints {
		options.endpoints(o)
	}
	return Generate(options)
}

// ruleOf returns what a Crossing says of the rights that it takes, with the resource as the kind. What the API server
// would set by default may be missing.
func ruleOf(c *v1alpha1.Crossing) (*boundary.Rule, error) {
	r := c.Spec.Resource
	switch {
	case r.Resource == "" || r.Version == "":
		return nil, errors.New("spec.resource: expected version and resource")
	case len(validation.IsDNS1035Label(r.Resource)) > 0:
		return nil, fmt.Errorf("spec.resource.resource %q: expected the plural in lower case, like configmaps", r.Resource)
	case r.Group != "" && len(validation.IsDNS1123Subdomain(r.Group)) > 0:
		return nil, fmt.Errorf("spec.resource.group %q: expected the name of an API group, or none for the core group", r.Group)
	}
	rule := &boundary.Rule{
		Name: c.Name, Kind: schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Resource},
		DeletionPolicy: boundary.DeletionPolicy(c.Spec.DeletionPolicy),
	}
	switch status := c.Spec.Status; c.Spec.Direction {
	case v1alpha1.ToRemote, "":
		rule.Direction, rule.Mode = boundary.ToRemote, boundary.ModeSync
		rule.ReturnStatus = status == nil || status.Return == nil || *status.Return
	case v1alpha1.FromRemote:
		rule.Direction, rule.Mode = boundary.FromRemote, boundary.ModeMirror
	default:
		return nil, fmt.Errorf("spec.direction %q: expected %s or %s", c.Spec.Direction, v1alpha1.ToRemote, v1alpha1.FromRemote)
	}
	return rule, nil
}

// controllerNeeds lists what the controller needs whatever crosses.
func controllerNeeds(o ControllerOptions) []need {
	if o.Side == Remote && o.Liqo {
		return []need{{resource: "namespaces", verbs: watch, cluster: true}}
	}
	if o.Side == Remote {
		// It makes the counterparts, under its mark, and takes away those that it made.
		return []need{{resource: "namespaces", verbs: slices.Concat(watch, write), cluster: true}}
	}
	own := []string{"remoteclusters", "crossings", "namespaceoffloadings"}
	needs := []need{
		{resource: "namespaces", verbs: watch, cluster: true},
		{resource: "events", verbs: create, cluster: true},
		{resource: "secrets", verbs: watch, namespace: o.Namespace}, // kubeconfigs
	}
	for _, resource := range own {
		needs = append(needs,
			// Finalizers and the status are all that it writes.
			need{group: v1alpha1.GroupVersion.Group, resource: resource, verbs: slices.Concat(watch, []string{"patch"}), cluster: true},
			need{group: v1alpha1.GroupVersion.Group, resource: resource + "/status", verbs: []string{"patch", "update"}, cluster: true},
		)
	}
	if o.ClusterProfiles {
		needs = append(needs, need{group: "multicluster.x-k8s.io", resource: "clusterprofiles", verbs: watch, cluster: true})
	}
	if o.Liqo {
		const group, maps = "offloading.liqo.io", "namespacemaps"
		needs = append(needs,
			need{group: group, resource: maps, verbs: watch, cluster: true},
			need{group: "apiextensions.k8s.io", resource: "customresourcedefinitions", names: []string{maps + "." + group}, verbs: watch, cluster: true},
		)
	}
	return needs
}
