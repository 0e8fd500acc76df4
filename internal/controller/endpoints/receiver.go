package endpoints

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/controller/nudge"
	"isthmus.dev/isthmus/internal/observe"
)

// byCluster is the index of ShadowEndpointSlices by the clusters whose links matter to them.
const byCluster = "clusters"

// lookAgain is how often it is looked whether what is in the way of a slice has gone (P4).
const lookAgain = 3 * time.Second

var namespaceKind = corev1.SchemeGroupVersion.WithKind("Namespace")

// receiver makes EndpointSlices of the ShadowEndpointSlices that consumers sent, under the same names.
type receiver struct {
	links   *Links
	seen    client.Reader // caches
	live    client.Client
	events  *observe.Events
	metrics *observe.EndpointMetrics
	logger  *slog.Logger
	again   nudge.Nudge

	mu   sync.Mutex
	told map[reconcile.Request]tally
}

// clustersOf returns the clusters whose links matter to a ShadowEndpointSlice: those that its endpoints live on, and the
// consumer.
func clustersOf(o client.Object) []string {
	clusters := sets.New(o.GetLabels()[boundary.LabelOrigin])
	for _, e := range o.(*v1alpha1.ShadowEndpointSlice).Spec.Endpoints {
		if e.Origin != nil {
			clusters.Insert(e.Origin.ClusterID)
		}
	}
	return sets.List(clusters)
}

// linksChanged looks at the slices to which some clusters' links matter; nil: at all.
func (r *receiver) linksChanged(clusterIDs []string) {
	ctx := context.Background() // of a read from a cache that is filled
	found := sets.New[types.NamespacedName]()
	look := func(which ...client.ListOption) {
		list := &v1alpha1.ShadowEndpointSliceList{}
		if err := r.seen.List(ctx, list, which...); err != nil {
			r.logger.Error("Looking for the ShadowEndpointSlices of a link failed", "error", err)
		}
		for i := range list.Items {
			found.Insert(client.ObjectKeyFromObject(&list.Items[i]))
		}
	}
	if clusterIDs == nil {
		look(client.UnsafeDisableDeepCopy)
	}
	for _, id := range clusterIDs {
		look(client.MatchingFields{byCluster: id}, client.UnsafeDisableDeepCopy)
	}
	r.again.AddMany(found.UnsortedList()...)
}

// slicesIn returns the slices of a namespace.
func (r *receiver) slicesIn(ctx context.Context, o client.Object) (requests []reconcile.Request) {
	list := &v1alpha1.ShadowEndpointSliceList{}
	if err := r.seen.List(ctx, list, client.InNamespace(o.GetName()), client.UnsafeDisableDeepCopy); err != nil {
		r.logger.Error("Looking for the ShadowEndpointSlices of a namespace failed", "namespace", o.GetName(), "error", err)
	}
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// Reconcile brings one EndpointSlice in step with the ShadowEndpointSlice of its name.
func (r *receiver) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	links := r.links.Current()
	if links == nil {
		return reconcile.Result{}, nil // all are looked at when the links are known
	}
	shadow, have := &v1alpha1.ShadowEndpointSlice{}, &discoveryv1.EndpointSlice{}
	if err := read(ctx, r.seen, request.NamespacedName, have); err != nil {
		return reconcile.Result{}, err
	}
	consumer, refusal, err := r.taken(ctx, r.seen, request.NamespacedName, shadow)
	if err == nil && consumer == "" && (refusal != "" || have.UID != "") {
		// Caches do not move together: what is refused, or has gone, is asked for.
		shadow = &v1alpha1.ShadowEndpointSlice{}
		consumer, refusal, err = r.taken(ctx, r.live, request.NamespacedName, shadow)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if consumer == "" {
		r.tell(request, shadow, tally{refused: refusal})
		return r.result(ctx, request, r.remove(ctx, request.Name, have))
	}
	want, t := become(shadow, consumer, links)
	err = r.put(ctx, want, have)
	switch {
	case errors.Is(err, errForeign):
		t.foreign, t.received = true, nil
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		t = tally{refused: err.Error()}
	}
	r.tell(request, shadow, t)
	return r.result(ctx, request, err)
}

// result is that of a pass: what lost a race is tried again soon, and is no error.
func (r *receiver) result(ctx context.Context, request reconcile.Request, err error) (reconcile.Result, error) {
	switch {
	case err == nil || ctx.Err() != nil:
		return reconcile.Result{}, nil
	case errors.Is(err, errForeign):
		return reconcile.Result{RequeueAfter: lookAgain}, nil
	case apierrors.IsConflict(err), apierrors.IsNotFound(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return reconcile.Result{RequeueAfter: retryFirst}, nil
	}
	r.logger.Warn("Making an EndpointSlice failed and is tried again", "slice", request.String(), "error", err)
	return reconcile.Result{}, err
}

// taken reads a ShadowEndpointSlice, and returns the consumer whose it is.
func (r *receiver) taken(ctx context.Context, from client.Reader, name types.NamespacedName, shadow *v1alpha1.ShadowEndpointSlice) (consumer, refusal string, err error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(namespaceKind)
	err = errors.Join(read(ctx, from, name, shadow), read(ctx, from, types.NamespacedName{Name: name.Namespace}, namespace))
	if err == nil {
		consumer, refusal = ownerOf(shadow, namespace)
	}
	return consumer, refusal, err
}

// read reads an object; one that is not there stays empty.
func read(ctx context.Context, from client.Reader, name types.NamespacedName, into client.Object) error {
	if err := client.IgnoreNotFound(from.Get(ctx, name, into)); err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	return nil
}

// ownerOf returns the consumer whose slice it is: the one that the namespace belongs to (N4), if the slice is a twin of that
// one's. Empty: it is nobody's, which is refused for a reason when it pretends to be somebody's.
func ownerOf(shadow *v1alpha1.ShadowEndpointSlice, namespace client.Object) (consumer, refusal string) {
	if shadow.UID == "" || shadow.DeletionTimestamp != nil {
		return "", ""
	}
	origin := shadow.Labels[boundary.LabelOrigin]
	if origin == "" {
		return "", "" // made here, by the sender or by someone else
	}
	owner := consumerOf(namespace)
	switch {
	case !isTwin(shadow):
		return "", "its stamp is damaged, or another object's"
	case owner == "":
		return "", fmt.Sprintf("it is said to be of cluster %s, and namespace %s belongs to no consumer", origin, shadow.Namespace)
	case owner != origin:
		return "", fmt.Sprintf("it is said to be of cluster %s, and namespace %s belongs to %s", origin, shadow.Namespace, owner)
	case shadow.Labels[discoveryv1.LabelServiceName] == "":
		return "", "it has no label " + discoveryv1.LabelServiceName
	}
	return owner, ""
}

// isTwin reports whether an object carries a whole stamp, which is its own: it is no copy of a twin.
func isTwin(o client.Object) bool {
	stamped := &unstructured.Unstructured{}
	stamped.SetLabels(o.GetLabels())
	stamped.SetAnnotations(o.GetAnnotations())
	stamp, whole := boundary.ReadStamp(stamped)
	return whole && stamp.Twin == client.ObjectKeyFromObject(o)
}

// consumerOf returns the cluster ID of the consumer that a namespace belongs to: as Isthmus stamps the namespaces that it makes,
// or Liqo those that it makes; empty: none.
func consumerOf(namespace client.Object) string {
	labels := namespace.GetLabels()
	if origin := labels[boundary.LabelOrigin]; origin != "" {
		return origin
	}
	return labels[liqoClusterID]
}

// liqoClusterID is the label on a namespace that Liqo made for another cluster: that cluster's ID.
const liqoClusterID = "liqo.io/remote-cluster-id"

// event tells an Event about a slice.
func (r *receiver) event(slice client.Object, reason, message string) {
	if slice.GetUID() == "" {
		return
	}
	r.events.EmitRef(corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: sliceKind, Namespace: slice.GetNamespace(), Name: slice.GetName(), UID: slice.GetUID(),
	}, corev1.EventTypeWarning, reason, message)
}

// sliceKind is the kind of what is received.
const sliceKind = "ShadowEndpointSlice"

// isOurs reports whether an EndpointSlice was made of the ShadowEndpointSlice of its name.
func isOurs(slice *discoveryv1.EndpointSlice) bool {
	return slice.Labels[discoveryv1.LabelManagedBy] == v1alpha1.EndpointsManager && slices.ContainsFunc(slice.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.APIVersion == v1alpha1.GroupVersion.String() && o.Kind == sliceKind && o.Name == slice.Name
	})
}
