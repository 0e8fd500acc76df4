package cluster

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// How long a watch of metadata waits after a failure: from retryFirst up to retryMost, and retryDenied when trying
// again soon is pointless.
const (
	retryFirst  = 500 * time.Millisecond
	retryMost   = 10 * time.Second
	retryDenied = time.Minute
)

// watchMetadata keeps store in step with a cluster-scoped resource, all of it or the object called name, until ctx
// ends. It goes on after every failure, at once when again says so, and tells of each kind of failure once, at level.
func (c *Cluster) watchMetadata(ctx context.Context, gvr schema.GroupVersionResource, name string, store cache.ReflectorStore, level slog.Level, again <-chan struct{}) {
	c.watchMetadataTelling(ctx, gvr, name, store, level, again, func(error) {})
}

// watchMetadataTelling is watchMetadata, and tells failed, too, of each kind of failure once.
func (c *Cluster) watchMetadataTelling(ctx context.Context, gvr schema.GroupVersionResource, name string, store cache.ReflectorStore, level slog.Level, again <-chan struct{}, failed func(error)) {
	client := c.metadata.Resource(gvr)
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, narrow(o, name))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return client.Watch(ctx, narrow(o, name))
		},
	}
	c.keepWatching(ctx, lw, &metav1.PartialObjectMetadata{}, gvr, name, store, again, func(err error) {
		c.log.Log(ctx, level, "Watching failed and is tried again", "resource", gvr.GroupResource().String(), "name", name, "reason", Reason(err), "error", err)
		failed(err)
	})
}

// narrow makes a list or a watch one of the object called name, unless that is empty, as the server has it now.
func narrow(o metav1.ListOptions, name string) metav1.ListOptions {
	if name != "" {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", name).String()
	}
	if o.ResourceVersion == "0" && !o.Watch {
		o.ResourceVersion = "" // "0" may be answered with a past state, in which something is absent that is there
	}
	return o
}

// keepWatching keeps store in step with what lw lists until ctx ends, and tells failed of each kind of failure once. After a
// failure it tries again later, or when again says so; nil: it never does.
func (c *Cluster) keepWatching(ctx context.Context, lw cache.ListerWatcher, expected any, gvr schema.GroupVersionResource, name string, store cache.ReflectorStore, again <-chan struct{}, failed func(error)) {
	reflector := cache.NewReflectorWithOptions(lw, expected, store, cache.ReflectorOptions{
		Name:            c.role + " " + gvr.Resource + " " + name,
		TypeDescription: gvr.Resource,
		Backoff:         &wait.Backoff{Duration: retryFirst, Cap: retryMost, Factor: 2, Jitter: 0.5, Steps: math.MaxInt32},
	})
	told, delay := "", retryFirst
	for ctx.Err() == nil {
		started := time.Now()
		err := reflector.ListAndWatchWithContext(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case denied(err):
			if time.Since(started) > retryMost {
				told, delay = "", retryFirst // it had been allowed
			}
			delay = min(2*delay, retryDenied) // a server that has just started denies what it will allow
		case err == nil && time.Since(started) > retryMost:
			told, delay = "", retryFirst // it had been working
		default:
			delay = min(2*delay, retryMost)
		}
		if reason := Reason(err); reason != told && err != nil {
			told = reason
			failed(err)
		}
		select {
		case <-ctx.Done():
		case <-again:
			delay = retryFirst
		case <-time.After(wait.Jitter(delay, 0.2)):
		}
	}
}

// denied: the server understood and won't, so there is no point in asking again soon.
func denied(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) || errors.Is(err, ErrNotServed)
}

// WatchCRD calls changed after every change of a resource's CRD, its coming and going included, and whenever the watch
// was begun anew. It returns at once and watches until ctx ends; several changes at a time make one call, and no two
// calls run at once. Where watching is forbidden, or CRDs are not served, it tries again every minute.
func (c *Cluster) WatchCRD(ctx context.Context, gr schema.GroupResource, changed func()) {
	if gr.Group == "" {
		return // the core group has none
	}
	signal := make(chan struct{}, 1)
	go c.watchMetadata(ctx, crds, gr.String(), tell(signal), slog.LevelDebug, nil)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-signal:
				changed()
			}
		}
	}()
}

// tell is a store that keeps nothing and tells that something changed.
type tell chan struct{}

func (t tell) notify() error {
	select {
	case t <- struct{}{}:
	default: // one is waiting already, and will see this change too
	}
	return nil
}

func (t tell) Add(any) error               { return t.notify() }
func (t tell) Update(any) error            { return t.notify() }
func (t tell) Delete(any) error            { return t.notify() }
func (t tell) Replace([]any, string) error { return t.notify() }
func (t tell) Resync() error               { return nil }
