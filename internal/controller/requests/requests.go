// Package requests is the consumer's side of a provider's consent: it keeps the NamespaceRequests of one Isthmus on one
// provider in line with the namespaces that are wanted there, and tells what the provider answered.
package requests

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/cluster"
)

// The reasons of a State that no provider gives. Others are those of v1alpha1.NamespaceRequest, and of cluster.Reason.
const (
	// ReasonNotRead: the provider was not read yet.
	ReasonNotRead = "NotReadYet"
	// ReasonNotServed: the provider has no NamespaceRequests.
	ReasonNotServed = cluster.ReasonNotServed
	// ReasonRequested: the request is made, and the provider did not answer yet.
	ReasonRequested = "Requested"
	// ReasonRequestTaken: a request of that name is another cluster's or another instance's.
	ReasonRequestTaken = "RequestTaken"
	// ReasonTerminating: the request is on its way out.
	ReasonTerminating = "RequestTerminating"
)

// How long a write that failed waits, and how long a provider that serves no NamespaceRequests is left alone.
const (
	retryFirst = 500 * time.Millisecond
	retryMost  = time.Minute
	askAgain   = 15 * time.Second
)

// Options say whose requests, and where.
type Options struct {
	// Remote is the provider.
	Remote *cluster.Cluster
	// Consumer is the consumer's cluster ID, Instance the name of this Isthmus among those of its cluster, ClusterUID the UID
	// of the namespace kube-system there. They make up the stamp of the namespaces (boundary.Identity).
	Consumer, Instance, ClusterUID string
	// Check, if set, is asked before the provider is read or written. An error says why not: it is another cluster than it was.
	Check func(context.Context) error
	// Logger gets what goes wrong, each kind of failure once; nil: none.
	Logger *slog.Logger
	// Changed, if set, is called after any State, or what Served says, may have changed. No lock is held; it must not block.
	Changed func()
}

// Wanted is what a namespace on the provider is to be.
type Wanted struct {
	// Source is the local namespace that it is for.
	Source string
	// Resources are the kinds that are to cross.
	Resources []v1alpha1.RequestedResource
}

// State is what is known of a namespace on the provider. When the provider can't be reached it is what was known before.
type State struct {
	// Known: the provider was read. Where it is false, Reason and Message say why.
	Known bool
	// Ready: the namespace is there, and so are the rights on Granted. It stays as it is while the provider has not answered a
	// change of resources yet.
	Ready bool
	// Settled: the provider has answered what is wanted now.
	Settled bool
	// Gone: there is no request of ours. After one was taken back, the namespace and the rights there are gone too.
	Gone bool
	// Reason and Message say how it stands; a message of the provider's is passed on.
	Reason, Message string
	// Granted and Refused are the kinds that the provider allows, and those that it does not.
	Granted, Refused []v1alpha1.RequestedResource
}

// Requests keeps the NamespaceRequests of one Isthmus on one provider. All methods may be called from several goroutines.
type Requests struct {
	o         Options
	namespace string // on the provider, where the requests are
	queue     workqueue.TypedRateLimitingInterface[string]

	mu      sync.Mutex
	wanted  map[string]Wanted // nil: not said yet
	found   map[string]*v1alpha1.NamespaceRequest
	read    bool  // found is a complete list, or was one
	served  *bool // what discovery said last; nil: nothing yet
	trouble error // why the provider can't be read or watched now
	failed  map[string]error
}

// New prepares them. Nothing happens before Run.
func New(o Options) *Requests {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Check == nil {
		o.Check = func(context.Context) error { return nil }
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](retryFirst, retryMost)
	return &Requests{
		o: o, namespace: v1alpha1.ConsumerNamespacePrefix + o.Consumer,
		queue: workqueue.NewTypedRateLimitingQueue(limiter),
		found: map[string]*v1alpha1.NamespaceRequest{}, failed: map[string]error{},
	}
}

// Identity is who the namespaces belong to, as the engine and the provider both stamp it (N4).
func (r *Requests) Identity() boundary.Identity {
	return boundary.Identity{Cluster: r.o.Consumer, Home: r.o.Consumer, Instance: r.o.Instance, ClusterUID: r.o.ClusterUID}
}

// Served asks the provider, live, whether it serves NamespaceRequests. The error says why it can't be asked.
func (r *Requests) Served(ctx context.Context) (bool, error) {
	_, err := r.o.Remote.Resource(ctx, v1alpha1.GroupVersion.WithKind("NamespaceRequest"))
	if errors.Is(err, cluster.ErrNotServed) {
		return false, nil
	}
	return err == nil, err
}

// Want says which namespaces are wanted from now on, all of them, by name. Requests of this Isthmus for others are deleted, and
// with them the namespaces that the provider made for them: what is still to be wound down there is still wanted. Before the
// first call nothing is written.
func (r *Requests) Want(wanted map[string]Wanted) {
	r.mu.Lock()
	var changed []string
	for name, now := range wanted {
		if before, ok := r.wanted[name]; !ok || !before.equal(now) {
			changed = append(changed, name)
		}
	}
	for name := range r.wanted {
		if _, still := wanted[name]; !still {
			changed = append(changed, name)
		}
	}
	if r.wanted == nil {
		changed = slices.AppendSeq(changed, maps.Keys(r.found))
	}
	r.wanted = maps.Clone(wanted)
	if r.wanted == nil {
		r.wanted = map[string]Wanted{}
	}
	r.mu.Unlock()
	for _, name := range changed {
		r.queue.Add(name)
	}
}

// State tells what is known of a namespace on the provider.
func (r *Requests) State(remoteNamespace string) State {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.read {
		switch {
		case r.trouble != nil:
			return State{Reason: cluster.Reason(r.trouble), Message: r.trouble.Error()}
		case r.served != nil && !*r.served:
			return State{Reason: ReasonNotServed, Message: "the provider serves no NamespaceRequests"}
		}
		return State{Reason: ReasonNotRead, Message: "the provider was not read yet"}
	}
	wanted, isWanted := r.wanted[remoteNamespace]
	request := r.found[remoteNamespace]
	state := State{Known: true, Gone: !r.ours(request)}
	switch failure := r.failed[remoteNamespace]; {
	case request != nil && state.Gone:
		state.Reason, state.Message = ReasonRequestTaken, r.taken(request)
		return state
	case request == nil && !isWanted:
		return state
	case request == nil && failure == nil && r.trouble == nil:
		state.Reason, state.Message = ReasonRequested, "the provider is asked for the namespace"
		return state
	case request == nil && failure == nil:
		failure = r.trouble
		fallthrough
	case request == nil:
		state.Reason, state.Message = cluster.Reason(failure), failure.Error()
		return state
	case request.DeletionTimestamp != nil:
		state.Reason, state.Message = ReasonTerminating, "the namespace is given back to the provider"
		if ready := meta.FindStatusCondition(request.Status.Conditions, v1alpha1.ConditionReady); ready != nil && ready.Status == metav1.ConditionFalse {
			state.Message += ": " + ready.Message
		}
		return state
	}
	state.answer(request)
	state.Settled = state.Settled && isWanted && request.Spec.Source.Name == wanted.Source && sameResources(request.Spec.Resources, wanted.Resources)
	if failure := r.failed[remoteNamespace]; failure != nil && !state.Ready {
		state.Reason, state.Message = cluster.Reason(failure), failure.Error()
	}
	return state
}

// answer takes over what the provider answered.
func (s *State) answer(request *v1alpha1.NamespaceRequest) {
	s.Granted, s.Refused = slices.Clone(request.Status.Granted), slices.Clone(request.Status.Refused)
	ready := meta.FindStatusCondition(request.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil {
		s.Reason, s.Message = ReasonRequested, "the provider has not answered yet"
		return
	}
	s.Ready = ready.Status == metav1.ConditionTrue
	s.Settled = ready.ObservedGeneration == request.Generation
	s.Reason, s.Message = ready.Reason, ready.Message
}

// ours reports whether there is a request, and this Isthmus made it.
func (r *Requests) ours(request *v1alpha1.NamespaceRequest) bool {
	return request != nil && request.Spec.Source.ClusterUID == r.o.ClusterUID && request.Spec.Source.Instance == r.o.Instance
}

func (r *Requests) taken(request *v1alpha1.NamespaceRequest) string {
	source := request.Spec.Source
	if source.ClusterUID != r.o.ClusterUID {
		return fmt.Sprintf("NamespaceRequest %s on the provider was made by another cluster called %s (UID %s): "+
			"if that is gone for good, delete the request there", request.Name, r.o.Consumer, source.ClusterUID)
	}
	return fmt.Sprintf("NamespaceRequest %s on the provider was made by instance %s of this cluster", request.Name, source.Instance)
}

func (w Wanted) equal(o Wanted) bool {
	return w.Source == o.Source && sameResources(w.Resources, o.Resources)
}

// sameResources reports whether two lists ask for the same, in whatever order.
func sameResources(a, b []v1alpha1.RequestedResource) bool {
	return slices.Equal(canonical(a), canonical(b))
}

// canonical returns resources in the one form in which they are written: sorted, without doubles, with their access.
func canonical(resources []v1alpha1.RequestedResource) []v1alpha1.RequestedResource {
	out := slices.Clone(resources)
	for i := range out {
		if out[i].Access == "" {
			out[i].Access = v1alpha1.AccessWrite
		}
	}
	slices.SortFunc(out, v1alpha1.RequestedResource.Compare)
	return slices.Compact(out)
}
