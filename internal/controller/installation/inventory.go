package installation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus.dev/isthmus/api/v1alpha1"
)

// objectKey names an object. Its version is left out: the same object is served in several.
type objectKey struct{ group, kind, namespace, name string }

func keyOf(object *unstructured.Unstructured) objectKey {
	gvk := object.GroupVersionKind()
	return objectKey{gvk.Group, gvk.Kind, object.GetNamespace(), object.GetName()}
}

func keyOfEntry(e v1alpha1.InventoryEntry) objectKey {
	return objectKey{e.Group, e.Kind, e.Namespace, e.Name}
}

func gvkOf(e v1alpha1.InventoryEntry) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: e.Group, Version: e.Version, Kind: e.Kind}
}

// String names it for people.
func (k objectKey) String() string {
	kind := k.kind
	if k.group != "" {
		kind += "." + k.group
	}
	if k.namespace != "" {
		return fmt.Sprintf("%s %s/%s", kind, k.namespace, k.name)
	}
	return kind + " " + k.name
}

// union returns the entries of both, sorted; where both name an object, as the first one does.
func union(first, second []v1alpha1.InventoryEntry) []v1alpha1.InventoryEntry {
	out := slices.Clone(first)
	known := keysIn(first)
	for _, e := range second {
		if !known[keyOfEntry(e)] {
			known[keyOfEntry(e)] = true
			out = append(out, e)
		}
	}
	slices.SortFunc(out, compareEntries)
	return out
}

// without returns the entries of all that are not among some.
func without(all, some []v1alpha1.InventoryEntry) []v1alpha1.InventoryEntry {
	gone := keysIn(some)
	return slices.DeleteFunc(slices.Clone(all), func(e v1alpha1.InventoryEntry) bool { return gone[keyOfEntry(e)] })
}

func keysIn(entries []v1alpha1.InventoryEntry) map[objectKey]bool {
	keys := make(map[objectKey]bool, len(entries))
	for _, e := range entries {
		keys[keyOfEntry(e)] = true
	}
	return keys
}

func compareEntries(a, b v1alpha1.InventoryEntry) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version))
}

// mostNamed is how many objects a message names.
const mostNamed = 8

// named names objects for people, the first few of them.
func named(entries []v1alpha1.InventoryEntry) string { return fewOf(namesOf(entries)) }

// partMost is how long, in bytes, a part of a list is: with what else is said it fits into an Event.
const partMost = 800

// listed names all of the objects, sorted, each kind in each namespace once, in parts that fit into an Event.
func listed(entries []v1alpha1.InventoryEntry) (parts []string) {
	var part strings.Builder
	last := ""
	for _, e := range entries {
		k := keyOfEntry(e)
		k.name = ""
		group := strings.TrimSpace(k.String())
		text := ", " + e.Name
		if group != last {
			text = "; " + group + e.Name
			if k.namespace == "" {
				text = "; " + group + " " + e.Name
			}
		}
		if part.Len()+len(text) > partMost {
			parts = append(parts, part.String())
			part.Reset()
			text = "; " + k.String() + e.Name
		}
		if part.Len() == 0 {
			text = strings.TrimPrefix(text, "; ")
		}
		part.WriteString(text)
		last = group
	}
	return append(parts, part.String())
}

func namesOf(entries []v1alpha1.InventoryEntry) []string {
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, keyOfEntry(e).String())
	}
	return names
}

// fewOf joins the first few of texts, and counts the rest.
func fewOf(texts []string) string {
	if more := len(texts) - mostNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(texts[:mostNamed], ", "), more)
	}
	return strings.Join(texts, ", ")
}
