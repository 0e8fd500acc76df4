package boundary

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// HandoverManager takes over fields that a rule gives to the target side later, so that their values stay (O3).
const HandoverManager = "isthmus-handover"

// handover builds the body by which HandoverManager takes over what our entry owns and the target side should, and
// keeps what it took over before (O3); nil: there is nothing to hand over.
func handover(twin *unstructured.Unstructured, place types.NamespacedName, paths []Path) map[string]any {
	ours, ok := appliedSet(twin)
	if !ok {
		return nil
	}
	set := setUnder(ours, paths)
	if set.Empty() {
		return nil
	}
	return handoverBody(twin, place, set.Union(handedSet(twin)))
}

// takeBack builds the body by which HandoverManager lets go of what the target side should not own any more; nil: there
// is nothing of that kind. It is for a twin on which the source's side has applied what it wants, so that no value goes
// that should stay.
func takeBack(twin *unstructured.Unstructured, place types.NamespacedName, paths []Path) map[string]any {
	handed := handedSet(twin)
	if handed.Empty() {
		return nil
	}
	kept := setUnder(handed, paths)
	if handed.Difference(withKeys(kept)).Empty() {
		return nil
	}
	return handoverBody(twin, place, kept)
}

// handedSet returns the paths that HandoverManager owns.
func handedSet(twin *unstructured.Unstructured) *fieldpath.Set {
	for _, entry := range managedFields(twin) {
		if entry.appliedBy(HandoverManager) {
			if set, ok := entry.set(); ok {
				return set
			}
		}
	}
	return &fieldpath.Set{}
}

// handoverBody is an apply body of exactly what a set holds.
func handoverBody(twin *unstructured.Unstructured, place types.NamespacedName, set *fieldpath.Set) map[string]any {
	body := extend(part(twin.Object, set))
	metadata := extend(body["metadata"])
	metadata["name"] = place.Name
	if place.Namespace != "" {
		metadata["namespace"] = place.Namespace
	}
	body["apiVersion"], body["kind"], body["metadata"] = twin.GetAPIVersion(), twin.GetKind(), metadata
	return Bind(body, twin)
}

// setUnder returns the members of a set that lie at or below any of the paths.
func setUnder(set *fieldpath.Set, paths []Path) *fieldpath.Set {
	out := &fieldpath.Set{}
	if len(paths) == 0 {
		return out
	}
	set.Iterate(func(at fieldpath.Path) {
		if slices.ContainsFunc(paths, func(p Path) bool { return leadsTo(p, at) }) {
			out.Insert(at.Copy())
		}
	})
	return out
}

// leadsTo reports whether a path names a place in a set, or one above it.
func leadsTo(p Path, at fieldpath.Path) bool {
	if len(p) > len(at) {
		return false
	}
	for i, step := range p {
		if step.EachItem != (at[i].FieldName == nil) || !step.EachItem && step.Field != *at[i].FieldName {
			return false
		}
	}
	return true
}

// withKeys adds what the application of a set owns besides: the items of lists on the way, and their keys.
func withKeys(set *fieldpath.Set) *fieldpath.Set {
	out := set
	set.Iterate(func(at fieldpath.Path) {
		for i, e := range at {
			if e.Key == nil {
				continue
			}
			item := at[:i+1].Copy()
			more := fieldpath.NewSet(item)
			for _, key := range *e.Key {
				more.Insert(append(item.Copy(), fieldElement(key.Name)))
			}
			out = out.Union(more)
		}
	})
	return out
}

// part returns the part of v that a set holds, with the keys of the list items on the way; nil: there is none. Items
// without such a part are left out: naming them would own them.
func part(v any, set *fieldpath.Set) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for field, value := range v {
			e := fieldElement(field)
			if inner, deeper := set.Children.Get(e); deeper {
				if p := part(value, inner); p != nil {
					out[field] = p
				}
			} else if set.Members.Has(e) {
				out[field] = value
			}
		}
		if len(out) > 0 {
			return out
		}
	case []any:
		var out []any
		elements := elementsOf(set)
		for _, item := range v {
			i := slices.IndexFunc(elements, func(e fieldpath.PathElement) bool { return elementFits(e, item, true) })
			if i < 0 {
				continue
			}
			if elements[i].Key == nil {
				out = append(out, item)
				continue
			}
			p := extend(part(item, child(set, elements[i])))
			for _, key := range *elements[i].Key {
				p[key.Name] = asObject(item)[key.Name]
			}
			out = append(out, p)
		}
		if out != nil {
			return out
		}
	}
	return nil
}
