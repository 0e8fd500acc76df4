package endpoints

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/controller/nudge"
	mapping "isthmus.dev/isthmus/internal/endpoints"
	"isthmus.dev/isthmus/internal/observe"
)

// The indexes of the sender's cache: slices by their Service and by the nodes of their endpoints, what was made of them by
// the slice.
const (
	byService = "service"
	byNode    = "node"
	bySlice   = "slice"
)

// Destinations are the clusters that Services may cross to.
type Destinations interface {
	// Names returns those that something runs for.
	Names() []string
	// ServiceCrossed tells whether a Service has a twin on one; known is false as long as that can't be told.
	ServiceCrossed(service types.NamespacedName, cluster string) (has, known bool)
}

// SenderOptions say what a Sender runs with.
type SenderOptions struct {
	// ClusterID names this cluster.
	ClusterID    string
	Destinations Destinations
	// Links returns the links in use; nil: they were not read yet.
	Links  func() *mapping.Links
	Events *observe.Events
	Logger *slog.Logger
}

// Sender makes ShadowEndpointSlices of the EndpointSlices whose Service has crossed: one for each cluster that it crossed to.
// They are this cluster's own objects, and cross by a rule like any other (fleet.EndpointsRule).
//
// A slice crosses with its Service (E1): while the Service has a twin of ours somewhere, there is a ShadowEndpointSlice for
// that cluster, and else there is none. So what selects the Service, what holds up its deletion, and what is in its way, hold
// for its endpoints too, and no slice is added to a Service that only has the same name.
type Sender struct {
	SenderOptions
	seen    cache.Cache
	reader  client.Reader // of the manager
	live    client.Client
	mgr     ctrl.Manager
	control controller.Controller
	again   nudge.Nudge

	begin sync.Once
	begun atomic.Bool
	notes notes
}

// NewSender makes a Sender that runs with a manager. It reads nothing before Begin.
func NewSender(mgr ctrl.Manager, o SenderOptions) (*Sender, error) {
	seen, live, err := access(mgr, nil)
	if err != nil {
		return nil, err
	}
	s := &Sender{SenderOptions: o, seen: seen, reader: mgr.GetClient(), live: live, mgr: mgr}
	if s.control, err = newController("endpoints-sender", mgr, s, slicesAtOnce); err != nil {
		return nil, err
	}
	return s, s.control.Watch(s.again.Source())
}

// Begin begins to look at what is there: endpoints cross (S1). Every call but the first does nothing.
func (s *Sender) Begin() (err error) {
	s.begin.Do(func() {
		if err = s.index(); err != nil {
			return
		}
		if err = s.mgr.Add(s.seen); err != nil {
			return
		}
		for _, watched := range s.watches() {
			if err = s.control.Watch(watched); err != nil {
				err = fmt.Errorf("watching for the sender of endpoints: %w", err)
				return
			}
		}
		s.begun.Store(true)
		s.again.Add(allSlices)
	})
	return err
}

// index makes the indexes of the cache.
func (s *Sender) index() error {
	for _, i := range []struct {
		kind  client.Object
		name  string
		value client.IndexerFunc
	}{
		{&discoveryv1.EndpointSlice{}, byService, func(o client.Object) []string { return oneOf(o.GetLabels()[discoveryv1.LabelServiceName]) }},
		{&discoveryv1.EndpointSlice{}, byNode, func(o client.Object) []string { return nodesOf(o.(*discoveryv1.EndpointSlice)) }},
		{&v1alpha1.ShadowEndpointSlice{}, bySlice, func(o client.Object) []string { return oneOf(sliceOf(o)) }},
	} {
		if err := s.seen.IndexField(context.Background(), i.kind, i.name, i.value); err != nil {
			return fmt.Errorf("indexing %T by %s: %w", i.kind, i.name, err)
		}
	}
	return nil
}

// watches say of what a slice is looked at again: of itself, what was made of it, its Service, and the nodes of its endpoints.
func (s *Sender) watches() []source.Source {
	relabelled := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, _ := clusterOf(e.ObjectOld)
		after, _ := clusterOf(e.ObjectNew)
		return before != after
	}}
	return []source.Source{
		source.Kind[client.Object](s.seen, &discoveryv1.EndpointSlice{}, &handler.EnqueueRequestForObject{}),
		source.Kind[client.Object](s.seen, &v1alpha1.ShadowEndpointSlice{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
			if name := sliceOf(o); name != "" {
				return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}}}
			}
			return requests(s.notes.blockedBy(client.ObjectKeyFromObject(o)))
		})),
		source.Kind[client.Object](s.seen, metadataOf("v1", "Service"), handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
			return requests(s.slices(ctx, client.InNamespace(o.GetNamespace()), client.MatchingFields{byService: o.GetName()}))
		})),
		source.Kind[client.Object](s.seen, metadataOf("v1", "Node"), handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
			return requests(s.slices(ctx, client.MatchingFields{byNode: o.GetName()}))
		}), relabelled),
	}
}

// What is put in the queue beside slices: all of them, and those of a Service. No slice has such a name.
var allSlices = types.NamespacedName{Name: "*"}

const ofService = "service/"

// LinksChanged has all slices looked at.
func (s *Sender) LinksChanged([]string) { s.again.Add(allSlices) }

// ServiceMoved has those of a Service looked at that may have come to have a twin, or has none any more.
func (s *Sender) ServiceMoved(service types.NamespacedName) {
	s.again.Add(types.NamespacedName{Namespace: service.Namespace, Name: ofService + service.Name})
}

// LookAgain has those slices looked at of which it was not known whether their Service has crossed.
func (s *Sender) LookAgain() { s.again.Add(s.notes.takeUndecided()...) }

// Reconcile implements reconcile.Reconciler.
func (s *Sender) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	service, isService := strings.CutPrefix(request.Name, ofService)
	switch {
	case !s.begun.Load(): // all are looked at then
		return reconcile.Result{}, nil
	case s.Links() == nil: // LinksChanged is called when they are read
		return reconcile.Result{}, nil
	case request.NamespacedName == allSlices:
		s.again.AddMany(s.slices(ctx)...)
		s.again.AddMany(s.made(ctx)...)
	case isService:
		s.again.Add(s.slices(ctx, client.InNamespace(request.Namespace), client.MatchingFields{byService: service})...)
	default:
		return reconcile.Result{}, s.settle(ctx, request.NamespacedName)
	}
	return reconcile.Result{}, nil
}

// slices returns the names of those slices that match.
func (s *Sender) slices(ctx context.Context, match ...client.ListOption) (names []types.NamespacedName) {
	list := &discoveryv1.EndpointSliceList{}
	if err := s.seen.List(ctx, list, append(match, client.UnsafeDisableDeepCopy)...); err != nil {
		s.Logger.Error("Listing EndpointSlices failed", "error", err) // an index that is not there
	}
	for i := range list.Items {
		names = append(names, client.ObjectKeyFromObject(&list.Items[i]))
	}
	return names
}

// made returns the names of the slices of which something was made, gone or not.
func (s *Sender) made(ctx context.Context) (names []types.NamespacedName) {
	list := &v1alpha1.ShadowEndpointSliceList{}
	if err := s.seen.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		s.Logger.Error("Listing ShadowEndpointSlices failed", "error", err)
	}
	for i := range list.Items {
		if name := sliceOf(&list.Items[i]); name != "" {
			names = append(names, types.NamespacedName{Namespace: list.Items[i].Namespace, Name: name})
		}
	}
	return names
}

func metadataOf(apiVersion, kind string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}}
}

func requests(names []types.NamespacedName) (out []reconcile.Request) {
	for _, name := range names {
		out = append(out, reconcile.Request{NamespacedName: name})
	}
	return out
}

// oneOf returns a value of an index; none for the empty one.
func oneOf(value string) []string {
	if value == "" {
		return nil
	}
	return []string{value}
}
