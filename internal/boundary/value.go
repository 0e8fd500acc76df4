package boundary

import (
	"maps"
	"reflect"
	"slices"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// without returns v without the places that a path names. What is not touched is shared with v, which is not changed.
func without(v any, p Path) any {
	if len(p) == 0 {
		return v
	}
	if p[0].EachItem {
		items, ok := v.([]any)
		if !ok || len(p) == 1 {
			return v
		}
		var out []any
		for i, item := range items {
			if changed := without(item, p[1:]); out != nil || !same(changed, item) {
				if out == nil {
					out = slices.Clone(items)
				}
				out[i] = changed
			}
		}
		if out == nil {
			return v
		}
		return out
	}
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	child, present := m[p[0].Field]
	if !present {
		return v
	}
	if len(p) == 1 {
		out := maps.Clone(m)
		delete(out, p[0].Field)
		return out
	}
	changed := without(child, p[1:])
	if same(changed, child) {
		return v
	}
	out := maps.Clone(m)
	out[p[0].Field] = changed
	return out
}

// same reports whether two values are one and the same map or list (identity), or equal scalars.
func same(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && len(a) == len(b) && mapID(a) == mapID(b)
	case []any:
		b, ok := b.([]any)
		return ok && len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
	}
	return a == b
}

// mapID identifies a map, not its content.
func mapID(m map[string]any) uintptr { return reflect.ValueOf(m).Pointer() }

// prune returns v without what is empty all the way down: null, and maps and lists that hold nothing. Servers write
// and leave out such values as they please, so a status that differs only there is the same (T2). v is not changed.
func prune(v any) any {
	switch v := v.(type) {
	case map[string]any:
		var out map[string]any
		for k, child := range v {
			if child = prune(child); child != nil {
				if out == nil {
					out = make(map[string]any, len(v))
				}
				out[k] = child
			}
		}
		if out == nil {
			return nil
		}
		return out
	case []any:
		if len(v) == 0 {
			return nil
		}
		out := make([]any, len(v))
		for i := range v {
			out[i] = prune(v[i])
		}
		return out
	}
	return v
}

// holds reports whether v has the value at a path without list steps.
func holds(v any, p Path, value any) bool {
	for _, step := range p {
		m, ok := v.(map[string]any)
		if !ok || step.EachItem {
			return false
		}
		v = m[step.Field]
	}
	return v == value
}

// setAt returns a map with a value at a path of fields, which are made where they are missing. The map is not changed.
func setAt(m map[string]any, path Path, value any) map[string]any {
	out := extend(m)
	if len(path) == 1 {
		out[path[0].Field] = value
	} else {
		out[path[0].Field] = setAt(asObject(m[path[0].Field]), path[1:], value)
	}
	return out
}
