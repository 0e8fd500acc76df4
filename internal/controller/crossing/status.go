package crossing

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/controller/fleet"
)

// The reasons of a Crossing's conditions.
const (
	reasonCrossing    = "Crossing"
	reasonInvalid     = "Invalid"
	reasonNoRemote    = "NoRemoteSelected"
	reasonWaiting     = "Waiting"
	reasonSome        = "SomeRemotesWait"
	reasonHeld        = "SomeObjectsDoNot"
	reasonServed      = "Served"
	reasonNotServed   = "NotServed"
	reasonPermitted   = "Permitted"
	reasonForbidden   = "VerbsMissing"
	reasonUnknown     = "NotKnownYet"
	reasonWindingDown = "WindingDown"
)

// windingDown is the status of a Crossing that is being deleted.
func windingDown(c *v1alpha1.Crossing, left []string) v1alpha1.CrossingStatus {
	status := *c.Status.DeepCopy()
	status.ObservedGeneration, status.InStep, status.Remotes = c.Generation, 0, nil
	set(&status, c, v1alpha1.ConditionActive, metav1.ConditionFalse, reasonWindingDown,
		strings.Join(left, "; ")+fmt.Sprintf(" (onRemoval: %s). The annotation %s: \"true\" lets it go all the same", c.Spec.OnRemoval, v1alpha1.ReleaseAnnotation))
	return status
}

// status says how a Crossing stands, and after which time that is to be looked at again though nothing tells of a change; 0:
// it is not.
func (r *Reconciler) status(ctx context.Context, c *v1alpha1.Crossing) (status v1alpha1.CrossingStatus, again time.Duration) {
	status = *c.Status.DeepCopy()
	status.ObservedGeneration = c.Generation
	outcome, standings, known := r.Fleet.Crossing(c.Name)
	if !known {
		return c.Status, 0 // it is about to be taken into account
	}
	status.InStep, status.Remotes = 0, nil
	active := 0
	var waiting, held []string
	for _, s := range standings {
		one := count(s)
		status.InStep += one.InStep
		status.Remotes = append(status.Remotes, one)
		if s.Rule != nil && s.Rule.Active && s.Reason == "" {
			active++
		} else {
			waiting = append(waiting, s.Remote+": "+s.Reason)
		}
		held = append(held, keptBack(s, one)...)
	}
	switch {
	case outcome.Err != nil:
		set(&status, c, v1alpha1.ConditionActive, metav1.ConditionFalse, reasonInvalid, outcome.Err.Error())
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionServed)
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionPermitted)
		return status, 0
	case len(standings) == 0:
		set(&status, c, v1alpha1.ConditionActive, metav1.ConditionFalse, reasonNoRemote, "remoteSelector selects no RemoteCluster")
	case active == len(standings) && len(held) == 0:
		set(&status, c, v1alpha1.ConditionActive, metav1.ConditionTrue, reasonCrossing, "")
	case active == len(standings):
		set(&status, c, v1alpha1.ConditionActive, metav1.ConditionTrue, reasonHeld, strings.Join(held, "; "))
	case active > 0:
		set(&status, c, v1alpha1.ConditionActive, metav1.ConditionTrue, reasonSome, strings.Join(append(waiting, held...), "; "))
	default:
		set(&status, c, v1alpha1.ConditionActive, metav1.ConditionFalse, reasonWaiting, strings.Join(waiting, "; "))
	}
	served(&status, c, outcome)
	return status, r.permitted(ctx, &status, c, outcome, active == len(standings))
}

// keptBack says what does not cross to a remote though its rule runs.
func keptBack(s fleet.Standing, one v1alpha1.CrossingRemote) (held []string) {
	for _, of := range []struct {
		n    int32
		what string
	}{
		{one.Conflict, "are in conflict with what others made or write there: their Events say with what"},
		{one.Refused, "are refused: their Events say why"},
	} {
		if of.n > 0 {
			held = append(held, fmt.Sprintf("%s: %d objects %s", s.Remote, of.n, of.what))
		}
	}
	if s.Rule != nil && s.Rule.Paused != nil {
		held = append(held, fmt.Sprintf("%s: %d of %d deletes are held until somebody allows them: %s", s.Remote, s.Rule.Paused.Deletes, s.Rule.Paused.Twins, s.Rule.Paused.Allow))
	}
	return held
}

// count puts the numbers of a rule's objects into those that a Crossing's status has.
func count(s fleet.Standing) v1alpha1.CrossingRemote {
	one := v1alpha1.CrossingRemote{Cluster: s.Remote, Reason: s.Reason}
	if s.Rule == nil {
		return one
	}
	of := func(states ...string) (n int32) {
		for _, state := range states {
			n += int32(s.Rule.Objects[state])
		}
		return n
	}
	one.InStep, one.Behind, one.Conflict, one.Refused = of("in_step"), of("waiting"), of("foreign", "contention"), of("refused")
	if s.Rule.Paused != nil {
		one.Paused = int32(s.Rule.Paused.Deletes)
	}
	if s.Rule.Active {
		one.Reason = ""
	}
	return one
}

func served(status *v1alpha1.CrossingStatus, c *v1alpha1.Crossing, outcome fleet.Outcome) {
	what := fmt.Sprintf("%s in version %s", c.Spec.Resource.Schema().GroupResource(), c.Spec.Resource.Version)
	missing, unasked := unserved(outcome)
	switch {
	case len(missing) > 0:
		set(status, c, v1alpha1.ConditionServed, metav1.ConditionFalse, reasonNotServed, what+" is not served by "+strings.Join(missing, ", ")+": it crosses when it is")
	case len(unasked) >= len(outcome.Remotes):
		set(status, c, v1alpha1.ConditionServed, metav1.ConditionUnknown, reasonUnknown, notAsked(unasked))
	default:
		set(status, c, v1alpha1.ConditionServed, metav1.ConditionTrue, reasonServed, notAsked(unasked))
	}
}

// notAsked names the sides that could not be asked; empty: all could.
func notAsked(sides []string) string {
	if len(sides) == 0 {
		return ""
	}
	return "could not be asked yet: " + strings.Join(sides, ", ")
}

func set(status *v1alpha1.CrossingStatus, c *v1alpha1.Crossing, condition string, is metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: condition, Status: is, Reason: reason, Message: message, ObservedGeneration: c.Generation,
	})
}
