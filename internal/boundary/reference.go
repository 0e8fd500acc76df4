package boundary

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Reference names an object on one side.
type Reference struct {
	// Group and Kind are the object's; an empty Kind is unknown.
	Group, Kind string
	// GroupKnown tells the core group, which is empty, from a group that the reference does not state.
	GroupKnown bool
	// Namespace is empty for a cluster-scoped object.
	Namespace, Name string
}

// describe writes the reference for messages.
func (r Reference) describe() string {
	name := FormatName(types.NamespacedName{Namespace: r.Namespace, Name: r.Name})
	if r.Kind != "" {
		name = r.Kind + " " + name
	}
	return name
}

// Target is what a reference becomes.
type Target struct {
	// Namespace is empty for a cluster-scoped object.
	Namespace, Name string
	// Dangling: nothing that crosses is there.
	Dangling bool
}

// Translator knows where things are on the other side (N3). It answers for all references, also to what does not cross.
type Translator interface {
	// Object returns where the object that a reference names is, or would be.
	Object(ref Reference) Target
	// Namespace returns the counterpart of a namespace, and whether it has none: then it is one that is nobody else's.
	Namespace(namespace string) (counterpart string, dangling bool)
	// TwinNamespace returns the namespace of the twins of a namespace's sources, under the rule at hand. The namespace
	// is empty for a cluster-scoped source.
	TwinNamespace(namespace string) string
	// LabelKey returns the key that a label has.
	LabelKey(key string) string
	// SelectorLabels returns what a selector in an object of the namespace must ask for as well, so that it selects
	// nothing of others'; nil: nothing.
	SelectorLabels(namespace string) map[string]string
}

// namespaceKind names namespaces, which have counterparts instead of twins. It is the only kind that translation knows.
var namespaceKind = schema.GroupKind{Kind: "Namespace"}

// namesNamespace reports whether the reference names a namespace.
func (r Reference) namesNamespace() bool {
	return r.GroupKnown && schema.GroupKind{Group: r.Group, Kind: r.Kind} == namespaceKind
}

// SameNames translates under SameName naming: names stay, namespaces become their counterparts.
type SameNames struct {
	// Pairs are the counterparts of the local namespaces.
	Pairs NamespacePairs
	// Origin is the local cluster's ID. A namespace without a counterpart becomes <namespace>-<origin>: its own name may
	// be another's on the other side.
	Origin string
	// Crosses reports whether the object of a reference crosses; nil: all do that have a place. It says true of what it
	// can't tell.
	Crosses func(Reference) bool
}

var _ Translator = SameNames{}

// Object implements Translator.
func (t SameNames) Object(ref Reference) Target {
	if ref.namesNamespace() {
		namespace, dangling := t.Namespace(ref.Name)
		return Target{Name: namespace, Dangling: dangling}
	}
	target := Target{Name: ref.Name}
	if ref.Namespace != "" {
		target.Namespace, target.Dangling = t.Namespace(ref.Namespace)
	}
	target.Dangling = target.Dangling || t.Crosses != nil && !t.Crosses(ref)
	return target
}

// Namespace implements Translator.
func (t SameNames) Namespace(namespace string) (counterpart string, dangling bool) {
	if counterpart, ok := t.Pairs.Remote(namespace); ok {
		return counterpart, false
	}
	return shorten(namespace + "-" + t.Origin), true
}

// TwinNamespace implements Translator.
func (t SameNames) TwinNamespace(namespace string) string {
	if namespace == "" {
		return ""
	}
	counterpart, _ := t.Namespace(namespace)
	return counterpart
}

// LabelKey implements Translator.
func (t SameNames) LabelKey(key string) string { return key }

// SelectorLabels implements Translator.
func (t SameNames) SelectorLabels(string) map[string]string { return nil }

// Placement says where the objects of a kind are in the host cluster.
type Placement struct {
	// Shared is the host namespace that a rule puts its twins in together with other virtual clusters'; empty: the
	// virtual cluster's own.
	Shared string
	// ClusterScoped kinds have no namespace.
	ClusterScoped bool
	// Mirrored kinds come from the host cluster: their names are the same on both sides.
	Mirrored bool
}

// VirtualNames translates under vCluster's naming.
type VirtualNames struct {
	// Cluster is the virtual cluster on the local side.
	Cluster VirtualCluster
	// Shared is the shared host namespace of the rule at hand; empty: the virtual cluster's own.
	Shared string
	// Kinds are the kinds that cross, and where they are.
	Kinds map[schema.GroupKind]Placement
	// Crosses reports whether the object of a reference to one of these kinds crosses; nil: all do.
	Crosses func(Reference) bool
}

var _ Translator = VirtualNames{}

// Object implements Translator. What does not cross by a rule has the name that vCluster itself gives it: it carries
// core kinds on its own. It is taken for one when the reference states no kind, or no group and a kind that no rule has.
func (t VirtualNames) Object(ref Reference) Target {
	placement, crosses := t.placement(ref)
	host := t.Cluster.HostNamespace
	target := Target{Dangling: crosses && t.Crosses != nil && !t.Crosses(ref)}
	switch {
	case ref.namesNamespace() && !crosses:
		return Target{Name: host}
	case placement.Mirrored:
		target.Name = ref.Name
		if !placement.ClusterScoped {
			target.Namespace = host
		}
	case placement.ClusterScoped || ref.Namespace == "":
		target.Name = t.Cluster.HostNameCluster(ref.Name)
	case placement.Shared != "":
		target.Namespace, target.Name = placement.Shared, t.Cluster.SharedName(ref.Namespace, ref.Name)
	default:
		target.Namespace, target.Name = host, t.Cluster.HostName(ref.Namespace, ref.Name)
	}
	if !crosses && ref.Kind != "" && ref.Group != "" {
		target.Dangling = true
	}
	return target
}

// placement finds the kind of a reference among those that cross. Without a group the core group comes first, then the
// only kind of that name.
func (t VirtualNames) placement(ref Reference) (Placement, bool) {
	if placement, ok := t.Kinds[schema.GroupKind{Group: ref.Group, Kind: ref.Kind}]; ok || ref.GroupKnown || ref.Kind == "" {
		return placement, ok
	}
	var found []Placement
	for kind, placement := range t.Kinds {
		if kind.Kind == ref.Kind {
			found = append(found, placement)
		}
	}
	if len(found) == 1 {
		return found[0], true
	}
	return Placement{}, false
}

// Namespace implements Translator: every namespace lands in the virtual cluster's own host namespace, where vCluster
// puts what it carries itself.
func (t VirtualNames) Namespace(string) (counterpart string, dangling bool) {
	return t.Cluster.HostNamespace, false
}

// TwinNamespace implements Translator.
func (t VirtualNames) TwinNamespace(string) string {
	if t.Shared != "" {
		return t.Shared
	}
	return t.Cluster.HostNamespace
}

// LabelKey implements Translator.
func (t VirtualNames) LabelKey(key string) string { return t.Cluster.LabelKey(key) }

// SelectorLabels implements Translator. For a cluster-scoped source they are those of the virtual cluster's
// cluster-scoped objects: nothing else tells a virtual cluster from all others of the host cluster.
func (t VirtualNames) SelectorLabels(namespace string) map[string]string {
	marker := ""
	if t.Shared != "" {
		marker = t.Cluster.MarkerShared()
	}
	return t.Cluster.membership(namespace, marker)
}

// groupOf reads the API group that a reference states, in any of the usual fields.
func groupOf(m map[string]any) (group string, known bool) {
	for _, field := range []string{"group", "apiGroup"} {
		if group, ok := m[field].(string); ok {
			return group, true
		}
	}
	version, ok := m["apiVersion"].(string)
	if !ok || version == "" {
		return "", false
	}
	group, _, dotted := strings.Cut(version, "/")
	if !dotted {
		group = ""
	}
	return group, true
}
