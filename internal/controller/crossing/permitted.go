package crossing

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/controller/fleet"
	"isthmus.dev/isthmus/internal/rbac"
)

// askAgain is how long an answer counts that is not the best one.
const askAgain = 15 * time.Second

// permitted says which verbs are missing on which side, and after which time to ask again; 0: not at all. A Crossing that
// runs, and was permitted, is.
func (r *Reconciler) permitted(ctx context.Context, status *v1alpha1.CrossingStatus, c *v1alpha1.Crossing, outcome fleet.Outcome, runs bool) (again time.Duration) {
	if before := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionPermitted); before != nil && before.ObservedGeneration == c.Generation {
		if runs && before.Status == metav1.ConditionTrue {
			return 0
		}
		if since := time.Since(r.asked[c.Name]); since < askAgain {
			return askAgain - since
		}
	}
	if r.asked == nil {
		r.asked = map[string]time.Time{}
	}
	r.asked[c.Name] = time.Now()
	var missing, unasked []string
	ask := func(side rbac.Side, on *cluster.Cluster, name string, rule *boundary.Rule, namespaces []string) {
		verbs, err := lacking(ctx, side, on, rule, c, namespaces)
		if err != nil {
			unasked = append(unasked, name)
		} else if len(verbs) > 0 {
			missing = append(missing, fmt.Sprintf("%s: %s", name, strings.Join(verbs, ", ")))
		}
	}
	for i, remote := range outcome.Remotes {
		rule, namespaces := r.Fleet.Rule(c.Name, remote)
		if rule == nil {
			unasked = append(unasked, remote)
			continue
		}
		if i == 0 {
			ask(rbac.Local, r.Local, "the local cluster", rule, []string{""})
		}
		if on := r.Remote(remote); on != nil && len(namespaces) > 0 {
			ask(rbac.Remote, on, remote, rule, namespaces)
		} else {
			unasked = append(unasked, remote)
		}
	}
	switch {
	case len(missing) > 0:
		set(status, c, v1alpha1.ConditionPermitted, metav1.ConditionFalse, reasonForbidden, "RBAC lacks "+strings.Join(missing, "; ")+
			". On the local cluster apply what isthmus rbac --crossings prints; on a remote its provider grants what its Consumer allows")
	case len(unasked) >= len(outcome.Remotes):
		set(status, c, v1alpha1.ConditionPermitted, metav1.ConditionUnknown, reasonUnknown, notAsked(unasked))
	default:
		set(status, c, v1alpha1.ConditionPermitted, metav1.ConditionTrue, reasonPermitted, notAsked(unasked))
		if runs && len(unasked) == 0 {
			return 0
		}
	}
	return askAgain
}

// lacking returns the verbs that a rule needs on a side and does not have in any of the namespaces, the whole cluster being
// one of them: "".
func lacking(ctx context.Context, side rbac.Side, on *cluster.Cluster, rule *boundary.Rule, c *v1alpha1.Crossing, namespaces []string) (verbs []string, err error) {
	gvr := c.Spec.Resource.Schema()
	for _, verb := range rbac.Verbs(side, rule, gvr.GroupResource()) {
		may := false
		for _, namespace := range namespaces {
			if may, err = on.Can(ctx, verb.Verb, gvr, verb.Subresource, namespace); err != nil {
				return nil, err
			}
			if may {
				break
			}
		}
		if !may {
			name := gvr.GroupResource().String()
			if verb.Subresource != "" {
				name += "/" + verb.Subresource
			}
			verbs = append(verbs, verb.Verb+" "+name)
		}
	}
	slices.Sort(verbs)
	return verbs, nil
}
