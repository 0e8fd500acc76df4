package boundary

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// DeletionPolicy says when a deleted source goes (D3).
type DeletionPolicy string

// The policies of deletion.
const (
	// DeletionBackground lets a deleted source go at once, and its twin after it.
	DeletionBackground DeletionPolicy = "Background"
	// DeletionForeground holds a deleted source until its twin is gone.
	DeletionForeground DeletionPolicy = "Foreground"
)

// AnnotationRelease on a source, with the value "true", lets it go whatever becomes of its twin (D3).
const AnnotationRelease = Prefix + "release"

// Finalizer is what holds a source until the twin of this writer on a remote, by its cluster ID, is gone (D3). It is shortened, with a
// hash of the whole, where the name would be too long for a server.
func (id Identity) Finalizer(remote string) string {
	return Prefix + shorten(id.Home+"."+id.Instance+"."+remote)
}

// Holds reports whether a source carries the finalizer of this writer for a remote.
func (id Identity) Holds(source *unstructured.Unstructured, remote string) bool {
	have := source.GetFinalizers()
	return len(have) > 0 && slices.Contains(have, id.Finalizer(remote))
}

// MayHold reports whether a rule holds sources until their twins are gone: all of them, or those with finalizers that
// its twins carry.
func (r *Rule) MayHold() bool {
	return r.DeletionPolicy == DeletionForeground || len(r.CarryFinalizers) > 0
}

// holds reports whether a rule holds a source until its twin is gone.
func (r *Rule) holds(source *unstructured.Unstructured) bool {
	return (r.DeletionPolicy == DeletionForeground || len(r.carried(source)) > 0) && !released(source)
}

// carried returns the finalizers of a source that its twin carries under a rule.
func (r *Rule) carried(source *unstructured.Unstructured) []string {
	if len(r.CarryFinalizers) == 0 {
		return nil
	}
	return slices.DeleteFunc(source.GetFinalizers(), func(name string) bool { return !contains(r.CarryFinalizers, name) })
}

// released reports whether somebody said that a source shall not be held.
func released(source *unstructured.Unstructured) bool {
	return rawMetadata(source, "annotations")[AnnotationRelease] == "true"
}

// held reports whether the source carries our finalizer.
func (d *decider) held() bool { return d.in.Identity.Holds(d.in.Source, d.in.Remote) }

func terminating(obj *unstructured.Unstructured) bool { return obj.GetDeletionTimestamp() != nil }

// Stray reports whether a source carries the finalizer of this writer for a remote although no rule holds it: it is about to lose it.
func Stray(rules []*Rule, source *unstructured.Unstructured, naming Naming, id Identity, remote string) bool {
	return id.Holds(source, remote) && !slices.ContainsFunc(rules, func(r *Rule) bool {
		return r.Selects(source, naming).Verdict == Selected && r.holds(source)
	})
}

// holdSource sets our finalizer on a source that is to be held, before it has a twin (D3); false: it needs none, or has it.
func (d *decider) holdSource() bool {
	source := d.in.Source
	if !d.out.Rule.holds(source) || d.held() {
		return false
	}
	d.because("rule %s holds the source until its twin is gone", d.out.Rule.Name)
	d.setFinalizers(append(source.GetFinalizers(), d.in.Identity.Finalizer(d.in.Remote)))
	return true
}

// letGo takes what holds a source for its twin off it: our finalizer, and off one that is terminating those that the
// twin carries; false: nothing holds it. rule is the one that took the source; nil: none did, or it is not known any more.
func (d *decider) letGo(rule *Rule, format string, args ...any) bool {
	source := d.in.Source
	have := source.GetFinalizers()
	if len(have) == 0 {
		return false
	}
	ours := d.in.Identity.Finalizer(d.in.Remote)
	left := slices.DeleteFunc(slices.Clone(have), func(name string) bool {
		return name == ours || terminating(source) && d.carries(rule, name)
	})
	if len(left) == len(have) {
		return false
	}
	d.because(format, args...)
	d.setFinalizers(left)
	return true
}

// carries reports whether the twin of a source carries a finalizer under its rule. Of a source that we hold and no rule
// takes any more, any rule of the flow may have been the one.
func (d *decider) carries(rule *Rule, name string) bool {
	switch {
	case rule != nil:
		return contains(rule.CarryFinalizers, name)
	case !d.held():
		return false
	}
	return slices.ContainsFunc(d.in.Rules, func(r *Rule) bool { return contains(r.CarryFinalizers, name) }) ||
		slices.ContainsFunc(d.in.Removed, func(r RemovedRule) bool { return contains(r.CarryFinalizers, name) })
}

// setFinalizers sets the finalizers of the source, bound to the state that was looked at.
func (d *decider) setFinalizers(names []string) {
	d.out.Action, d.out.Finalizers = SetFinalizers, names
	d.out.UID, d.out.ResourceVersion = d.in.Source.GetUID(), d.in.Source.GetResourceVersion()
}

// withoutTwinOr lets go of a source that has no twin of ours anywhere; else it goes on.
func (d *decider) withoutTwinOr(rule *Rule, then func()) {
	if d.in.MoreTwins || !d.letGo(rule, "it has no twin, so nothing holds it any more") {
		then()
	}
}

// going decides about a source that is terminating: its twin goes, and then what holds the source for it (D3).
func (d *decider) going(provenance Provenance, stamp Stamp) {
	in, rule := d.in, d.out.Rule
	d.because("the source is terminating")
	if provenance != OursForThis {
		d.withoutTwinOr(rule, func() { d.clearStatusOr(func() { d.nothing("it has no twin") }) })
		return
	}
	if !terminating(in.Twin) || stamp.SourceUID != in.Source.GetUID() {
		d.deleteTwin()
		return
	}
	// People watch what they delete. What can't be translated has no status to return.
	if want, err := desire(in, rule); err == nil {
		d.want = want
		d.returnStatusOr(rule, false, d.deleteTwin)
		return
	}
	d.deleteTwin()
}

// blind decides what can be decided about a source while nothing is known of its twin.
func (d *decider) blind() {
	in := d.in
	if in.Source == nil {
		d.nothing("the source is gone or no rule selects it")
		return
	}
	rule := chooseRule(in.Rules, in.Source, in.Naming, in.Stamped).rule
	switch {
	case in.KindGoing && d.letGo(rule, "the CRD of the source is being deleted, which nothing may hold up; its twin stays"):
	case released(in.Source) && d.letGo(rule, "annotation %s lets it go", AnnotationRelease):
	case terminating(in.Source):
		d.hold(UntilChange, "what becomes of its twin can't be seen to")
		d.tellTrouble(rule)
	default:
		d.nothing("nothing is known of its twin")
	}
}

// tellTrouble tells on a source that is terminating and held why its twin does not go.
func (d *decider) tellTrouble(rule *Rule) {
	source := d.in.Source
	if d.in.Trouble == "" || source == nil || !terminating(source) || !d.held() && (rule == nil || len(rule.carried(source)) == 0) {
		return
	}
	d.out.Events = append(d.out.Events, Event{true, ReasonDeleteFailed, fmt.Sprintf(
		"waits until its twin is gone, but %s; to let it go now, whatever becomes of the twin, annotate it %s: \"true\"", d.in.Trouble, AnnotationRelease)})
}

// FinalizersPatch is the JSON patch that sets the finalizers of a source, if it is still in the state given.
func FinalizersPatch(source *unstructured.Unstructured, names []string) []map[string]any {
	const at = "/metadata/finalizers"
	patch := testState(source)
	if have := source.GetFinalizers(); len(have) > 0 {
		patch = append(patch, map[string]any{"op": "test", "path": at, "value": have})
	}
	if len(names) == 0 {
		return append(patch, map[string]any{"op": "remove", "path": at})
	}
	return append(patch, map[string]any{"op": "add", "path": at, "value": names})
}
