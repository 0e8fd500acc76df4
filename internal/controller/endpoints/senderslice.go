package endpoints

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/boundary"
)

// reasonEndpoints, of an Event on a Service or a slice: not all of its endpoints cross.
const reasonEndpoints = "EndpointsLeftOut"

// settle brings what was made of a slice in step with it.
func (s *Sender) settle(ctx context.Context, key types.NamespacedName) error {
	slice := &discoveryv1.EndpointSlice{}
	err := s.seen.Get(ctx, key, slice)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err != nil || slice.DeletionTimestamp != nil {
		slice = nil
	}
	made, err := s.madeOf(ctx, key)
	if err != nil {
		return err
	}
	w := &work{Sender: s, key: key, slice: slice, made: made}
	s.notes.begin(key)
	err = w.do(ctx)
	s.notes.end(key, w)
	return err
}

// madeOf returns the ShadowEndpointSlices that were made of a slice, by their destination.
func (s *Sender) madeOf(ctx context.Context, key types.NamespacedName) (map[string]*v1alpha1.ShadowEndpointSlice, error) {
	list := &v1alpha1.ShadowEndpointSliceList{}
	if err := s.seen.List(ctx, list, client.InNamespace(key.Namespace), client.MatchingFields{bySlice: key.Name}); err != nil {
		return nil, err
	}
	made := map[string]*v1alpha1.ShadowEndpointSlice{}
	for i := range list.Items {
		made[list.Items[i].Labels[v1alpha1.DestinationLabel]] = &list.Items[i]
	}
	return made, nil
}

// work is one look at a slice.
type work struct {
	*Sender
	key   types.NamespacedName
	slice *discoveryv1.EndpointSlice // nil: it is gone
	made  map[string]*v1alpha1.ShadowEndpointSlice

	service   *metav1.PartialObjectMetadata
	direct    bool
	clusters  map[string]nodeHome // by node
	faults    []string            // what is to be told on the Service
	undecided bool
	blocked   []types.NamespacedName // by ShadowEndpointSlices of others
}

// do does it. What was made and is not wanted goes; what can't be told yet stays as it is.
func (w *work) do(ctx context.Context) error {
	if !isSource(w.slice) {
		return w.removeAll(ctx)
	}
	switch wish, err := boundary.Wish(w.slice.Annotations); {
	case err != nil: // as with any object: it does not cross, and what crossed stays as it is (S3)
		w.tell(sliceRef(w.slice), err.Error())
		return nil
	case wish != nil && !*wish:
		return w.removeAll(ctx)
	}
	name := types.NamespacedName{Namespace: w.key.Namespace, Name: w.slice.Labels[discoveryv1.LabelServiceName]}
	service := metadataOf("v1", "Service")
	switch err := w.seen.Get(ctx, name, service); {
	case err == nil:
		w.service = service
	case !apierrors.IsNotFound(err):
		return err
	}
	if err := w.read(ctx); err != nil {
		return err
	}
	for _, destination := range w.destinations() {
		has, known := w.Destinations.ServiceCrossed(name, destination)
		if !has && !known {
			if known, err := w.left(ctx, destination); err != nil {
				return err
			} else if !known {
				w.undecided = w.undecided || w.made[destination] != nil // a twin that comes is told of
				continue
			}
		}
		var err error
		switch {
		case !has:
			err = w.remove(ctx, destination)
		case w.service != nil: // else it is on its way out
			err = w.write(ctx, destination)
		}
		if err != nil {
			return err
		}
	}
	w.tellFaults()
	return nil
}

// destinations returns the clusters that the slice may cross to, and those that something was made for.
func (w *work) destinations() []string {
	all := slices.AppendSeq(slices.Clone(w.Destinations.Names()), maps.Keys(w.made))
	slices.Sort(all)
	return slices.Compact(all)
}

// left reports whether a destination is none any more: its RemoteCluster is gone.
func (w *work) left(ctx context.Context, destination string) (bool, error) {
	if w.made[destination] == nil {
		return false, nil
	}
	err := w.reader.Get(ctx, types.NamespacedName{Name: destination}, &v1alpha1.RemoteCluster{})
	return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
}

// read reads what is said elsewhere of the slice's endpoints.
func (w *work) read(ctx context.Context) (err error) {
	if w.service != nil {
		if w.direct, err = boundary.Flag(w.service.Annotations, directConnections); err != nil {
			w.fault(err.Error() + "; its endpoints on other clusters are reached through this one")
		}
	}
	w.clusters = map[string]nodeHome{}
	for _, name := range nodesOf(w.slice) {
		node := metadataOf("v1", "Node")
		if err := w.seen.Get(ctx, types.NamespacedName{Name: name}, node); client.IgnoreNotFound(err) != nil {
			return err
		} else if err == nil {
			home := nodeHome{}
			home.cluster, home.err = clusterOf(node)
			w.clusters[name] = home
		}
	}
	return nil
}

// write makes what is for a destination, or changes it where it differs.
func (w *work) write(ctx context.Context, destination string) error {
	want := w.shadow(destination)
	have := w.made[destination]
	switch {
	case have == nil && len(want.Spec.Endpoints) == 0:
		return nil // all live there
	case have == nil:
		return w.create(ctx, want)
	case !metav1.IsControlledBy(have, w.slice) || have.Spec.AddressType != want.Spec.AddressType || have.Name != want.Name:
		// The slice was made anew under its name.
		return w.remove(ctx, destination) // and made again when it is gone
	}
	changed := have.DeepCopy()
	maps.DeleteFunc(changed.Labels, func(key, _ string) bool { return slices.Contains(carriedLabels, key) })
	maps.Copy(changed.Labels, want.Labels)
	changed.Spec = want.Spec
	if equality.Semantic.DeepEqual(have, changed) {
		return nil
	}
	err := w.live.Update(ctx, changed)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // the watch tells
	}
	return w.failed("changing", changed, err)
}

func (w *work) create(ctx context.Context, want *v1alpha1.ShadowEndpointSlice) error {
	err := w.live.Create(ctx, want.DeepCopy())
	if !apierrors.IsAlreadyExists(err) {
		return w.failed("creating", want, err)
	}
	there := &v1alpha1.ShadowEndpointSlice{}
	if err := w.live.Get(ctx, client.ObjectKeyFromObject(want), there); err != nil {
		return fmt.Errorf("reading %s: %w", want.Name, err)
	}
	if sliceOf(there) == w.key.Name {
		return nil // the watch tells
	}
	w.blocked = append(w.blocked, client.ObjectKeyFromObject(want))
	w.fault(fmt.Sprintf("the endpoints of EndpointSlice %s do not cross: ShadowEndpointSlice %s is in the way, and was not made of it; delete or rename it", w.key.Name, want.Name))
	return nil
}

// failed says what could not be done. What the server refuses of an object is told on its Service, too.
func (w *work) failed(doing string, o *v1alpha1.ShadowEndpointSlice, err error) error {
	if err == nil || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsRequestEntityTooLargeError(err) || apierrors.IsBadRequest(err) {
		w.fault(fmt.Sprintf("the endpoints of EndpointSlice %s do not cross: %s ShadowEndpointSlice %s: %v", w.key.Name, doing, o.Name, err))
		w.tellFaults()
	}
	return fmt.Errorf("%s ShadowEndpointSlice %s/%s: %w", doing, o.Namespace, o.Name, err)
}

func (w *work) removeAll(ctx context.Context) error {
	for _, destination := range slices.Sorted(maps.Keys(w.made)) {
		if err := w.remove(ctx, destination); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes what was made for a destination, if it is still as it was read.
func (w *work) remove(ctx context.Context, destination string) error {
	o := w.made[destination]
	if o == nil || o.DeletionTimestamp != nil {
		return nil
	}
	err := w.live.Delete(ctx, o, client.Preconditions{UID: &o.UID, ResourceVersion: &o.ResourceVersion})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // the watch tells
	}
	return fmt.Errorf("deleting ShadowEndpointSlice %s/%s: %w", o.Namespace, o.Name, err)
}

// fault notes what is wrong, once.
func (w *work) fault(message string) {
	if !slices.Contains(w.faults, message) {
		w.faults = append(w.faults, message)
	}
}

// mostFaults is how many faults of a slice an Event names.
const mostFaults = 5

// tellFaults tells, on the Service, what keeps endpoints from crossing.
func (w *work) tellFaults() {
	if w.service == nil {
		return
	}
	faults := w.faults
	if more := len(faults) - mostFaults; more > 0 {
		faults = append(slices.Clone(faults[:mostFaults]), fmt.Sprintf("and %d more", more))
	}
	w.tell(corev1.ObjectReference{
		APIVersion: "v1", Kind: "Service", Namespace: w.service.Namespace, Name: w.service.Name, UID: w.service.UID,
	}, strings.Join(faults, "; "))
}

// tell emits an Event, unless it is what was told of this slice last; an empty one is not told.
func (w *work) tell(ref corev1.ObjectReference, message string) {
	if w.notes.tells(w.key, message) && message != "" {
		w.Events.EmitRef(ref, corev1.EventTypeWarning, reasonEndpoints, message)
	}
}

func sliceRef(slice *discoveryv1.EndpointSlice) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: discoveryv1.SchemeGroupVersion.String(), Kind: "EndpointSlice", Namespace: slice.Namespace, Name: slice.Name, UID: slice.UID,
	}
}
