package link

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"isthmus.dev/isthmus/internal/cluster"
)

// Probe is what a cluster said when it was asked last.
type Probe struct {
	// At is when; zero: it was not asked yet.
	At time.Time
	// Err is why it did not say who it is.
	Err error
	// UID is that of its namespace kube-system, as it was said last; an Err leaves it.
	UID string
	// Epoch is the cluster.Cluster's when it was asked, and Server where.
	Epoch  int64
	Server string
}

// Survey is what the owner of a link wants to know of a cluster beside who it is. Its methods are called from several
// goroutines.
type Survey interface {
	// Stale reports whether it is time to ask.
	Stale() bool
	// Ask asks a cluster that has just said who it is, with Limited, and keeps the answers. It is called when the Survey is
	// stale, and when another cluster than before may answer.
	Ask(ctx context.Context, limit time.Duration, c *cluster.Cluster)
}

// probeIfDue asks the cluster who it is, if that is due, and reports whether it did.
func (l *Link) probeIfDue() bool {
	l.mu.Lock()
	client, last := l.client, l.probed
	if !l.open() || time.Now().Before(l.due) {
		l.mu.Unlock()
		return false
	}
	ctx, cancel := context.WithCancel(l.ctx)
	l.cutoff, l.again = cancel, false
	l.mu.Unlock()
	defer cancel()

	next := ask(ctx, l.ls.o.Timing.Answer, client, last, l.survey)
	cut := ctx.Err() != nil // the access changed meanwhile, or the link ends

	l.mu.Lock()
	defer l.mu.Unlock()
	l.cutoff = nil
	if cut {
		return false
	}
	l.probed = next
	switch {
	case next.Err != nil:
		l.fails++
		l.due = time.Now().Add(l.ls.o.Timing.backoff(l.fails))
	case l.again:
		l.fails, l.due = 0, time.Time{}
	case client.Health().Err != nil: // of a request that was made meanwhile
		l.fails, l.due = 0, time.Now().Add(l.ls.o.Timing.RetryFirst)
	default:
		l.fails, l.due = 0, time.Now().Add(l.ls.o.Timing.Idle)
	}
	return true
}

// open reports whether the cluster may be talked to. The caller holds the lock.
func (l *Link) open() bool {
	_, unhealthy, err := l.origin.config(l.seen, l.ls.o.Providers)
	return l.client != nil && err == nil && unhealthy == nil
}

// backoff returns how long to wait after that many failures in a row: with jitter, so that many clusters behind one outage
// are not asked at once.
func (t Timing) backoff(fails int) time.Duration {
	wait := t.RetryFirst << min(fails-1, 10)
	return time.Duration(float64(min(wait, t.RetryMost)) * (0.8 + 0.4*rand.Float64()))
}

// untilDue returns how long nothing is to be done. A cluster that others talk to is not probed, unless it is time to ask what
// the Survey wants to know.
func (l *Link) untilDue() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.open() {
		return l.ls.o.Timing.Idle
	}
	if h := l.client.Health(); l.fails == 0 && h.Reached && !l.due.IsZero() && !(l.survey != nil && l.survey.Stale()) {
		if idle := h.Seen.Add(l.ls.o.Timing.Idle); idle.After(l.due) {
			l.due = idle
		}
	}
	return max(time.Until(l.due), 0)
}

// ask asks the cluster who it is, and, when the survey is stale or its answers may have been another one's, what that wants to
// know. Each answer may take as long as limit.
func ask(ctx context.Context, limit time.Duration, client *cluster.Cluster, last Probe, survey Survey) Probe {
	next := Probe{At: time.Now(), UID: last.UID, Epoch: client.Epoch(), Server: client.Server()}
	uid, err := Limited(ctx, limit, client.UID)
	if err != nil {
		next.Err = err
		return next
	}
	next.UID = uid
	same := uid == last.UID && next.Epoch == last.Epoch && last.Err == nil
	if survey != nil && (!same || survey.Stale()) {
		survey.Ask(ctx, limit, client)
	}
	return next
}

// Limited calls f with a time limit. An answer that does not come in time is a timeout of the cluster, whatever f makes of it.
func Limited[T any](ctx context.Context, limit time.Duration, f func(context.Context) (T, error)) (T, error) {
	inner, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answer, err := f(inner)
	if err != nil && ctx.Err() == nil && errors.Is(inner.Err(), context.DeadlineExceeded) && cluster.Reason(err) == cluster.ReasonCanceled {
		err = context.DeadlineExceeded
	}
	return answer, err
}
