package plan

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"isthmus.dev/isthmus/internal/boundary"
)

// Difference is one place that a write changes.
type Difference struct {
	Path string `json:"path"`
	// Before and After are its values; absent where there is none, and with Hidden.
	Before any `json:"before,omitempty"`
	After  any `json:"after,omitempty"`
	// Hidden: the values are secret (F4).
	Hidden bool `json:"hidden,omitempty"`
}

// bookkeeping are keys of the stamp that change with everything else.
var bookkeeping = []string{boundary.AnnotationApplied, boundary.AnnotationSourceGeneration}

// differ finds what differs between two states of an object.
type differ struct {
	hide bool
	// kept are places whose values stay although they leave the content: they are handed over.
	kept    []boundary.Path
	changes []Difference
}

// content compares what crosses: everything but the status and what servers keep in metadata.
func (d *differ) content(schema *boundary.Schema, before, after *unstructured.Unstructured) {
	part := func(o *unstructured.Unstructured) map[string]any {
		out := map[string]any{}
		for field, v := range o.Object {
			if field != "apiVersion" && field != "kind" && field != "status" && field != "metadata" {
				out[field] = v
			}
		}
		metadata := map[string]any{}
		for _, field := range []string{"labels", "annotations", "finalizers"} {
			v, ok, _ := unstructured.NestedFieldNoCopy(o.Object, "metadata", field)
			if annotations, isMap := v.(map[string]any); isMap && field == "annotations" {
				annotations = maps.Clone(annotations)
				maps.DeleteFunc(annotations, func(k string, _ any) bool { return slices.Contains(bookkeeping, k) })
				v = annotations
			}
			if ok {
				metadata[field] = v
			}
		}
		out["metadata"] = metadata
		return out
	}
	d.value(schema, part(before), part(after), true, true, place{})
}

// finalizers compares what holds a source.
func (d *differ) finalizers(before, after *unstructured.Unstructured) {
	have, had, _ := unstructured.NestedFieldNoCopy(before.Object, "metadata", "finalizers")
	want, has, _ := unstructured.NestedFieldNoCopy(after.Object, "metadata", "finalizers")
	d.value(nil, have, want, had, has, place{}.field("metadata").field("finalizers"))
}

// status compares the statuses.
func (d *differ) status(before, after *unstructured.Unstructured) {
	var have, want any
	had, has := false, false
	if before != nil {
		have, had = before.Object["status"]
	}
	if after != nil {
		want, has = after.Object["status"]
	}
	d.value(nil, have, want, had, has, place{}.field("status"))
}

// place is where a value stands: as people read it, and as a path that names all items of a list alike.
type place struct {
	text string
	path boundary.Path
}

func (p place) field(name string) place {
	step := boundary.Path{{Field: name}}.String()
	text := p.text + "." + step
	if p.text == "" || strings.HasPrefix(step, "[") {
		text = p.text + step
	}
	return place{text, p.path.Field(name)}
}

func (p place) item(text string) place { return place{p.text + text, p.path.Items()} }

func (d *differ) value(s *boundary.Schema, before, after any, had, has bool, at place) {
	if had == has && reflect.DeepEqual(before, after) {
		return
	}
	schemaAt := func(p boundary.Path) *boundary.Schema { below, _ := s.At(p); return below }
	if b, ok := before.(map[string]any); ok && had && has && (s == nil || s.MapType != "atomic") {
		if a, ok := after.(map[string]any); ok {
			for _, k := range keysOf(b, a) {
				old, had := b[k]
				now, has := a[k]
				d.value(schemaAt(boundary.Path{{Field: k}}), old, now, had, has, at.field(k))
			}
			return
		}
	}
	if b, ok := before.([]any); ok && had && has {
		if a, ok := after.([]any); ok && d.items(s, b, a, at) {
			return
		}
	}
	if !has && slices.ContainsFunc(d.kept, func(p boundary.Path) bool { return covers(p, at.path) }) {
		return
	}
	change := Difference{Path: at.text, Before: before, After: after}
	if d.hide {
		change = Difference{Path: at.text, Hidden: true}
	}
	d.changes = append(d.changes, change)
}

// items compares lists item by item, where these can be told apart; ok is false where the list counts as a whole.
func (d *differ) items(s *boundary.Schema, before, after []any, at place) (ok bool) {
	if s == nil || s.ListType != "map" {
		if len(before) != len(after) || !allObjects(before) || !allObjects(after) {
			return false
		}
		for i := range before {
			var items *boundary.Schema
			if s != nil {
				items = s.Items
			}
			d.value(items, before[i], after[i], true, true, at.item(fmt.Sprintf("[%d]", i)))
		}
		return true
	}
	byKey := func(list []any) (map[string]any, bool) {
		out := map[string]any{}
		for _, item := range list {
			content, ok := item.(map[string]any)
			if !ok {
				return nil, false
			}
			keys := map[string]any{}
			for _, k := range s.ListMapKeys {
				keys[k] = content[k]
			}
			out[boundary.KeyedItem(keys)] = item
		}
		return out, len(out) == len(list)
	}
	b, unique := byKey(before)
	a, alsoUnique := byKey(after)
	if !unique || !alsoUnique {
		return false
	}
	for _, k := range keysOf(b, a) {
		old, had := b[k]
		now, has := a[k]
		d.value(s.Items, old, now, had, has, at.item(k))
	}
	return true
}

func allObjects(list []any) bool {
	return !slices.ContainsFunc(list, func(v any) bool { _, ok := v.(map[string]any); return !ok })
}

func keysOf(a, b map[string]any) []string {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]any{}
	}
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

// covers reports whether a path names a place, or one above it.
func covers(p, at boundary.Path) bool {
	return len(p) <= len(at) && slices.Equal(p, at[:len(p)])
}

// leaves returns the places of all values of a body, without what names the object.
func leaves(body map[string]any) []Difference {
	d := &differ{hide: true}
	content := maps.Clone(body)
	metadata, _ := content["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	for _, field := range []string{"name", "namespace", "uid", "resourceVersion"} {
		delete(metadata, field)
	}
	delete(content, "apiVersion")
	delete(content, "kind")
	if delete(content, "metadata"); len(metadata) > 0 {
		content["metadata"] = metadata
	}
	d.leaves(content, place{})
	for i := range d.changes {
		d.changes[i].Hidden = false
	}
	return d.changes
}

func (d *differ) leaves(v any, at place) {
	content, ok := v.(map[string]any)
	if !ok || len(content) == 0 {
		if at.text != "" {
			d.changes = append(d.changes, Difference{Path: at.text})
		}
		return
	}
	for _, k := range slices.Sorted(maps.Keys(content)) {
		d.leaves(content[k], at.field(k))
	}
}
