// Package offloading says how NamespaceOffloadings stand, and keeps those that are deleted until nothing of their namespaces
// is left on a remote.
package offloading

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/controller/fleet"
	"isthmus.dev/isthmus/internal/controller/keep"
	"isthmus.dev/isthmus/internal/observe"
)

// The reasons of a namespace's conditions beside those of NamespaceRequests.
const (
	reasonReady       = "Ready"
	reasonSelected    = "Selected"
	reasonNotSelected = "NoClusterSelected"
	reasonInvalid     = "Invalid"
	reasonTaken       = "NameTaken"
	reasonSomeFailed  = "SomeFailed"
	reasonAllFailed   = "AllFailed"
	reasonWithdrawing = "Withdrawing"
	reasonIgnored     = "Ignored"
)

// Reconciler says how NamespaceOffloadings stand.
type Reconciler struct {
	Client client.Client
	Fleet  *fleet.Fleet
	// Offload returns what a NamespaceOffloading came to; known is false until it was taken into account.
	Offload func(namespace string) (o fleet.Offload, known bool)
	// Ignored says why NamespaceOffloadings mean nothing; empty: they say what is offloaded.
	Ignored string
	Events  *observe.Events
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	o := &v1alpha1.NamespaceOffloading{}
	if err := r.Client.Get(ctx, request.NamespacedName, o); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	switch {
	case r.Ignored != "" && o.DeletionTimestamp != nil:
		return ctrl.Result{}, keep.Quiet(keep.LetGo(ctx, r.Client, o, v1alpha1.OffloadingFinalizer))
	case r.Ignored != "":
		return ctrl.Result{}, r.ignore(ctx, o)
	case o.DeletionTimestamp != nil:
		return ctrl.Result{}, r.withdraw(ctx, o)
	}
	if !controllerutil.ContainsFinalizer(o, v1alpha1.OffloadingFinalizer) {
		return ctrl.Result{}, keep.Quiet(keep.Hold(ctx, r.Client, o, v1alpha1.OffloadingFinalizer))
	}
	offload, known := r.Offload(o.Namespace)
	if !known {
		return ctrl.Result{}, nil // it is about to be taken into account
	}
	return ctrl.Result{}, r.tell(ctx, o, r.status(o, offload))
}

// withdraw lets a NamespaceOffloading go that is being deleted, as soon as nothing of its namespace is left.
func (r *Reconciler) withdraw(ctx context.Context, o *v1alpha1.NamespaceOffloading) error {
	if !controllerutil.ContainsFinalizer(o, v1alpha1.OffloadingFinalizer) {
		return nil
	}
	if left := r.left(o); len(left) > 0 {
		if !keep.Released(o) {
			return r.tell(ctx, o, withdrawing(o, left))
		}
		r.event(o, corev1.EventTypeWarning, "Released", "it was let go although "+strings.Join(left, "; ")+": what is left there goes when it can be reached again, as long as its RemoteCluster stands")
	}
	return keep.Quiet(keep.LetGo(ctx, r.Client, o, v1alpha1.OffloadingFinalizer))
}

// ignore says that a NamespaceOffloading means nothing.
func (r *Reconciler) ignore(ctx context.Context, o *v1alpha1.NamespaceOffloading) error {
	status := v1alpha1.NamespaceOffloadingStatus{
		ObservedGeneration: o.Generation, Phase: v1alpha1.OffloadingAllFailed, Conditions: o.Status.DeepCopy().Conditions,
	}
	set(&status.Conditions, o, v1alpha1.ConditionReady, metav1.ConditionFalse, reasonIgnored, r.Ignored)
	return r.tell(ctx, o, status)
}

// left says on which remotes something of the namespace is left, or may be; empty: on none.
func (r *Reconciler) left(o *v1alpha1.NamespaceOffloading) (left []string) {
	offload, known := r.Offload(o.Namespace)
	if !known {
		return []string{"what it carried is not known yet"}
	}
	for _, pair := range offload.Pairs {
		if !pair.Withdrawn {
			return []string{"its withdrawal is about to be taken into account"}
		}
		switch n, known := r.Fleet.NamespaceDrained(pair); {
		case !known:
			left = append(left, fmt.Sprintf("what is left in %s on %s can't be told", pair.Remote, pair.Cluster))
		case n > 0:
			left = append(left, fmt.Sprintf("%s on %s is not empty yet", pair.Remote, pair.Cluster))
		}
	}
	return left
}

func withdrawing(o *v1alpha1.NamespaceOffloading, left []string) v1alpha1.NamespaceOffloadingStatus {
	status := *o.Status.DeepCopy()
	status.ObservedGeneration, status.Phase = o.Generation, v1alpha1.OffloadingTerminating
	set(&status.Conditions, o, v1alpha1.ConditionReady, metav1.ConditionFalse, reasonWithdrawing,
		strings.Join(left, "; ")+fmt.Sprintf(". The annotation %s: \"true\" lets it go all the same", v1alpha1.ReleaseAnnotation))
	return status
}

// status says how a namespace stands on its remotes.
func (r *Reconciler) status(o *v1alpha1.NamespaceOffloading, offload fleet.Offload) v1alpha1.NamespaceOffloadingStatus {
	status := v1alpha1.NamespaceOffloadingStatus{
		ObservedGeneration: o.Generation, RemoteNamespaceName: offload.Counterpart, Conditions: o.Status.DeepCopy().Conditions,
	}
	before := map[string]v1alpha1.RemoteNamespace{}
	for _, remote := range o.Status.Remotes {
		before[remote.Cluster] = *remote.DeepCopy()
	}
	ready, failed := 0, []string{}
	add := func(cluster string, is metav1.ConditionStatus, reason, message string) {
		one := before[cluster]
		one.Cluster, one.Granted = cluster, one.Granted || reason == v1alpha1.ReasonGranted
		set(&one.Conditions, o, v1alpha1.ConditionOffloadingRequired, metav1.ConditionTrue, reasonSelected, "")
		set(&one.Conditions, o, v1alpha1.ConditionReady, is, reason, message)
		status.Remotes = append(status.Remotes, one)
		if is == metav1.ConditionFalse {
			failed = append(failed, cluster+": "+message)
		}
	}
	for _, pair := range offload.Pairs {
		reason, message, ok := r.Fleet.NamespaceReady(pair)
		switch {
		case pair.Withdrawn:
			add(pair.Cluster, metav1.ConditionFalse, reasonWithdrawing, "its RemoteCluster is being deleted")
		case ok:
			ready++
			add(pair.Cluster, metav1.ConditionTrue, reason, message)
		case fleet.OnItsWay(reason):
			add(pair.Cluster, metav1.ConditionUnknown, reason, message)
		default:
			add(pair.Cluster, metav1.ConditionFalse, reason, message)
		}
	}
	for _, cluster := range slices.Sorted(maps.Keys(offload.Refused)) {
		add(cluster, metav1.ConditionFalse, reasonTaken, offload.Refused[cluster])
	}
	is, reason, message := metav1.ConditionFalse, reasonSomeFailed, strings.Join(failed, "; ")
	switch all := len(status.Remotes); {
	case offload.Err != nil:
		status.Phase, reason, message = v1alpha1.OffloadingAllFailed, reasonInvalid, offload.Err.Error()
	case all == 0:
		status.Phase, reason, message = v1alpha1.OffloadingNoClusterSelected, reasonNotSelected, "clusterSelector selects no RemoteCluster"
	case ready == all:
		status.Phase, is, reason, message = v1alpha1.OffloadingReady, metav1.ConditionTrue, reasonReady, ""
	case len(failed) == all:
		status.Phase, reason = v1alpha1.OffloadingAllFailed, reasonAllFailed
	case len(failed) > 0:
		status.Phase = v1alpha1.OffloadingSomeFailed
	default:
		status.Phase, is, reason = v1alpha1.OffloadingInProgress, metav1.ConditionUnknown, "InProgress"
	}
	set(&status.Conditions, o, v1alpha1.ConditionReady, is, reason, message)
	return status
}

// tell writes the status if it is another one.
func (r *Reconciler) tell(ctx context.Context, o *v1alpha1.NamespaceOffloading, status v1alpha1.NamespaceOffloadingStatus) error {
	before := o.DeepCopy()
	o.Status = status
	return keep.Tell(ctx, r.Client, before, o)
}

func set(conditions *[]metav1.Condition, o *v1alpha1.NamespaceOffloading, condition string, is metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type: condition, Status: is, Reason: reason, Message: message, ObservedGeneration: o.Generation,
	})
}

func (r *Reconciler) event(o *v1alpha1.NamespaceOffloading, kind, reason, message string) {
	r.Events.EmitRef(corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "NamespaceOffloading", Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion,
	}, kind, reason, message)
}
