//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// patience is how long a contender may take for what must happen.
const patience = 3 * time.Minute

// recorder notes when the objects of one side reached which version, as a watch of the driver's tells it.
type recorder struct {
	stop context.CancelFunc
	done chan struct{}

	mu       sync.Mutex
	err      error
	objects  map[int]*record
	present  int
	specs    map[int64]int // how many objects have reached a version
	statuses map[int64]int
}

// record is what was seen of one object.
type record struct {
	present         bool
	spec, status    []reached
	appeared, ended time.Time
}

// reached is when a version was seen first.
type reached struct {
	version int64
	at      time.Time
}

// record begins to note what happens to the objects behind a client.
func (w *widgets) record(ctx context.Context) *recorder {
	ctx, cancel := context.WithCancel(ctx)
	r := &recorder{
		stop: cancel, done: make(chan struct{}),
		objects: map[int]*record{}, specs: map[int64]int{}, statuses: map[int64]int{},
	}
	go func() {
		defer close(r.done)
		if err := w.watch(ctx, "", r.see); err != nil {
			r.mu.Lock()
			r.err = err
			r.mu.Unlock()
		}
	}()
	return r
}

// end ends it.
func (r *recorder) end() {
	r.stop()
	<-r.done
}

func (r *recorder) see(e event) {
	i := index(e.Object.Metadata.Name)
	if i < 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.objects[i]
	if o == nil {
		o = &record{}
		r.objects[i] = o
	}
	if e.Type == "DELETED" {
		o.present, o.ended = false, e.at
		r.present--
		return
	}
	if !o.present {
		o.present, o.appeared = true, e.at
		r.present++
	}
	o.spec = reach(o.spec, e.Object.Spec.Size, e.at, r.specs)
	o.status = reach(o.status, e.Object.Status.Count, e.at, r.statuses)
}

// reach adds a version, if it is a new one, and counts it.
func reach(seen []reached, v int64, at time.Time, counts map[int64]int) []reached {
	if v == 0 || len(seen) > 0 && seen[len(seen)-1].version >= v {
		return seen
	}
	counts[v]++
	return append(seen, reached{v, at})
}

// wait waits until a condition on what was noted holds.
func (r *recorder) wait(ctx context.Context, what string, holds func() bool) error {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for {
		r.mu.Lock()
		held, err := holds(), r.err
		r.mu.Unlock()
		if held || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-deadline.C:
			return fmt.Errorf("not within %s: %s", patience, what)
		case <-poll.C:
		}
	}
}

// untilSpecs waits until n objects have reached a version of their spec.
func (r *recorder) untilSpecs(ctx context.Context, v int64, n int) error {
	return r.wait(ctx, fmt.Sprintf("%d objects with version %d", n, v), func() bool { return r.specs[v] >= n })
}

// untilStatuses waits until n objects have reached a version of their status.
func (r *recorder) untilStatuses(ctx context.Context, v int64, n int) error {
	return r.wait(ctx, fmt.Sprintf("%d objects with version %d of their status", n, v), func() bool { return r.statuses[v] >= n })
}

// untilPresent waits until exactly n objects are there.
func (r *recorder) untilPresent(ctx context.Context, n int) error {
	return r.wait(ctx, fmt.Sprintf("%d objects", n), func() bool { return r.present == n })
}

// specAt returns when object i had reached a version of its spec, or a later one; zero: it has not.
func (r *recorder) specAt(i int, v int64) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o := r.objects[i]; o != nil {
		for _, seen := range o.spec {
			if seen.version >= v {
				return seen.at
			}
		}
	}
	return time.Time{}
}

// throughput returns how many objects a second reached a version of their spec (or status), from the first to the last,
// and when the last did.
func (r *recorder) throughput(v int64, statuses bool) (perSecond float64, last time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var first time.Time
	n := 0
	for _, o := range r.objects {
		list := o.spec
		if statuses {
			list = o.status
		}
		for _, seen := range list {
			if seen.version != v {
				continue
			}
			n++
			if first.IsZero() || seen.at.Before(first) {
				first = seen.at
			}
			if seen.at.After(last) {
				last = seen.at
			}
		}
	}
	if n < 2 || !last.After(first) {
		return 0, last, errors.New("fewer than two objects to tell a throughput from")
	}
	return float64(n-1) / last.Sub(first).Seconds(), last, nil
}
