package endpoints

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"isthmus.dev/isthmus/api/v1alpha1"
	mapping "isthmus.dev/isthmus/internal/endpoints"
	"isthmus.dev/isthmus/internal/observe"
)

// errForeign: another's EndpointSlice has the name (P3).
var errForeign = errors.New("an EndpointSlice of that name exists, and was not made of this ShadowEndpointSlice")

// put makes an EndpointSlice what it is to be; have is what the cache knows of it. One that this controller did not make is
// errForeign: creation is create-only, and an update is bound to the object that was read.
func (r *receiver) put(ctx context.Context, want, have *discoveryv1.EndpointSlice) error {
	if have.UID == "" {
		// It was just created, and the cache is late; or it is another's, which the cache does not hold: asking first spares a
		// write that would be refused.
		if r.wasThere(want) {
			if err := read(ctx, r.live, client.ObjectKeyFromObject(want), have); err != nil {
				return err
			}
		}
	}
	if have.UID == "" {
		err := r.live.Create(ctx, want)
		if !apierrors.IsAlreadyExists(err) {
			return describing(err, "creating", want)
		}
		if err := r.live.Get(ctx, client.ObjectKeyFromObject(want), have); err != nil {
			return describing(err, "reading", want)
		}
	}
	switch {
	case !isOurs(have):
		return errForeign
	case have.AddressType != want.AddressType: // which can't be changed
		if err := r.remove(ctx, want.Name, have); err != nil {
			return err
		}
		return describing(r.live.Create(ctx, want), "creating", want)
	case inStep(want, have):
		return nil
	}
	next := have.DeepCopy()
	next.Endpoints, next.Ports, next.OwnerReferences = want.Endpoints, want.Ports, want.OwnerReferences
	maps.DeleteFunc(next.Labels, func(key, _ string) bool { return slices.Contains(carriedLabels, key) })
	maps.Copy(next.Labels, want.Labels)
	return describing(r.live.Update(ctx, next), "updating", want)
}

// inStep reports whether an EndpointSlice is as it is to be. What others put on it does not count.
func inStep(want, have *discoveryv1.EndpointSlice) bool {
	for _, key := range carriedLabels {
		if want.Labels[key] != have.Labels[key] {
			return false
		}
	}
	return equality.Semantic.DeepEqual(want.Endpoints, have.Endpoints) && equality.Semantic.DeepEqual(want.Ports, have.Ports) &&
		equality.Semantic.DeepEqual(want.OwnerReferences, have.OwnerReferences)
}

// remove deletes an EndpointSlice that was made of the ShadowEndpointSlice of its name, if it is still as it was read; one that
// is gone, or another's, is none.
func (r *receiver) remove(ctx context.Context, name string, have *discoveryv1.EndpointSlice) error {
	if have.UID == "" || !isOurs(have) || have.DeletionTimestamp != nil {
		return nil
	}
	err := r.live.Delete(ctx, have, client.Preconditions{UID: &have.UID, ResourceVersion: &have.ResourceVersion}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if err == nil {
		r.logger.Info("Deleted an EndpointSlice whose ShadowEndpointSlice is gone", "namespace", have.Namespace, "name", name)
	}
	return describing(client.IgnoreNotFound(err), "deleting", have)
}

func describing(err error, doing string, slice *discoveryv1.EndpointSlice) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s EndpointSlice %s/%s: %w", doing, slice.Namespace, slice.Name, err)
}

// wasThere reports whether an EndpointSlice of that name was there when it was looked at last, ours or another's.
func (r *receiver) wasThere(slice client.Object) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.told[reconcile.Request{NamespacedName: client.ObjectKeyFromObject(slice)}]
	return t.foreign || t.received != nil
}

// tell counts what became of a slice, and tells the consumer's people what did not, on the slice.
func (r *receiver) tell(request reconcile.Request, shadow *v1alpha1.ShadowEndpointSlice, t tally) {
	r.mu.Lock()
	r.count(r.told[request], -1)
	r.told[request] = t
	r.count(t, 1)
	if t.state() == "" {
		delete(r.told, request)
	}
	r.mu.Unlock()
	reason, message := t.worst(len(shadow.Spec.Endpoints))
	switch {
	case t.refused != "":
		r.event(shadow, "NotTaken", "no EndpointSlice is made of it as it is: "+t.refused)
	case t.foreign:
		r.event(shadow, "ForeignObject", errForeign.Error()+"; it is taken up when that one is gone")
	case reason != "":
		r.event(shadow, string(reason), message)
	}
}

// state is how a slice stands; empty: it is not there, or not a consumer's.
func (t tally) state() string {
	switch {
	case t.refused != "":
		return observe.StateRefused
	case t.foreign:
		return observe.StateForeign
	case t.received != nil:
		return observe.StateInStep
	}
	return ""
}

func (r *receiver) count(t tally, times int) {
	if state := t.state(); state != "" {
		r.metrics.AddSlices(state, times)
	}
	for path, n := range t.received {
		r.metrics.AddReceived(string(path), n*times)
	}
	for reason, n := range t.leftOut {
		r.metrics.AddRefused(string(mapping.Reason(reason)), n*times)
	}
}
