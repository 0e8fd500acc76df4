package rbac

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/boundary"
)

const discoveryGroup = "discovery.k8s.io"

// receiverNeeds is what the controller of endpoints needs on every cluster: it looks after the ClusterLinks, and makes
// EndpointSlices of what others sent; with liqo it reads what Liqo says of networks, too.
func receiverNeeds(liqo bool) []need {
	isthmus := v1alpha1.GroupVersion.Group
	needs := []need{
		{group: isthmus, resource: "clusterlinks", verbs: watch, cluster: true},
		{group: isthmus, resource: "clusterlinks/status", verbs: []string{"patch"}, cluster: true},
		{group: isthmus, resource: "shadowendpointslices", verbs: watch, cluster: true},
		{group: discoveryGroup, resource: "endpointslices", verbs: own, cluster: true},
		{resource: "namespaces", verbs: watch, cluster: true}, // whose they are
		{resource: "events", verbs: create, cluster: true},
	}
	if liqo {
		needs = append(needs, liqoNetworks()...)
	}
	return needs
}

// liqoNetworks is what reading Liqo's objects about networks takes, and seeing that they are served.
func liqoNetworks() (needs []need) {
	definitions := need{group: "apiextensions.k8s.io", resource: "customresourcedefinitions", verbs: watch, cluster: true}
	for _, kind := range []schema.GroupResource{
		{Group: "networking.liqo.io", Resource: "configurations"}, {Group: "networking.liqo.io", Resource: "connections"}, {Group: "ipam.liqo.io", Resource: "ips"},
	} {
		needs = append(needs, need{group: kind.Group, resource: kind.Resource, verbs: watch, cluster: true})
		definitions.names = append(definitions.names, kind.String())
	}
	return append(needs, definitions)
}

// senderNeeds is what it needs besides on a cluster whose Services cross: it makes what crosses of their endpoints.
func senderNeeds() []need {
	return []need{
		{group: v1alpha1.GroupVersion.Group, resource: "shadowendpointslices", verbs: own, cluster: true},
		{resource: "nodes", verbs: watch, cluster: true}, // where pods live
	}
}

// endpointsRule is the rule by which endpoints cross, with the resource as the kind; nil: no Crossing carries Services.
func endpointsRule(crossings []v1alpha1.Crossing) *boundary.Rule {
	if !slices.ContainsFunc(crossings, func(c v1alpha1.Crossing) bool { return c.CarriesServices() }) {
		return nil
	}
	return &boundary.Rule{
		Name: "endpoints", Kind: v1alpha1.GroupVersion.WithKind("shadowendpointslices"), Direction: boundary.ToRemote, Mode: boundary.ModeSync,
	}
}

// endpoints adds what the controller of endpoints needs to what Crossings need.
func (o *Options) endpoints(c ControllerOptions) {
	if o.Side == Local {
		o.extra = append(o.extra, receiverNeeds(c.LiqoNetworks)...)
	}
	rule := endpointsRule(c.Crossings)
	if rule == nil {
		return
	}
	o.Rules = append(o.Rules, rule)
	if o.Side == Local {
		o.extra = append(o.extra, senderNeeds()...)
	}
}

// Endpoints returns the objects to apply for a controller of endpoints on a cluster that receives only, without a controller
// of tenancy beside it. Resources of the options do not matter; the default name is isthmus-<instance>-endpoints.
func Endpoints(o ProviderOptions) []runtime.Object {
	if o.Name == "" {
		o.Name = "isthmus-" + o.Instance + "-endpoints"
	}
	return o.objects(receiverNeeds(o.LiqoNetworks))
}
