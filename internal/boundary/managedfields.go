package boundary

import (
	"bytes"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	smdvalue "sigs.k8s.io/structured-merge-diff/v6/value"
)

// appliedSet returns the paths that our Apply entry in managedFields owns; ok is false when there is no such entry.
func appliedSet(twin *unstructured.Unstructured) (*fieldpath.Set, bool) {
	for _, entry := range twin.GetManagedFields() {
		if entry.Manager != FieldManager || entry.Operation != metav1.ManagedFieldsOperationApply || entry.Subresource != "" || entry.FieldsV1 == nil {
			continue
		}
		set := &fieldpath.Set{}
		if err := set.FromJSON(bytes.NewReader(entry.FieldsV1.Raw)); err != nil {
			return nil, false
		}
		return set, true
	}
	return nil, false
}

// lacks returns the first path of an apply body that a set does not hold: a place that somebody changed or removed (O4).
// The set was made by the server from the schema: a list is either one leaf there, or has an element for each item.
func lacks(body map[string]any, set *fieldpath.Set) (Path, bool) {
	for _, field := range sortedKeys(body) {
		switch field {
		case "apiVersion", "kind":
			continue
		case "metadata":
			metadata := body["metadata"].(map[string]any)
			inner := child(set, fieldElement("metadata"))
			for _, k := range []string{"annotations", "labels"} {
				if p, missing := lacksField(metadata[k], k, inner, Path{{Field: "metadata"}}); missing {
					return p, true
				}
			}
		default:
			if p, missing := lacksField(body[field], field, set, nil); missing {
				return p, true
			}
		}
	}
	return nil, false
}

func lacksField(v any, name string, set *fieldpath.Set, at Path) (Path, bool) {
	return lacksElement(v, fieldElement(name), set, at.Field(name))
}

// lacksElement looks for a value under one element of a set.
func lacksElement(v any, element fieldpath.PathElement, set *fieldpath.Set, at Path) (Path, bool) {
	if set == nil {
		return at, true
	}
	inner, deeper := set.Children.Get(element)
	if !deeper {
		return at, !set.Members.Has(element) // a leaf: scalars, and maps and lists owned as a whole
	}
	switch v := v.(type) {
	case map[string]any:
		for _, k := range sortedKeys(v) {
			if p, missing := lacksField(v[k], k, inner, at); missing {
				return p, true
			}
		}
	case []any:
		return lacksItems(v, inner, at)
	}
	return nil, false
}

// lacksItems pairs the items of an associative list or a set with the elements of the set, one to one: an item that
// leaves out a key (which the server then defaulted) may stand for any element that no other item claims exactly.
func lacksItems(items []any, set *fieldpath.Set, at Path) (Path, bool) {
	var elements []fieldpath.PathElement
	set.Members.Iterate(func(e fieldpath.PathElement) { elements = append(elements, e) })
	set.Children.Iterate(func(e fieldpath.PathElement) {
		if !set.Members.Has(e) {
			elements = append(elements, e)
		}
	})
	taken := make([]bool, len(elements))
	pair := func(item any, exact bool) (fieldpath.PathElement, bool) {
		for i, e := range elements {
			if !taken[i] && elementFits(e, item, exact) {
				taken[i] = true
				return e, true
			}
		}
		return fieldpath.PathElement{}, false
	}
	found := make([]*fieldpath.PathElement, len(items))
	for _, exact := range []bool{true, false} {
		for i, item := range items {
			if found[i] == nil {
				if e, ok := pair(item, exact); ok {
					found[i] = &e
				}
			}
		}
	}
	for i, item := range items {
		if found[i] == nil {
			return at.Items(), true
		}
		if found[i].Key != nil {
			if p, missing := lacksElement(item, *found[i], set, at.Items()); missing {
				return p, true
			}
		}
	}
	return nil, false
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

// ownedPart returns the part of v that lies at a path and that the set owns, with the keys of the list items on the
// way, so that it can be applied by another manager.
func ownedPart(v any, path Path, set *fieldpath.Set) (any, bool) {
	if set == nil {
		return nil, false
	}
	if len(path) == 0 {
		return v, true
	}
	if path[0].EachItem {
		items, _ := v.([]any)
		var parts []any
		found := false
		for _, item := range items {
			part := map[string]any{}
			set.Children.Iterate(func(e fieldpath.PathElement) {
				if e.Key == nil || !elementFits(e, item, true) {
					return
				}
				for _, key := range *e.Key {
					part[key.Name] = key.Value.Unstructured()
				}
				if inner, ok := ownedPart(item, path[1:], child(set, e)); ok {
					part, found = merge(part, inner.(map[string]any)), true
				}
			})
			if len(part) > 0 {
				parts = append(parts, part)
			}
		}
		return parts, found
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, false
	}
	value, present := m[path[0].Field]
	element := fieldElement(path[0].Field)
	inner, deeper := set.Children.Get(element)
	if !present || !deeper && (!set.Members.Has(element) || len(path) > 1) {
		return nil, false
	}
	if len(path) == 1 {
		return map[string]any{path[0].Field: value}, true
	}
	part, ok := ownedPart(value, path[1:], inner)
	if !ok {
		return nil, false
	}
	return map[string]any{path[0].Field: part}, true
}

func fieldElement(name string) fieldpath.PathElement { return fieldpath.PathElement{FieldName: &name} }

// child returns the set below an element, or nil.
func child(set *fieldpath.Set, e fieldpath.PathElement) *fieldpath.Set {
	inner, _ := set.Children.Get(e)
	return inner
}
