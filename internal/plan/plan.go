// Package plan says what a run would do, and how that comes about, without doing it.
package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/flow"
)

// Plan is what a run that starts now would do to objects at rest.
type Plan struct {
	// Changes: it would write something.
	Changes bool    `json:"changes"`
	Entries []Entry `json:"entries"`
	// Summary counts the entries, those that are not shown included, by what becomes of them.
	Summary map[Outcome]int `json:"summary"`
	// Waiting are the kinds that a run would not touch, or not wholly, and why.
	Waiting []Waiting `json:"waiting,omitempty"`
	Notes   []string  `json:"notes,omitempty"`
}

// Outcome is what becomes of an object.
type Outcome string

// The outcomes.
const (
	// Change: something is written.
	Change Outcome = "change"
	// Hold: it waits.
	Hold Outcome = "hold"
	// Refused: it can't cross as it is.
	Refused Outcome = "refused"
	// Conflict: what is at the twin's place is another's.
	Conflict Outcome = "conflict"
	// InStep: nothing is to be done.
	InStep Outcome = "in step"
	// Skipped: no rule takes it.
	Skipped Outcome = "skipped"
)

// Outcomes are all outcomes, in the order in which they are told.
var Outcomes = []Outcome{Change, Hold, Refused, Conflict, InStep, Skipped}

// Waiting is a kind that a run would not touch, or not wholly.
type Waiting struct {
	Direction boundary.Direction `json:"direction"`
	Kind      string             `json:"kind"`
	Rules     []string           `json:"rules,omitempty"`
	Why       string             `json:"why"`
	// Unread: it could not be looked at, so that nobody knows what a run would do about it.
	Unread bool `json:"unread,omitempty"`
}

// UnreadError says what could not be looked at, and what to do.
type UnreadError struct{ What []string }

// Error lists it.
func (e *UnreadError) Error() string {
	return "not everything could be looked at, so what a run would do is not known: " + strings.Join(e.What, "; ")
}

// Err returns an UnreadError when not everything could be looked at.
func (p *Plan) Err() error {
	var what []string
	for _, w := range p.Waiting {
		if w.Unread {
			what = append(what, fmt.Sprintf("%s %s: %s", w.Direction, w.Kind, w.Why))
		}
	}
	if what == nil {
		return nil
	}
	return &UnreadError{what}
}

// Object names an object on a side.
type Object struct {
	// Side is "local" or "remote".
	Side string `json:"side"`
	// Resource is plural.group, or plural in the core group.
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// Name writes namespace/name.
func (o Object) FullName() string {
	return boundary.FormatName(types.NamespacedName{Namespace: o.Namespace, Name: o.Name})
}

// Entry is what a run would do about one source and one place.
type Entry struct {
	Direction boundary.Direction `json:"direction"`
	Kind      string             `json:"kind"`
	Source    Object             `json:"source"`
	// Twin is where the twin is, or would be; nil: it has no place.
	Twin    *Object `json:"twin,omitempty"`
	Rule    string  `json:"rule,omitempty"`
	Outcome Outcome `json:"outcome"`
	// Writes are what is written, in order; also what the server refused when it was asked.
	Writes []Write `json:"writes,omitempty"`
	// Why tells what it waits for, why it is refused, or with whom it is in conflict; empty: the writes tell.
	Why string `json:"why,omitempty"`
	// With tells by its marks whose the object is that is in the way.
	With []string `json:"with,omitempty"`
	// Warnings are what a run would warn of on the source, beside Why: fields that are left out, references that dangle.
	Warnings []string `json:"warnings,omitempty"`
	// Reasons tell how the first decision came about, in order: why something is written, or nothing.
	Reasons []string `json:"reasons,omitempty"`
}

// Write is one write.
type Write struct {
	// Action is what is done: create-namespace, hand-over, or a boundary.Action.
	Action string `json:"action"`
	// Object is what is written, its Subresource "status" or empty.
	Object
	Subresource string `json:"subresource,omitempty"`
	// Why tells what it is done for.
	Why     string       `json:"why,omitempty"`
	Changes []Difference `json:"changes,omitempty"`
	// Untried says why the server was not asked what it makes of it; empty: it was, by a dry run.
	Untried string `json:"untried,omitempty"`
	// Refused is what the server said against it; empty: it would happen.
	Refused string `json:"refused,omitempty"`
}

// The actions beside those of decisions.
const (
	CreateNamespace = "create-namespace"
	HandOver        = "hand-over"
)

// Options say what is told.
type Options struct {
	// Unchanged and Skipped add entries for what is in step, and for what no rule takes.
	Unchanged, Skipped bool
}

// newPlan returns one of nothing.
func newPlan() *Plan { return &Plan{Entries: []Entry{}, Summary: map[Outcome]int{}} }

// Make says what a run of these flows would do. An error is one of reaching a side.
func Make(ctx context.Context, flows []*flow.Flow, o Options) (*Plan, error) {
	p := newPlan()
	views, err := p.look(ctx, flows, o.Skipped)
	if err == nil {
		err = p.decide(ctx, views, o)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// decide says what becomes of all objects.
func (p *Plan) decide(ctx context.Context, views []*flow.View, o Options) error {
	made := map[string]bool{} // namespaces that an entry creates
	for _, v := range views {
		for _, key := range v.Keys() {
			findings, err := v.Rehearse(ctx, key)
			if err != nil {
				return err
			}
			for _, f := range findings {
				p.add(o, entryOf(v, f, made))
			}
		}
	}
	slices.SortStableFunc(p.Entries, func(a, b Entry) int {
		return cmp.Or(-cmp.Compare(a.Direction, b.Direction), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Source.Resource, b.Source.Resource),
			cmp.Compare(a.Source.Namespace, b.Source.Namespace), cmp.Compare(a.Source.Name, b.Source.Name))
	})
	return nil
}

// look lets every flow look at both sides before one decides.
func (p *Plan) look(ctx context.Context, flows []*flow.Flow, skipped bool) (views []*flow.View, err error) {
	for _, f := range flows {
		v, err := f.Look(ctx, skipped)
		switch {
		case err != nil && (ctx.Err() != nil || flow.IsConnection(err) || flow.IsReplaced(err)):
			return nil, err
		case err != nil:
			p.wait(f, flow.Remedied(err, "").Error(), unread(err))
			continue
		}
		for _, why := range v.Unlisted {
			p.wait(f, why, true)
		}
		for _, note := range v.Notes {
			p.Notes = append(p.Notes, fmt.Sprintf("%s: %s", f.Name(), note))
		}
		views = append(views, v)
	}
	return views, nil
}

// unread reports whether an error of looking is what a server answered, rather than what was found out of a kind that does
// not cross as things are.
func unread(err error) bool {
	var answer apierrors.APIStatus
	return errors.As(err, &answer)
}

func (p *Plan) wait(f *flow.Flow, why string, unread bool) {
	w := Waiting{Direction: f.Direction, Kind: f.Kind.Kind, Why: why, Unread: unread}
	for _, rule := range f.Rules {
		w.Rules = append(w.Rules, rule.Name)
	}
	p.Waiting = append(p.Waiting, w)
}

func (p *Plan) add(o Options, e Entry) {
	switch {
	case e.Outcome == "":
		return
	case e.Outcome == Change:
		p.Changes = true
	}
	p.Summary[e.Outcome]++
	if e.Outcome == InStep && !o.Unchanged || e.Outcome == Skipped && !o.Skipped {
		return
	}
	p.Entries = append(p.Entries, e)
}

// entryOf tells about a finding. made are the namespaces that are created already; of several objects that need one the
// first creates it.
func entryOf(v *flow.View, f flow.Finding, made map[string]bool) Entry {
	e := Entry{
		Direction: v.Direction, Kind: v.Kind.Kind, Reasons: reasonsOf(f),
		Source: sourceObject(v, f.Key),
	}
	if f.Place != (types.NamespacedName{}) {
		twin := twinObject(v, f.Place)
		e.Twin = &twin
	}
	for _, step := range f.Steps {
		e.Writes = append(e.Writes, writesOf(v, f, step, made)...)
		if rule := step.Decision.Rule; rule != nil {
			e.Rule = rule.Name
		}
		for _, event := range step.Decision.Events {
			if event.Warning && !slices.Contains(e.Warnings, event.Message) {
				e.Warnings = append(e.Warnings, event.Message)
			}
		}
	}
	if f.End.Rule != nil {
		e.Rule = f.End.Rule.Name
	}
	why := last(f.End.Reasons)
	switch end := f.End; {
	case end.Blocked:
		e.Outcome, e.Why, e.With = Conflict, why, boundary.Marks(f.Input.Twin)
	case end.Action == boundary.Refuse:
		e.Outcome, e.Why = Refused, why
	case end.Action == boundary.Hold && end.Until == boundary.UntilRetry:
		e.Outcome = Refused
	case end.Action == boundary.Hold:
		e.Outcome, e.Why = Hold, why
	case end.Rule != nil:
		e.Outcome = InStep
	case f.Input.Source != nil:
		e.Outcome, e.Why = Skipped, first(end.Reasons)
	}
	for _, w := range e.Writes {
		if w.Refused == "" {
			e.Outcome = Change
		} else if e.Outcome != Change {
			e.Outcome = Refused
		}
	}
	return e
}

// reasonsOf returns how the first decision of a finding came about: those that follow only tell what it leads to.
func reasonsOf(f flow.Finding) []string {
	if len(f.Steps) > 0 {
		return f.Steps[0].Decision.Reasons
	}
	return f.End.Reasons
}

func last(texts []string) string {
	if len(texts) == 0 {
		return ""
	}
	return texts[len(texts)-1]
}

func first(texts []string) string {
	if len(texts) == 0 {
		return ""
	}
	return texts[0]
}

func sourceObject(v *flow.View, key types.NamespacedName) Object {
	return Object{v.From.Role(), v.Source.GroupResource().String(), key.Namespace, key.Name}
}

func twinObject(v *flow.View, place types.NamespacedName) Object {
	return Object{v.To.Role(), v.Twin.GroupResource().String(), place.Namespace, place.Name}
}

// writesOf tells about a step: it is one write, or two or three.
func writesOf(v *flow.View, f flow.Finding, step flow.Step, made map[string]bool) (writes []Write) {
	d := step.Decision
	twin, source := twinObject(v, f.Place), sourceObject(v, f.Key)
	diff := &differ{hide: boundary.HoldsSecrets(v.Kind)}
	w := Write{Action: string(d.Action), Object: twin, Why: last(d.Reasons), Untried: step.Untried, Refused: step.Refusal}
	if w.Refused != "" {
		w.Refused = fmt.Sprintf("%s: %s", step.Answer, step.Refusal)
	}
	switch d.Action {
	case boundary.Create:
		if namespace := (Object{v.To.Role(), "namespaces", "", f.Place.Namespace}); d.CreateNamespace && !made[namespace.Side+"/"+namespace.Name] {
			made[namespace.Side+"/"+namespace.Name] = true
			writes = append(writes, Write{Action: CreateNamespace, Object: namespace, Refused: w.Refused})
		}
	case boundary.Apply:
		if d.Handover != nil {
			writes = append(writes, Write{Action: HandOver, Object: twin, Changes: leaves(d.Handover), Refused: w.Refused})
			diff.kept = boundary.RemoteOwnedPaths(d.Rule, step.Input.Source.Object)
		}
		if step.After != nil && step.Before != nil {
			diff.content(v.Schema, step.Before, step.After)
		}
	case boundary.RemoveFields:
		if step.After != nil {
			diff.content(v.Schema, step.Before, step.After)
		}
	case boundary.Delete:
		if step.Cleared {
			writes = append(writes, Write{Action: string(boundary.ClearStatus), Object: source, Subresource: "status"})
		}
	case boundary.SetFinalizers:
		w.Object = source
		if step.After != nil {
			diff.finalizers(step.Before, step.After)
		}
	case boundary.ReturnStatus, boundary.ClearStatus, boundary.MirrorStatus:
		if w.Subresource = "status"; d.Action != boundary.MirrorStatus {
			w.Object = source
		}
		if step.After != nil {
			diff.status(step.Before, step.After)
		}
	}
	w.Changes = diff.changes
	return append(writes, w)
}
