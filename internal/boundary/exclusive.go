package boundary

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// takenMost bounds how many places of a twin are remembered: what others add beside so many is left.
const takenMost = 100

// TakenOut is what is remembered of what others added to a twin (O4). It is never changed in place.
type TakenOut struct {
	// Twin is the twin that it was taken out of.
	Twin types.UID
	// Places are where that was.
	Places []string
	// Left tells of what came back, and was left; nil: nothing did.
	Left *Rival
}

// addition is something in the source's fields that others added to the twin.
type addition struct {
	// place identifies it, path names it for people, pointer is where it is now (RFC 6901).
	place   string
	path    Path
	pointer string
	at      fieldpath.Path
}

// takeOutOr takes out what others added, once, where the rule wants the source's fields for the source alone (O4); else
// it goes on.
func (d *decider) takeOutOr(then func(last func())) {
	inStep := func() { d.nothing("in step") }
	if d.out.Rule.SpecOwnership != OwnershipExclusive {
		then(inStep)
		return
	}
	memory := d.in.Memory.TakenOut
	if memory == nil || memory.Twin != d.in.Twin.GetUID() {
		memory = &TakenOut{Twin: d.in.Twin.GetUID()}
	}
	var fresh, left []addition
	for _, a := range additions(d.in.Twin, d.want, d.in.Undeclared) {
		if contains(memory.Places, a.place) || len(memory.Places)+len(fresh) >= takenMost {
			left = append(left, a)
		} else {
			fresh = append(fresh, a)
		}
	}
	next := &TakenOut{Twin: memory.Twin, Places: slices.Clone(memory.Places)}
	for _, a := range fresh {
		next.Places = append(next.Places, a.place)
	}
	attempt := d.want.hash + " " + strings.Join(next.Places[len(memory.Places):], " ")
	switch {
	case len(fresh) > 0 && d.faulty(attempt):
		then(d.holdFault)
	case len(fresh) > 0:
		d.toTwin(true, func() Rival { return d.additionRival(fresh) }, func() {
			d.out.Action, d.out.Patch, d.out.Hash, d.out.TakenOut = RemoveFields, removal(d.in.Twin, fresh), attempt, next
			who := d.who(fresh)
			d.because("what others added to the twin is taken out: %s", who)
			d.out.Events = append(d.out.Events, Event{false, ReasonUpdated, "took out of the twin what others had added: " + who})
		})
	case len(left) > 0:
		rival := d.additionRival(left)
		then(func() {
			message := "what others add to the twin came back after it was taken out, so it is left: " + rival.String()
			if next.Left = &rival; memory.Left == nil || memory.Left.String() != rival.String() {
				d.out.Events = append(d.out.Events, Event{true, ReasonContention, message})
			}
			d.out.TakenOut = next
			d.because("%s", message)
			inStep()
		})
	default:
		then(func() {
			if memory.Left != nil {
				d.out.TakenOut = next
			}
			inStep()
		})
	}
}

// who names additions and their managers.
func (d *decider) who(list []addition) string {
	r := d.additionRival(list)
	return fmt.Sprintf("%s (by %s)", strings.Join(r.Paths, ", "), strings.Join(r.Managers, ", "))
}

func (d *decider) additionRival(list []addition) Rival {
	var paths []Path
	for _, a := range list {
		if p := listOf(a.path); !slices.ContainsFunc(paths, func(q Path) bool { return q.String() == p.String() }) {
			paths = append(paths, p)
		}
	}
	managers := owners(d.in.Twin, func(at fieldpath.Path) bool {
		return slices.ContainsFunc(list, func(a addition) bool { return len(at) >= len(a.at) && at[:len(a.at)].Equals(a.at) })
	})
	return Rival{Does: "adds to the twin", Managers: managers, Paths: texts(paths), Setting: d.leaving(paths)}
}

// removal is the JSON patch that takes additions out of the twin, if it is still in the state given.
func removal(twin *unstructured.Unstructured, list []addition) []map[string]any {
	patch := testState(twin)
	for _, a := range list {
		patch = append(patch, map[string]any{"op": "remove", "path": a.pointer})
	}
	return patch
}

// additions returns what other managers own in the source's fields and our Apply entry lacks, outside of what belongs to
// the target side or is not declared there (O4). What nobody owns is the server's doing. They are in an order in which
// one after the other can be removed: of a list the later items first.
func additions(twin *unstructured.Unstructured, want desired, undeclared []Path) []addition {
	ours, ok := appliedSet(twin)
	if !ok {
		return nil
	}
	excluded := append(want.remoteOwned[:len(want.remoteOwned):len(want.remoteOwned)], undeclared...)
	added := &fieldpath.Set{}
	for _, entry := range othersEntries(twin) {
		set, ok := entry.set()
		if !ok || entry["manager"] == FieldManager { // defaults in the place of what was taken out
			continue
		}
		set.Leaves().Iterate(func(at fieldpath.Path) {
			foreign := !slices.ContainsFunc(excluded, func(p Path) bool { return leadsTo(p, at) || within(p, at) })
			if foreign && ofSource(at) && !owns(ours, at, want.body) && !keyOf(ours, at) {
				added.Insert(at.Copy())
			}
		})
	}
	if added.Empty() {
		return nil
	}
	w := &additionWalk{}
	w.fields(twin.Object, added, ours)
	return w.found
}

// ofSource reports whether a place lies in the fields that belong to the source.
func ofSource(at fieldpath.Path) bool {
	switch top := at[0].FieldName; {
	case top == nil, *top == "apiVersion", *top == "kind", *top == "metadata", *top == "status":
		return false
	}
	return true
}

// keyOf reports whether a place is a key of a list's item that a set holds, as a server fills in.
func keyOf(set *fieldpath.Set, at fieldpath.Path) bool {
	if len(at) < 2 || at[len(at)-1].FieldName == nil || at[len(at)-2].Key == nil {
		return false
	}
	item := at[:len(at)-1]
	for _, key := range *item[len(item)-1].Key {
		if key.Name == *at[len(at)-1].FieldName {
			return owns(set, item, nil)
		}
	}
	return false
}

// owns reports whether a set holds a place, something below it, or a leaf above it that has a content in the body.
func owns(set *fieldpath.Set, at fieldpath.Path, body any) bool {
	for i, e := range at {
		inner, deeper := set.Children.Get(e)
		switch {
		case deeper && i < len(at)-1:
			set = inner
		case deeper:
			return true
		default:
			return set.Members.Has(e) && (i == len(at)-1 || prune(lookup(body, at[:i+1])) != nil)
		}
	}
	return false
}

// additionWalk finds where what others added is in an object. Where a list or map would be left empty that is not ours,
// it goes as a whole, and so does an item of a keyed list.
type additionWalk struct {
	found   []addition
	at      fieldpath.Path
	pointer []string
}

// value reports whether all of a value was added by others. mine: the value as such is ours.
func (w *additionWalk) value(v any, added, ours *fieldpath.Set, mine bool) (all bool) {
	before := len(w.found)
	switch v := v.(type) {
	case map[string]any:
		all = w.fields(v, added, ours)
	case []any:
		all = w.items(v, added, ours)
	default:
		return false
	}
	if all = all && !mine && ours.Empty(); all {
		w.found = w.found[:before]
	}
	return all
}

func (w *additionWalk) fields(content map[string]any, added, ours *fieldpath.Set) (all bool) {
	all = true
	for _, field := range sortedKeys(content) {
		all = w.element(content[field], fieldElement(field), field, added, ours) && all
	}
	return all
}

func (w *additionWalk) items(items []any, added, ours *fieldpath.Set) (all bool) {
	all = true
	elements := elementsOf(added)
	for i := len(items) - 1; i >= 0; i-- {
		n := slices.IndexFunc(elements, func(e fieldpath.PathElement) bool { return elementFits(e, items[i], true) })
		all = n >= 0 && w.element(items[i], elements[n], strconv.Itoa(i), added, ours) && all
	}
	return all
}

// element takes in one field or item, and reports whether it goes.
func (w *additionWalk) element(v any, e fieldpath.PathElement, step string, added, ours *fieldpath.Set) (goes bool) {
	inner, deeper := added.Children.Get(e)
	goes = added.Members.Has(e)
	if !goes && !deeper {
		return false
	}
	w.at, w.pointer = append(w.at, e), append(w.pointer, escapePointer(step))
	if !goes {
		strange := e.Key != nil && !ours.Has(fieldpath.Path{e}) && child(ours, e).Empty() // an item is nothing without its keys
		goes = strange || w.value(v, inner, child(ours, e), ours.Members.Has(e))
	}
	if goes {
		w.found = append(w.found, addition{place: w.at.String(), path: pathOf(w.at), pointer: "/" + strings.Join(w.pointer, "/"), at: w.at.Copy()})
	}
	w.at, w.pointer = w.at[:len(w.at)-1], w.pointer[:len(w.pointer)-1]
	return goes
}

// pathOf writes a place in a set as a path, without the keys of items.
func pathOf(at fieldpath.Path) Path {
	var p Path
	for _, e := range at {
		if e.FieldName != nil {
			p = p.Field(*e.FieldName)
		} else {
			p = p.Items()
		}
	}
	return p
}
