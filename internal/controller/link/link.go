package link

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"isthmus.dev/isthmus/internal/cluster"
)

// Link is the connection to one cluster. Its goroutine makes all requests there that are not its owner's.
type Link struct {
	ls     *Links
	name   string
	survey Survey // nil: there is none
	ctx    context.Context
	stop   context.CancelFunc
	wake   chan struct{}

	mu       sync.Mutex
	origin   Origin                      // what the access is read from
	resource schema.GroupVersionResource // of that object
	unsee    context.CancelFunc
	seen     sighting
	fresh    bool // seen or what it is read with changed since the cluster looked
	client   *cluster.Cluster
	broken   error // why the cluster can't be made of what was seen
	probed   Probe
	due      time.Time          // of the next probe
	cutoff   context.CancelFunc // of the probe that runs
	fails    int                // probes in a row
	again    bool               // something to ask came up while a probe ran
}

// Close ends the link and what is in flight, soon.
func (l *Link) Close() {
	l.ls.mu.Lock()
	defer l.ls.mu.Unlock()
	delete(l.ls.all, l)
	l.stop()
}

// Follow makes the link read its access from o.
func (l *Link) Follow(o Origin) {
	l.ls.mu.Lock()
	defer l.ls.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.origin != o {
		l.origin = o
		l.rewatch(l.ls.profiles)
	}
}

// rewatch begins to watch the object of the origin. The caller holds the lock.
func (l *Link) rewatch(profiles profiles) {
	if l.unsee != nil {
		l.unsee()
	}
	l.seen, l.resource = sighting{}, l.origin.resource(profiles)
	ctx, cancel := context.WithCancel(l.ctx)
	l.unsee = cancel
	switch {
	case l.origin.profile() && !profiles.asked:
	case l.resource.Empty():
		l.seen = sighting{known: true, unserved: true}
		l.touch()
	default:
		l.ls.o.Local.WatchObject(ctx, l.resource, l.origin.Namespace, l.origin.Name, func(object *unstructured.Unstructured, err error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			if ctx.Err() == nil {
				l.see(object, err)
			}
		})
	}
}

// see takes in a state of the object; an error leaves what is known. The caller holds the lock.
func (l *Link) see(object *unstructured.Unstructured, err error) {
	switch {
	case err != nil && l.seen.known:
		return
	case err != nil:
		l.seen = sighting{err: err}
	default:
		l.seen = sighting{known: true, object: object}
	}
	l.touch()
}

// reread makes the link read its access again although its object did not change.
func (l *Link) reread() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.touch()
}

// touch makes the link look at its access at once. The caller holds the lock.
func (l *Link) touch() {
	l.fresh = true
	l.due = time.Time{}
	if l.cutoff != nil {
		l.cutoff() // it may hang under the former access
	}
	l.nudge()
}

func (l *Link) nudge() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Ask makes the link probe the cluster soon, and the Survey be asked.
func (l *Link) Ask() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.again = true
	l.due = time.Time{}
	l.nudge()
}

// config is the cluster.Source of the cluster.
func (l *Link) config(refused bool) (*rest.Config, error) {
	l.mu.Lock()
	o, resource, seen := l.origin, l.resource, l.seen
	l.mu.Unlock()
	if refused && !resource.Empty() {
		// The watch may not have told yet what was changed before the old credential ended.
		if object, err := readNow(l.ctx, l.ls.o.Local, resource, o); err == nil {
			seen = sighting{known: true, object: object}
		}
	}
	config, _, err := o.config(seen, l.ls.o.Providers)
	return config, err
}

// run follows the access and probes the cluster, until the link ends.
func (l *Link) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-l.ctx.Done():
			l.mu.Lock()
			client := l.client
			l.mu.Unlock()
			if client != nil {
				client.Close()
			}
			return
		case <-l.wake:
		case <-timer.C:
		}
		l.connect()
		l.ls.found(l.name)
		if l.probeIfDue() {
			l.ls.found(l.name)
		}
		timer.Reset(l.untilDue())
	}
}

// connect takes what changed of the access into use.
func (l *Link) connect() {
	l.mu.Lock()
	fresh, client, seen := l.fresh || l.broken != nil, l.client, l.seen
	l.fresh = false
	l.mu.Unlock()
	switch {
	case !fresh || !seen.known:
		return
	case client != nil:
		client.Look()
		return
	}
	client, err := cluster.Connect(cluster.Options{
		Role: l.name, Source: l.config, UserAgent: l.ls.o.UserAgent, Gate: l.ls.o.Gate,
		Logger: l.ls.o.Logger, OnHealth: l.heard,
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = errors.Unwrap(err) // without the name
	if err == nil {
		l.client, l.broken = client, nil
	}
}

// heard takes in that a request of anyone's found the connection changed.
func (l *Link) heard(cluster.Health) {
	l.mu.Lock()
	if l.cutoff == nil { // no probe is running, whose own finding it may be
		l.due = time.Time{}
	}
	l.nudge()
	l.mu.Unlock()
	l.ls.found(l.name)
}

// State returns what is known now.
func (l *Link) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := State{Client: l.client, Probe: l.probed}
	_, s.Unhealthy, s.Access = l.origin.config(l.seen, l.ls.o.Providers)
	if s.Access == nil && l.client == nil {
		s.Access = ErrNotRead // it is about to be connected
		if l.broken != nil {
			s.Access = fmt.Errorf("%s: %w", l.origin, l.broken)
		}
	}
	if l.client != nil {
		s.Health = l.client.Health()
	}
	return s
}
