package remotecluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"isthmus.dev/isthmus/api/v1alpha1"
)

// released: whoever deletes the RemoteCluster does not want to wait for what is left there.
func released(rc *v1alpha1.RemoteCluster) bool {
	return rc.Annotations[v1alpha1.ReleaseAnnotation] == "true"
}

// letGo takes the finalizer off a RemoteCluster that is being deleted, once nothing of ours is left there, nothing was ever
// there, or it is released. It returns whether the RemoteCluster goes.
func (r *Remotes) letGo(ctx context.Context, rc *v1alpha1.RemoteCluster) (done bool, err error) {
	if !controllerutil.ContainsFinalizer(rc, v1alpha1.RemoteClusterFinalizer) {
		return true, nil
	}
	left, known := 0, false
	if r.o.Drained != nil {
		left, known = r.o.Drained(rc.Name)
	}
	reached := rc.Status.ClusterUID != ""
	switch {
	case reached && !(known && left == 0) && !released(rc):
		r.o.Events.EmitRef(reference(rc), corev1.EventTypeNormal, "Draining", fmt.Sprintf(
			"It goes when %s; the annotation %s: \"true\" lets it go at once", leftover(left, known), v1alpha1.ReleaseAnnotation))
		return false, nil
	case reached && released(rc) && !(known && left == 0):
		r.o.Events.EmitRef(reference(rc), corev1.EventTypeWarning, "Released", fmt.Sprintf(
			"It was let go by the annotation %s before %s; what is there stays there", v1alpha1.ReleaseAnnotation, leftover(left, known)))
		r.o.Logger.Warn("A RemoteCluster was let go before all of ours there was gone", "remote", rc.Name, "left", left, "known", known)
	}
	return true, r.hold(ctx, rc, false)
}

func leftover(left int, known bool) string {
	if !known {
		return "what Isthmus has there is known and gone"
	}
	if left == 1 {
		return "the 1 object that Isthmus has there is gone"
	}
	return fmt.Sprintf("the %d objects that Isthmus has there are gone", left)
}

// hold sets our finalizer, or takes it off.
func (r *Remotes) hold(ctx context.Context, rc *v1alpha1.RemoteCluster, on bool) error {
	old := rc.DeepCopy()
	if on {
		controllerutil.AddFinalizer(rc, v1alpha1.RemoteClusterFinalizer)
	} else {
		controllerutil.RemoveFinalizer(rc, v1alpha1.RemoteClusterFinalizer)
	}
	if err := r.client.Patch(ctx, rc, client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("changing the finalizers of RemoteCluster %s: %w", rc.Name, err)
	}
	return nil
}
