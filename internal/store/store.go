// Package store keeps the objects of one kind on one side of a boundary, fed by client-go reflectors and by the
// answers to our own writes. What is not needed for decisions is not kept.
package store

import (
	"fmt"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Change is what happened to one object. Old or New is nil where there was or is none (or none that is kept).
type Change struct {
	Key      types.NamespacedName
	Old, New *unstructured.Unstructured
	// Live changes came by a watch event; the others were found by comparing with a list.
	Live bool
}

// Options say what a Store keeps and whom it tells. All functions are optional; they must not call the Store back,
// but for Changed, which is called without a lock.
type Options struct {
	// Keep says whether an object matters; one that does not counts as absent.
	Keep func(*unstructured.Unstructured) bool
	// Trim removes, in place, what nobody will ask for, before an object is stored.
	Trim func(*unstructured.Unstructured)
	// Index gives an object a second name, by which ByIndex finds it.
	Index func(*unstructured.Unstructured) (types.NamespacedName, bool)
	// Listing is called before a complete list replaces what is known of a scope.
	Listing func()
	// Changed is told of every change, in the order of a feed's events.
	Changed func(Change)
	// Listed is called after a complete list has replaced what was known of a scope.
	Listed func(scope string)
}

// Store holds objects by namespace and name. The objects it returns are shared: they must not be changed.
type Store struct {
	options Options

	mu      sync.RWMutex
	objects map[types.NamespacedName]*unstructured.Unstructured
	index   map[types.NamespacedName]map[types.NamespacedName]struct{}
	feeds   map[string]*Feed
	gaps    map[string]*Gap // by namespace
}

// New makes an empty Store.
func New(options Options) *Store {
	return &Store{
		options: options,
		objects: map[types.NamespacedName]*unstructured.Unstructured{},
		index:   map[types.NamespacedName]map[types.NamespacedName]struct{}{},
		feeds:   map[string]*Feed{},
		gaps:    map[string]*Gap{},
	}
}

// Get returns an object, or nil.
func (s *Store) Get(key types.NamespacedName) *unstructured.Unstructured {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.objects[key]
}

// ByIndex returns the objects that Options.Index gave a second name, in no order.
func (s *Store) ByIndex(name types.NamespacedName) []*unstructured.Unstructured {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []*unstructured.Unstructured
	for key := range s.index[name] {
		out = append(out, s.objects[key])
	}
	return out
}

// Len returns the number of objects.
func (s *Store) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.objects)
}

// Each calls do for every object of a scope, until it returns false. do must not call the Store.
func (s *Store) Each(scope string, do func(*unstructured.Unstructured) bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for key, obj := range s.objects {
		if scope != "" && key.Namespace != scope {
			continue
		}
		if !do(obj) {
			return
		}
	}
}

// EachIndexed calls do for every second name and an object that has it. do must not call the Store.
func (s *Store) EachIndexed(do func(name types.NamespacedName, obj *unstructured.Unstructured)) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for name, keys := range s.index {
		for key := range keys {
			do(name, s.objects[key])
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
// watch has told already, or something newer, is left.
func (s *Store) Put(obj *unstructured.Unstructured) {
	s.mu.Lock()
	defer s.mu.Unlock()
	feed := s.feedOf(obj.GetNamespace())
	if feed == nil || !newer(obj.GetResourceVersion(), feed.seen) {
		return
	}
	s.set(obj)
}

// feedOf returns the feed that brings the objects of a namespace. The caller holds the lock.
func (s *Store) feedOf(namespace string) *Feed {
	if feed, ok := s.feeds[""]; ok {
		return feed
	}
	return s.feeds[namespace]
}

// set stores an object unless a newer one is there, and returns what changed. The caller holds the lock.
func (s *Store) set(obj *unstructured.Unstructured) (Change, bool) {
	key := keyOf(obj)
	old := s.objects[key]
	if old != nil && !newer(obj.GetResourceVersion(), old.GetResourceVersion()) {
		return Change{}, false
	}
	if s.options.Keep != nil && !s.options.Keep(obj) {
		if old == nil {
			return Change{}, false
		}
		s.drop(key)
		return Change{Key: key, Old: old}, true
	}
	if s.options.Trim != nil {
		s.options.Trim(obj)
	}
	s.unindex(key)
	s.objects[key] = obj
	if s.options.Index != nil {
		if name, ok := s.options.Index(obj); ok {
			if s.index[name] == nil {
				s.index[name] = map[types.NamespacedName]struct{}{}
			}
			s.index[name][key] = struct{}{}
		}
	}
	return Change{Key: key, Old: old, New: obj}, true
}

func (s *Store) drop(key types.NamespacedName) {
	s.unindex(key)
	delete(s.objects, key)
}

func (s *Store) unindex(key types.NamespacedName) {
	old := s.objects[key]
	if old == nil || s.options.Index == nil {
		return
	}
	if name, ok := s.options.Index(old); ok {
		delete(s.index[name], key)
		if len(s.index[name]) == 0 {
			delete(s.index, name)
		}
	}
}

// Feed brings the objects of one scope, a namespace or all ("") into a Store. It is what a reflector writes to.
type Feed struct {
	store *Store
	scope string
	// seen is the resourceVersion up to which the feed has told everything.
	seen   string
	listed bool
	passed bool
}

// Feed registers a scope and returns its feed, in place of one that it had. A Store has either one feed for all, or one
// a namespace.
func (s *Store) Feed(scope string) *Feed {
	s.mu.Lock()
	defer s.mu.Unlock()
	feed := &Feed{store: s, scope: scope}
	s.feeds[scope] = feed
	return feed
}

// Add is called by a reflector for an object that appeared.
func (f *Feed) Add(obj any) error { return f.event(obj, false) }

// Update is called by a reflector for an object that changed.
func (f *Feed) Update(obj any) error { return f.event(obj, false) }

// Delete is called by a reflector for an object that was deleted, or no longer matches the watch's selector.
func (f *Feed) Delete(obj any) error { return f.event(obj, true) }

func (f *Feed) event(obj any, deleted bool) error {
	u, err := asObject(obj)
	if err != nil {
		return err
	}
	s := f.store
	s.mu.Lock()
	if s.feeds[f.scope] != f {
		s.mu.Unlock()
		return nil
	}
	f.seen = u.GetResourceVersion()
	var change Change
	var changed bool
	if deleted {
		key := keyOf(u)
		if gap := s.gaps[key.Namespace]; gap != nil {
			gap.gone[key] = f.seen
		}
		// An answer to a later create of our own may have overtaken the event.
		if old := s.objects[key]; old != nil && !newer(old.GetResourceVersion(), f.seen) {
			s.drop(key)
			change, changed = Change{Key: key, Old: old}, true
		}
	} else if change, changed = s.set(u); !changed {
		// The object itself is known from an answer, but nobody was told of it yet.
		if have := s.objects[keyOf(u)]; have != nil && have.GetResourceVersion() == u.GetResourceVersion() {
			change, changed = Change{Key: keyOf(u), Old: have, New: have}, true
		}
	}
	s.mu.Unlock()
	if changed && s.options.Changed != nil {
		change.Live = true
		s.options.Changed(change)
	}
	return nil
}

// Bookmark is called by a reflector when the server says how far the watch has come.
func (f *Feed) Bookmark(resourceVersion string) error {
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	f.seen = resourceVersion
	return nil
}

// Replace is called by a reflector with a complete list of the scope.
func (f *Feed) Replace(list []any, resourceVersion string) error {
	objects := make([]*unstructured.Unstructured, 0, len(list))
	for _, item := range list {
		u, err := asObject(item)
		if err != nil {
			return err
		}
		objects = append(objects, u)
	}
	s := f.store
	if s.options.Listing != nil {
		s.options.Listing()
	}
	var changes []Change
	s.mu.Lock()
	if s.feeds[f.scope] != f {
		s.mu.Unlock()
		return nil
	}
	maps.DeleteFunc(s.gaps, func(_ string, g *Gap) bool { return g.open })
	// A list older than what was seen comes from a restored cluster: it is right, and what is known is not.
	rewound := f.seen != "" && newer(f.seen, resourceVersion)
	present := make(map[types.NamespacedName]struct{}, len(objects))
	for _, u := range objects {
		present[keyOf(u)] = struct{}{}
		if old := s.objects[keyOf(u)]; rewound && old != nil && old.GetResourceVersion() != u.GetResourceVersion() {
			s.drop(keyOf(u))
			changes = append(changes, Change{Key: keyOf(u), Old: old})
		}
		if change, changed := s.set(u); changed {
			changes = append(changes, change)
		}
	}
	for key, old := range s.objects {
		if f.scope != "" && key.Namespace != f.scope {
			continue
		}
		if _, ok := present[key]; !ok && (rewound || !newer(old.GetResourceVersion(), resourceVersion)) {
			changes = append(changes, Change{Key: key, Old: old})
			s.drop(key)
		}
	}
	f.seen, f.listed = resourceVersion, true
	s.mu.Unlock()
	s.tell(changes)
	if s.options.Listed != nil {
		s.options.Listed(f.scope)
	}
	return nil
}

// Pass says that the scope can't be listed for now, and that AllSynced shall not wait for it.
func (f *Feed) Pass() {
	f.store.mu.Lock()
	first := !f.passed && !f.listed
	f.passed = true
	f.store.mu.Unlock()
	if first && f.store.options.Listed != nil {
		f.store.options.Listed(f.scope)
	}
}

// Await takes back a Pass: the scope is waited for again.
func (f *Feed) Await() {
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	f.passed = false
}

// Listed reports whether the scope has been listed.
func (f *Feed) Listed() bool {
	f.store.mu.RLock()
	defer f.store.mu.RUnlock()
	return f.listed
}

// Settled reports whether the scope has been listed, or is not waited for.
func (f *Feed) Settled() bool {
	f.store.mu.RLock()
	defer f.store.mu.RUnlock()
	return f.listed || f.passed
}

// Resync does nothing: resyncs are the flow's.
func (f *Feed) Resync() error { return nil }

func asObject(obj any) (*unstructured.Unstructured, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("store: expected an unstructured object, got %T", obj)
	}
	return u, nil
}

func keyOf(obj *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// newer reports whether resourceVersion a is later than b. Within one resource they are ordered numbers (KEP-5504);
// what can't be compared is taken as news.
func newer(a, b string) bool {
	if b == "" {
		return true
	}
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order > 0
}
