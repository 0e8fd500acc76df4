package install

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/boundary"
)

// Bundle is what is applied for an Installation.
type Bundle struct {
	// Phases in order; those without objects are left out. Namespaces come first, the destination before others.
	Phases []Phase
	// Anchors, one a namespace, are applied before any other object there. WithAnchor makes them owners once their UIDs
	// are known.
	Anchors []*unstructured.Unstructured
	// Revision is a hash of all of it.
	Revision string
}

// Phase is applied before the next one.
type Phase struct {
	Name    PhaseName
	Objects []Object
}

// Object is one object to apply, stamped unless it is Shared.
type Object struct {
	*unstructured.Unstructured
	// Once says that the object runs once: one that is gone has run, and is put back only with other content.
	Once bool
	// Shared says that the object may exist already and belong to others, a namespace: ours are the labels and annotations
	// that it has here. It is in no inventory.
	Shared bool
	// Hash is of the content, without what Isthmus adds to it.
	Hash string
	// Where is where the manifests have it; empty: they don't, it is a namespace of what they have.
	Where string
}

// Inventory lists the anchors and all objects except those that are shared, in the order in which they are applied.
func (b *Bundle) Inventory() []v1alpha1.InventoryEntry {
	var entries []v1alpha1.InventoryEntry
	for _, anchor := range b.Anchors {
		entries = append(entries, EntryOf(anchor))
	}
	for _, phase := range b.Phases {
		for _, object := range phase.Objects {
			if !object.Shared {
				entries = append(entries, EntryOf(object.Unstructured))
			}
		}
	}
	return entries
}

// Namespaces lists the namespaces that the bundle goes to, the destination first.
func (b *Bundle) Namespaces() []string {
	var names []string
	for _, object := range b.Phases[0].Objects {
		names = append(names, object.GetName())
	}
	return names
}

// EntryOf returns the inventory's entry for an object.
func EntryOf(u *unstructured.Unstructured) v1alpha1.InventoryEntry {
	gvk := u.GroupVersionKind()
	return v1alpha1.InventoryEntry{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Namespace: u.GetNamespace(), Name: u.GetName()}
}

// bundle sorts the objects into phases and stamps them.
func bundle(docs []*document, namespaces []Object, o Options) (*Bundle, error) {
	phases := map[PhaseName][]Object{}
	b := &Bundle{}
	for _, namespace := range namespaces {
		namespace.Shared, namespace.Hash = true, hash(namespace.Object)
		phases[PhaseNamespaces] = append(phases[PhaseNamespaces], namespace)
		b.Anchors = append(b.Anchors, newAnchor(namespace.GetName(), o))
	}
	for _, d := range docs {
		u := d.u()
		if reserved(u) {
			return nil, d.fault("names that begin with isthmus-anchor- or isthmus-component- are those of Isthmus' own objects: expected another one")
		}
		gvk := d.gvk()
		object := Object{Unstructured: u, Once: boundary.RunsToCompletion(gvk), Hash: hash(d.object), Where: d.origin.String()}
		SetStamp(u, o.Hub, o.Stamp())
		phase := PhaseOf(gvk.GroupKind())
		phases[phase] = append(phases[phase], object)
	}
	for _, name := range phaseNames {
		objects := phases[name]
		slices.SortStableFunc(objects, func(a, b Object) int {
			return cmp.Compare(rank(a), rank(b))
		})
		if len(objects) > 0 {
			b.Phases = append(b.Phases, Phase{Name: name, Objects: objects})
		}
	}
	b.Revision = revision(b)
	return b, nil
}

func rank(o Object) int { return kindRanks[o.GroupVersionKind().GroupKind()] }

// reserved reports whether an object would take the place of an anchor or of a lock, whichever component's.
func reserved(u *unstructured.Unstructured) bool {
	return u.GetKind() == "ConfigMap" && u.GetAPIVersion() == "v1" &&
		(strings.HasPrefix(u.GetName(), anchorPrefix) || strings.HasPrefix(u.GetName(), lockPrefix))
}

// revision is a hash of all that is applied, in its order.
func revision(b *Bundle) string {
	var all []any
	for _, anchor := range b.Anchors {
		all = append(all, anchor.Object)
	}
	for _, phase := range b.Phases {
		for _, object := range phase.Objects {
			all = append(all, object.Object)
		}
	}
	return hash(all)[:16]
}
