package store

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/internal/wire"
)

// Gap is a namespace of which a feed for all has told, while what is kept of it did not matter. It is closed by a list of
// that namespace alone, or by one of all.
type Gap struct {
	store     *Store
	namespace string
	// open: what matters of the namespace is kept from now on, so that a complete list closes the gap.
	open bool
	// gone are the objects that were deleted since, and the resourceVersion of that: a list may still have them.
	gone map[types.NamespacedName]string
}

// Await says that what is known of a namespace is not complete: Options.Keep is about to admit what it did not. The gap
// takes the place of one that the namespace had.
func (s *Store) Await(namespace string) *Gap {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := &Gap{store: s, namespace: namespace, gone: map[types.NamespacedName]string{}}
	s.gaps[namespace] = g
	return g
}

// Awaited returns the namespaces that have a gap, in order.
func (s *Store) Awaited() (namespaces []string) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for namespace := range s.gaps {
		namespaces = append(namespaces, namespace)
	}
	slices.Sort(namespaces)
	return namespaces
}

// Dismiss ends the waiting for a namespace.
func (s *Store) Dismiss(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.gaps, namespace)
}

// Namespace returns the gap's namespace.
func (g *Gap) Namespace() string { return g.namespace }

// Open says that Options.Keep admits now what it did not. The list for Fill is to be asked for after it.
func (g *Gap) Open() {
	g.store.mu.Lock()
	defer g.store.mu.Unlock()
	g.open = true
	g.store.turn++
}

// IsOpen reports whether the gap waits for Fill.
func (g *Gap) IsOpen() bool {
	g.store.mu.RLock()
	defer g.store.mu.RUnlock()
	return g.open && g.store.gaps[g.namespace] == g
}

// Fill closes the gap with a complete list. If it is closed already, or another one took its place, it does nothing.
func (g *Gap) Fill(list []*wire.Object) {
	s := g.store
	if s.options.Listing != nil {
		s.options.Listing()
	}
	arrived := make([]*arrival, 0, len(list))
	for _, obj := range list {
		arrived = append(arrived, s.receive(obj, false))
	}
	var changes []Change
	s.mu.Lock()
	if s.gaps[g.namespace] == g {
		for _, in := range arrived {
			if at, gone := g.gone[in.key]; gone && newer(at, in.version) {
				continue
			}
			if change, changed := s.set(in); changed {
				changes = append(changes, change)
			}
		}
		delete(s.gaps, g.namespace)
	}
	s.mu.Unlock()
	s.tell(changes)
	if s.options.Listed != nil {
		s.options.Listed(g.namespace)
	}
}

// Drop ends a feed and forgets what it brought. What it brings later is not taken in.
func (s *Store) Drop(scope string) {
	s.mu.Lock()
	delete(s.feeds, scope)
	changes := s.forget(func(r *record) bool { return scope == "" || r.key.Namespace == scope })
	s.mu.Unlock()
	s.tell(changes)
}

// Sift forgets the objects of namespaces that Options.Keep does not admit any more.
func (s *Store) Sift(namespaces map[string]bool) {
	s.mu.Lock()
	s.turn++
	changes := s.forget(func(r *record) bool {
		return namespaces[r.key.Namespace] && s.options.Keep != nil && !s.options.Keep(s.item(r).Head())
	})
	s.mu.Unlock()
	s.tell(changes)
}

// forget drops the records that match, and returns what changed. The caller holds the lock.
func (s *Store) forget(match func(*record) bool) (changes []Change) {
	for key, r := range s.records {
		if match(r) {
			changes = append(changes, Change{Key: key, Old: s.item(r)})
			s.drop(r)
		}
	}
	return changes
}

// tell tells of changes. The caller does not hold the lock.
func (s *Store) tell(changes []Change) {
	if s.options.Changed == nil {
		return
	}
	for _, change := range changes {
		s.options.Changed(change)
	}
}
