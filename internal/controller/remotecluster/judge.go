package remotecluster

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/controller/keep"
	"isthmus.dev/isthmus/internal/controller/link"
)

// facts is all that a verdict on a remote depends on.
type facts struct {
	link.State
	pinned string // the UID in its status
	local  string // the UID of the local cluster; empty: not known yet
	holder string // the RemoteCluster that is the same cluster and goes first; empty: none
}

// verdict is what becomes of a remote.
type verdict struct {
	usable, reached bool
	// reason and message are those of Reachable.
	reason, message string
	// grave: it is told and acted upon at once, for it is another cluster than the one that is meant.
	grave bool
	// pin is the UID to write into its status before it is used.
	pin string
}

// judge returns what becomes of a remote. That it does not answer leaves it usable, once it is known who it is: what runs
// there waits by itself.
func judge(f facts) verdict {
	known := f.pinned != ""
	if reason, message := f.Barred(); reason != "" {
		return verdict{usable: known && reason == v1alpha1.ReasonConnecting, reason: reason, message: message}
	}
	uid := f.Probe.UID
	switch {
	case uid != "" && uid == f.local:
		return verdict{grave: true, reason: v1alpha1.ReasonSameCluster, message: "This is the cluster that Isthmus runs in"}
	case uid != "" && known && uid != f.pinned:
		return verdict{grave: true, reason: v1alpha1.ReasonReplaced, message: fmt.Sprintf("Another cluster answers than the one that was known: the UID of namespace %s is %s, not %s. "+
			"If this is meant to be another cluster, delete this RemoteCluster and create it anew", metav1.NamespaceSystem, uid, f.pinned)}
	case f.holder != "":
		return verdict{grave: true, reason: v1alpha1.ReasonSameCluster, message: fmt.Sprintf("This is the same cluster as RemoteCluster %q, which is older: delete one of them", f.holder)}
	}
	reason, message := f.Away()
	if reason == "" && f.local == "" {
		reason, message = v1alpha1.ReasonConnecting, "It is not known yet which cluster the local one is"
	}
	if reason != "" {
		return verdict{usable: known, reason: reason, message: message}
	}
	return verdict{usable: known, reached: true, reason: v1alpha1.ReasonReached, message: "It answers, with the credential that we have", pin: uid}
}

// reachable returns the condition of a verdict.
func (v verdict) reachable(generation int64) metav1.Condition {
	status := metav1.ConditionFalse
	switch {
	case v.reached:
		status = metav1.ConditionTrue
	case v.reason == v1alpha1.ReasonConnecting:
		status = metav1.ConditionUnknown
	}
	return metav1.Condition{Type: v1alpha1.ConditionReachable, Status: status, Reason: v.reason, Message: keep.Shorten(v.message, longest), ObservedGeneration: generation}
}

// longest is how many characters of a message a condition has at most.
const longest = 1024

// kindsServed returns the condition of what a remote was found to serve of what is to cross.
func kindsServed(kinds []schema.GroupVersionResource, said answers, generation int64) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionKindsServed, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAllServed,
		Message: "It serves all kinds that are to cross", ObservedGeneration: generation}
	var missing []string
	for _, kind := range kinds {
		served, known := said.served[kind]
		if !known {
			c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonConnecting, "It was not asked yet what it serves"
			return c
		}
		if !served {
			missing = append(missing, fmt.Sprintf("%s (%s)", kind.GroupResource(), kind.Version))
		}
	}
	switch {
	case len(kinds) == 0:
		c.Message = "No kinds are to cross"
	case len(missing) > 0:
		slices.Sort(missing)
		c.Status, c.Reason = metav1.ConditionFalse, v1alpha1.ReasonNotServed
		c.Message = "It does not serve " + strings.Join(missing, ", ") + "; they cross as soon as it does"
	}
	return c
}

// settle decides whether a condition is told instead of the one that is shown: a change for the worse must last for grace
// first, so that one failed request tells nothing. since is when next was found first. wait is when to look again; 0: not
// for this.
func settle(shown *metav1.Condition, next metav1.Condition, since, now time.Time, grace time.Duration) (tell metav1.Condition, wait time.Duration) {
	switch {
	case shown == nil, next.Status == metav1.ConditionTrue, shown.Status == metav1.ConditionUnknown:
		return next, 0
	case next.Status == metav1.ConditionUnknown && shown.ObservedGeneration == next.ObservedGeneration:
		return *shown, 0 // what was known is not forgotten over a restart
	case shown.Status == next.Status && shown.Reason == next.Reason:
		if sameFailure(shown, next) {
			next.Message = shown.Message
		}
		return next, 0
	}
	if left := grace - now.Sub(since); left > 0 && shown.ObservedGeneration == next.ObservedGeneration {
		return *shown, left
	}
	return next, 0
}

// sameFailure: the messages of failed requests differ in port numbers and the like from one to the next, which is not worth
// a write.
func sameFailure(shown *metav1.Condition, next metav1.Condition) bool {
	switch next.Reason {
	case v1alpha1.ReasonAccess, v1alpha1.ReasonSameCluster, v1alpha1.ReasonReplaced, v1alpha1.ReasonUnhealthy, v1alpha1.ReasonNotServed,
		v1alpha1.ReasonReached, v1alpha1.ReasonAllServed:
		return false
	}
	return shown.Message != ""
}

// claim is a RemoteCluster's claim to the cluster with a UID.
type claim struct {
	uid     string
	created time.Time
	name    string
}

// before: where two claim one cluster, the older one has it.
func (c claim) before(o claim) bool {
	if !c.created.Equal(o.created) {
		return c.created.Before(o.created)
	}
	return c.name < o.name
}

// holder returns the name of the first of those who claim the same cluster as c, if that is not c.
func (c claim) holder(all []claim) string {
	first := c
	for _, o := range all {
		if c.uid != "" && o.uid == c.uid && o.before(first) {
			first = o
		}
	}
	if first == c {
		return ""
	}
	return first.name
}
