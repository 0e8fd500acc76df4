package engine

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/config"
	"isthmus.dev/isthmus/internal/flow"
	"isthmus.dev/isthmus/internal/ledger"
)

// way is a direction in which objects cross: which side is which, and who is seen to write.
type way struct {
	direction        boundary.Direction
	from, to         flow.End
	identity         boundary.Identity
	extent           flow.Extent
	rules            []*boundary.Rule
	createNamespaces bool
	massDeletion     boundary.MassDeletion
	waiting          []string // config.Config.Waiting
}

// ways returns both directions in which a configuration's objects cross, between clusters whose namespaces kube-system
// have these UIDs.
func (e *Engine) ways(c *config.Config, localUID, remoteUID string) []way {
	local, remote := flow.End{Cluster: e.Local, UID: localUID}, flow.End{Cluster: e.Remote, UID: remoteUID}
	both := []way{
		{direction: boundary.ToRemote, from: local, to: remote, createNamespaces: c.CreateNamespaces},
		{direction: boundary.FromRemote, from: remote, to: local, createNamespaces: true},
	}
	for i := range both {
		w := &both[i]
		w.identity = e.identity(w.direction, w.from.UID)
		w.extent = flow.Extent{Naming: c.Naming(w.direction, e.ClusterID), Withdrawn: map[string]bool{}, Unready: map[string]bool{}}
		for _, name := range c.Withdrawn {
			w.extent.Withdrawn[name] = true
		}
		for _, name := range c.Unready {
			if w.direction == boundary.FromRemote {
				name = c.Namespaces[name]
			}
			w.extent.Unready[name] = true
		}
		w.rules = slices.DeleteFunc(slices.Clone(c.Rules), func(r *boundary.Rule) bool { return r.Direction != w.direction })
		w.massDeletion, w.waiting = c.MassDeletion, c.Waiting
	}
	return both
}

// identity is who is seen to write in a direction; uid is that of the sources' cluster.
func (e *Engine) identity(direction boundary.Direction, uid string) boundary.Identity {
	sources := e.ClusterID
	if direction == boundary.FromRemote {
		sources = e.RemoteID
	}
	return boundary.Identity{Cluster: sources, Home: e.ClusterID, Instance: e.Instance, ClusterUID: uid}
}

// flowsOf says how the flows of a direction run, one a kind. base holds what they have in common, and the ledger if they
// are to run; absent are the rules of earlier runs that do not run now.
func (e *Engine) flowsOf(w way, base flow.Options, absent []ledger.Rule) []flow.Options {
	var removed, waiting []ledger.Rule
	for _, rule := range absent {
		switch {
		case rule.Direction != w.direction:
		case slices.Contains(w.waiting, rule.Name):
			waiting = append(waiting, rule)
		default:
			removed = append(removed, rule)
		}
	}
	var flows []flow.Options
	for _, kind := range kindsOf(w.rules, removed) {
		o := base
		o.Kind = kind
		o.Identity, o.Direction, o.Extent, o.From, o.To = w.identity, w.direction, w.extent, w.from, w.to
		o.Remote = e.RemoteID
		o.CreateNamespaces, o.MassDeletion = w.createNamespaces, w.massDeletion
		o.Metrics, o.Logger, o.Changed = e.Metrics, e.Logger, e.told
		if e.TwinMoved != nil && w.direction == boundary.ToRemote {
			o.TwinMoved = func(source types.NamespacedName) { e.TwinMoved(kind.GroupKind(), source) }
		}
		for _, rule := range w.rules {
			if rule.Kind.GroupKind() == kind.GroupKind() {
				o.Rules = append(o.Rules, rule)
			}
		}
		for _, rule := range removed {
			if rule.GroupVersionKind().GroupKind() == kind.GroupKind() {
				o.Removed = append(o.Removed, boundary.RemovedRule{Name: rule.Name, OnRemoval: rule.OnRemoval, CarryFinalizers: rule.CarryFinalizers})
			}
		}
		for _, rule := range waiting {
			if rule.GroupVersionKind().GroupKind() == kind.GroupKind() {
				o.Waiting = append(o.Waiting, rule.Name)
			}
		}
		if !slices.ContainsFunc(o.Rules, (*boundary.Rule).RefersByKind) {
			o.Extent.Naming = boundary.WithoutKinds(w.extent.Naming)
		}
		flows = append(flows, o)
	}
	return flows
}

// ledgerRules returns what the ledger remembers of a configuration's rules.
func (e *Engine) ledgerRules(c *config.Config) []ledger.Rule {
	var rules []ledger.Rule
	for _, rule := range c.Rules {
		names, ok := rule.TwinNamespaces(c.Naming(rule.Direction, e.ClusterID))
		if !ok {
			names = []string{ledger.Anywhere}
		}
		var heldIn []string
		if rule.MayHold() {
			if heldIn, ok = rule.SourceNamespaces(c.Naming(rule.Direction, e.ClusterID)); !ok {
				heldIn = []string{ledger.Anywhere}
			}
		}
		rules = append(rules, ledger.Rule{
			Name: rule.Name, Group: rule.Kind.Group, Version: rule.Kind.Version, Kind: rule.Kind.Kind,
			Direction: rule.Direction, OnRemoval: rule.OnRemoval, Namespaces: names, HeldIn: heldIn, CarryFinalizers: rule.CarryFinalizers,
		})
	}
	return rules
}

// kindsOf returns the kinds of all rules, in a stable order.
func kindsOf(rules []*boundary.Rule, removed []ledger.Rule) []schema.GroupVersionKind {
	var kinds []schema.GroupVersionKind
	add := func(gvk schema.GroupVersionKind) {
		if !slices.ContainsFunc(kinds, func(k schema.GroupVersionKind) bool { return k.GroupKind() == gvk.GroupKind() }) {
			kinds = append(kinds, gvk)
		}
	}
	for _, rule := range rules {
		add(rule.Kind)
	}
	for _, rule := range removed {
		add(rule.GroupVersionKind())
	}
	return kinds
}
