package installation

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"isthmus.dev/isthmus/api/v1alpha1"
)

// health says whether all that was installed is up, as kstatus sees it.
func (p *pass) health() verdict {
	var failed, progressing, missing []string
	for _, phase := range p.bundle.Phases {
		for _, o := range phase.Objects {
			if o.Once && p.live(o.Unstructured) == nil && p.ran[keyOf(o.Unstructured).String()] != "" {
				continue // it is done
			}
			text := func(r *status.Result) string { return fmt.Sprintf("%s: %s", keyOf(o.Unstructured), r.Message) }
			switch r := p.stateOf(o.Unstructured); r.Status {
			case status.CurrentStatus:
			case status.FailedStatus:
				failed = append(failed, text(r))
			case status.NotFoundStatus:
				missing = append(missing, keyOf(o.Unstructured).String())
			default:
				progressing = append(progressing, text(r))
			}
		}
	}
	switch {
	case len(failed) > 0:
		return verdict{metav1.ConditionFalse, v1alpha1.ReasonFailed, fewOf(failed)}
	case len(progressing) > 0:
		return verdict{metav1.ConditionFalse, v1alpha1.ReasonProgressing, fewOf(progressing)}
	case len(missing) > 0:
		return verdict{metav1.ConditionFalse, v1alpha1.ReasonNotApplied, fmt.Sprintf("%d objects are not there, as %s", len(missing), missing[0])}
	}
	return verdict{metav1.ConditionTrue, v1alpha1.ReasonAvailable, "All that was installed is up"}
}

// stateOf says what kstatus makes of an object as it is on the cluster. What is another's, like a namespace that was there
// before, is asked for no more than that.
func (p *pass) stateOf(object *unstructured.Unstructured) *status.Result {
	live := p.live(object)
	if live == nil {
		return &status.Result{Status: status.NotFoundStatus, Message: "it is not there"}
	}
	result, err := status.Compute(live)
	if err != nil {
		return &status.Result{Status: status.UnknownStatus, Message: "its status can't be understood"}
	}
	return result
}
