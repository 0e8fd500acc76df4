package cli

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/flow"
	"isthmus.dev/isthmus/internal/ledger"
	"isthmus.dev/isthmus/internal/observe"
)

// way is a direction in which objects cross: which side is which, and who is seen to write.
type way struct {
	direction        boundary.Direction
	from, to         flow.End
	identity         boundary.Identity
	naming           boundary.Naming
	createNamespaces bool
	events           *observe.Events // on the sources
}

// ways returns both directions between clusters whose namespaces kube-system have these UIDs.
func (s *syncer) ways(localUID, remoteUID string) []way {
	local, remote := flow.End{Cluster: s.local, UID: localUID}, flow.End{Cluster: s.remote, UID: remoteUID}
	both := []way{
		{direction: boundary.ToRemote, from: local, to: remote, createNamespaces: s.file.CreateNamespaces,
			identity: boundary.Identity{Cluster: s.clusterID, ClusterUID: local.UID}},
		{direction: boundary.FromRemote, from: remote, to: local, createNamespaces: true,
			identity: boundary.Identity{Cluster: s.remoteID, ClusterUID: remote.UID}},
	}
	for i := range both {
		w := &both[i]
		w.identity.Home, w.identity.Instance = s.clusterID, s.instance
		w.naming = s.file.Naming(w.direction, s.clusterID)
		w.events = observe.NewEvents(w.from.Clientset(), "isthmus", s.file.Events)
		w.events.LogTo(s.log)
	}
	return both
}

// flowsOf makes the flows of a direction, one a kind.
func (s *syncer) flowsOf(ctx context.Context, w way, book *ledger.Ledger, removed []ledger.Rule) []*flow.Flow {
	rules := slices.DeleteFunc(slices.Clone(s.file.Rules), func(r *boundary.Rule) bool { return r.Direction != w.direction })
	removed = slices.DeleteFunc(slices.Clone(removed), func(r ledger.Rule) bool { return r.Direction != w.direction })
	kinds := kindsOf(rules, removed)
	if len(kinds) == 0 {
		return nil
	}
	namespaces := sync.OnceValue(func() *cluster.Namespaces {
		return w.to.WatchNamespaces(ctx, twinNamespaces(rules, w.naming), func(name string) {
			s.mu.Lock()
			flows := s.flows
			s.mu.Unlock()
			for _, f := range flows {
				if f.Direction == w.direction {
					f.NamespaceChanged(name)
				}
			}
		})
	})
	var flows []*flow.Flow
	for _, kind := range kinds {
		o := flow.Options{
			Identity: w.identity, Kind: kind, Direction: w.direction, Naming: w.naming, From: w.from, To: w.to,
			Namespaces: namespaces, CreateNamespaces: w.createNamespaces, MassDeletion: s.file.MassDeletion,
			Ledger: book, Events: w.events, Metrics: s.metrics, Logger: s.log,
		}
		for _, rule := range rules {
			if rule.Kind.GroupKind() == kind.GroupKind() {
				o.Rules = append(o.Rules, rule)
			}
		}
		for _, rule := range removed {
			if rule.GroupVersionKind().GroupKind() == kind.GroupKind() {
				o.Removed = append(o.Removed, boundary.RemovedRule{Name: rule.Name, OnRemoval: rule.OnRemoval})
			}
		}
		o.TwinNamespaces, o.FormerNamespaces = twinNamespaces(o.Rules, w.naming), formerNamespaces(book, o)
		flows = append(flows, flow.New(o))
	}
	return flows
}

// begin records the rules in the ledger and returns those that were removed since the last run.
func (s *syncer) begin(ctx context.Context, book *ledger.Ledger) (removed []ledger.Rule, err error) {
	var rules []ledger.Rule
	for _, rule := range s.file.Rules {
		names, ok := rule.TwinNamespaces(s.file.Naming(rule.Direction, s.clusterID))
		if !ok {
			names = []string{ledger.Anywhere}
		}
		rules = append(rules, ledger.Rule{
			Name: rule.Name, Group: rule.Kind.Group, Version: rule.Kind.Version, Kind: rule.Kind.Kind,
			Direction: rule.Direction, OnRemoval: rule.OnRemoval, Namespaces: names,
		})
	}
	err = s.retry(ctx, func() error {
		var err error
		removed, err = book.Begin(ctx, rules)
		return err
	})
	return removed, err
}

// twinNamespaces returns the namespaces in which the twins of rules belong; nil: any.
func twinNamespaces(rules []*boundary.Rule, naming boundary.Naming) []string {
	all := []string{}
	for _, rule := range rules {
		names, ok := rule.TwinNamespaces(naming)
		if !ok {
			return nil
		}
		all = append(all, names...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// formerNamespaces returns the namespaces in which twins of a flow's earlier runs may be left.
func formerNamespaces(book *ledger.Ledger, o flow.Options) []string {
	var all []string
	for _, rule := range o.Rules {
		all = append(all, book.Former(rule.Name)...)
	}
	for _, rule := range o.Removed {
		all = append(all, book.Former(rule.Name)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
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
