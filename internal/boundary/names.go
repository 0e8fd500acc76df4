package boundary

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Naming says where twins belong, and what they are called there (N1, N3).
type Naming interface {
	// Place returns where the twin of a source belongs under a rule; ok is false when its namespace has no counterpart.
	Place(rule *Rule, source types.NamespacedName) (place types.NamespacedName, ok bool)
	// Namespace returns the namespace of the twins of a namespace's sources under a rule.
	Namespace(rule *Rule, source string) (namespace string, ok bool)
	// Single returns the one namespace that all twins of a rule go into, if the naming has but one.
	Single(rule *Rule) (namespace string, ok bool)
	// Counterparts returns the namespaces that have a counterpart, where only some have one; nil: all have.
	Counterparts() []string
	// Translator translates the references in a rule's sources.
	Translator(rule *Rule) Translator
	// Mark adds the naming's own labels and annotations to those of a twin, and translates label keys (P1). It changes
	// the maps that it is given.
	Mark(rule *Rule, source *unstructured.Unstructured, place types.NamespacedName, labels, annotations map[string]any)
}

// SameName keeps names; the namespace becomes its counterpart.
type SameName struct {
	// Pairs are the counterparts of the local namespaces; nil: those of the same names.
	Pairs NamespacePairs
	// Origin is the local cluster's ID, for references to namespaces without a counterpart.
	Origin string
}

var _ Naming = SameName{}

// Place implements Naming.
func (n SameName) Place(rule *Rule, source types.NamespacedName) (types.NamespacedName, bool) {
	namespace, ok := n.Namespace(rule, source.Namespace)
	return types.NamespacedName{Namespace: namespace, Name: source.Name}, ok
}

// Namespace implements Naming.
func (n SameName) Namespace(_ *Rule, source string) (string, bool) { return n.Pairs.Remote(source) }

// Single implements Naming.
func (SameName) Single(*Rule) (string, bool) { return "", false }

// Counterparts implements Naming.
func (n SameName) Counterparts() []string {
	if n.Pairs == nil {
		return nil
	}
	return sortedKeys(n.Pairs)
}

// Translator implements Naming.
func (n SameName) Translator(*Rule) Translator { return SameNames{Pairs: n.Pairs, Origin: n.Origin} }

// Mark implements Naming: the same names need no marks.
func (SameName) Mark(*Rule, *unstructured.Unstructured, types.NamespacedName, map[string]any, map[string]any) {
}

// VirtualClusterNaming lets every namespace land in one host namespace, under vCluster's own scheme.
type VirtualClusterNaming struct {
	Cluster VirtualCluster
	// Kinds are the kinds that cross by any rule, and where they are.
	Kinds map[schema.GroupKind]Placement
}

var _ Naming = VirtualClusterNaming{}

// Place implements Naming.
func (n VirtualClusterNaming) Place(rule *Rule, source types.NamespacedName) (types.NamespacedName, bool) {
	namespace, _ := n.Namespace(rule, source.Namespace)
	name := n.Cluster.HostName(source.Namespace, source.Name)
	if rule.HostNamespace != "" {
		name = n.Cluster.SharedName(source.Namespace, source.Name)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, true
}

// Namespace implements Naming.
func (n VirtualClusterNaming) Namespace(rule *Rule, _ string) (string, bool) { return n.Single(rule) }

// Single implements Naming.
func (n VirtualClusterNaming) Single(rule *Rule) (string, bool) {
	if rule.HostNamespace != "" {
		return rule.HostNamespace, true
	}
	return n.Cluster.HostNamespace, true
}

// Counterparts implements Naming.
func (VirtualClusterNaming) Counterparts() []string { return nil }

// Translator implements Naming.
func (n VirtualClusterNaming) Translator(rule *Rule) Translator {
	return VirtualNames{Cluster: n.Cluster, Shared: rule.HostNamespace, Kinds: n.Kinds}
}

// Mark implements Naming.
func (n VirtualClusterNaming) Mark(rule *Rule, source *unstructured.Unstructured, place types.NamespacedName, labels, annotations map[string]any) {
	theirs := make(map[string]string, len(labels))
	for k, v := range labels {
		theirs[k], _ = v.(string)
	}
	translate := n.Cluster.Labels
	if rule.HostNamespace != "" {
		translate = n.Cluster.SharedLabels
	}
	clear(labels)
	for k, v := range translate(theirs, source.GetNamespace()) {
		labels[k] = v
	}
	for k, v := range n.Cluster.Annotations(rule.Kind, nameOf(source), source.GetUID(), place) {
		annotations[k] = v
	}
}

// Belongs returns where the twin of a source belongs, by the rule that takes it; stamped is the rule in the stamp of a
// twin that it has. ok is false when no rule takes it.
func Belongs(rules []*Rule, source *unstructured.Unstructured, naming Naming, stamped string) (place types.NamespacedName, ok bool) {
	chosen := chooseRule(rules, source, naming, stamped)
	if chosen.rule == nil {
		return types.NamespacedName{}, false
	}
	return naming.Place(chosen.rule, nameOf(source))
}

// TwinNamespaces returns the namespaces of the twins of a namespace's sources, under any of the rules.
func TwinNamespaces(rules []*Rule, naming Naming, source string) []string {
	set := map[string]bool{}
	for _, rule := range rules {
		if namespace, ok := naming.Namespace(rule, source); ok {
			set[namespace] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// SourceNamespaces returns the local namespaces that a rule's sources can be in, where these can be listed: from those
// that have counterparts, or from an inclusion without wildcards.
func (r *Rule) SourceNamespaces(naming Naming) (namespaces []string, ok bool) {
	candidates, ok := r.Namespaces.Literal()
	counterparts := naming.Counterparts()
	if counterparts != nil {
		candidates, ok = counterparts, true
	}
	if !ok {
		return nil, false
	}
	namespaces = []string{}
	for _, name := range candidates {
		if _, paired := naming.Namespace(r, name); paired && r.Namespaces.Admits(name) {
			namespaces = append(namespaces, name)
		}
	}
	return namespaces, true
}

// TwinNamespaces returns the namespaces that a rule's twins can be in, where these can be listed.
func (r *Rule) TwinNamespaces(naming Naming) (namespaces []string, ok bool) {
	if namespace, ok := naming.Single(r); ok {
		return []string{namespace}, true
	}
	sources, ok := r.SourceNamespaces(naming)
	if !ok {
		return nil, false
	}
	namespaces = []string{}
	for _, source := range sources {
		if namespace, paired := naming.Namespace(r, source); paired {
			namespaces = append(namespaces, namespace)
		}
	}
	slices.Sort(namespaces)
	return slices.Compact(namespaces), true
}
