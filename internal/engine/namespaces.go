package engine

import (
	"context"
	"slices"
	"sync"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/cluster"
)

// namespaces watches the namespaces of a direction's twins, for all flows of it together.
type namespaces struct {
	cluster *cluster.Cluster
	ctx     context.Context
	changed func(name string)
	// standing is a namespace that is there as long as this runs, which needs no right to watch it; empty: none.
	standing string

	mu      sync.Mutex
	names   []string
	listed  bool // names are all that are to be known; otherwise any may be
	current *cluster.Namespaces
	stop    context.CancelFunc
}

// namespacesOf makes those of a direction.
func (e *Engine) namespacesOf(ctx context.Context, w way, changed func(name string)) *namespaces {
	n := &namespaces{cluster: w.to.Cluster, ctx: ctx, changed: changed}
	n.names, n.listed = boundary.TwinNamespaces(w.rules, w.extent.Naming)
	if w.direction == boundary.ToRemote {
		n.standing = e.Standing
	}
	return n
}

// use says which namespaces are to be known from now on, or that any may be: then all are watched at once. What was known
// of those that go on is known on; only a change from some to any, or back, begins anew.
func (n *namespaces) use(names []string, listed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	anew := listed != n.listed
	n.names, n.listed = names, listed
	switch {
	case n.current == nil:
	case anew:
		n.stop()
		n.start()
	case listed:
		n.watch()
	}
}

// get returns what is known of them, and begins to watch at the first call.
func (n *namespaces) get() *cluster.Namespaces {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.current == nil {
		n.start()
	}
	return n.current
}

// start begins to watch. The caller holds the lock.
func (n *namespaces) start() {
	var ctx context.Context
	ctx, n.stop = context.WithCancel(n.ctx)
	if !n.listed {
		n.current = n.cluster.WatchAllNamespaces(ctx, n.changed)
		return
	}
	n.current = n.cluster.WatchNamespaces(ctx, n.changed)
	n.watch()
}

// watch says which namespaces are watched. The caller holds the lock.
func (n *namespaces) watch() {
	standing := n.standing != "" && slices.Contains(n.names, n.standing)
	n.current.Use(slices.DeleteFunc(slices.Clone(n.names), func(name string) bool { return standing && name == n.standing }))
	if standing {
		n.current.Assume(n.standing)
	}
}
