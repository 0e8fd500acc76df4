// Package store keeps the objects of one kind on one side of a boundary, fed by client-go reflectors and by the
// answers to our own writes. What is not needed for decisions is not kept, and what is kept is encoded: an object is
// decoded when somebody asks for it, and what is asked for of all of them is told without that.
package store

import (
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/internal/wire"
)

// Change is what happened to one object. Old or New does not exist where there was or is none (or none that is kept).
type Change struct {
	Key      types.NamespacedName
	Old, New Item
	// Live changes came by a watch event; the others were found by comparing with a list.
	Live bool
	// Echo: the object as it is now was known already, from an answer that Put took in. Old and New are the same.
	Echo bool
}

// Second is what Named finds an object by, which has one beside its own.
type Second struct {
	Name types.NamespacedName
	// Label says more of the name; there are few.
	Label string
	// UID belongs to what has the name.
	UID types.UID
}

// Options say what a Store keeps and whom it tells. All functions are optional; they must not call the Store back,
// but for Changed, which is called without a lock.
type Options struct {
	// Keep says by its head (see wire.Object) whether an object matters; one that does not counts as absent.
	// It may be called more than once for one.
	Keep func(head *unstructured.Unstructured) bool
	// Slim: of managedFields no more is kept than who wrote.
	Slim bool
	// Index gives an object a second name, by its head with managedFields (see wire.Object).
	Index func(head *unstructured.Unstructured) (second Second, ok bool)
	// Listing is called before a complete list replaces what is known of a scope.
	Listing func()
	// Changed is told of every change, in the order of a feed's events.
	Changed func(Change)
	// Listed is called after a complete list has replaced what was known of a scope.
	Listed func(scope string)
}

// Store holds objects by namespace and name. The objects it returns are shared: they must not be changed.
type Store struct {
	options    Options
	dictionary dictionary
	recent     recent

	mu      sync.RWMutex
	records map[types.NamespacedName]*record
	index   map[types.NamespacedName]*record // by second name; those of the same one are chained
	feeds   map[string]*Feed
	gaps    map[string]*Gap // by namespace
	// turn changes whenever Options.Keep may say something else than before.
	turn int
}

// New makes an empty Store.
func New(options Options) *Store {
	return &Store{
		options: options,
		records: map[types.NamespacedName]*record{},
		index:   map[types.NamespacedName]*record{},
		feeds:   map[string]*Feed{},
		gaps:    map[string]*Gap{},
	}
}

// Get returns an object, or nil.
func (s *Store) Get(key types.NamespacedName) *unstructured.Unstructured { return s.Item(key).Object() }

// Item returns an object as it is kept.
func (s *Store) Item(key types.NamespacedName) Item {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.item(s.records[key])
}

// item makes an Item of a record; nil: of none.
func (s *Store) item(r *record) Item { return Item{store: s, record: r} }

// Named returns the objects that have a second name, as they are kept, in no order.
func (s *Store) Named(name types.NamespacedName) (items []Item) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for r := s.index[name]; r != nil; r = r.second.next {
		items = append(items, s.item(r))
	}
	return items
}

// Len returns the number of objects.
func (s *Store) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.records)
}

// Each calls do for every object of a scope, until it returns false. do must not call the Store.
func (s *Store) Each(scope string, do func(Item) bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for key, r := range s.records {
		if scope != "" && key.Namespace != scope {
			continue
		}
		if !do(s.item(r)) {
			return
		}
	}
}

// EachIndexed calls do for every second name and an object that has it. do must not call the Store.
func (s *Store) EachIndexed(do func(name types.NamespacedName, item Item)) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for name, first := range s.index {
		for r := first; r != nil; r = r.second.next {
			do(name, s.item(r))
		}
	}
}

// Fed reports whether there is a feed of the scope that holds a namespace.
func (s *Store) Fed(namespace string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.feedOf(namespace) != nil
}

// Synced reports whether the scope that holds a namespace has been listed.
func (s *Store) Synced(namespace string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	feed := s.feedOf(namespace)
	return feed != nil && feed.listed && s.gaps[namespace] == nil
}

// Settled reports whether the scope that holds a namespace has been listed, or passed over.
func (s *Store) Settled(namespace string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	feed := s.feedOf(namespace)
	return feed != nil && (feed.listed || feed.passed) && s.gaps[namespace] == nil
}

// AllSynced reports whether every scope has been listed, or passed over.
func (s *Store) AllSynced() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, feed := range s.feeds {
		if !feed.listed && !feed.passed {
			return false
		}
	}
	return len(s.gaps) == 0
}

// Put takes in the answer to a write of our own, so that the next decision knows it before the watch tells. What the
// watch has told already, or something newer, is left; told reports that it has.
func (s *Store) Put(obj *wire.Object) (told bool) {
	in := s.receive(obj, false)
	s.mu.Lock()
	defer s.mu.Unlock()
	if feed := s.feedOf(in.key.Namespace); feed != nil {
		if told = !newer(in.version, feed.seen); !told {
			s.set(in)
		}
	}
	return told
}

// feedOf returns the feed that brings the objects of a namespace. The caller holds the lock.
func (s *Store) feedOf(namespace string) *Feed {
	if feed, ok := s.feeds[""]; ok {
		return feed
	}
	return s.feeds[namespace]
}

// drop forgets a record. The caller holds the lock.
func (s *Store) drop(r *record) {
	delete(s.records, r.key)
	if r.second == nil {
		return
	}
	name := r.second.name
	switch first := s.index[name]; {
	case first != r:
		for first.second.next != r {
			first = first.second.next
		}
		first.second.next = r.second.next
	case r.second.next == nil:
		delete(s.index, name)
	default:
		s.index[name] = r.second.next
	}
}
