package boundary

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Decide says what to do next about a source and its twin. It is called again after each action, with what the action
// brought about, until it says Nothing, Hold or Refuse.
func Decide(in Input) Decision {
	d := &decider{in: &in}
	d.out.TwinFight, d.out.SourceFight, d.out.TakenOut = in.Memory.TwinFight, in.Memory.SourceFight, in.Memory.TakenOut
	d.decide()
	return d.out
}

type decider struct {
	in   *Input
	out  Decision
	want desired // what the twin should be, once a rule has taken the source
}

func (d *decider) because(format string, args ...any) {
	d.out.Reasons = append(d.out.Reasons, fmt.Sprintf(format, args...))
}

func (d *decider) decide() {
	in := d.in
	if in.Blind {
		d.blind()
		return
	}
	provenance, stamp := Foreign, Stamp{}
	if in.Twin != nil {
		provenance = in.Identity.Provenance(in.Twin, in.Key)
		if provenance == OursForThis {
			stamp, _ = ReadStamp(in.Twin)
		}
	}

	if in.Source == nil {
		switch {
		case provenance == OursForThis && in.Unready:
			d.holdUnready()
		case provenance == OursForThis:
			d.because("the source is gone or no rule selects it")
			d.unselected(stamp, true)
		default:
			d.nothing("the source is gone or no rule selects it, and no twin of ours is at %s", FormatName(in.Place))
		}
		return
	}

	stamped := stamp.Rule
	if stamped == "" {
		stamped = in.Stamped
	}
	chosen := chooseRule(in.Rules, in.Source, in.Naming, stamped)
	if released(in.Source) && d.letGo(chosen.rule, "annotation %s lets it go", AnnotationRelease) {
		return
	}
	if in.Unready && (chosen.rule != nil || provenance == OursForThis) {
		d.out.Rule = chosen.rule
		d.holdUnready()
		return
	}
	if chosen.invalid && !(terminating(in.Source) && d.held()) { // what is held would never go
		d.refuse(ReasonSyncFailed, UntilChange, chosen.reason)
		return
	}
	d.because("%s", chosen.reason)
	if chosen.rule == nil {
		if provenance == OursForThis {
			d.unselected(stamp, true)
		} else {
			d.withoutTwinOr(nil, func() { d.nothing("no twin of ours is at %s", FormatName(in.Place)) })
		}
		return
	}
	place, err := in.Naming.Place(chosen.rule, in.Source)
	if err != nil { // a twin that exists stays as it is, as with an opt-in that can't be read
		d.refuse(ReasonInvalidTargetName, UntilChange, err.Error())
		return
	}
	if place != in.Place {
		// Its namespace pair changed, or it moved to a rule with another one.
		d.because("its place is no longer %s", FormatName(in.Place))
		if provenance == OursForThis {
			d.unselected(stamp, false)
		} else {
			d.nothing("no twin of it is there")
		}
		return
	}
	d.out.Rule = chosen.rule
	if terminating(in.Source) {
		d.going(provenance, stamp)
		return
	}
	if !chosen.rule.holds(in.Source) && d.letGo(chosen.rule, "rule %s does not hold it", chosen.rule.Name) {
		return
	}
	want, err := desire(in, chosen.rule)
	if err != nil { // half-translated objects do not exist (X4)
		d.refuse(ReasonPatchFailed, UntilChange, fmt.Sprintf("a reference can't be translated, so it does not cross: %v", err))
		return
	}
	d.want = want
	for _, ref := range want.refs {
		if ref.Roams != nil {
			d.out.Roaming = append(d.out.Roaming, *ref.Roams)
		}
		if name := ref.From.namespace(); name != "" && name != in.Key.Namespace && !contains(d.out.Abroad, name) {
			d.out.Abroad = append(d.out.Abroad, name)
		}
	}
	if in.Twin == nil {
		d.withoutTwin()
		return
	}
	switch provenance {
	case Foreign:
		d.blocked("was not created by this Isthmus and is left alone; rename one of them, or delete it to let this one cross")
	case OursForAnother:
		other, _ := ReadStamp(in.Twin)
		d.blocked("is the twin of " + FormatName(other.Source) + ", which came first")
	default:
		d.withTwin(stamp)
	}
}

// holdUnready leaves everything as it is while the source's namespace and its counterpart are not to be touched (D: kept).
func (d *decider) holdUnready() {
	d.hold(UntilNamespace, "the counterpart of namespace %s is not ready, so what is there stays as it is", d.in.Key.Namespace)
}

// blocked refuses because of what is at the twin's place (N1, P4).
func (d *decider) blocked(why string) {
	d.clearStatusOr(func() {
		d.out.Blocked = true
		d.refuse(ReasonCreateFailed, UntilPlaceFree,
			fmt.Sprintf("%s %s on the other side %s", d.in.Twin.GetKind(), FormatName(d.in.Place), why))
	})
}

// withoutTwin decides for a selected source that has no twin.
func (d *decider) withoutTwin() {
	in, rule := d.in, d.out.Rule
	ns := in.Namespace
	// Without a twin there is nothing that a status could speak of (T2); what can't be created now must not keep it.
	settle := func(then func()) { d.clearStatusOr(then) }
	want := d.want
	switch {
	case ns.Unknown: // it may be another origin's (N4); until everything is read, a returned status stays too
		d.hold(UntilNamespace, "whose namespace %s on the other side is, is not known yet", in.Place.Namespace)
		return
	case ns.OfAnother(in.Identity):
		settle(func() {
			d.refuse(ReasonCreateFailed, UntilNamespace, fmt.Sprintf(
				"namespace %s on the other side was created for cluster %s and belongs to it", in.Place.Namespace, ns.Origin))
		})
		return
	case ns.Terminating:
		settle(func() { d.hold(UntilNamespace, "namespace %s on the other side is terminating", in.Place.Namespace) })
		return
	case ns.Missing && !ns.Creatable:
		settle(func() { d.hold(UntilNamespace, "namespace %s does not exist on the other side", in.Place.Namespace) })
		return
	case d.unknownReference():
		settle(d.holdReference)
		return
	case in.Memory.Crossed && rule.HoldsDeletedTwins():
		settle(func() {
			d.hold(UntilChange, "the twin was deleted on the other side, and onTwinDeleted is %s", TwinDeletedHold)
		})
		return
	case d.faulty(want.hash):
		settle(d.holdFault)
		return
	}
	if d.holdSource() {
		return
	}
	d.because("it has no twin at %s", FormatName(in.Place))
	d.toTwin(in.Memory.Wrote == want.hash, d.existenceRival, func() {
		d.reportUndeclared()
		d.reportDangling()
		d.out.CreateNamespace = ns.Missing
		d.out.Action, d.out.Body, d.out.Hash = Create, CreateOnly(want.body), want.hash
	})
}

// withTwin decides for a selected source and its own twin.
func (d *decider) withTwin(stamp Stamp) {
	in, rule, twin := d.in, d.out.Rule, d.in.Twin
	if stamp.SourceUID != in.Source.GetUID() {
		d.because("the twin came from an earlier object of this name (UID %s, now %s)", stamp.SourceUID, in.Source.GetUID())
		d.guardedDelete() // D2
		return
	}
	if d.holdSource() {
		return
	}
	want := d.want
	if terminating(twin) {
		d.returnStatusOr(rule, false, func() { d.hold(UntilTwinGone, "the twin is terminating; it is created again when it is gone") })
		return
	}
	if d.unknownReference() {
		d.holdReference()
		return
	}
	drift := d.drift(want, stamp)
	var over map[string]any
	if drift != "" {
		over = handover(twin, in.Place, want.remoteOwned)
	} else {
		if over = takeBack(twin, in.Place, want.remoteOwned); over == nil {
			if in.Source.GetGeneration() != stamp.SourceGeneration {
				d.reportUndeclared() // what changed may be a field that does not cross
			}
			d.reportAbsent()
			d.takeOutOr(func(last func()) {
				d.mirrorStatusOr(rule, func() {
					d.returnStatusOr(rule, true, func() { d.twinStands(); last() })
				})
			})
			return
		}
		drift = "fields that had been handed over are the source's again"
	}
	d.because("%s", drift)
	if d.faulty(want.hash) {
		d.returnStatusOr(rule, false, d.holdFault)
		return
	}
	// The source asks for nothing else than what was written last: others changed it.
	putBack := stamp.Applied == want.hash || in.Memory.Wrote == want.hash
	d.toTwin(putBack, func() Rival { return d.fieldRival(stamp) }, func() {
		d.reportUndeclared()
		d.reportDangling()
		d.out.Action, d.out.Body, d.out.Hash = Apply, Bind(want.body, twin), want.hash
		d.out.Handover = over
		d.out.UID, d.out.ResourceVersion = twin.GetUID(), twin.GetResourceVersion()
	})
}

// drift says why a twin has to be applied again; empty: it need not be (O4).
func (d *decider) drift(want desired, stamp Stamp) string {
	if stamp.Applied != want.hash {
		return "the source or its rule changed"
	}
	ours, ok := ownedBy(d.in.Twin, FieldManager)
	if !ok {
		return "the twin's fields are no longer owned by " + FieldManager
	}
	if path, missing := lacks(want.body, ours, d.in.Twin); missing {
		return fmt.Sprintf("%s was changed or removed on the other side", path)
	}
	return ""
}

// faulty reports whether the server refused this very body, and it is not yet time to try again.
func (d *decider) faulty(hash string) bool {
	return d.in.Memory.FaultHash == hash && d.in.Now.Before(d.in.Memory.RetryAt)
}

func (d *decider) holdFault() {
	d.wake(d.in.Memory.RetryAt)
	d.hold(UntilRetry, "the other side refused it: %s", d.in.Memory.Fault)
}

// unknownReference reports whether it is not known yet where something belongs that the source refers to. What can't be
// translated does not cross until then (X4): by a guess the twin could come to refer to something else.
func (d *decider) unknownReference() bool {
	return slices.ContainsFunc(d.want.refs, func(ref Translated) bool { return ref.Unknown })
}

func (d *decider) holdReference() {
	for _, ref := range d.want.refs {
		if ref.Unknown {
			d.hold(UntilReference, "%s refers to %s, and in which namespace that is on the other side is not known yet", ref.Path, ref.From.describe())
			return
		}
	}
}

// reportDangling tells which references were translated although nothing that crosses can ever be there (X3).
func (d *decider) reportDangling() {
	if text := d.references(func(ref Translated) bool { return ref.Dangling && !ref.Absent }); text != "" {
		d.out.Events = append(d.out.Events, Event{true, ReasonPatchFailed, "refers to what does not cross by any rule: " + text})
	}
	d.reportForPods()
	d.reportAbsent()
}

// reportForPods tells which references lead nowhere if the object that makes them is the only one to use their objects.
func (d *decider) reportForPods() {
	text := d.references(func(ref Translated) bool { return ref.ForPods })
	if text == "" {
		return
	}
	var rules []string
	for _, kind := range carriedForPods {
		if slices.ContainsFunc(d.want.refs, func(ref Translated) bool { return ref.ForPods && ref.From.kind() == kind }) {
			rules = append(rules, fmt.Sprintf("{apiVersion: v1, kind: %s, direction: toHost}", kind))
		}
	}
	message := fmt.Sprintf("refers to what no rule carries, and vCluster itself only where a pod uses it: %s; add a rule like %s, or annotate the object %s: \"true\"",
		text, strings.Join(rules, " and "), forceSync)
	if slices.ContainsFunc(d.want.refs, func(ref Translated) bool { return ref.ForPods && ref.From.Implied != "" }) {
		message += " (the kind is told by the name of the field; what the host makes itself needs neither)"
	}
	d.out.Events = append(d.out.Events, Event{true, ReasonPatchFailed, message})
}

// AbsentGrace is how long an object that a twin refers to may come after it: what is applied together does not arrive
// together.
const AbsentGrace = 10 * time.Second

// reportAbsent tells which references are to objects that are not there, or that no rule takes, if these have had time
// to come and it was not told before (X3).
func (d *decider) reportAbsent() {
	memory := d.in.Memory
	text := d.references(func(ref Translated) bool { return ref.Absent })
	if text == "" {
		return
	}
	d.out.Absent = "refers to objects that do not exist, or that no rule selects: " + text
	if d.out.Absent != memory.Absent && !memory.AbsentSince.IsZero() && d.in.Now.Sub(memory.AbsentSince) >= AbsentGrace {
		d.out.Events = append(d.out.Events, Event{true, ReasonPatchFailed, d.out.Absent})
	}
}

// references writes the translated references that match for messages.
func (d *decider) references(match func(Translated) bool) string {
	var texts []string
	for _, ref := range d.want.refs {
		if match(ref) {
			texts = append(texts, fmt.Sprintf("%s refers to %s, which becomes %s", ref.Path, ref.From.describe(), ref.To.describe()))
		}
	}
	return strings.Join(texts, "; ")
}

// reportUndeclared tells which fields are left out because the other side does not declare them (O7), unless that was
// told last time.
func (d *decider) reportUndeclared() {
	message := UndeclaredMessage(d.in.Undeclared)
	if message != "" && message != d.in.Memory.Undeclared {
		d.out.Events = append(d.out.Events, Event{true, ReasonPatchFailed, message})
	}
}

// UndeclaredMessage says which fields do not cross because the other side does not declare them (O7); empty: none.
func UndeclaredMessage(paths []Path) string {
	if len(paths) == 0 {
		return ""
	}
	text := ""
	for i, p := range paths {
		if i > 0 {
			text += ", "
		}
		text += p.String()
	}
	return fmt.Sprintf("not declared by the other side's schema, so left out: %s", text)
}

func (d *decider) nothing(format string, args ...any) {
	d.out.Action = Nothing
	d.because(format, args...)
}

func (d *decider) hold(until Wait, format string, args ...any) {
	d.out.Action, d.out.Until = Hold, until
	d.because(format, args...)
}

func (d *decider) refuse(reason Reason, until Wait, message string) {
	d.out.Action, d.out.Until = Refuse, until
	d.because("%s", message)
	d.out.Events = append(d.out.Events, Event{true, reason, message})
}
