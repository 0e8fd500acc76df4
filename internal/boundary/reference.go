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
	// Implied is the core kind that the name of the reference's field implies, where it states no kind (fieldKinds).
	Implied string
	// Namespace is empty for a cluster-scoped object.
	Namespace, Name string
}

// kind returns the kind that the reference states or implies; empty: neither.
func (r Reference) kind() string {
	if r.Kind == "" {
		return r.Implied
	}
	return r.Kind
}

// describe writes the reference for messages.
func (r Reference) describe() string {
	name := FormatName(types.NamespacedName{Namespace: r.Namespace, Name: r.Name})
	if kind := r.kind(); kind != "" {
		name = kind + " " + name
	}
	return name
}

// namespace returns the namespace that the reference leads to, or into; empty: none.
func (r Reference) namespace() string {
	if r.namesNamespace() {
		return r.Name
	}
	return r.Namespace
}

// Object is an object on the sources' side.
type Object struct {
	Kind schema.GroupKind
	Name types.NamespacedName
}

// Resolution is what is known of an object that a reference names.
type Resolution struct {
	// Known: it is known whether it crosses. Otherwise its kind alone tells.
	Known bool
	// Crosses: a rule takes it, and Place is where its twin belongs.
	Crosses bool
	Place   types.NamespacedName
}

// Resolver tells about objects of kinds that cross (X3); nil knows of none.
type Resolver func(Object) Resolution

// String writes the reference, and of one to a namespace the namespace.
func (r Reference) String() string {
	if r.Name == "" {
		return "namespace " + r.Namespace
	}
	return r.describe()
}

// Target is what a reference becomes.
type Target struct {
	// Namespace is empty for a cluster-scoped object.
	Namespace, Name string
	// Dangling: nothing that crosses is there. Absent: only because no rule takes the object, which may change.
	Dangling, Absent bool
	// ForPods: no rule carries it, and vCluster only where a pod uses it.
	ForPods bool
	// Roams is the object, where its kind alone does not tell its place: rules put some here and some there. Unknown:
	// nor does anything else, for now.
	Roams   *Object
	Unknown bool
}

// settle completes the target of a reference to an object of a kind that crosses by what is known of the object.
func (r Resolver) settle(target Target, object Object, roams bool) Target {
	if roams {
		target.Roams = &object
	}
	if r == nil {
		return target
	}
	switch found := r(object); {
	case !found.Known:
		target.Unknown = roams
	case found.Crosses:
		target.Namespace, target.Name = found.Place.Namespace, found.Place.Name
	case !target.Dangling:
		target.Dangling, target.Absent = true, true
	}
	return target
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
	// Kinds are the kinds that cross; nil: any may.
	Kinds Kinds
	// Resolve tells about their objects.
	Resolve Resolver
}

var _ Translator = SameNames{}

// Object implements Translator.
func (t SameNames) Object(ref Reference) Target {
	if ref.namesNamespace() {
		namespace, dangling := t.Namespace(ref.Name)
		return Target{Name: namespace, Dangling: dangling}
	}
	target := Target{Name: ref.Name}
	kind, placement, matches := t.Kinds.of(ref)
	if ref.Namespace != "" && !placement.ClusterScoped {
		target.Namespace, target.Dangling = t.Namespace(ref.Namespace)
	}
	switch {
	case matches == 0 && t.Kinds != nil && ref.Kind != "":
		target.Dangling = true
	case matches == 1 && !placement.Mirrored:
		return t.Resolve.settle(target, placement.object(kind, ref), false)
	}
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
	// Roams: rules put objects of the kind in several host namespaces, so the kind alone does not tell where one is.
	Roams bool
}

// object is what a reference to a kind of this placement names.
func (p Placement) object(kind schema.GroupKind, ref Reference) Object {
	object := Object{kind, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}}
	if p.ClusterScoped {
		object.Name.Namespace = ""
	}
	return object
}

// Kinds are the kinds that cross, and where their objects are.
type Kinds map[schema.GroupKind]Placement

// of finds the kind of a reference. Without a group the core group comes first, then the only kind of that name; matches
// is 0 when there is none, and more than 1 when it can't be told which.
func (k Kinds) of(ref Reference) (kind schema.GroupKind, placement Placement, matches int) {
	kind = schema.GroupKind{Group: ref.Group, Kind: ref.Kind}
	if placement, ok := k[kind]; ok {
		return kind, placement, 1
	}
	if ref.GroupKnown || ref.Kind == "" {
		return kind, Placement{}, 0
	}
	for candidate, at := range k {
		if candidate.Kind == ref.Kind {
			kind, placement, matches = candidate, at, matches+1
		}
	}
	if matches != 1 {
		return schema.GroupKind{}, Placement{}, matches
	}
	return kind, placement, 1
}

// VirtualNames translates under vCluster's naming.
type VirtualNames struct {
	// Cluster is the virtual cluster on the local side.
	Cluster VirtualCluster
	// Shared is the shared host namespace of the rule at hand; empty: the virtual cluster's own.
	Shared string
	// Kinds are the kinds that cross.
	Kinds Kinds
	// Copied are the kinds of which objects come from the host as copies: what a field's name takes for one of them may be
	// made there.
	Copied map[schema.GroupKind]bool
	// Resolve tells about the objects of Kinds.
	Resolve Resolver
}

var _ Translator = VirtualNames{}

// Object implements Translator. What does not cross by a rule has the name that vCluster itself gives it: it carries
// core kinds on its own. It is taken for one when the reference states no kind, or no group and a kind that no rule has.
func (t VirtualNames) Object(ref Reference) Target {
	kind, placement, matches := t.Kinds.of(ref)
	crosses := matches == 1
	host := t.Cluster.HostNamespace
	var target Target
	switch {
	case ref.namesNamespace() && !crosses:
		return Target{Name: host}
	case placement.Mirrored:
		target.Name = ref.Name
		if !placement.ClusterScoped {
			target.Namespace = host
		}
		return target
	case placement.ClusterScoped || ref.Namespace == "":
		target.Name = t.Cluster.HostNameCluster(ref.Name)
	case placement.Shared != "":
		target.Namespace, target.Name = placement.Shared, t.Cluster.SharedName(ref.Namespace, ref.Name)
	default:
		target.Namespace, target.Name = host, t.Cluster.HostName(ref.Namespace, ref.Name)
	}
	switch {
	case crosses:
	case ref.Kind == "" && ref.Group == "":
		return t.implied(target, ref)
	default:
		target.Dangling = ref.Kind != "" && ref.Group != ""
		target.ForPods = contains(carriedForPods, ref.Kind) && ref.Group == ""
		return target
	}
	return t.Resolve.settle(target, placement.object(kind, ref), placement.Roams)
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
