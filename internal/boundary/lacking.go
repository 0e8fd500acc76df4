package boundary

import (
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// ownFields is what a manager owns below a place, as managedFields (fieldsV1) have it: a field is f:NAME, an item of a list
// k:KEYS or v:VALUE, and "." the place itself. Each decision about a twin asks for ours, so it is read as it stands.
type ownFields map[string]any

// ownedBy returns what a manager owns by server-side apply; ok is false where there is no such entry.
func ownedBy(object *unstructured.Unstructured, manager string) (fields ownFields, ok bool) {
	for _, entry := range managedFields(object) {
		if entry.appliedBy(manager) {
			if fields, ok := entry["fieldsV1"].(map[string]any); ok {
				return fields, true
			}
		}
	}
	return nil, false
}

// child returns what is owned below a child, and whether anything is. leaf: the child itself is owned.
func (o ownFields) child(key string) (below ownFields, deeper, leaf bool) {
	below, present := o[key].(map[string]any)
	if !present {
		return nil, false, false
	}
	for k := range below {
		if len(k) > 1 && k[1] == ':' && strings.IndexByte("fkvi", k[0]) >= 0 {
			deeper = true
			break
		}
	}
	_, itself := below["."]
	return below, deeper, itself || !deeper
}

// Lacking returns the first place of an apply body that the Apply entry of manager does not hold on an object: somebody
// changed or removed it, or it was never applied (O4). Labels and annotations must be in the body. Values are not compared.
func Lacking(body map[string]any, object *unstructured.Unstructured, manager string) (path string, lacking bool) {
	ours, _ := ownedBy(object, manager)
	at, lacking := lacks(body, ours, object)
	return at.String(), lacking
}

// lacks returns the first path of an apply body that is not ours: a place that somebody changed or removed (O4). The
// server made the entry from the schema: a map or list is one leaf there, or has an element for each field or item, but
// for an empty list of the second sort, which leaves no trace. Where that is not enough, what others own tells; it is
// asked for only then.
func lacks(body map[string]any, ours ownFields, twin *unstructured.Unstructured) (Path, bool) {
	w := &lackWalk{twin: twin.Object, others: sync.OnceValue(func() *fieldpath.Set { return othersSet(twin) })}
	if !w.body(body, ours) {
		return nil, false
	}
	w.ordered, w.at = true, w.at[:0]
	return w.found, w.body(body, ours)
}

// lackWalk looks for what is lacking. Mostly nothing is, so it takes fields as they come; a second walk, in order, finds
// the first place.
type lackWalk struct {
	twin    map[string]any
	others  func() *fieldpath.Set
	ordered bool
	// at is where the walk is, found the place that is lacking, once the walk is in order.
	at    []lackStep
	found Path
}

// lackStep is a field, or the item of a list that an element of a set stands for.
type lackStep struct {
	field string
	item  *fieldpath.PathElement
}

func (w *lackWalk) body(body map[string]any, ours ownFields) (missing bool) {
	return w.each(body, func(field string) bool {
		switch field {
		case "apiVersion", "kind":
			return false
		case "metadata":
			return w.metadata(asObject(body["metadata"]), ours)
		}
		return w.field(body[field], field, ours)
	})
}

func (w *lackWalk) metadata(metadata map[string]any, ours ownFields) (missing bool) {
	below, deeper, _ := ours.child("f:metadata")
	if !deeper {
		below = nil
	}
	w.at = append(w.at, lackStep{field: "metadata"})
	defer w.back()
	for _, k := range []string{"annotations", "finalizers", "labels", "ownerReferences"} {
		if (k == "finalizers" || k == "ownerReferences") && metadata[k] == nil {
			continue // not every body has some
		}
		if w.field(metadata[k], k, below) {
			return true
		}
	}
	return false
}

// each calls lacking for every key, in order if that matters, until it returns true.
func (w *lackWalk) each(content map[string]any, lacking func(key string) bool) bool {
	if w.ordered {
		return slices.ContainsFunc(sortedKeys(content), lacking)
	}
	for k := range content {
		if lacking(k) {
			return true
		}
	}
	return false
}

func (w *lackWalk) back() { w.at = w.at[:len(w.at)-1] }

// lacking says that the place where the walk is, or all items of the list there, are lacking.
func (w *lackWalk) lacking(items bool) bool {
	if !w.ordered {
		return true
	}
	w.found = nil
	for _, step := range w.at {
		w.found = append(w.found, Step{Field: step.field, EachItem: step.item != nil})
	}
	if items {
		w.found = append(w.found, Step{EachItem: true})
	}
	return true
}

func (w *lackWalk) field(v any, name string, in ownFields) (missing bool) {
	below, deeper, leaf := in.child("f:" + name)
	w.at = append(w.at, lackStep{field: name})
	defer w.back()
	return w.value(v, below, deeper, leaf)
}

// value looks for the value where the walk is.
func (w *lackWalk) value(v any, below ownFields, deeper, leaf bool) (missing bool) {
	switch {
	case deeper:
		if items, ok := v.([]any); ok {
			return w.items(items, below)
		}
		return w.fields(v, below)
	case leaf:
		// A scalar, or a map or list owned as a whole. When somebody owns a part of it, it was none, and its parts are not
		// ours any more.
		if content := asObject(v); len(content) > 0 && w.theirs().below {
			return w.fields(content, nil)
		}
		return false
	}
	switch v := v.(type) {
	case map[string]any:
		if len(v) > 0 {
			missing := w.fields(v, nil)
			if missing && w.ordered && w.theirs().leaf {
				return w.lacking(false)
			}
			return missing
		}
	case []any:
		// Others own an empty list as a leaf, of either sort; one with something in it only as a whole.
		if len(v) == 0 && (!w.theirs().leaf || prune(lookup(w.twin, w.place())) == nil) {
			return false
		}
	}
	return w.lacking(false)
}

func (w *lackWalk) fields(v any, in ownFields) (missing bool) {
	content := asObject(v)
	return w.each(content, func(k string) bool { return w.field(content[k], k, in) })
}

// items pairs the items of an associative list or a set with the elements of ours, one to one: an item that leaves out a
// key (which the server then defaulted) may stand for any element that no other item claims.
func (w *lackWalk) items(items []any, in ownFields) (missing bool) {
	var keys []string
	var elements []fieldpath.PathElement
	for _, key := range sortedKeys(in) {
		if e, err := fieldpath.DeserializePathElement(key); err == nil && (e.Key != nil || e.Value != nil) {
			keys, elements = append(keys, key), append(elements, e)
		}
	}
	pairs := pairItems(items, elements)
	for i, item := range items {
		if pairs[i] < 0 {
			return w.lacking(true)
		}
		if e := &elements[pairs[i]]; e.Key != nil && w.item(item, e, keys[pairs[i]], in) {
			return true
		}
	}
	return false
}

func (w *lackWalk) item(v any, e *fieldpath.PathElement, key string, in ownFields) (missing bool) {
	below, deeper, leaf := in.child(key)
	w.at = append(w.at, lackStep{item: e})
	defer w.back()
	return w.value(v, below, deeper, leaf)
}

// place is where the walk is, as sets have it.
func (w *lackWalk) place() fieldpath.Path {
	place := make(fieldpath.Path, len(w.at))
	for i, step := range w.at {
		if place[i] = fieldElement(step.field); step.item != nil {
			place[i] = *step.item
		}
	}
	return place
}

// theirs is what others own of a place: all of it as one leaf, or something below.
type theirs struct{ leaf, below bool }

func (w *lackWalk) theirs() theirs {
	set, at := w.others(), w.place()
	for _, e := range at[:len(at)-1] {
		set = child(set, e)
	}
	last := at[len(at)-1]
	_, below := set.Children.Get(last)
	return theirs{leaf: set.Members.Has(last) && !below, below: below}
}
