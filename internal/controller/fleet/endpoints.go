package fleet

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/config"
)

// EndpointsRule is the name of the rule by which the endpoints of Services cross (E2): what the controller of endpoints
// wrote for a remote goes there. No Crossing can have this name.
const EndpointsRule = "ShadowEndpointSlice-ToRemote"

// Shadows are what carries endpoints.
var Shadows = v1alpha1.GroupVersion.WithResource("shadowendpointslices")

// The kind whose objects have endpoints, as a resource and as a kind.
var (
	servicesResource = schema.GroupResource{Resource: "services"}
	servicesKind     = schema.GroupKind{Kind: "Service"}
)

// followed are the Crossings of Services that hold for a remote, or have twins there.
type followed struct {
	crossings []*v1alpha1.Crossing
	selected  bool // one that is not being deleted selects the remote
	refused   bool // there is one that is not being deleted, and is refused
}

func (f *followed) add(c *v1alpha1.Crossing, selects bool) {
	f.crossings = append(f.crossings, c)
	f.selected = f.selected || selects && c.DeletionTimestamp == nil
}

// follow adds to what crosses to a remote the rule of the endpoints: as long as Services cross there, or something is left
// of what crossed before. standing: there is a Crossing of Services, for whichever remotes. It returns what the rule comes
// from.
func (in Input) follow(out *Output, remote string, f *followed, standing bool) []string {
	if in.Endpoints && f.refused {
		out.Configs[remote].Waiting = append(out.Configs[remote].Waiting, EndpointsRule) // it counts where there is no rule only
	}
	if !in.Endpoints || len(f.crossings) == 0 && !(standing && in.Carried(EndpointsRule, remote)) {
		return nil
	}
	out.Wanted[remote] = append(out.Wanted[remote], v1alpha1.RequestedResource{Group: Shadows.Group, Resource: Shadows.Resource, Access: v1alpha1.AccessWrite})
	if !standing {
		return nil // they are all being deleted, and the rule is wound down with theirs (D5)
	}
	out.Kinds[remote] = append(out.Kinds[remote], Shadows)
	rule := endpointsRule(remote, f.crossings)
	if !f.selected {
		rule.Selector = labels.Nothing()
	}
	conf := out.Configs[remote]
	conf.Rules = append(conf.Rules, rule)
	return []string{rule.Name, string(rule.OnRemoval), fmt.Sprint(f.selected)}
}

// endpointsRule returns the rule of the endpoints. Twins are let go with those of the Services only if all of these are.
func endpointsRule(remote string, crossings []*v1alpha1.Crossing) *boundary.Rule {
	removal := boundary.RemovalDelete
	if len(crossings) > 0 && !slices.ContainsFunc(crossings, func(c *v1alpha1.Crossing) bool { return c.Spec.OnRemoval != string(boundary.RemovalOrphan) }) {
		removal = boundary.RemovalOrphan
	}
	rule, err := config.CompileRule(map[string]any{
		"name": EndpointsRule, "apiVersion": Shadows.GroupVersion().String(), "kind": "ShadowEndpointSlice",
		"direction": "toHost", "mode": "sync", "policy": boundary.PolicyAll, "onRemoval": removal, "statusSync": false,
		"selector": map[string]any{"matchLabels": map[string]string{v1alpha1.DestinationLabel: remote}},
	})
	if err != nil {
		panic(fmt.Sprintf("the rule of the endpoints of %s: %v", remote, err)) // a remote's name is a DNS label
	}
	return rule
}

// errFollows refuses a Crossing that would carry what crosses with Services by itself.
var errFollows = errors.New("with --controllers=endpoints, ShadowEndpointSlices cross by a rule of their own, with the Services that a Crossing names: delete this one")

// ownEndpoints finds that a Crossing names what crosses by itself.
func (in Input) ownEndpoints(c *v1alpha1.Crossing) error {
	if in.Endpoints && c.Spec.Resource.Schema().GroupResource() == Shadows.GroupResource() && c.Spec.Direction != v1alpha1.FromRemote {
		return errFollows
	}
	return nil
}

// EndpointsCross reports whether endpoints cross to any remote.
func (f *Fleet) EndpointsCross() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, conf := range f.outcome.Configs {
		if hasRule(conf, EndpointsRule) {
			return true
		}
	}
	return false
}

// ServiceCrossed tells whether a Service of the local cluster has a twin on a remote. known is false as long as that can't be
// told.
func (f *Fleet) ServiceCrossed(service types.NamespacedName, remote string) (has, known bool) {
	s := f.ship(remote)
	if s == nil {
		return false, false
	}
	conf := s.engine.Current()
	if hasRule(conf, EndpointsRule) && !slices.ContainsFunc(conf.Rules, func(r *boundary.Rule) bool { return r.Kind.GroupKind() == servicesKind }) {
		return false, false // their kind was not asked for yet
	}
	return s.engine.HasTwin(servicesKind, service)
}

// endpointsDrained tells how many twins of the endpoints are left on a remote from which the last Crossing of Services is
// removed.
func (f *Fleet) endpointsDrained(s *ship, crossing, remote string) (left int, known bool) {
	f.mu.Lock()
	outcome, conf := f.outcome.Crossings[crossing], f.outcome.Configs[remote]
	f.mu.Unlock()
	if !f.Endpoints || outcome.Resource.GroupResource() != servicesResource || outcome.Direction != boundary.ToRemote || conf != nil && hasRule(conf, EndpointsRule) {
		return 0, true
	}
	return s.engine.RuleDrained(EndpointsRule)
}

func hasRule(conf *config.Config, name string) bool {
	return slices.ContainsFunc(conf.Rules, func(r *boundary.Rule) bool { return r.Name == name })
}
