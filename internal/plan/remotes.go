package plan

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"isthmus.dev/isthmus/internal/flow"
)

// Remote is what a run would carry to one of several remotes.
type Remote struct {
	Name  string
	Flows []*flow.Flow
	// Waiting are the kinds for which there is no flow yet.
	Waiting []Waiting
	// Notes tell what holds for the remote.
	Notes []string
	// Err says why it is not known what a run would carry; nil: it is known.
	Err error
}

// RemotePlan is the plan for a remote.
type RemotePlan struct {
	Remote string `json:"remote"`
	// Error says why there is no plan; empty: there is one.
	Error string `json:"error,omitempty"`
	*Plan
}

// MakeAll says what a run would do, remote by remote; only, if it is not empty, names the one that is told about. All
// look before one decides, for a source may have twins on several (T5).
func MakeAll(ctx context.Context, remotes []Remote, o Options, only string) []RemotePlan {
	plans, views, errs := make([]*Plan, len(remotes)), make([][]*flow.View, len(remotes)), make([]error, len(remotes))
	each(remotes, func(i int) {
		plans[i] = newPlan()
		if errs[i] = remotes[i].Err; errs[i] == nil {
			views[i], errs[i] = plans[i].look(ctx, remotes[i].Flows, o.Skipped)
		}
	})
	var all []RemotePlan
	for i, remote := range remotes {
		if only != "" && remote.Name != only {
			continue
		}
		if errs[i] == nil {
			errs[i] = plans[i].decide(ctx, views[i], o)
		}
		if errs[i] != nil {
			all = append(all, RemotePlan{Remote: remote.Name, Error: errs[i].Error()})
			continue
		}
		plans[i].Waiting = append(plans[i].Waiting, remote.Waiting...)
		plans[i].Notes = append(plans[i].Notes, remote.Notes...)
		all = append(all, RemotePlan{Remote: remote.Name, Plan: plans[i]})
	}
	return all
}

// Err returns an error when not everything could be looked at.
func (p *RemotePlan) Err() error {
	if p.Plan == nil {
		return fmt.Errorf("remote %s: %s", p.Remote, p.Error)
	}
	if err := p.Plan.Err(); err != nil {
		return fmt.Errorf("remote %s: %w", p.Remote, err)
	}
	return nil
}

// RemoteExplanations are those of one object and a remote.
type RemoteExplanations struct {
	Remote string `json:"remote"`
	// Error says why there are none; empty: there are.
	Error        string        `json:"error,omitempty"`
	Explanations []Explanation `json:"explanations,omitempty"`
}

// ExplainAll tells about an object, remote by remote; only, if it is not empty, names the one that is told about. Remotes
// that do not know the object are left out; where none does, the error is a NotFoundError.
func ExplainAll(ctx context.Context, remotes []Remote, q Query, only string) (all []RemoteExplanations, err error) {
	views, waits, errs := make([][]*flow.View, len(remotes)), make([][]string, len(remotes)), make([]error, len(remotes))
	each(remotes, func(i int) {
		if errs[i] = remotes[i].Err; errs[i] == nil {
			views[i], waits[i], errs[i] = lookFor(ctx, remotes[i].Flows, q)
		}
	})
	var missing []string
	found := false
	for i, remote := range remotes {
		if only != "" && remote.Name != only {
			continue
		}
		one := RemoteExplanations{Remote: remote.Name}
		if errs[i] == nil {
			one.Explanations, errs[i] = explainIn(ctx, views[i], waits[i], q)
		}
		if unknown := (*NotFoundError)(nil); errors.As(errs[i], &unknown) {
			message := unknown.message
			for _, w := range remote.Waiting {
				message += fmt.Sprintf("; %s waits: %s", w.Kind, w.Why)
			}
			missing = append(missing, fmt.Sprintf("remote %s: %s", remote.Name, message))
			continue
		}
		if errs[i] != nil {
			one.Error = errs[i].Error()
		}
		found = found || one.Error == ""
		all = append(all, one)
	}
	if !found && len(missing) > 0 {
		for _, one := range all {
			missing = append(missing, fmt.Sprintf("remote %s: %s", one.Remote, one.Error))
		}
		return nil, &NotFoundError{strings.Join(missing, "\n")}
	}
	return all, nil
}

// Err returns an error when not everything could be looked at.
func (e *RemoteExplanations) Err() error {
	err := Unread(e.Explanations)
	if e.Error != "" {
		err = errors.New(e.Error)
	}
	if err != nil {
		return fmt.Errorf("remote %s: %w", e.Remote, err)
	}
	return nil
}

// each does something for all remotes at once: one that hangs delays no other.
func each(remotes []Remote, do func(i int)) {
	var group sync.WaitGroup
	for i := range remotes {
		group.Go(func() { do(i) })
	}
	group.Wait()
}
