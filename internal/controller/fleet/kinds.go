package fleet

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus.dev/isthmus/internal/cluster"
)

// How long a resource that a side does not serve, or that can't be asked for, is waited for before it is asked for again.
// Most comings are told by a watch of the definition.
const (
	askFirst = 2 * time.Second
	askMost  = 30 * time.Second
)

// errNotAsked says that a side has not told yet.
var errNotAsked = errors.New("it has not told yet what it serves")

// kinds knows how clusters serve resources. It asks once, and again when a resource's definition changes, or where the
// answer was none.
type kinds struct {
	ctx     context.Context
	changed func()

	mu      sync.Mutex
	asked   map[question]*answer
	current int // the pass that asks now; answers that no pass asked for are forgotten
}

type question struct {
	cluster  *cluster.Cluster
	resource schema.GroupVersionResource
}

type answer struct {
	resource cluster.Resource
	err      error
	pass     int
	cancel   context.CancelFunc
}

func newKinds(ctx context.Context, changed func()) *kinds {
	return &kinds{ctx: ctx, changed: changed, asked: map[question]*answer{}}
}

// begin starts a pass, and end ends it.
func (k *kinds) begin() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.current++
}

func (k *kinds) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for q, a := range k.asked {
		if a.pass != k.current {
			a.cancel()
			delete(k.asked, q)
		}
	}
}

// get returns what is known, and begins to ask at the first call.
func (k *kinds) get(c *cluster.Cluster, resource schema.GroupVersionResource) (cluster.Resource, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	q := question{c, resource}
	a := k.asked[q]
	if a == nil {
		a = &answer{err: errNotAsked}
		var ctx context.Context
		ctx, a.cancel = context.WithCancel(k.ctx)
		k.asked[q] = a
		go k.ask(ctx, q, a)
	}
	a.pass = k.current
	return a.resource, a.err
}

// ask asks until ctx ends.
func (k *kinds) ask(ctx context.Context, q question, a *answer) {
	again := make(chan struct{}, 1)
	q.cluster.WatchCRD(ctx, q.resource.GroupResource(), func() {
		select {
		case again <- struct{}{}:
		default:
		}
	})
	for delay := askFirst; ctx.Err() == nil; {
		resource, err := q.cluster.ServedResource(ctx, q.resource)
		if ctx.Err() != nil {
			return
		}
		k.mu.Lock()
		known := a.resource.Kind != ""
		changed := false
		if err == nil || !known || errors.Is(err, cluster.ErrNotServed) { // what can't be asked is as it was
			changed = a.resource.Kind != resource.Kind || a.resource.Status != resource.Status || (a.err == nil) != (err == nil)
			a.resource, a.err = resource, err
		}
		k.mu.Unlock()
		if changed {
			k.changed()
		}
		var later <-chan time.Time
		if err != nil {
			later = time.After(delay)
			delay = min(2*delay, askMost)
		} else {
			delay = askFirst
		}
		select {
		case <-ctx.Done():
		case <-later:
		case <-again:
		}
	}
}

// both returns how two clusters serve a resource.
func (k *kinds) both(local, remote *cluster.Cluster, resource schema.GroupVersionResource) Kind {
	here, hereErr := k.get(local, resource)
	there, thereErr := k.get(remote, resource)
	return kindOf(here, hereErr, there, thereErr)
}

// kindOf puts together what both sides answered.
func kindOf(here cluster.Resource, hereErr error, there cluster.Resource, thereErr error) Kind {
	mayServe := func(err error) bool { return err != nil && !errors.Is(err, cluster.ErrNotServed) }
	return Kind{
		Kind:        cmp.Or(here.Kind, there.Kind),
		LocalStatus: here.Status || mayServe(hereErr), RemoteStatus: there.Status || mayServe(thereErr),
		ClusterScoped: here.Kind != "" && !here.Namespaced || here.Kind == "" && there.Kind != "" && !there.Namespaced,
		LocalErr:      hereErr, RemoteErr: thereErr,
	}
}
