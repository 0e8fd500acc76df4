package remotecluster

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/cluster"
)

// probe is what a remote said when it was asked last.
type probe struct {
	at  time.Time // zero: it was not asked yet
	err error     // why it did not say who it is
	// uid is what it said last; an error leaves it.
	uid string
	// What else it said, and when.
	version string
	consent v1alpha1.Consent
	served  map[schema.GroupVersionResource]bool
	askedAt time.Time
	epoch   int64
}

var namespaceRequests = v1alpha1.GroupVersion.WithResource("namespacerequests")

// probeIfDue asks the remote who it is, if that is due, and reports whether it did.
func (l *link) probeIfDue() bool {
	l.mu.Lock()
	client, last := l.client, l.probed
	if !l.open() || time.Now().Before(l.due) {
		l.mu.Unlock()
		return false
	}
	ctx, cancel := context.WithCancel(l.ctx)
	l.cutoff, l.again = cancel, false
	kinds, stale := l.kinds, l.stale()
	l.mu.Unlock()
	defer cancel()

	next := ask(ctx, l.r.timing.answer, client, last, kinds, stale)
	cut := ctx.Err() != nil // the access changed meanwhile, or the link ends

	l.mu.Lock()
	defer l.mu.Unlock()
	l.cutoff = nil
	if cut {
		return false
	}
	l.probed = next
	switch {
	case next.err != nil:
		l.fails++
		l.due = time.Now().Add(l.r.timing.backoff(l.fails))
	case l.again:
		l.fails, l.due = 0, time.Time{}
	default:
		l.fails, l.due = 0, time.Now().Add(l.r.timing.idle)
	}
	return true
}

// open reports whether the remote may be talked to. The caller holds the lock.
func (l *link) open() bool {
	_, unhealthy, err := l.origin.config(l.seen, l.r.o.Providers)
	return l.client != nil && err == nil && unhealthy == nil
}

// backoff returns how long to wait after that many failures in a row: with jitter, so that many remotes behind one
// outage are not asked at once.
func (t timing) backoff(fails int) time.Duration {
	wait := t.retryFirst << min(fails-1, 10)
	return time.Duration(float64(min(wait, t.retryMost)) * (0.8 + 0.4*rand.Float64()))
}

// untilDue returns how long nothing is to be done. A remote that others talk to is not probed, unless it is time to ask what
// it serves.
func (l *link) untilDue() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.open() {
		return l.r.timing.idle
	}
	if h := l.client.Health(); l.fails == 0 && h.Reached && !l.due.IsZero() && !l.stale() {
		if idle := h.Seen.Add(l.r.timing.idle); idle.After(l.due) {
			l.due = idle
		}
	}
	return max(time.Until(l.due), 0)
}

// stale: it is time to ask the remote again what it serves. The caller holds the lock.
func (l *link) stale() bool {
	for _, kind := range l.kinds {
		if !l.probed.served[kind] {
			return true
		}
	}
	return time.Since(l.probed.askedAt) >= l.r.timing.kinds
}

// ask asks the remote who it is, and, when what it said last is stale or may have been another one's, what it serves.
// Each answer may take as long as limit.
func ask(ctx context.Context, limit time.Duration, client *cluster.Cluster, last probe, kinds []schema.GroupVersionResource, stale bool) probe {
	next := last
	next.at, next.epoch = time.Now(), client.Epoch()
	uid, err := limited(ctx, limit, client.UID)
	next.err = err
	if err != nil {
		return next
	}
	next.uid = uid
	if uid == last.uid && next.epoch == last.epoch && last.err == nil && !stale {
		return next
	}
	if v, err := limited(ctx, limit, client.Version); err == nil {
		next.version = v
	}
	serves := func(gvr schema.GroupVersionResource) (bool, error) {
		return limited(ctx, limit, func(ctx context.Context) (bool, error) { return client.Serves(ctx, gvr) })
	}
	if asks, err := serves(namespaceRequests); err == nil {
		next.consent = v1alpha1.ConsentConsumer
		if asks {
			next.consent = v1alpha1.ConsentProvider
		}
	}
	next.served = make(map[schema.GroupVersionResource]bool, len(kinds))
	complete := true
	for _, kind := range kinds {
		there, err := serves(kind)
		if err != nil {
			complete = false
			there = last.served[kind]
		}
		next.served[kind] = there
	}
	if complete {
		next.askedAt = time.Now()
	}
	return next
}

// limited calls f with a time limit. An answer that does not come in time is a timeout of the remote, whatever f makes
// of it.
func limited[T any](ctx context.Context, limit time.Duration, f func(context.Context) (T, error)) (T, error) {
	inner, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answer, err := f(inner)
	if err != nil && ctx.Err() == nil && errors.Is(inner.Err(), context.DeadlineExceeded) && cluster.Reason(err) == cluster.ReasonCanceled {
		err = context.DeadlineExceeded
	}
	return answer, err
}

// kinds returns what is to cross to or from a remote.
func (r *Remotes) kinds(name string) []schema.GroupVersionResource {
	if r.o.Kinds == nil {
		return nil
	}
	return r.o.Kinds(name)
}
