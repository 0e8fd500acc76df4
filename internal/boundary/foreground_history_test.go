package boundary

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// A model of D3: a source and its twin on two servers, those who delete them and hold them, and Isthmus between them, which is
// Decide itself. It sees both as late as it likes, restarts, and can't always reach the twin's server.

// farHold is a finalizer of the twin's side.
const farHold = "example.io/theirs"

type vale struct {
	t      *rapid.T
	rule   *Rule // nil: it was removed
	last   *Rule // as it was last
	source *unstructured.Unstructured
	twin   *farObject

	cut, losing bool // the twin's server can't be reached; its next answer is lost
	stripped    bool // somebody took our finalizer off this source

	// What Isthmus knows.
	seenSource, seenTwin *unstructured.Unstructured
	listed, uncertain    bool
	born, version        int
}

// farObject is what is at the twin's place.
type farObject struct {
	*server
	uid   types.UID
	going bool
}

func (v *vale) scene() Input {
	in := newScene(v.t).Input
	in.Rules, in.Remote = nil, "host"
	if v.rule != nil {
		in.Rules = []*Rule{v.rule}
	} else {
		in.Removed = []RemovedRule{{Name: v.last.Name, OnRemoval: v.last.OnRemoval, CarryFinalizers: v.last.CarryFinalizers}}
	}
	in.Source, in.Twin, in.Confirmed = nil, v.seenTwin, false
	if s := v.seenSource; s != nil && (Keeps(in.Rules, s, in.Naming) || in.Identity.Holds(s, in.Remote)) {
		in.Source = s
	}
	return in
}

// twinNow is what is at the twin's place; nil: nothing.
func (v *vale) twinNow() *unstructured.Unstructured {
	if v.twin == nil {
		return nil
	}
	twin := v.twin.twin()
	twin.SetUID(v.twin.uid)
	if v.twin.going {
		set(twin, "2030-01-01T00:00:00Z", "metadata", "deletionTimestamp")
	}
	return twin
}

// stands reports whether our twin stands, or goes.
func (v *vale) stands() bool {
	twin := v.twinNow()
	return twin != nil && west.Provenance(twin, types.NamespacedName{Namespace: "shop", Name: "blue"}) == OursForThis
}

// changed takes in a change of the source.
func (v *vale) changed(change func(*unstructured.Unstructured)) {
	v.source = v.source.DeepCopy()
	change(v.source)
	v.version++
	v.source.SetResourceVersion(strconv.Itoa(v.version))
	if terminating(v.source) && len(v.source.GetFinalizers()) == 0 {
		v.source = nil
	}
}

// setFinalizers changes those of the source, as anybody may.
func (v *vale) setFinalizers(names []string) {
	v.changed(func(o *unstructured.Unstructured) {
		if len(names) == 0 {
			names = nil
		}
		o.SetFinalizers(names)
	})
}

func (v *vale) deleteTwin() {
	if len(v.twinNow().GetFinalizers()) == 0 {
		v.twin = nil
	} else if !v.twin.going {
		v.twin.going = true
		v.twin.version++
	}
}

func (v *vale) updateTwin(change func(*unstructured.Unstructured)) {
	v.twin.update("somebody", change)
	if v.twin.going && len(v.twinNow().GetFinalizers()) == 0 {
		v.twin = nil
	}
}

func disown(o *unstructured.Unstructured) {
	unstructured.RemoveNestedField(o.Object, "metadata", "labels", LabelOrigin)
	for _, key := range stampKeys {
		unstructured.RemoveNestedField(o.Object, "metadata", "annotations", key)
	}
}

// act lets Isthmus decide once, and the servers answer. It returns what it did.
func (v *vale) act() Action {
	in := v.scene()
	if v.cut {
		in.Trouble = "unreachable"
	}
	if v.uncertain && !v.cut {
		v.seenTwin, v.uncertain = v.twinNow(), false
		in.Twin = v.seenTwin
	}
	if in.Blind = v.uncertain || !v.listed; in.Blind {
		in.Twin = nil
	}
	d := decideChecked(v.t, in)
	if d.Action == Hold && d.Until == UntilConfirmed {
		in.Confirmed = true
		d = decideChecked(v.t, in)
	}
	switch d.Action {
	case Nothing, Hold, Refuse:
		return d.Action
	case SetFinalizers:
		v.answerFinalizers(in, d)
		return d.Action
	}
	if v.cut {
		return d.Action
	}
	if now := v.twinNow(); (now == nil) != (d.Action == Create) ||
		now != nil && (now.GetUID() != d.UID || now.GetResourceVersion() != d.ResourceVersion) {
		v.t.Logf("%s: conflict", d.Action)
		v.seenTwin = now // it looks again
		return d.Action
	}
	switch d.Action {
	case Create:
		if d.Rule.holds(in.Source) && !v.stripped && (v.source == nil || !west.Holds(v.source, "host")) {
			v.t.Fatalf("a twin is made of what is not held: %q", d.Reasons)
		}
		v.born++
		v.twin = &farObject{server: newServer(v.t, widgetTypes(v.t), widgetGVK), uid: types.UID(fmt.Sprint("uid-twin-", v.born))}
		v.twin.apply(d.Body, FieldManager)
	case Apply:
		v.twin.apply(d.Body, FieldManager)
	case Delete:
		v.deleteTwin()
	case Release:
		v.updateTwin(disown)
	default:
		v.t.Fatalf("unexpected %s: %q", d.Action, d.Reasons)
	}
	if v.losing {
		v.losing, v.uncertain = false, true
	} else {
		v.seenTwin = v.twinNow()
	}
	return d.Action
}

// answerFinalizers lets the source's server answer.
func (v *vale) answerFinalizers(in Input, d Decision) {
	if v.source == nil || v.source.GetUID() != d.UID || v.source.GetResourceVersion() != d.ResourceVersion {
		v.seenSource = v.source
		return
	}
	loses := notAmong(v.source.GetFinalizers(), d.Finalizers)
	// A rule that no longer holds what stands lets it go.
	freed := d.Rule != nil && !terminating(v.source) && !d.Rule.holds(v.source) && slices.Equal(loses, []string{ours})
	if len(loses) > 0 && v.stands() && !released(v.source) && !freed {
		v.t.Fatalf("the source loses %q, and its twin stands: %q", loses, d.Reasons)
	}
	if foreign := []string{ours, carried}; !slices.Equal(notAmong(in.Source.GetFinalizers(), foreign), notAmong(d.Finalizers, foreign)) {
		v.t.Fatalf("finalizers of others became %q", d.Finalizers)
	}
	v.setFinalizers(d.Finalizers)
	v.seenSource = v.source
}

// rest lets everything come to rest, and checks what is left then.
func (v *vale) rest() {
	v.cut, v.losing, v.listed = false, false, true
	for acts := 0; ; acts++ {
		v.seenSource, v.seenTwin = v.source, v.twinNow()
		switch action := v.act(); {
		case acts > 20:
			v.t.Fatalf("does not come to rest: %s", action)
		case action != Nothing && action != Hold && action != Refuse:
			continue
		}
		if v.twin != nil && v.twin.going { // its controllers are done
			v.updateTwin(func(o *unstructured.Unstructured) { o.SetFinalizers(nil) })
			continue
		}
		if s := v.source; s != nil && terminating(s) { // and so are those of the source
			own := func(name string) bool { return name == mine || name == carried && !v.carries() }
			if left := slices.DeleteFunc(s.GetFinalizers(), own); len(left) < len(s.GetFinalizers()) {
				v.setFinalizers(left)
				continue
			}
		}
		break
	}
	s := v.source
	if s == nil || !v.selected() {
		if v.stands() {
			v.t.Fatal("a twin without a source stays")
		}
	} else if v.rule.holds(s) && v.stands() && !west.Holds(s, "host") {
		v.t.Fatal("a source with a twin is not held")
	}
	switch {
	case s == nil:
	case terminating(s):
		v.t.Fatalf("a source that goes stays for %q", s.GetFinalizers())
	case west.Holds(s, "host") && (!v.selected() || !v.rule.holds(s)):
		v.t.Fatal("held for nothing")
	}
}

func (v *vale) selected() bool {
	return v.rule != nil && v.source != nil && v.rule.Selects(v.source, SameName{}).Verdict == Selected
}

// carries reports whether what is carried is the twin's, by what Isthmus knows.
func (v *vale) carries() bool {
	return contains(v.last.CarryFinalizers, carried) && (v.selected() || west.Holds(v.source, "host"))
}

// configure changes the rule, which a restart brings about.
func (v *vale) configure(change func(*Rule)) {
	next := *v.last
	change(&next)
	v.rule, v.last = &next, &next
	v.restart()
}

func (v *vale) restart() {
	v.seenSource, v.seenTwin, v.listed, v.uncertain = v.source, nil, false, false
}

func (v *vale) actions() map[string]func(*rapid.T) {
	when := func(can func() bool, take func()) func(*rapid.T) {
		return func(t *rapid.T) {
			if v.t = t; !can() {
				t.Skip()
			}
			take()
		}
	}
	always := func() bool { return true }
	source := func() bool { return v.source != nil }
	standing := func() bool { return source() && !terminating(v.source) }
	twin := func() bool { return v.twin != nil }
	toggle := func(name string, may func() bool) func(*rapid.T) {
		return when(may, func() {
			if have := v.source.GetFinalizers(); contains(have, name) {
				v.setFinalizers(notAmong(have, []string{name}))
			} else {
				v.setFinalizers(append(have, name))
			}
		})
	}
	annotate := func(value string) func() {
		return func() {
			v.changed(func(o *unstructured.Unstructured) { set(o, value, "metadata", "annotations", AnnotationRelease) })
		}
	}
	return map[string]func(*rapid.T){
		"the source is made": when(func() bool { return v.source == nil }, func() {
			v.born++
			v.stripped = false
			v.source = object(v.t, blueWidget)
			v.changed(func(o *unstructured.Unstructured) {
				o.SetUID(types.UID(fmt.Sprint("uid-", v.born)))
				o.SetFinalizers(rapid.SliceOfDistinct(rapid.SampledFrom([]string{mine, carried, ours}), rapid.ID).Draw(v.t, "finalizers"))
			})
		}),
		"the source is deleted": when(standing, func() { v.changed(dying) }),
		"the source is selected, or no longer": when(source, func() {
			color := map[string]string{"blue": "red", "red": "blue"}[v.source.GetLabels()["color"]]
			v.changed(func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{"color": color}) })
		}),
		"the source is edited":               when(source, func() { v.changed(func(o *unstructured.Unstructured) { set(o, int64(v.version), "spec", "replicas") }) }),
		"the source is released":             when(source, annotate("true")),
		"the source is no longer released":   when(source, annotate("false")),
		"its owner holds the source, or not": toggle(mine, standing),
		"it is to be carried, or no longer":  toggle(carried, standing),
		"its owner lets the source go":       when(source, func() { v.setFinalizers(notAmong(v.source.GetFinalizers(), []string{mine})) }),
		"somebody takes our finalizer off":   when(source, func() { v.stripped = true; v.setFinalizers(notAmong(v.source.GetFinalizers(), []string{ours})) }),
		"the twin is held by its side": when(func() bool { return twin() && !v.twin.going }, func() {
			v.updateTwin(func(o *unstructured.Unstructured) { o.SetFinalizers(append(o.GetFinalizers(), farHold)) })
		}),
		"the twin's controllers are done":       when(twin, func() { v.updateTwin(func(o *unstructured.Unstructured) { o.SetFinalizers(nil) }) }),
		"somebody deletes the twin":             when(twin, v.deleteTwin),
		"somebody disowns the twin":             when(twin, func() { v.updateTwin(disown) }),
		"the twin's server is cut off, or back": when(always, func() { v.cut = !v.cut }),
		"an answer will be lost":                when(always, func() { v.losing = true }),
		"Isthmus sees the source":               when(always, func() { v.seenSource = v.source }),
		"Isthmus sees the twin":                 when(func() bool { return !v.cut }, func() { v.seenTwin, v.listed, v.uncertain = v.twinNow(), true, false }),
		"Isthmus acts":                          when(always, func() { v.act() }),
		"Isthmus acts again":                    when(always, func() { v.act() }),
		"Isthmus acts once more":                when(always, func() { v.act() }),
		"Isthmus restarts":                      when(always, v.restart),
		"the policy changes": when(always, func() {
			v.configure(func(r *Rule) {
				if r.DeletionPolicy == DeletionForeground {
					r.DeletionPolicy = DeletionBackground
				} else {
					r.DeletionPolicy = DeletionForeground
				}
			})
		}),
		"the rule carries, or no longer": when(always, func() {
			v.configure(func(r *Rule) {
				if len(r.CarryFinalizers) == 0 {
					r.CarryFinalizers = []string{carried}
				} else {
					r.CarryFinalizers = nil
				}
			})
		}),
		"the rule is removed": when(always, func() {
			v.configure(func(r *Rule) {
				r.OnRemoval = rapid.SampledFrom([]RemovalPolicy{RemovalDelete, RemovalOrphan}).Draw(v.t, "onRemoval")
			})
			v.rule = nil
		}),
		"the rule is back": when(func() bool { return v.rule == nil }, func() { v.configure(func(*Rule) {}) }),
	}
}

func dying(o *unstructured.Unstructured) {
	set(o, "2030-01-01T00:00:00Z", "metadata", "deletionTimestamp")
}

func TestD3_WhatIsHeldGoesAfterItsTwinInAnyHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := &vale{t: t, last: widgetRule(func(r *Rule) { r.DeletionPolicy, r.ReturnStatus = DeletionForeground, false })}
		v.last.Selector = labels.SelectorFromSet(labels.Set{"color": "blue"})
		v.rule = v.last
		if rapid.Bool().Draw(t, "going") { // else few histories come to a source that goes and a twin that is held
			v.source, v.listed = object(t, blueWidget), true
			v.setFinalizers([]string{mine, carried})
			for v.seenSource = v.source; v.act() != Nothing; {
			}
			v.updateTwin(func(o *unstructured.Unstructured) { o.SetFinalizers([]string{farHold}) })
			v.changed(dying)
		}
		t.Repeat(v.actions())
		v.rest()
	})
}
