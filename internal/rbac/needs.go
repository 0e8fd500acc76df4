package rbac

import (
	"slices"

	"isthmus.dev/isthmus/internal/boundary"
)

// need is something to be allowed.
type need struct {
	group, resource string
	// names restricts it to objects of these names; nil means all.
	names []string
	verbs []string
	// namespace is the one namespace that it is about. Empty: the rule's own, or the cluster where anywhere is set.
	namespace string
	// cluster marks what is about cluster-scoped objects.
	cluster bool
}

// Verbs, by what they are for. Creating by server-side apply takes both create and patch.
var (
	watch  = []string{"get", "list", "watch"}
	write  = []string{"create", "patch", "delete"}
	create = []string{"create", "patch"}
)

// always lists what any Isthmus needs.
func always(o Options) []need {
	needs := []need{
		// Its UID is the cluster's identity.
		{resource: "namespaces", names: []string{"kube-system"}, verbs: []string{"get"}, cluster: true},
	}
	if o.Home != "" && o.Events {
		// What is wrong with the configuration is told on the virtual cluster's Service.
		needs = append(needs, need{resource: "events", verbs: create, namespace: o.Home})
	}
	if o.Side == Local {
		// The ledger is created by apply, so that its name is known and the grant can name it.
		ledger := need{resource: "configmaps", names: []string{boundary.OwnName(o.Instance)}, verbs: []string{"get", "create", "patch", "update"}, namespace: o.Namespace}
		if o.ledgers {
			// They come and go with the remotes.
			ledger.names, ledger.verbs = nil, append(ledger.verbs, "delete")
		}
		needs = append(needs, ledger)
		if o.LeaderElect {
			needs = append(needs, need{
				group: "coordination.k8s.io", resource: "leases", names: []string{boundary.OwnName(o.Instance)}, verbs: []string{"get", "create", "patch", "update"}, namespace: o.Namespace,
			})
		}
	}
	return needs
}

// needsOf lists what a rule needs.
func needsOf(o Options, rule *boundary.Rule, resource Resource, where place) []need {
	group := rule.Kind.Group
	var needs []need
	if !boundary.BuiltinGroup(group) {
		// Whether the kind is served, and by which definition.
		needs = append(needs, need{group: "apiextensions.k8s.io", resource: "customresourcedefinitions", names: []string{resource.Name + "." + group}, verbs: watch, cluster: true})
	}
	if sourcesAre(o.Side, rule) {
		sources := need{group: group, resource: resource.Name, verbs: watch}
		if rule.MayHold() {
			// A Role goes with its namespace, and then nobody could take our finalizers off what it held up there.
			sources.verbs, sources.cluster = slices.Concat(watch, []string{"patch"}), len(where.namespaces) > 0
		}
		needs = append(needs, sources)
		if rule.ReturnStatus {
			needs = append(needs, need{group: group, resource: resource.Name + "/status", verbs: []string{"patch"}})
		}
		if o.Events {
			events := need{resource: "events", verbs: create}
			if resource.ClusterScoped {
				events.namespace = "default" // where Events on cluster-scoped objects are
			}
			needs = append(needs, events)
		}
		return needs
	}
	createNamespaces := !o.NamespacesGiven && (o.CreateNamespaces || rule.Direction == boundary.FromRemote)
	needs = append(needs, need{
		group: group, resource: resource.Name, verbs: slices.Concat(watch, write),
		// A Role can't be there before its namespace is.
		cluster: createNamespaces && len(where.namespaces) > 0,
	})
	if rule.Mode == boundary.ModeMirror {
		needs = append(needs, need{group: group, resource: resource.Name + "/status", verbs: []string{"patch"}, cluster: createNamespaces && len(where.namespaces) > 0})
	}
	if resource.ClusterScoped {
		return needs
	}
	// Twins wait for their namespaces.
	names := slices.DeleteFunc(slices.Clone(where.namespaces), func(name string) bool { return name == o.Home })
	needs = append(needs, need{resource: "namespaces", names: names, verbs: watch, cluster: true})
	if createNamespaces {
		needs = append(needs, need{resource: "namespaces", names: where.namespaces, verbs: create, cluster: true})
	}
	return needs
}

// sourcesAre reports whether a rule's sources are on a side.
func sourcesAre(side Side, rule *boundary.Rule) bool {
	return (side == Local) == (rule.Direction != boundary.FromRemote)
}

// place is where a rule's objects are on one side: anywhere, or in some namespaces.
type place struct {
	anywhere   bool
	namespaces []string // sorted; nil where they can't be listed
}

// placeOf returns where a rule's objects are on the side of the options.
func placeOf(o Options, rule *boundary.Rule, resource Resource) place {
	if resource.ClusterScoped {
		return place{anywhere: true}
	}
	find := rule.SourceNamespaces
	if !sourcesAre(o.Side, rule) {
		find = rule.TwinNamespaces
	}
	namespaces, listed := find(o.Naming(rule.Direction))
	if !listed {
		return place{anywhere: true}
	}
	return place{namespaces: namespaces}
}
