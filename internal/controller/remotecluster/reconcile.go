package remotecluster

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/controller/keep"
)

// reconcile puts together what the link of a RemoteCluster has found out, and writes what of it is news. It makes no request
// to a remote.
func (r *Remotes) reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	rc := &v1alpha1.RemoteCluster{}
	err := r.client.Get(ctx, req.NamespacedName, rc)
	if apierrors.IsNotFound(err) {
		r.forget(req.Name)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("reading RemoteCluster %s: %w", req.Name, err)
	}
	l, f := r.look(rc)
	v := judge(f)
	deleting := rc.DeletionTimestamp != nil
	result := ctrl.Result{}
	if deleting {
		done, err := r.letGo(ctx, rc)
		if err != nil {
			return ctrl.Result{}, keep.Quiet(err)
		}
		if done {
			r.record(rc, l, verdict{reason: v.reason, message: v.message})
			return ctrl.Result{}, nil
		}
		result.RequeueAfter = r.timing.draining
	}
	if v.pin != "" && rc.Status.ClusterUID == "" {
		switch {
		case deleting:
			v.pin = "" // it is not begun to be used any more
		case !controllerutil.ContainsFinalizer(rc, v1alpha1.RemoteClusterFinalizer):
			if err := keep.Hold(ctx, r.client, rc, v1alpha1.RemoteClusterFinalizer); err != nil {
				return ctrl.Result{}, keep.Quiet(err)
			}
		}
	}
	wait, err := r.tell(ctx, rc, l, f, v)
	if err != nil {
		return ctrl.Result{}, keep.Quiet(err)
	}
	if wait > 0 && (result.RequeueAfter == 0 || wait < result.RequeueAfter) {
		result.RequeueAfter = wait
	}
	r.record(rc, l, v)
	return result, nil
}

// look makes the link of a RemoteCluster follow what the spec says, and returns what is known.
func (r *Remotes) look(rc *v1alpha1.RemoteCluster) (*remote, facts) {
	kinds := r.kinds(rc.Name)
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.remotes[rc.Name]
	if l == nil {
		l = &remote{survey: survey{every: r.timing.kinds}}
		l.Link = r.links.Add(rc.Name, &l.survey)
		r.remotes[rc.Name] = l
	}
	l.Follow(originOf(rc, r.o.Namespace))
	f := facts{State: l.State(), pinned: rc.Status.ClusterUID, local: r.localUID}
	if l.survey.want(kinds) {
		l.Ask()
	}

	mine := claim{uid: cmp.Or(f.pinned, f.Probe.UID), created: rc.CreationTimestamp.Time, name: rc.Name}
	if l.claim != mine {
		l.claim = mine
		r.recheck("")
	}
	claims := make([]claim, 0, len(r.remotes))
	for _, each := range r.remotes {
		claims = append(claims, each.claim)
	}
	f.holder = mine.holder(claims)
	return l, f
}

// kinds returns what is to cross to or from a remote.
func (r *Remotes) kinds(name string) []schema.GroupVersionResource {
	if r.o.Kinds == nil {
		return nil
	}
	return r.o.Kinds(name)
}

// forget ends the link of a RemoteCluster that is gone.
func (r *Remotes) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.remotes[name]
	if l == nil {
		return
	}
	l.Close()
	delete(r.remotes, name)
	r.o.Metrics.RemoveReachable(name)
	r.recheck("") // another one may have been waiting for the cluster
	r.publish()
}

// tell writes the status, if it is another one than it was, and returns when to look again.
func (r *Remotes) tell(ctx context.Context, rc *v1alpha1.RemoteCluster, l *remote, f facts, v verdict) (time.Duration, error) {
	old := rc.DeepCopy()
	now := time.Now()
	next := v.reachable(rc.Generation)
	shown := meta.FindStatusCondition(rc.Status.Conditions, next.Type)
	grace := r.timing.grace
	if v.grave {
		grace = 0
	}
	told, wait := settle(shown, next, l.since(next, now), now, grace)
	meta.SetStatusCondition(&rc.Status.Conditions, told)
	said := l.survey.answers()
	if v.reached || meta.FindStatusCondition(rc.Status.Conditions, v1alpha1.ConditionKindsServed) == nil {
		meta.SetStatusCondition(&rc.Status.Conditions, kindsServed(r.kinds(rc.Name), said, rc.Generation))
	}
	if v.pin != "" {
		rc.Status.ClusterUID = v.pin
	}
	if v.reached {
		rc.Status.KubernetesVersion, rc.Status.Consent = said.version, said.consent
	}
	if f.Client != nil {
		rc.Status.Server = f.Client.Server()
	}
	if equality.Semantic.DeepEqual(old.Status, rc.Status) {
		return wait, nil
	}
	if err := r.client.Status().Patch(ctx, rc, client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{})); err != nil {
		return 0, fmt.Errorf("writing the status of RemoteCluster %s: %w", rc.Name, err)
	}
	if shown == nil || shown.Status != told.Status || shown.Reason != told.Reason {
		r.event(rc, told)
	}
	return wait, nil
}

// since returns when a condition was found first, of those that followed one another without a break.
func (l *remote) since(c metav1.Condition, now time.Time) time.Time {
	if l.found.Status != c.Status || l.found.Reason != c.Reason || l.foundAt.IsZero() {
		l.found, l.foundAt = c, now
	}
	return l.foundAt
}

func (r *Remotes) event(rc *v1alpha1.RemoteCluster, c metav1.Condition) {
	kind := corev1.EventTypeWarning
	if c.Status != metav1.ConditionFalse {
		kind = corev1.EventTypeNormal
	}
	r.o.Events.EmitRef(reference(rc), kind, c.Reason, c.Message)
}

func reference(rc *v1alpha1.RemoteCluster) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "RemoteCluster", Name: rc.Name, UID: rc.UID}
}

// record keeps what All returns.
func (r *Remotes) record(rc *v1alpha1.RemoteCluster, l *remote, v verdict) {
	conn := l.State().Client
	shown := meta.FindStatusCondition(rc.Status.Conditions, v1alpha1.ConditionReachable)
	remote := Remote{
		Name: rc.Name, Labels: rc.Labels, UID: rc.Status.ClusterUID, Cluster: conn,
		Usable: v.usable || v.reached && rc.Status.ClusterUID != "", Reached: v.reached, Reason: v.reason, Message: v.message,
		Deleting: rc.DeletionTimestamp != nil, Released: keep.Released(rc), Consent: rc.Status.Consent,
	}
	if !v.reached && !v.grave && v.reason != v1alpha1.ReasonConnecting && shown != nil && shown.Status == metav1.ConditionTrue && conn != nil && !remote.Deleting {
		// A change for the worse that has not lasted yet.
		remote.Usable, remote.Reached, remote.Reason, remote.Message = true, true, shown.Reason, shown.Message
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.remotes[rc.Name] != l {
		return
	}
	l.now = remote
	r.o.Metrics.SetReachable(rc.Name, remote.Reached)
	r.publish()
}
