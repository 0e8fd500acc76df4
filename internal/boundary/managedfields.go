package boundary

import (
	"bytes"
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	smdvalue "sigs.k8s.io/structured-merge-diff/v6/value"
)

// appliedSet returns the paths that our Apply entry in managedFields owns; ok is false when there is no such entry.
func appliedSet(twin *unstructured.Unstructured) (*fieldpath.Set, bool) {
	return AppliedBy(twin, FieldManager)
}

// othersSet returns the paths that other managers own, beside the status.
func othersSet(twin *unstructured.Unstructured) *fieldpath.Set {
	all := &fieldpath.Set{}
	for _, entry := range managedFields(twin) {
		if entry.ours() || entry["subresource"] == "status" {
			continue
		}
		if set, ok := entry.set(); ok {
			all = all.Union(set)
		}
	}
	return all
}

// othersEntries returns the entries of other managers, beside the status and what was handed over.
func othersEntries(twin *unstructured.Unstructured) []managedEntry {
	return slices.DeleteFunc(managedFields(twin), func(entry managedEntry) bool {
		return entry.ours() || entry["subresource"] == "status" || entry.appliedBy(HandoverManager)
	})
}

// managedEntry is an entry of managedFields as it stands. Most entries are never looked into, so none is converted
// before it is.
type managedEntry map[string]any

func managedFields(twin *unstructured.Unstructured) []managedEntry {
	list, _ := asObject(twin.Object["metadata"])["managedFields"].([]any)
	entries := make([]managedEntry, 0, len(list))
	for _, item := range list {
		entries = append(entries, asObject(item))
	}
	return entries
}

func (e managedEntry) ours() bool { return e.appliedBy(FieldManager) }

// appliedBy reports whether it is what a manager owns by server-side apply.
func (e managedEntry) appliedBy(manager string) bool {
	return e["manager"] == manager && e["operation"] == string(metav1.ManagedFieldsOperationApply) &&
		(e["subresource"] == nil || e["subresource"] == "")
}

func (e managedEntry) text(field string) string {
	text, _ := e[field].(string)
	return text
}

func (e managedEntry) set() (*fieldpath.Set, bool) {
	fields, ok := e["fieldsV1"].(map[string]any)
	if !ok {
		return nil, false
	}
	encoded, err := json.Marshal(fields)
	if err != nil {
		return nil, false
	}
	set := &fieldpath.Set{}
	return set, set.FromJSON(bytes.NewReader(encoded)) == nil
}

// AppliedBy returns the paths that a manager owns by server-side apply, none where there is no such entry.
func AppliedBy(object *unstructured.Unstructured, manager string) (owned *fieldpath.Set, any bool) {
	for _, entry := range managedFields(object) {
		if entry.appliedBy(manager) {
			if set, ok := entry.set(); ok {
				return set, true
			}
		}
	}
	return &fieldpath.Set{}, false
}

// lookup returns the value at a place of a set.
func lookup(v any, at fieldpath.Path) any {
	for _, e := range at {
		if e.FieldName != nil {
			v = asObject(v)[*e.FieldName]
			continue
		}
		items, _ := v.([]any)
		i := slices.IndexFunc(items, func(item any) bool { return elementFits(e, item, true) })
		if i < 0 {
			return nil
		}
		v = items[i]
	}
	return v
}

func elementsOf(set *fieldpath.Set) []fieldpath.PathElement {
	var elements []fieldpath.PathElement
	set.Members.Iterate(func(e fieldpath.PathElement) { elements = append(elements, e) })
	set.Children.Iterate(func(e fieldpath.PathElement) {
		if !set.Members.Has(e) {
			elements = append(elements, e)
		}
	})
	return elements
}

// pairItems returns for each item the index of its element, -1 where it has none. Exact pairs come first; the rest is
// paired so that as many as possible find one (augmenting paths).
func pairItems(items []any, elements []fieldpath.PathElement) []int {
	pairs, taken := make([]int, len(items)), make([]int, len(elements))
	for e := range taken {
		taken[e] = -1
	}
	for i, item := range items {
		pairs[i] = -1
		for n := range elements {
			e := (i + n) % len(elements) // mostly they are in the same order
			if taken[e] < 0 && elementFits(elements[e], item, true) {
				pairs[i], taken[e] = e, i
				break
			}
		}
	}
	var try func(i int, seen []bool) bool
	try = func(i int, seen []bool) bool {
		for e := range elements {
			if seen[e] || !elementFits(elements[e], items[i], false) {
				continue
			}
			seen[e] = true
			if taken[e] < 0 || try(taken[e], seen) {
				pairs[i], taken[e] = e, i
				return true
			}
		}
		return false
	}
	for i := range items {
		if pairs[i] < 0 {
			try(i, make([]bool, len(elements)))
		}
	}
	return pairs
}

// elementFits reports whether a list element of a set may stand for an item.
func elementFits(e fieldpath.PathElement, item any, exact bool) bool {
	switch {
	case e.Value != nil:
		return smdvalue.Equals(*e.Value, smdvalue.NewValueInterface(item))
	case e.Key != nil:
		m, ok := item.(map[string]any)
		if !ok {
			return false
		}
		for _, key := range *e.Key {
			have, present := m[key.Name]
			if present && !smdvalue.Equals(key.Value, smdvalue.NewValueInterface(have)) || !present && exact {
				return false
			}
		}
		return true
	}
	return false
}

func fieldElement(name string) fieldpath.PathElement { return fieldpath.PathElement{FieldName: &name} }

// child returns the set below an element; it is empty where there is none.
func child(set *fieldpath.Set, e fieldpath.PathElement) *fieldpath.Set {
	if inner, ok := set.Children.Get(e); ok {
		return inner
	}
	return &fieldpath.Set{}
}
