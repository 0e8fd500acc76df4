package requests

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/cluster"
)

var resource = v1alpha1.GroupVersion.WithResource("namespacerequests")

// watch keeps what is found on the provider in step, with one list and one watch in the consumer's own namespace there,
// until ctx ends. It goes on after every failure.
func (r *Requests) watch(ctx context.Context) {
	client := r.o.Remote.Dynamic().Resource(resource).Namespace(r.namespace)
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			if o.ResourceVersion == "0" {
				o.ResourceVersion = "" // a server's cache may lag, and what it lacks would count as absent
			}
			if err := r.o.Check(ctx); err != nil {
				return nil, r.outcome(ctx, err)
			}
			list, err := client.List(ctx, o)
			return list, r.outcome(ctx, err)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			if err := r.o.Check(ctx); err != nil {
				return nil, r.outcome(ctx, err)
			}
			stream, err := client.Watch(ctx, o)
			return stream, r.outcome(ctx, err)
		},
	}
	delay := retryFirst
	for ctx.Err() == nil {
		began := time.Now()
		served, err := r.Served(ctx)
		switch {
		case err != nil:
			_ = r.outcome(ctx, err)
		case !r.note(served):
			delay = askAgain // so that a provider that begins to serve them is noticed
		default:
			reflector := cache.NewReflectorWithOptions(lw, &unstructured.Unstructured{}, (*intake)(r), cache.ReflectorOptions{
				Name: "isthmus " + resource.Resource, TypeDescription: resource.Resource,
				Backoff: &wait.Backoff{Duration: retryFirst, Factor: 2, Jitter: 0.5, Steps: math.MaxInt32, Cap: askAgain},
			})
			_ = reflector.ListAndWatchWithContext(ctx) // outcome has seen why it ended
		}
		if served && time.Since(began) > askAgain {
			delay = retryFirst // it had been working
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait.Jitter(delay, 0.2)):
		}
		delay = min(2*delay, askAgain)
	}
}

// note takes in what discovery says, and returns it.
func (r *Requests) note(served bool) bool {
	r.mu.Lock()
	before := r.served
	r.served = &served
	if !served {
		r.trouble = nil
	}
	r.mu.Unlock()
	if before == nil || *before != served {
		r.o.Logger.Info("Whether the provider serves NamespaceRequests is known", "served", served)
		r.o.Changed()
	}
	return served
}

// outcome takes in how reading the provider went, and returns the error as it is.
func (r *Requests) outcome(ctx context.Context, err error) error {
	if err != nil && (ctx.Err() != nil || errors.Is(err, context.Canceled)) {
		return err
	}
	told := err
	if cluster.Reason(err) == cluster.ReasonForbidden {
		told = fmt.Errorf("the provider has no Consumer %s that lets this credential in: %w", r.o.Consumer, err)
	}
	r.mu.Lock()
	before := r.trouble
	r.trouble = told
	again := err == nil && before != nil
	r.mu.Unlock()
	if cluster.Reason(before) != cluster.Reason(err) {
		if err != nil {
			r.o.Logger.Warn("Reading NamespaceRequests failed and is tried again", "namespace", r.namespace, "reason", cluster.Reason(err), "error", told)
		}
		r.o.Changed()
	}
	if again {
		r.lookAtAll()
	}
	return err
}

// lookAtAll puts everything that is wanted or found in the queue.
func (r *Requests) lookAtAll() {
	r.mu.Lock()
	names := map[string]bool{}
	for name := range r.wanted {
		names[name] = true
	}
	for name := range r.found {
		names[name] = true
	}
	r.mu.Unlock()
	for name := range names {
		r.queue.Add(name)
	}
}

// intake is the store of the reflector.
type intake Requests

func (s *intake) Add(obj any) error    { return s.take(obj, false) }
func (s *intake) Update(obj any) error { return s.take(obj, false) }
func (s *intake) Delete(obj any) error { return s.take(obj, true) }
func (s *intake) Resync() error        { return nil }

func (s *intake) take(obj any, gone bool) error {
	request, err := decode(obj)
	if err != nil {
		return err
	}
	r := (*Requests)(s)
	r.mu.Lock()
	if gone {
		delete(r.found, request.Name)
	} else {
		r.found[request.Name] = request
	}
	r.mu.Unlock()
	r.queue.Add(request.Name)
	r.o.Changed()
	return nil
}

// Replace takes in a complete list: what is not in it is not there.
func (s *intake) Replace(list []any, _ string) error {
	found := make(map[string]*v1alpha1.NamespaceRequest, len(list))
	for _, obj := range list {
		request, err := decode(obj)
		if err != nil {
			return err
		}
		found[request.Name] = request
	}
	r := (*Requests)(s)
	r.mu.Lock()
	r.found, r.read = found, true
	r.mu.Unlock()
	r.lookAtAll()
	r.o.Changed()
	return nil
}

func decode(obj any) (*v1alpha1.NamespaceRequest, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("expected a NamespaceRequest, got %T", obj)
	}
	request := &v1alpha1.NamespaceRequest{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, request); err != nil {
		return nil, fmt.Errorf("reading NamespaceRequest %s: %w", u.GetName(), err)
	}
	return request, nil
}
