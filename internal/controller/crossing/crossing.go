// Package crossing says how Crossings stand, and keeps those that are deleted until their twins are settled.
package crossing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/controller/fleet"
	"isthmus.dev/isthmus/internal/controller/keep"
	"isthmus.dev/isthmus/internal/observe"
)

// Reconciler says how Crossings stand.
type Reconciler struct {
	Client client.Client
	Fleet  *fleet.Fleet
	// Local and Remote reach the clusters, to ask what we may do there; Remote returns nil for one that can't be used.
	Local  *cluster.Cluster
	Remote func(name string) *cluster.Cluster
	Events *observe.Events

	// asked is when the servers were asked last what we may do, by Crossing. One reconciliation runs at a time.
	asked map[string]time.Time
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	c := &v1alpha1.Crossing{}
	if err := r.Client.Get(ctx, request.NamespacedName, c); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if c.DeletionTimestamp != nil {
		return ctrl.Result{}, r.windDown(ctx, c)
	}
	if !controllerutil.ContainsFinalizer(c, v1alpha1.CrossingFinalizer) {
		// Before anything crosses; what it carries begins when the finalizer is seen.
		return ctrl.Result{}, keep.Quiet(keep.Hold(ctx, r.Client, c, v1alpha1.CrossingFinalizer))
	}
	status, again := r.status(ctx, c)
	return ctrl.Result{RequeueAfter: again}, r.tell(ctx, c, status)
}

// windDown lets a Crossing go that is being deleted, as soon as its twins are settled.
func (r *Reconciler) windDown(ctx context.Context, c *v1alpha1.Crossing) error {
	if !controllerutil.ContainsFinalizer(c, v1alpha1.CrossingFinalizer) {
		return nil
	}
	left := r.left(c.Name)
	if len(left) > 0 {
		if !keep.Released(c) {
			return r.tell(ctx, c, windingDown(c, left))
		}
		r.event(c, corev1.EventTypeWarning, "Released", "it was let go although "+strings.Join(left, "; ")+": what is left there is settled when it can be reached again, as long as its RemoteCluster stands")
	}
	return keep.Quiet(keep.LetGo(ctx, r.Client, c, v1alpha1.CrossingFinalizer))
}

// left says on which remotes twins are left, or may be; empty: on none.
func (r *Reconciler) left(crossing string) (left []string) {
	_, _, known := r.Fleet.Crossing(crossing)
	if !known {
		return []string{"what it carried is not known yet"}
	}
	for _, remote := range r.Fleet.Holders(crossing) {
		switch n, known := r.Fleet.CrossingDrained(crossing, remote); {
		case !known:
			left = append(left, "what is left on "+remote+" can't be told"+because(r.Fleet.Why(remote)))
		case n > 0:
			left = append(left, fmt.Sprintf("%d twins are left on %s", n, remote))
		}
	}
	return left
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

// tell writes the status if it is another one.
func (r *Reconciler) tell(ctx context.Context, c *v1alpha1.Crossing, status v1alpha1.CrossingStatus) error {
	before := c.DeepCopy()
	c.Status = status
	return keep.Tell(ctx, r.Client, before, c)
}

func (r *Reconciler) event(c *v1alpha1.Crossing, kind, reason, message string) {
	r.Events.EmitRef(corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "Crossing", Name: c.Name, UID: c.UID, ResourceVersion: c.ResourceVersion,
	}, kind, reason, message)
}

// unserved says which sides do not serve the kind, and which could not be asked.
func unserved(outcome fleet.Outcome) (missing, unasked []string) {
	for _, remote := range outcome.Remotes {
		kind := outcome.Kinds[remote]
		for side, err := range map[string]error{"the local cluster": kind.LocalErr, remote: kind.RemoteErr} {
			switch {
			case errors.Is(err, cluster.ErrNotServed):
				missing = append(missing, side)
			case err != nil:
				unasked = append(unasked, side)
			}
		}
	}
	slices.Sort(missing)
	slices.Sort(unasked)
	return slices.Compact(missing), slices.Compact(unasked)
}
