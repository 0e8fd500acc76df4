package installation

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/internal/cluster"
)

// eyes are the feeds of one cluster, which its Installations share: one for each kind and namespace, of what the hub has
// installed, and one for each single object that matters without being that.
type eyes struct {
	ctx     context.Context
	hub     string
	cluster *cluster.Cluster
	uid     string // of the cluster that the feeds are of

	mu    sync.Mutex
	feeds map[feedKey]*feed
	users map[types.NamespacedName]map[feedKey]bool // what each Installation wants
	wake  func(types.NamespacedName)
}

func newEyes(ctx context.Context, hub string, wake func(types.NamespacedName)) *eyes {
	return &eyes{ctx: ctx, hub: hub, wake: wake, feeds: map[feedKey]*feed{}, users: map[types.NamespacedName]map[feedKey]bool{}}
}

// want says all that an Installation wants to see from now on of a cluster; feeds that nobody wants end. Another cluster than
// before begins anew: what was seen of the former one says nothing of it.
func (e *eyes) want(who types.NamespacedName, c *cluster.Cluster, uid string, keys map[feedKey]bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cluster != c || e.uid != uid {
		for _, f := range e.feeds {
			f.stop()
		}
		e.cluster, e.uid, e.feeds = c, uid, map[feedKey]*feed{}
	}
	if len(keys) == 0 {
		delete(e.users, who)
	} else {
		e.users[who] = keys
	}
	wanted := map[feedKey]bool{}
	for _, keys := range e.users {
		for key := range keys {
			wanted[key] = true
			if e.feeds[key] == nil && c != nil {
				e.feeds[key] = e.begin(key)
			}
		}
	}
	for key, f := range e.feeds {
		if !wanted[key] {
			f.stop()
			delete(e.feeds, key)
		}
	}
}

// begin starts a feed. The caller holds the lock.
func (e *eyes) begin(key feedKey) *feed {
	f := &feed{key: key, again: make(chan struct{}, 1), objects: map[types.NamespacedName]*unstructured.Unstructured{}}
	f.changed = func(before, after *unstructured.Unstructured) {
		for _, who := range e.concerned(key, before, after) {
			e.wake(who)
		}
	}
	f.start(e.ctx, e.cluster)
	return f
}

// concerned returns the Installations that a change matters to: where only what was installed is looked at, whose object it is,
// and else all that look there.
func (e *eyes) concerned(key feedKey, before, after *unstructured.Unstructured) (who []types.NamespacedName) {
	if key.Labels != "" && (before != nil || after != nil) {
		for _, o := range []*unstructured.Unstructured{before, after} {
			if name, ok := stampOn(o).installation(e.hub); ok && (len(who) == 0 || who[0] != name) {
				who = append(who, name)
			}
		}
		return who
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for name, keys := range e.users {
		if keys[key] {
			who = append(who, name)
		}
	}
	return who
}

// feed returns what is seen of a key; nil: nobody wants it.
func (e *eyes) feed(key feedKey) *feed {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.feeds[key]
}

// nudge makes feeds that failed try again at once.
func (e *eyes) nudge() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, f := range e.feeds {
		f.nudge()
	}
}

// forget ends what an Installation wants.
func (e *eyes) forget(who types.NamespacedName) {
	e.mu.Lock()
	c, uid := e.cluster, e.uid
	e.mu.Unlock()
	e.want(who, c, uid, nil)
}
