package liqo

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"isthmus.dev/isthmus/internal/cluster"
)

// How long a cluster that can't be asked is left alone, and how long one that does not serve the kind, if nothing tells of a
// change.
const (
	retryFirst = time.Second
	retryMost  = 15 * time.Second
	askAgain   = time.Minute
)

// Objects keeps the objects of one of Liqo's kinds, which may be installed later.
type Objects struct {
	local   *cluster.Cluster
	kind    schema.GroupResource
	what    string // as people call them
	log     *slog.Logger
	changed func()
	// lost says what it means that the kind is not served. gone, if set, is told of each object that was seen to be deleted, and
	// anew that all were listed, or none is known any more; both are called under the lock.
	lost string
	gone func(*unstructured.Unstructured)
	anew func()

	mu     sync.Mutex
	why    string // why they are not known; empty: they are
	absent bool   // the kind is not served, which is why
	found  map[string]*unstructured.Unstructured
}

// Run follows the objects until ctx ends. Liqo may be installed later.
func (o *Objects) Run(ctx context.Context) {
	again := make(chan struct{}, 1)
	o.local.WatchCRD(ctx, o.kind, func() {
		select {
		case again <- struct{}{}:
		default:
		}
	})
	delay := retryFirst
	for ctx.Err() == nil {
		began, pause := time.Now(), time.Duration(0)
		resource, err := o.local.Preferred(ctx, o.kind)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			o.log.Warn("Whether Liqo is installed can't be told", "reason", cluster.Reason(err), "error", err)
		case resource.Empty():
			o.forget(fmt.Sprintf("the cluster serves no %s of Liqo (%s): %s", o.what, o.kind, o.lost))
			pause = askAgain
		default:
			o.follow(ctx, resource)
		}
		if time.Since(began) > retryMost {
			delay = retryFirst // it had been working
		}
		if pause == 0 {
			pause, delay = delay, min(2*delay, retryMost)
		}
		select {
		case <-ctx.Done():
		case <-again:
			// A definition may be there and not be served yet.
			if delay = retryFirst; pause > delay {
				pause = delay
			}
			select {
			case <-ctx.Done():
			case <-time.After(min(pause, 100*time.Millisecond)):
			}
		case <-time.After(wait.Jitter(pause, 0.2)):
		}
	}
}

// follow lists and watches until that fails in a way that may mean that they are not served any more, or ctx ends.
func (o *Objects) follow(ctx context.Context, resource schema.GroupVersionResource) {
	client := o.local.Dynamic().Resource(resource)
	told := func(err error) error {
		if err != nil && ctx.Err() == nil {
			o.log.Warn("Reading Liqo's "+o.what+" failed and is tried again", "reason", cluster.Reason(err), "error", err)
			o.fail(err)
		}
		return err
	}
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			if options.ResourceVersion == "0" {
				options.ResourceVersion = "" // a server's cache may lag, and what it lacks would count as absent
			}
			list, err := client.List(ctx, options)
			return list, told(err)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			stream, err := client.Watch(ctx, options)
			return stream, told(err)
		},
	}
	reflector := cache.NewReflectorWithOptions(lw, &unstructured.Unstructured{}, (*intake)(o), cache.ReflectorOptions{
		Name: "isthmus " + resource.Resource, TypeDescription: resource.Resource,
		Backoff: &wait.Backoff{Duration: retryFirst, Factor: 2, Jitter: 0.5, Steps: math.MaxInt32, Cap: retryMost},
	})
	_ = reflector.ListAndWatchWithContext(ctx) // told has seen why it ended
}

// forget notes that the objects are not known any more, as the kind is not served.
func (o *Objects) forget(why string) {
	o.mu.Lock()
	before := o.why
	o.why, o.absent, o.found = why, true, nil
	if o.anew != nil {
		o.anew()
	}
	o.mu.Unlock()
	if why != before {
		o.log.Warn("Waiting for Liqo", "reason", why)
		o.changed()
	}
}

// fail notes why the objects could not be read for the first time; what was read once stays.
func (o *Objects) fail(err error) {
	o.mu.Lock()
	known := o.why == ""
	if !known {
		o.why, o.absent = fmt.Sprintf("Liqo's %s can't be read: %v", o.what, err), false
	}
	o.mu.Unlock()
	if !known {
		o.changed()
	}
}

// each calls f for each object, by name; under the lock.
func (o *Objects) each(f func(*unstructured.Unstructured)) {
	for _, name := range slices.Sorted(maps.Keys(o.found)) {
		f(o.found[name])
	}
}

// intake is the store of the reflector.
type intake Objects

func (s *intake) Add(obj any) error    { return s.take(obj, false) }
func (s *intake) Update(obj any) error { return s.take(obj, false) }
func (s *intake) Delete(obj any) error { return s.take(obj, true) }
func (s *intake) Resync() error        { return nil }

func (s *intake) take(obj any, gone bool) error {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("expected an object, got %T", obj)
	}
	o, name := (*Objects)(s), u.GetNamespace()+"/"+u.GetName()
	o.mu.Lock()
	if o.found == nil {
		o.found = map[string]*unstructured.Unstructured{}
	}
	if gone {
		delete(o.found, name)
		if o.gone != nil {
			o.gone(u)
		}
	} else {
		o.found[name] = u
	}
	o.mu.Unlock()
	o.changed()
	return nil
}

// Replace takes in a complete list: nobody was seen to delete what is not in it.
func (s *intake) Replace(list []any, _ string) error {
	found := make(map[string]*unstructured.Unstructured, len(list))
	for _, obj := range list {
		u, ok := obj.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("expected an object, got %T", obj)
		}
		found[u.GetNamespace()+"/"+u.GetName()] = u
	}
	o := (*Objects)(s)
	o.mu.Lock()
	o.why, o.absent, o.found = "", false, found
	if o.anew != nil {
		o.anew()
	}
	o.mu.Unlock()
	o.changed()
	return nil
}
