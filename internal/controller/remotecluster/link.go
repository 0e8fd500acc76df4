package remotecluster

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"isthmus.dev/isthmus/internal/cluster"
)

// link is the connection to one remote. Its goroutine makes all requests to the remote that are not a flow's.
type link struct {
	r    *Remotes
	name string
	ctx  context.Context
	stop context.CancelFunc
	wake chan struct{}

	// Of the reconciler, under Remotes.mu:
	remote Remote
	claim  claim

	// Of the reconciler alone: the condition that was found last, and when it was found first.
	found   metav1.Condition
	foundAt time.Time

	mu     sync.Mutex
	origin origin // what the access is read from
	unsee  context.CancelFunc
	seen   sighting
	fresh  bool // seen or what it is read with changed since the cluster looked
	client *cluster.Cluster
	broken error // why the cluster can't be made of what was seen
	probed probe
	due    time.Time          // of the next probe
	cutoff context.CancelFunc // of the probe that runs
	fails  int                // probes in a row
	kinds  []schema.GroupVersionResource
	again  bool // something to ask came up while a probe ran
}

// sighting is what is known of the object that says how a remote is reached.
type sighting struct {
	known  bool
	object *unstructured.Unstructured // nil: there is none
	err    error                      // why it is not known
}

// newLink starts a link. The caller holds the lock.
func (r *Remotes) newLink(name string) *link {
	ctx, stop := context.WithCancel(r.ctx)
	l := &link{r: r, name: name, ctx: ctx, stop: stop, wake: make(chan struct{}, 1)}
	if ctx.Err() == nil {
		r.ends.Go(l.run)
	}
	return l
}

// follow makes the link read its access from o.
func (l *link) follow(o origin) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.origin == o {
		return
	}
	if l.unsee != nil {
		l.unsee()
	}
	l.origin, l.seen = o, sighting{}
	var ctx context.Context
	ctx, l.unsee = context.WithCancel(l.ctx)
	switch {
	case o.resource.Empty():
		l.seen = sighting{known: true} // not served: see origin.config
		l.touch()
	default:
		l.r.o.Local.WatchObject(ctx, o.resource, o.namespace, o.name, func(object *unstructured.Unstructured, err error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			if ctx.Err() != nil {
				return
			}
			l.see(object, err)
		})
	}
}

// see takes in a state of the object; an error leaves what is known. The caller holds the lock.
func (l *link) see(object *unstructured.Unstructured, err error) {
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
func (l *link) reread() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.touch()
}

// touch makes the link look at its access at once. The caller holds the lock.
func (l *link) touch() {
	l.fresh = true
	l.due = time.Time{}
	if l.cutoff != nil {
		l.cutoff() // it may hang under the former access
	}
	l.nudge()
}

func (l *link) nudge() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// config is the cluster.Source of the remote.
func (l *link) config(refused bool) (*rest.Config, error) {
	l.mu.Lock()
	o, seen := l.origin, l.seen
	l.mu.Unlock()
	if refused && !o.resource.Empty() {
		// The watch may not have told yet what was changed before the old credential ended.
		if object, err := readNow(l.ctx, l.r.o.Local, o); err == nil {
			seen = sighting{known: true, object: object}
		}
	}
	config, _, err := o.config(seen, l.r.o.Providers)
	return config, err
}

// run follows the access and probes the remote, until the link ends.
func (l *link) run() {
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
		l.r.Recheck(l.name)
		if l.probeIfDue() {
			l.r.Recheck(l.name)
		}
		timer.Reset(l.untilDue())
	}
}

// connect takes what changed of the access into use.
func (l *link) connect() {
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
		Role: l.name, Source: l.config, UserAgent: l.r.o.UserAgent, Gate: l.r.o.Gate,
		Logger: l.r.o.Logger, OnHealth: l.heard,
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = errors.Unwrap(err) // without the role
	if err == nil {
		l.client, l.broken = client, nil
	}
}

// want makes the link ask the remote whether it serves these kinds.
func (l *link) want(kinds []schema.GroupVersionResource) {
	if slices.Equal(l.kinds, kinds) {
		return
	}
	l.kinds = slices.Clone(kinds)
	l.again = true
	l.due = time.Time{}
	l.nudge()
}

// heard takes in that a request of anyone's found the connection changed.
func (l *link) heard(cluster.Health) {
	l.mu.Lock()
	if l.cutoff == nil { // no probe is running, whose own finding it may be
		l.due = time.Time{}
	}
	l.nudge()
	l.mu.Unlock()
	l.r.Recheck(l.name)
}
