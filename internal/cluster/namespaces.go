package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NamespaceState is what matters of a namespace. Its maps are shared: they must not be changed.
type NamespaceState struct {
	Exists, Terminating bool
	UID                 string
	Labels, Annotations map[string]string
}

func (s NamespaceState) equal(o NamespaceState) bool {
	return s.Exists == o.Exists && s.Terminating == o.Terminating && s.UID == o.UID &&
		maps.Equal(s.Labels, o.Labels) && maps.Equal(s.Annotations, o.Annotations)
}

// Namespaces knows the state of namespaces as the cluster last told it. When the cluster can't be reached it keeps what
// it knew: an error never makes a namespace absent.
type Namespaces struct {
	cluster *Cluster
	ctx     context.Context
	changed func(name string)

	mu     sync.RWMutex
	states map[string]NamespaceState
	named  map[string]*named // nil when any may be of concern
	all    *namespaceStore   // is filled by one watch of all; nil: there is none
	listed bool              // by it, all are known

	// singles is how many are watched one by one before it is asked whether all may be watched at once; asking: it is.
	singles int
	asking  bool
}

// named is a namespace that is of concern by its name.
type named struct {
	listed  bool
	assumed bool
	stop    context.CancelFunc // nil: it has no watch of its own
	again   chan struct{}      // has a watch that failed tried again at once
}

// WatchAllNamespaces watches all namespaces with one watch. It returns at once and watches until ctx ends. changed is
// called, from the watch, for every namespace whose state became known or changed, and with "" when all became known at
// once; it must not block.
func (c *Cluster) WatchAllNamespaces(ctx context.Context, changed func(name string)) *Namespaces {
	n := &Namespaces{cluster: c, ctx: ctx, changed: changed, states: map[string]NamespaceState{}}
	n.all = &namespaceStore{of: n}
	go c.watchMetadata(ctx, namespaces, "", n.all, slog.LevelWarn, nil)
	return n
}

// WatchNamespaces watches namespaces until ctx ends: those that Use names, none at first. Few are watched one by one, as
// RBAC with resourceNames permits it, and many with one watch of all where RBAC allows that. changed is called as by
// WatchAllNamespaces, for those that are named.
func (c *Cluster) WatchNamespaces(ctx context.Context, changed func(name string)) *Namespaces {
	return &Namespaces{
		cluster: c, ctx: ctx, changed: changed, states: map[string]NamespaceState{}, named: map[string]*named{}, singles: singlesMost,
	}
}

// Use says which namespaces are of concern from now on. It returns at once. What is known of those that were so before
// stays known, and of those that are not any more nothing does.
func (n *Namespaces) Use(names []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	wanted := make(map[string]bool, len(names))
	for _, name := range names {
		if wanted[name] = true; n.named[name] == nil {
			n.named[name] = &named{listed: n.listed, again: make(chan struct{}, 1)}
		}
	}
	for name, one := range n.named {
		if wanted[name] || one.assumed {
			continue
		}
		one.end()
		delete(n.named, name)
		if !n.listed {
			delete(n.states, name)
		}
	}
	n.open()
}

// open begins to watch what is not watched yet. The caller holds the lock.
func (n *Namespaces) open() {
	switch {
	case n.all != nil, n.asking:
	case len(n.named) > n.singles:
		n.asking = true
		go n.ask()
	default:
		for name, one := range n.named {
			if one.stop != nil || one.assumed {
				continue
			}
			ctx, stop := context.WithCancel(n.ctx)
			one.stop = stop
			go n.cluster.watchMetadata(ctx, namespaces, name, &namespaceStore{of: n, one: one, name: name}, slog.LevelWarn, one.again)
		}
	}
}

// end ends the watch of one, if it has any.
func (one *named) end() {
	if one.stop != nil {
		one.stop()
		one.stop = nil
	}
}

// LookAgain has the watches of namespaces of which nothing is known yet tried again at once: the right to them may have been
// given meanwhile.
func (n *Namespaces) LookAgain() {
	n.mu.RLock()
	defer n.mu.RUnlock()
	for _, one := range n.named {
		if one.listed || one.stop == nil {
			continue
		}
		select {
		case one.again <- struct{}{}:
		default:
		}
	}
}

// Assume takes a namespace that is not watched for one that is there.
func (n *Namespaces) Assume(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.named != nil && n.named[name] == nil {
		n.named[name] = &named{listed: true, assumed: true}
		n.states[name] = NamespaceState{Exists: true}
	}
}

// Get returns the state of a namespace; known is false until the cluster has told it, and for a name that is not of
// concern.
func (n *Namespaces) Get(name string) (state NamespaceState, known bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.named != nil {
		known = n.named[name] != nil && n.named[name].listed
	} else {
		known = n.listed
	}
	if !known {
		return NamespaceState{}, false
	}
	return n.states[name], true
}

// Synced reports whether all namespaces of concern are known.
func (n *Namespaces) Synced() bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	for _, one := range n.named {
		if !one.listed {
			return false
		}
	}
	return n.named != nil || n.listed
}

// namespaceStore takes in what one watch tells.
type namespaceStore struct {
	of   *Namespaces
	one  *named // nil: all
	name string // "": all
	// denied: the last try of a watch of all was; it is guarded by the lock of the namespaces.
	denied bool
}

func (s *namespaceStore) Add(obj any) error    { return s.Update(obj) }
func (s *namespaceStore) Resync() error        { return nil }
func (s *namespaceStore) Delete(obj any) error { return s.take(obj, true) }
func (s *namespaceStore) Update(obj any) error { return s.take(obj, false) }

func (s *namespaceStore) take(obj any, gone bool) error {
	meta, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return fmt.Errorf("expected a namespace's metadata, got %T", obj)
	}
	state := NamespaceState{}
	if !gone {
		state = stateOf(meta)
	}
	n := s.of
	n.mu.Lock()
	differs := s.wanted() && n.set(meta.Name, state) && n.concerns(meta.Name)
	n.mu.Unlock()
	if differs {
		n.changed(meta.Name)
	}
	return nil
}

// Replace takes in a complete list: what is not in it does not exist.
func (s *namespaceStore) Replace(list []any, _ string) error {
	next := make(map[string]NamespaceState, len(list))
	for _, obj := range list {
		meta, ok := obj.(*metav1.PartialObjectMetadata)
		if !ok {
			return fmt.Errorf("expected a namespace's metadata, got %T", obj)
		}
		next[meta.Name] = stateOf(meta)
	}
	n := s.of
	var told []string
	n.mu.Lock()
	switch {
	case !s.wanted():
	case s.one == nil:
		s.denied = false
		told = n.takeAll(next)
	default:
		if n.set(s.name, next[s.name]) || !s.one.listed {
			told = append(told, s.name)
		}
		s.one.listed = true
	}
	n.mu.Unlock()
	for _, name := range told {
		n.changed(name)
	}
	return nil
}

// takeAll takes in all namespaces that there are, and returns those to tell of. Watches of single ones end. The caller
// holds the lock.
func (n *Namespaces) takeAll(next map[string]NamespaceState) (told []string) {
	if !n.listed && n.named == nil {
		told = append(told, "") // also those that are missing
	}
	changed := map[string]bool{}
	for name := range n.states {
		if _, still := next[name]; !still {
			changed[name] = n.set(name, NamespaceState{})
		}
	}
	for name, state := range next {
		changed[name] = n.set(name, state)
	}
	for name, one := range n.named {
		changed[name] = changed[name] || !one.listed
		one.listed = true
		one.end()
	}
	n.listed = true
	for name, differs := range changed {
		if differs && n.concerns(name) {
			told = append(told, name)
		}
	}
	return told
}

// wanted reports whether what the watch tells is still of concern. The caller holds the lock.
func (s *namespaceStore) wanted() bool {
	if s.one == nil {
		return s.of.all == s
	}
	return s.of.named[s.name] == s.one && s.one.stop != nil
}

// concerns reports whether a namespace is to be told of. The caller holds the lock.
func (n *Namespaces) concerns(name string) bool { return n.named == nil || n.named[name] != nil }

// set takes in the state of a namespace, unless it is an assumed one, and reports whether it is another than before. The
// caller holds the lock.
func (n *Namespaces) set(name string, state NamespaceState) (differs bool) {
	if one := n.named[name]; one != nil && one.assumed || n.states[name].equal(state) {
		return false
	}
	if state.Exists {
		n.states[name] = state
	} else {
		delete(n.states, name)
	}
	return true
}

func stateOf(meta *metav1.PartialObjectMetadata) NamespaceState {
	return NamespaceState{
		Exists:      true,
		Terminating: meta.DeletionTimestamp != nil,
		UID:         string(meta.UID),
		Labels:      meta.Labels,
		Annotations: meta.Annotations,
	}
}
