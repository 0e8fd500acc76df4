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
	named  map[string]*named // nil when all are watched
	listed bool              // when all are watched
}

// named is a namespace that is watched by its name, or assumed.
type named struct {
	listed bool
	stop   context.CancelFunc // nil: it is assumed
	again  chan struct{}      // has a watch that failed tried again at once
}

// WatchAllNamespaces watches all namespaces with one watch. It returns at once and watches until ctx ends. changed is
// called, from the watch, for every namespace whose state became known or changed, and with "" when all became known at
// once; it must not block.
func (c *Cluster) WatchAllNamespaces(ctx context.Context, changed func(name string)) *Namespaces {
	n := &Namespaces{states: map[string]NamespaceState{}}
	go c.watchMetadata(ctx, namespaces, "", &namespaceStore{n, nil, "", changed}, slog.LevelWarn, nil)
	return n
}

// WatchNamespaces watches namespaces one by one, as RBAC with resourceNames permits it, until ctx ends: those that Use
// names, none at first. changed is called as by WatchAllNamespaces.
func (c *Cluster) WatchNamespaces(ctx context.Context, changed func(name string)) *Namespaces {
	return &Namespaces{cluster: c, ctx: ctx, changed: changed, states: map[string]NamespaceState{}, named: map[string]*named{}}
}

// Use says which namespaces are watched from now on. It returns at once. What is known of those that were watched before
// stays known, and of those that are not watched any more nothing does.
func (n *Namespaces) Use(names []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	wanted := make(map[string]bool, len(names))
	for _, name := range names {
		if wanted[name] = true; n.named[name] != nil {
			continue
		}
		ctx, stop := context.WithCancel(n.ctx)
		one := &named{stop: stop, again: make(chan struct{}, 1)}
		n.named[name] = one
		go n.cluster.watchMetadata(ctx, namespaces, name, &namespaceStore{n, one, name, n.changed}, slog.LevelWarn, one.again)
	}
	for name, one := range n.named {
		if !wanted[name] && one.stop != nil {
			one.stop()
			delete(n.named, name)
			delete(n.states, name)
		}
	}
}

// LookAgain has the watches of namespaces of which nothing is known yet tried again at once: the right to them may have been
// given meanwhile.
func (n *Namespaces) LookAgain() {
	n.mu.RLock()
	defer n.mu.RUnlock()
	for _, one := range n.named {
		if one.listed || one.again == nil {
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
		n.named[name] = &named{listed: true}
		n.states[name] = NamespaceState{Exists: true}
	}
}

// Get returns the state of a namespace; known is false until the cluster has told it, and for a name that is not
// watched.
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

// Synced reports whether all watched namespaces are known.
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
	all     *Namespaces
	one     *named // nil: all
	name    string // "": all
	changed func(string)
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
	n := s.all
	n.mu.Lock()
	if !s.wanted() {
		n.mu.Unlock()
		return nil
	}
	differs := !n.states[meta.Name].equal(state)
	n.set(meta.Name, state)
	n.mu.Unlock()
	if differs {
		s.changed(meta.Name)
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
	n := s.all
	var told []string
	n.mu.Lock()
	if !s.wanted() {
		n.mu.Unlock()
		return nil
	}
	if s.one != nil {
		state := next[s.name]
		if !s.one.listed || !n.states[s.name].equal(state) {
			told = append(told, s.name)
		}
		s.one.listed = true
		n.set(s.name, state)
	} else {
		if !n.listed {
			told = append(told, "") // also those that are missing
		}
		for name := range n.states {
			if _, still := next[name]; !still {
				told = append(told, name)
				delete(n.states, name)
			}
		}
		for name, state := range next {
			if !n.states[name].equal(state) {
				told = append(told, name)
				n.set(name, state)
			}
		}
		n.listed = true
	}
	n.mu.Unlock()
	for _, name := range told {
		s.changed(name)
	}
	return nil
}

// wanted reports whether what the watch tells is still of concern. The caller holds the lock.
func (s *namespaceStore) wanted() bool { return s.one == nil || s.all.named[s.name] == s.one }

func (n *Namespaces) set(name string, state NamespaceState) {
	if state.Exists {
		n.states[name] = state
	} else {
		delete(n.states, name)
	}
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
