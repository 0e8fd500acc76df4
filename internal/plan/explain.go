package plan

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/flow"
)

// Query names the object to explain.
type Query struct {
	// Kind is a kind, a plural, or either with its group after a dot, in any case.
	Kind string
	// Namespace is the object's; empty: any. Name is its name.
	Namespace, Name string
	// Twin: it is a twin that is named, not its source.
	Twin bool
}

// Explanation tells how it came about that an object crosses, or does not.
type Explanation struct {
	Direction boundary.Direction `json:"direction"`
	Kind      string             `json:"kind"`
	Source    State              `json:"source"`
	// Twin is absent where there is no place for one.
	Twin *State `json:"twin,omitempty"`
	// Rule is the rule that takes the source; empty: none does. Rules are all rules of the kind, check by check.
	Rule  string        `json:"rule,omitempty"`
	Rules []RuleVerdict `json:"rules"`
	// References are what is translated on the way, or why that can't be.
	References     []Reference `json:"references,omitempty"`
	Untranslatable string      `json:"untranslatable,omitempty"`
	// Fields tell whom the twin's fields belong to; LeftOut are those of the source that the other side does not declare.
	Fields  []boundary.FieldOwner `json:"fields,omitempty"`
	LeftOut []string              `json:"leftOut,omitempty"`
	// Plan is what a run that starts now would do, Reasons how its first decision came about: why it writes, or does not.
	Plan    []Entry  `json:"plan,omitempty"`
	Reasons []string `json:"reasons,omitempty"`
	// Unread: what it depends on could not be looked at, so neither rule nor twin nor what a run would do is known.
	Unread bool `json:"unread,omitempty"`
	// WaitsFor is what has to happen before anything else does; empty: nothing.
	WaitsFor string `json:"waitsFor,omitempty"`
	// Told are the warnings of a running Isthmus on the source; Untold says why they can't be read.
	Told   []Told `json:"told,omitempty"`
	Untold string `json:"untold,omitempty"`
}

// State is how one side has the object.
type State struct {
	Object
	// Found: it is there. Deleting: it is being deleted.
	Found    bool      `json:"found"`
	Deleting bool      `json:"deleting,omitempty"`
	UID      types.UID `json:"uid,omitempty"`
	// Generation is its own; Content, of a twin, the source's generation that its content came from.
	Generation int64 `json:"generation,omitempty"`
	Content    int64 `json:"contentOfSourceGeneration,omitempty"`
	// Status is its status; absent: it has none.
	Status any `json:"status,omitempty"`
	// Whose tells whose an object at the twin's place is, when it is not ours.
	Whose []string `json:"whose,omitempty"`
}

// RuleVerdict is what a rule says of a source.
type RuleVerdict struct {
	Rule   string  `json:"rule"`
	Takes  bool    `json:"takes"`
	Checks []Check `json:"checks"`
}

// Check is one check of a rule.
type Check struct {
	Check  string `json:"check"`
	Passed bool   `json:"passed"`
	// Why is said of the check that settles it.
	Why string `json:"why,omitempty"`
}

// Reference is a reference that is translated.
type Reference struct {
	Path     string `json:"path"`
	From     string `json:"from"`
	To       string `json:"to"`
	Dangling bool   `json:"dangling,omitempty"`
}

// NotFoundError says that there is nothing to explain.
type NotFoundError struct{ message string }

// Error says what was not found, and what there is.
func (e *NotFoundError) Error() string { return e.message }

// Kinds returns the kinds that the flows carry, each once.
func Kinds(flows []*flow.Flow) (kinds []string) {
	for _, f := range flows {
		if !slices.Contains(kinds, f.Kind.Kind) {
			kinds = append(kinds, f.Kind.Kind)
		}
	}
	return kinds
}

// Names reports whether a kind, or its resource, is meant by a name: Widget, widgets, a short name, each with ".group", in
// any case.
func Names(f *flow.Flow, resource cluster.Resource, name string) bool {
	for _, known := range append([]string{f.Kind.Kind, resource.Resource}, resource.ShortNames...) {
		if known != "" && (strings.EqualFold(name, known) || f.Kind.Group != "" && strings.EqualFold(name, known+"."+f.Kind.Group)) {
			return true
		}
	}
	return false
}

// Explain tells about an object in every flow that knows it. An error is a NotFoundError, or one of reaching a side, or
// says why the kind can't be looked at.
func Explain(ctx context.Context, flows []*flow.Flow, q Query) ([]Explanation, error) {
	views, waits, err := lookFor(ctx, flows, q)
	if err != nil {
		return nil, err
	}
	return explainIn(ctx, views, waits, q)
}

// lookFor lets every flow look at both sides, and returns the views of those whose kind is meant, and why such a flow can't
// look, or not everywhere.
func lookFor(ctx context.Context, flows []*flow.Flow, q Query) (views []*flow.View, waits []string, err error) {
	for _, f := range flows { // all of them: references lead from one to another
		v, err := f.Look(ctx, true)
		switch {
		case err != nil && (ctx.Err() != nil || flow.IsConnection(err) || flow.IsReplaced(err)):
			return nil, nil, err
		case err != nil && Names(f, cluster.Resource{}, q.Kind):
			waits = append(waits, fmt.Sprintf("%s waits: %v", f.Name(), flow.Remedied(err, "")))
		case err == nil && Names(f, v.Source, q.Kind):
			views = append(views, v)
			waits = append(waits, v.Unlisted...)
		}
	}
	if len(views)+len(waits) == 0 {
		return nil, nil, &NotFoundError{fmt.Sprintf("no rule names the kind %q: expected one of %s", q.Kind, cmp.Or(strings.Join(Kinds(flows), ", "), "none, for there are no rules"))}
	}
	return views, waits, nil
}

// explainIn tells about an object in the flows that know it.
func explainIn(ctx context.Context, views []*flow.View, waits []string, q Query) ([]Explanation, error) {
	var all []Explanation
	found := map[types.NamespacedName]bool{}
	for _, v := range views {
		keys, hidden, err := find(ctx, v, q)
		if err != nil {
			return nil, err
		}
		if hidden != "" && len(v.Unlisted) == 0 {
			waits = append(waits, hidden)
		}
		for _, key := range keys {
			found[key] = true
			e, err := explain(ctx, v, key)
			if err != nil {
				return nil, err
			}
			all = append(all, e)
		}
	}
	name := boundary.FormatName(types.NamespacedName{Namespace: q.Namespace, Name: q.Name})
	switch {
	case len(all) == 0 && len(waits) > 0:
		return nil, &NotFoundError{fmt.Sprintf("%s %s was not found, and not all could be looked at: %s", q.Kind, name, strings.Join(waits, "; "))}
	case len(all) == 0:
		return nil, &NotFoundError{fmt.Sprintf("%s %s was not found: neither as a source nor as a twin", q.Kind, name)}
	case len(found) > 1 && q.Namespace == "":
		var names []string
		for key := range found {
			names = append(names, boundary.FormatName(key))
		}
		slices.Sort(names)
		return nil, &NotFoundError{fmt.Sprintf("%s %s is the name of several: %s; name the namespace with -n", q.Kind, name, strings.Join(names, ", "))}
	}
	return all, nil
}

// Unread returns an UnreadError when what an explained object depends on could not be looked at.
func Unread(all []Explanation) error {
	var what []string
	for _, e := range all {
		if e.Unread {
			what = append(what, fmt.Sprintf("%s %s %s: %s", e.Direction, e.Kind, e.Source.FullName(), e.WaitsFor))
		}
	}
	if what == nil {
		return nil
	}
	return &UnreadError{what}
}

// find returns the sources that a query means. hidden says why there may be one that can't be seen.
func find(ctx context.Context, v *flow.View, q Query) (keys []types.NamespacedName, hidden string, err error) {
	means := func(name types.NamespacedName) bool {
		return name.Name == q.Name && (q.Namespace == "" || name.Namespace == q.Namespace)
	}
	if !q.Twin {
		for _, key := range v.Keys() {
			if means(key) {
				keys = append(keys, key)
			}
		}
	}
	if len(keys) == 0 {
		for place, source := range v.Twins() {
			if means(place) {
				keys = append(keys, source)
			}
		}
	}
	if len(keys) > 0 || q.Twin || q.Namespace == "" && v.Source.Namespaced {
		return keys, "", nil
	}
	key := types.NamespacedName{Namespace: q.Namespace, Name: q.Name}
	found, err := v.ReadSource(ctx, key)
	switch {
	case apierrors.IsForbidden(err):
		return nil, fmt.Sprintf("as a source on the %s cluster it can't be seen: no rule takes from its namespace, and RBAC does not let it be read (%v)", v.From.Role(), err), nil
	case found:
		keys = append(keys, key)
	}
	return keys, "", err
}

func explain(ctx context.Context, v *flow.View, key types.NamespacedName) (Explanation, error) {
	source := v.SourceAt(key)
	e := Explanation{
		Direction: v.Direction, Kind: v.Kind.Kind, Source: State{Object: sourceObject(v, key)}, Rules: []RuleVerdict{},
	}
	e.Source.take(v, source)
	findings, err := v.Rehearse(ctx, key)
	if err != nil {
		return e, err
	}
	if source != nil {
		if e.Told, e.Untold, err = told(ctx, v, source); err != nil {
			return e, err
		}
	}
	made := map[string]bool{}
	for _, f := range findings {
		if entry := entryOf(v, f, made); entry.Outcome != "" {
			e.Plan = append(e.Plan, entry)
		}
	}
	for _, rule := range v.Rules {
		if source != nil {
			e.Rules = append(e.Rules, verdict(v, rule, source))
		}
	}
	if len(findings) == 0 {
		e.Unread, e.WaitsFor = true, cmp.Or(strings.Join(v.Unlisted, "; "), "not everything that it depends on could be listed")
		return e, nil
	}
	f := findings[len(findings)-1] // where it belongs comes last
	in, end := f.Input, f.End
	e.Reasons = reasonsOf(f)
	if end.Until != "" {
		e.WaitsFor = string(end.Until)
	}
	if f.Place != (types.NamespacedName{}) {
		e.Twin = &State{Object: twinObject(v, f.Place)}
		twin := v.TwinAt(f.Place)
		if end.Blocked {
			twin, e.Twin.Whose = in.Twin, boundary.Marks(in.Twin)
		}
		e.Twin.take(v, twin)
		if twin != nil && !end.Blocked {
			stamp, _ := boundary.ReadStamp(twin)
			e.Twin.Content = stamp.SourceGeneration
			e.Fields = boundary.Owners(twin, end.Rule, source)
		}
	}
	if end.Rule == nil || in.Source == nil {
		return e, nil
	}
	e.Rule = end.Rule.Name
	for _, path := range in.Undeclared {
		e.LeftOut = append(e.LeftOut, path.String())
	}
	refs, err := boundary.References(in, end.Rule)
	if err != nil {
		e.Untranslatable = err.Error()
	}
	for _, ref := range refs {
		e.References = append(e.References, Reference{ref.Path, ref.From.String(), ref.To.String(), ref.Dangling})
	}
	return e, nil
}

// take takes in how a side has the object.
func (s *State) take(v *flow.View, object *unstructured.Unstructured) {
	if object == nil {
		return
	}
	s.Found, s.Deleting = true, object.GetDeletionTimestamp() != nil
	s.UID, s.Generation = object.GetUID(), object.GetGeneration()
	if !boundary.HoldsSecrets(v.Kind) {
		s.Status = object.Object["status"]
	}
}

func verdict(v *flow.View, rule *boundary.Rule, source *unstructured.Unstructured) RuleVerdict {
	out := RuleVerdict{Rule: rule.Name}
	for _, step := range rule.SelectionSteps(source, v.Extent().Naming) {
		out.Takes = step.Verdict == boundary.Selected
		out.Checks = append(out.Checks, Check{step.Check, out.Takes, step.Reason})
	}
	return out
}
