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
	names   []string // nil: all
	current *cluster.Namespaces
	stop    context.CancelFunc
}

// namespacesOf makes those of a direction.
func (e *Engine) namespacesOf(ctx context.Context, w way, changed func(name string)) *namespaces {
	n := &namespaces{cluster: w.to.Cluster, ctx: ctx, changed: changed, names: twinNamespaces(w.rules, w.naming)}
	if w.direction == boundary.ToRemote {
		n.standing = e.Standing
	}
	return n
}

// use says which namespaces are to be known from now on; nil: all. What was known of others is forgotten.
func (n *namespaces) use(names []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if (names == nil) == (n.names == nil) && slices.Equal(names, n.names) {
		return
	}
	n.names = names
	if n.current != nil {
		n.stop()
		n.start()
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
	standing := n.standing != "" && slices.Contains(n.names, n.standing)
	names := slices.DeleteFunc(slices.Clone(n.names), func(name string) bool { return standing && name == n.standing })
	n.current = n.cluster.WatchNamespaces(ctx, names, n.changed)
	if standing {
		n.current.Assume(n.standing)
	}
}
