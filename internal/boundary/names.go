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
	// Admits reports whether the sources of a namespace have a place at all; "" stands for cluster-scoped ones.
	Admits(rule *Rule, namespace string) bool
	// Sources returns the namespaces whose sources have a place, where only some have one; nil: any may.
	Sources() []string
	// Place returns where the twin of an admitted source belongs. An error says what is wrong with what the source
	// itself says about it.
	Place(rule *Rule, source *unstructured.Unstructured) (types.NamespacedName, error)
	// Targets returns the namespaces in which the twins of a namespace's sources can be; nil: any.
	Targets(rule *Rule, namespace string) []string
	// Translator translates the references in a rule's sources.
	Translator(rule *Rule, resolve Resolver) Translator
	// Mark adds the naming's own labels and annotations to those of a twin, and translates label keys (P1). It changes
	// the maps that it is given.
	Mark(rule *Rule, source *unstructured.Unstructured, place types.NamespacedName, labels, annotations map[string]any)
}

// WithoutKinds returns a naming that knows nothing of the kinds that cross. It does for rules none of which refers to
// objects by their kind, and stays the same whatever other rules there are.
func WithoutKinds(naming Naming) Naming {
	switch n := naming.(type) {
	case SameName:
		n.Kinds = nil
		return n
	case VirtualClusterNaming:
		n.Kinds, n.Copied = nil, nil
		return n
	}
	return naming
}

// SameName keeps names; the namespace becomes its counterpart.
type SameName struct {
	// Pairs are the counterparts of the sources' namespaces; nil: those of the same names.
	Pairs NamespacePairs
	// Origin is the sources' cluster ID, for references to namespaces without a counterpart.
	Origin string
	// Kinds are the kinds that cross by any rule; nil: any may.
	Kinds Kinds
}

var _ Naming = SameName{}

// Admits implements Naming.
func (n SameName) Admits(_ *Rule, namespace string) bool {
	_, ok := n.Pairs.Remote(namespace)
	return ok || namespace == ""
}

// Sources implements Naming.
func (n SameName) Sources() []string {
	return n.Pairs.locals()
}

// Place implements Naming.
func (n SameName) Place(_ *Rule, source *unstructured.Unstructured) (types.NamespacedName, error) {
	place := nameOf(source)
	if place.Namespace != "" {
		place.Namespace, _ = n.Pairs.Remote(place.Namespace)
	}
	return place, nil
}

// Targets implements Naming.
func (n SameName) Targets(_ *Rule, namespace string) []string {
	if target, ok := n.Pairs.Remote(namespace); ok {
		return []string{target}
	}
	return []string{}
}

// Translator implements Naming.
func (n SameName) Translator(_ *Rule, resolve Resolver) Translator {
	return SameNames{Pairs: n.Pairs, Origin: n.Origin, Kinds: n.Kinds, Resolve: resolve}
}

// Mark implements Naming: the same names need no marks.
func (SameName) Mark(*Rule, *unstructured.Unstructured, types.NamespacedName, map[string]any, map[string]any) {
}

// VirtualClusterNaming lets every namespace land in one host namespace, under vCluster's own scheme.
type VirtualClusterNaming struct {
	Cluster VirtualCluster
	// Kinds are the kinds that cross by any rule.
	Kinds Kinds
	// Copied are the kinds of which objects come from the host as copies.
	Copied map[schema.GroupKind]bool
}

var _ Naming = VirtualClusterNaming{}

// Admits implements Naming: all namespaces have a place.
func (VirtualClusterNaming) Admits(*Rule, string) bool { return true }

// Sources implements Naming.
func (VirtualClusterNaming) Sources() []string { return nil }

// Place implements Naming.
func (n VirtualClusterNaming) Place(rule *Rule, source *unstructured.Unstructured) (types.NamespacedName, error) {
	namespace, name := source.GetNamespace(), source.GetName()
	switch {
	case namespace == "":
		return types.NamespacedName{Name: n.Cluster.HostNameCluster(name)}, nil
	case rule.HostNamespace != "":
		return types.NamespacedName{Namespace: rule.HostNamespace, Name: n.Cluster.SharedName(namespace, name)}, nil
	}
	return types.NamespacedName{Namespace: n.Cluster.HostNamespace, Name: n.Cluster.HostName(namespace, name)}, nil
}

// Targets implements Naming.
func (n VirtualClusterNaming) Targets(rule *Rule, _ string) []string {
	if rule.HostNamespace != "" {
		return []string{rule.HostNamespace}
	}
	return []string{n.Cluster.HostNamespace}
}

// Translator implements Naming.
func (n VirtualClusterNaming) Translator(rule *Rule, resolve Resolver) Translator {
	return VirtualNames{Cluster: n.Cluster, Shared: rule.HostNamespace, Kinds: n.Kinds, Copied: n.Copied, Resolve: resolve}
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
// twin that it has. ok is false when no rule takes it, or its place can't be told.
func Belongs(rules []*Rule, source *unstructured.Unstructured, naming Naming, stamped string) (place types.NamespacedName, ok bool) {
	chosen := chooseRule(rules, source, naming, stamped)
	if chosen.rule == nil {
		return types.NamespacedName{}, false
	}
	place, err := naming.Place(chosen.rule, source)
	return place, err == nil
}

// Targets returns the namespaces in which the twins of a namespace's sources can be, under any of the rules; nil: any.
func Targets(rules []*Rule, naming Naming, namespace string) []string {
	set := map[string]bool{}
	for _, rule := range rules {
		targets := naming.Targets(rule, namespace)
		if targets == nil {
			return nil
		}
		for _, target := range targets {
			set[target] = true
		}
	}
	return slices.AppendSeq([]string{}, maps.Keys(set))
}

// SourceNamespaces returns the namespaces that a rule's sources can be in, where these can be listed: from those that
// have a place, or from an inclusion without wildcards.
func (r *Rule) SourceNamespaces(naming Naming) (namespaces []string, ok bool) {
	candidates, ok := r.Namespaces.Literal()
	if some := naming.Sources(); some != nil {
		candidates, ok = some, true
	}
	if !ok {
		return nil, false
	}
	namespaces = []string{}
	for _, name := range candidates {
		if naming.Admits(r, name) && r.Namespaces.Admits(name) {
			namespaces = append(namespaces, name)
		}
	}
	return namespaces, true
}

// TwinNamespaces returns the namespaces that a rule's twins can be in, where these can be listed.
func (r *Rule) TwinNamespaces(naming Naming) (namespaces []string, ok bool) {
	sources, ok := r.SourceNamespaces(naming)
	if !ok {
		// They may have but one place, wherever the sources are.
		sources = []string{anyNamespace}
		if targets := naming.Targets(r, anyNamespace); len(targets) != 1 || targets[0] == anyNamespace {
			return nil, false
		}
	}
	namespaces = []string{}
	for _, source := range sources {
		targets := naming.Targets(r, source)
		if targets == nil {
			return nil, false
		}
		namespaces = append(namespaces, targets...)
	}
	slices.Sort(namespaces)
	return slices.Compact(namespaces), true
}

// SourceNamespaces returns the namespaces that the sources of any of the rules can be in, in order, where these can be
// listed.
func SourceNamespaces(rules []*Rule, naming Naming) (namespaces []string, ok bool) {
	return namespacesOf(rules, naming, (*Rule).SourceNamespaces)
}

// TwinNamespaces returns the namespaces that the twins of any of the rules can be in, in order, where these can be listed.
func TwinNamespaces(rules []*Rule, naming Naming) (namespaces []string, ok bool) {
	return namespacesOf(rules, naming, (*Rule).TwinNamespaces)
}

func namespacesOf(rules []*Rule, naming Naming, of func(*Rule, Naming) ([]string, bool)) (namespaces []string, ok bool) {
	for _, rule := range rules {
		names, ok := of(rule, naming)
		if !ok {
			return nil, false
		}
		namespaces = append(namespaces, names...)
	}
	slices.Sort(namespaces)
	return slices.Compact(namespaces), true
}

// anyNamespace is no namespace's name: what it becomes, any becomes.
const anyNamespace = "*"
