package flow

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/wire"
)

// Finding is what a run would do about one source and one place.
type Finding struct {
	Key, Place types.NamespacedName
	// Steps are the writes, in their order.
	Steps []Step
	// Input is what the last decision depended on, and End that decision: Nothing, Hold or Refuse.
	Input boundary.Input
	End   boundary.Decision
}

// Step is one write that a run would make.
type Step struct {
	Input    boundary.Input
	Decision boundary.Decision
	// Before and After are the object that is written, Before as it is; nil: it is not there.
	Before, After *unstructured.Unstructured
	// Untried says why the server was not asked; empty: it was.
	Untried string
	// Cleared: before a delete, the status that was returned to the source is removed.
	Cleared bool
	// Answer is what the server said of the write; Refusal tells it when it was not Done.
	Answer  boundary.Answer
	Refusal string
}

// farAway is when what was refused is tried again, as far as a rehearsal is concerned.
const farAway = time.Hour

// mostAttempts bounds how often a rehearsal looks again at what changes under its hands.
const mostAttempts = 4

// Rehearse goes through what a run would do about a source, at every place where there is something to settle. An error
// is one of reaching a side.
func (v *View) Rehearse(ctx context.Context, key types.NamespacedName) ([]Finding, error) {
	if !v.e.ready(key) {
		return nil, nil // Unlisted tells
	}
	var findings []Finding
	for _, place := range v.e.places(key) {
		r := rehearsal{View: v, e: v.e, Finding: Finding{Key: key, Place: place}}
		if err := r.settle(ctx); err != nil {
			return findings, err
		}
		findings = append(findings, r.Finding)
	}
	return findings, nil
}

// rehearsal goes through the decisions about one source and one place, as settle does.
type rehearsal struct {
	*View
	Finding
	e *epoch

	source    *unstructured.Unstructured // as the steps leave it; nil: as it was listed
	confirmed bool
	attempts  int
}

func (r *rehearsal) settle(ctx context.Context) error {
	for range 2 * mostSteps {
		in, d := r.decide()
		r.Input, r.End = in, d
		switch {
		case d.Action == boundary.Hold && d.Until == boundary.UntilConfirmed:
			err := r.e.confirm.confirm(ctx, r.e.lastListed())
			if err != nil {
				r.End.Reasons = append(r.End.Reasons, err.Error())
				return ctx.Err()
			}
			r.confirmed = true
			continue
		case d.Action == boundary.Nothing, d.Action == boundary.Hold, d.Action == boundary.Refuse:
			return nil
		case r.repeats(d):
			r.End = boundary.Decision{Action: boundary.Hold, Rule: d.Rule, Until: boundary.UntilChange,
				Reasons: append(d.Reasons, "the server makes something else of it each time")}
			return nil
		}
		more, err := r.try(ctx, in, d)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

func (r *rehearsal) decide() (boundary.Input, boundary.Decision) {
	in := r.e.input(r.Key, r.at(r.Place), r.Place)
	in.Confirmed = r.confirmed
	switch {
	case r.source != nil:
		in.Source = r.source
	case in.Source == nil && len(r.e.twins.Named(r.Key)) == 0:
		in.Source = r.skipped[r.Key] // a run does not know of it; why it does not is asked for
	}
	return in, boundary.Decide(in)
}

// at returns what will be at a place.
func (v *View) at(place types.NamespacedName) *unstructured.Unstructured {
	if planned, ok := v.planned[place]; ok {
		return planned
	}
	return v.e.twinAt(place)
}

// live reports whether the server knows an object of a place in the state that the rehearsal has it in, or an earlier one.
func (v *View) live(place types.NamespacedName) bool {
	planned, ok := v.planned[place]
	return !ok || planned != nil && planned.GetResourceVersion() != ""
}

// repeats reports whether a decision is the one that was carried out last.
func (r *rehearsal) repeats(d boundary.Decision) bool {
	if len(r.Steps) == 0 {
		return false
	}
	last := r.Steps[len(r.Steps)-1].Decision
	return last.Action == d.Action && last.Hash == d.Hash && last.StatusHash == d.StatusHash && (last.Handover == nil) == (d.Handover == nil)
}

// try asks the server for a dry run of what was decided, and goes on from what it makes of it. more: decide again.
func (r *rehearsal) try(ctx context.Context, in boundary.Input, d boundary.Decision) (more bool, err error) {
	side := r.e.to
	if writesSource(d.Action) {
		side = r.e.from
	}
	if ctx, err = side.trust(ctx); err != nil {
		return false, err
	}
	step := Step{Input: in, Decision: d, Before: in.Twin, Answer: boundary.Done}
	op := boundary.OpPatch
	switch d.Action {
	case boundary.Create:
		op = boundary.OpCreate
		err = r.create(ctx, in, d, &step)
	case boundary.Apply:
		op = boundary.OpUpdate
		err = r.apply(ctx, in, d, &step)
	case boundary.Delete:
		op = boundary.OpDelete
		err = r.delete(ctx, in, d, &step)
	case boundary.RemoveFields:
		step.After, err = decoded(r.e.jsonPatchTwin(ctx, in.Place, d.Patch))
	case boundary.Release:
		step.After, err = decoded(r.e.jsonPatchTwin(ctx, in.Place, boundary.ReleasePatch(in.Twin)))
	case boundary.MirrorStatus:
		err = r.mirrorStatus(ctx, in, d, &step)
	case boundary.ReturnStatus, boundary.ClearStatus:
		step.Before = in.Source
		step.After, err = decoded(r.e.patchStatus(ctx, r.e.from, r.e.plan.source, in.Key, d.UID, d.Status, in.Source.Object["status"] != nil))
		if err == nil {
			r.source = step.After
			r.e.rememberStatus(in, d, step.After.Object["status"])
		}
	case boundary.SetFinalizers:
		step.Before = in.Source
		if step.After, err = decoded(r.e.patchFinalizers(ctx, in.Source, d)); err == nil {
			r.source = step.After
		}
	default:
		step.Untried = "the server is not asked for this"
		r.Steps = append(r.Steps, step)
		return false, nil
	}
	if err != nil {
		return r.refused(ctx, step, op, err)
	}
	r.Steps = append(r.Steps, step)
	if !writesSource(d.Action) {
		r.planned[in.Place] = step.After
	}
	return r.source == nil || !gone(r.source), nil
}

func (r *rehearsal) create(ctx context.Context, in boundary.Input, d boundary.Decision, step *Step) (err error) {
	if d.CreateNamespace {
		step.Untried = "its namespace does not exist yet"
		if _, err := r.e.createNamespace(ctx, in.Place.Namespace); err != nil {
			return err
		}
	} else if _, freed := r.planned[in.Place]; freed {
		step.Untried = "what is there has to go first"
	}
	if step.Untried != "" {
		step.After = boundary.Assumed(d.Body)
		return nil
	}
	step.After, err = decoded(r.e.patchTwin(ctx, in.Place, d.Body, boundary.FieldManager, true))
	if err == nil {
		step.After.SetResourceVersion("") // it is not there
	}
	return err
}

func (r *rehearsal) apply(ctx context.Context, in boundary.Input, d boundary.Decision, step *Step) (err error) {
	if !r.live(in.Place) {
		step.Untried = "the twin does not exist yet"
		step.After = boundary.Assumed(d.Body)
		return nil
	}
	var handed *unstructured.Unstructured
	if d.Handover != nil {
		if handed, err = decoded(r.e.patchTwin(ctx, in.Place, d.Handover, boundary.HandoverManager, false)); err != nil {
			return err
		}
	}
	if step.After, err = decoded(r.e.patchTwin(ctx, in.Place, d.Body, boundary.FieldManager, true)); err != nil || handed == nil {
		return err
	}
	// A dry run leaves nothing behind: the second one did not know of the first.
	boundary.TakeHandover(step.After, handed)
	return nil
}

func (r *rehearsal) delete(ctx context.Context, in boundary.Input, d boundary.Decision, step *Step) (err error) {
	if d.ClearFirst {
		if step.Cleared, err = r.e.clearUnselected(ctx, in); err != nil {
			return err
		}
	}
	return r.e.deleteTwin(ctx, in.Place, d)
}

func (r *rehearsal) mirrorStatus(ctx context.Context, in boundary.Input, d boundary.Decision, step *Step) error {
	step.After = in.Twin.DeepCopy()
	if !r.live(in.Place) {
		step.Untried = "the mirror does not exist yet"
		step.After.Object["status"] = d.Status
		return nil
	}
	written, err := decoded(r.e.patchStatus(ctx, r.e.to, r.e.plan.twin, in.Place, d.UID, d.Status, in.Twin.Object["status"] != nil))
	if err != nil {
		return err
	}
	step.After.Object["status"] = written.Object["status"]
	r.e.rememberStatus(in, d, written.Object["status"])
	return nil
}

// refused takes in that the server's answer was another one than "done".
func (r *rehearsal) refused(ctx context.Context, step Step, op boundary.Operation, err error) (more bool, _ error) {
	in, d := step.Input, step.Decision
	answer, _ := boundary.Classify(op, err)
	switch answer {
	case boundary.NotServed, boundary.Unknown, boundary.Unauthenticated:
		return false, fmt.Errorf("%s %s: %w", r.Kind.Kind, boundary.FormatName(in.Key), err)
	case boundary.Exists, boundary.Stale, boundary.Gone:
		if r.attempts++; r.attempts > mostAttempts {
			return false, fmt.Errorf("%s %s keeps changing: %s", r.Kind.Kind, boundary.FormatName(in.Key), r.e.words(answer, err))
		}
		return true, r.lookAgain(ctx, in)
	}
	step.Answer, step.Refusal, step.After = answer, r.e.words(answer, err), nil
	r.Steps = append(r.Steps, step)
	r.e.states.with(in.Key, func(s *state) {
		switch retryAt := time.Now().Add(farAway); {
		case isStatus(d.Action):
			s.memory.StatusFault, s.memory.StatusRetryAt = boundary.StatusFault(d.StatusHash, statusOf(in, d)), retryAt
		case d.Hash != "":
			s.memory.FaultHash, s.memory.Fault, s.memory.RetryAt = d.Hash, step.Refusal, retryAt
		}
	})
	return isStatus(d.Action) || d.Hash != "", nil
}

// lookAgain reads what changed since both sides were listed, or what a list does not show: the object of another owner.
func (r *rehearsal) lookAgain(ctx context.Context, in boundary.Input) error {
	if in.Place != (types.NamespacedName{}) {
		found, err := decoded(r.e.read(ctx, in.Place))
		if err != nil {
			return err
		}
		r.planned[in.Place] = found
		if found == nil && r.e.twins.Get(in.Place) == nil {
			delete(r.planned, in.Place)
		}
	}
	if in.Source == nil {
		return nil
	}
	source, err := decoded(r.e.readSource(ctx, in.Key))
	if err == nil && source != nil {
		r.source = source
	}
	return err
}

// decoded decodes what a request answered; nil: nothing.
func decoded(answer *wire.Object, err error) (*unstructured.Unstructured, error) {
	return answer.Decode(), err
}

func nameOf(o *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

func compareNames(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
