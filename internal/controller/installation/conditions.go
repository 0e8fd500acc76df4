package installation

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/controller/keep"
)

// verdict is what a condition says.
type verdict struct {
	status          metav1.ConditionStatus
	reason, message string
}

// standing is how an Installation stands.
type standing struct {
	resolved, applied, available verdict
	// leaving, if it has a reason, is why an Installation that is being deleted is still there.
	leaving verdict
}

// unknownTarget is what Applied and Available say when the cluster can't be asked.
var unknownTarget = verdict{metav1.ConditionUnknown, v1alpha1.ReasonTargetNotResolved, "The cluster can't be asked; see TargetClusterResolved"}

// ready is the sum of the others.
func (s standing) ready() verdict {
	switch {
	case s.leaving.reason != "":
		return s.leaving
	case s.resolved.status != metav1.ConditionTrue:
		return verdict{metav1.ConditionFalse, s.resolved.reason, s.resolved.message}
	case s.applied.status != metav1.ConditionTrue:
		return verdict{metav1.ConditionFalse, s.applied.reason, s.applied.message}
	case s.available.status != metav1.ConditionTrue:
		return verdict{metav1.ConditionFalse, s.available.reason, s.available.message}
	}
	return verdict{metav1.ConditionTrue, v1alpha1.ReasonReady, s.applied.message + ", and up"}
}

// apply puts it into a status, and returns the conditions that say something else than before.
func (s standing) apply(i *v1alpha1.Installation) (changed []metav1.Condition) {
	i.Status.ObservedGeneration = i.Generation
	set := func(name string, v verdict) {
		if v.reason == "" {
			return // nothing new is known
		}
		before := meta.FindStatusCondition(i.Status.Conditions, name)
		next := metav1.Condition{Type: name, Status: v.status, Reason: v.reason, Message: keep.Shorten(v.message, longest), ObservedGeneration: i.Generation}
		if before == nil || before.Status != next.Status || before.Reason != next.Reason {
			changed = append(changed, next)
		}
		meta.SetStatusCondition(&i.Status.Conditions, next)
	}
	set(v1alpha1.ConditionTargetClusterResolved, s.resolved)
	set(v1alpha1.ConditionApplied, s.applied)
	set(v1alpha1.ConditionAvailable, s.available)
	set(v1alpha1.ConditionReady, s.ready())
	return changed
}

// longest is how many characters of a message a condition has at most.
const longest = 4096

// onItsWay reports whether a reason is no fault, so that its Event is no warning.
func onItsWay(reason string) bool {
	switch reason {
	case v1alpha1.ReasonLooking, v1alpha1.ReasonWaiting, v1alpha1.ReasonProgressing, v1alpha1.ReasonUninstalling, v1alpha1.ReasonConnecting,
		v1alpha1.ReasonNotApplied, v1alpha1.ReasonTargetNotResolved:
		return true
	}
	return false
}

// howToAbandon is said wherever an Installation waits for what may never come.
var howToAbandon = fmt.Sprintf(`The annotation %s: "true" on this Installation lets it go all the same; what is there stays there`, v1alpha1.ReleaseAnnotation)
