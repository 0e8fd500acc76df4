package remotecluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/controller/keep"
)

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
	case reached && !(known && left == 0) && !keep.Released(rc):
		r.o.Events.EmitRef(reference(rc), corev1.EventTypeNormal, "Draining", fmt.Sprintf(
			"It goes when %s; the annotation %s: \"true\" lets it go at once", leftover(left, known), v1alpha1.ReleaseAnnotation))
		return false, nil
	case reached && keep.Released(rc) && !(known && left == 0):
		r.o.Events.EmitRef(reference(rc), corev1.EventTypeWarning, "Released", fmt.Sprintf(
			"It was let go by the annotation %s before %s; what is there stays there", v1alpha1.ReleaseAnnotation, leftover(left, known)))
		r.o.Logger.Warn("A RemoteCluster was let go before all of ours there was gone", "remote", rc.Name, "left", left, "known", known)
	}
	return true, keep.LetGo(ctx, r.client, rc, v1alpha1.RemoteClusterFinalizer)
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
