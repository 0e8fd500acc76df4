package flow

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/store"
	"isthmus.dev/isthmus/internal/wire"
)

// earlyEnd: a watch that ends before the server's usual timeout was cut.
const earlyEnd = 4 * time.Minute

// watchRetryMost is the longest pause before a watch is begun again on a server that refuses connections.
const watchRetryMost = 5 * time.Second

// watcher keeps one feed of a store filled by a client-go reflector.
type watcher struct {
	epoch    *epoch
	side     *side
	resource cluster.Resource
	scope    string
	selector string
	field    string
	feed     *store.Feed
	lister   *cluster.Lister
	// spare: where the server does not let us list, nobody waits for it. passed is called then, the first time.
	spare  atomic.Bool
	passed func()
	stop   context.CancelFunc
	failed bool
	// trouble is why the last try failed; nil: it did not.
	trouble atomic.Pointer[string]
	again   chan struct{} // ends a pause after a failure
}

func (e *epoch) watcher(s *side, r cluster.Resource, scope, selector string, feed *store.Feed) *watcher {
	return &watcher{
		epoch: e, side: s, resource: r, scope: scope, selector: selector, feed: feed, lister: s.Lister(r, scope), again: make(chan struct{}, 1),
	}
}

// hurry lets the watcher try again soon: what it failed for may have changed.
func (w *watcher) hurry() {
	select {
	case w.again <- struct{}{}:
	default:
	}
}

// run lists and watches until ctx ends, and starts again, with growing pauses, whenever that fails.
func (w *watcher) run(ctx context.Context) {
	backoff := wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 8, Cap: recheckMost}
	delay := backoff
	for ctx.Err() == nil {
		reflector := cache.NewReflectorWithOptions(w.listWatch(), &wire.Object{}, w.feed, cache.ReflectorOptions{
			Name:            "isthmus",
			TypeDescription: w.resource.GroupResource().String(),
			Backoff:         &wait.Backoff{Duration: retryFirst, Factor: 2, Jitter: 0.5, Steps: math.MaxInt32, Cap: watchRetryMost},
		})
		reflector.WatchListPageSize = cluster.PageSize // also for a list that is to be as new as the last one
		began := time.Now()
		err := reflector.ListAndWatchWithContext(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			w.failure(err)
		}
		if time.Since(began) > earlyEnd {
			delay = backoff
		}
		pause := delay.Step()
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-w.again:
			delay = backoff
		}
		timer.Stop()
	}
}

// failure takes in why listing or watching failed.
func (w *watcher) failure(err error) {
	var replaced *replacedError
	switch {
	case errors.As(err, &replaced):
		w.epoch.end(err)
		return
	case apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
		w.epoch.check() // the kind may not be served any more
	case w.spare.Load() && apierrors.IsForbidden(err):
		w.passed()
		w.feed.Pass()
	case isConnection(err):
		w.side.doubt()
	}
	reason := cluster.Reason(err)
	w.trouble.Store(&reason)
	if !w.failed {
		w.failed = true
		if !w.feed.Settled() {
			w.epoch.Siblings.lookAgain(w.epoch.Flow, nil)
		}
		w.epoch.log.Warn("Watching failed and is tried again", "side", w.side.Role(), "namespace", w.scope, "reason", reason, "error", err)
	}
}

// listWatch is what the reflector asks the server with.
func (w *watcher) listWatch() cache.ListerWatcher {
	client := w.side.Objects(w.resource.GroupVersionResource, w.scope)
	prepare := func(ctx context.Context, o *metav1.ListOptions) (context.Context, error) {
		o.LabelSelector, o.FieldSelector = w.selector, w.field
		if o.ResourceVersion == "0" {
			o.ResourceVersion = "" // a server's cache may lag, and what it lacks would count as absent
		}
		return w.side.trust(ctx)
	}
	return listed{&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			ctx, err := prepare(ctx, &o)
			if err != nil {
				w.outcome(err)
				return nil, err
			}
			list := &metav1.List{}
			list.ListMeta, err = w.lister.List(ctx, o, func(object *wire.Object) error {
				list.Items = append(list.Items, runtime.RawExtension{Object: w.feed.Pack(object)})
				return nil
			})
			if err != nil {
				w.failure(err) // that it works again is told by the watch
				return nil, err
			}
			w.opened()
			return list, nil
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			ctx, err := prepare(ctx, &o)
			if err != nil {
				w.outcome(err)
				return nil, err
			}
			began := time.Now()
			stream, err := client.Watch(ctx, o)
			w.outcome(err)
			if err != nil {
				return nil, err
			}
			return &noticing{stream, func() {
				if time.Since(began) < earlyEnd {
					w.side.doubt()
				}
			}}, nil
		},
	}}
}

// listed has a reflector list, and not watch from the beginning, which takes the server and us more time.
type listed struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported is what a reflector asks for.
func (listed) IsWatchListSemanticsUnSupported() bool { return true }

func (w *watcher) outcome(err error) {
	if err != nil {
		w.failure(err)
		return
	}
	w.failed = false
	w.trouble.Store(nil)
	w.opened()
}

// opened takes in that the server lets us look, before anything is done with what it shows.
func (w *watcher) opened() {
	if w.side == w.epoch.to {
		w.epoch.Flow.opened(w.scope)
	}
}

// awaited says what is not listed yet, and why if that is known; empty: it is listed.
func (w *watcher) awaited() string {
	if w.feed.Settled() {
		return ""
	}
	where := w.scope
	if where == "" {
		where = "all namespaces"
	}
	text := where + " on the " + w.side.Role() + " cluster"
	if reason := w.trouble.Load(); reason != nil {
		text += " (" + *reason + ")"
	}
	return text
}

// noticing calls ended when a reflector is done with a watch.
type noticing struct {
	watch.Interface
	ended func()
}

func (n *noticing) Stop() {
	n.ended()
	n.Interface.Stop()
}

// isConnection reports whether an error is about reaching a server, or a server that can't answer at the moment,
// rather than an answer.
func isConnection(err error) bool {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		code := status.Status().Code
		return code == http.StatusUnauthorized || code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
	}
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
