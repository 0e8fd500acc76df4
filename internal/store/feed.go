package store

import (
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"isthmus.dev/isthmus/internal/wire"
)

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
	s := f.store
	object, ok := obj.(*wire.Object)
	if !ok {
		return unexpected(obj)
	}
	var in *arrival
	if !deleted {
		in = s.receive(object, false)
	}
	s.mu.Lock()
	if s.feeds[f.scope] != f {
		s.mu.Unlock()
		return nil
	}
	f.seen = object.GetResourceVersion()
	var change Change
	var changed bool
	if deleted {
		key := keyOf(object)
		if gap := s.gaps[key.Namespace]; gap != nil {
			gap.gone[key] = f.seen
		}
		// An answer to a later create of our own may have overtaken the event.
		if old := s.records[key]; old != nil && !newer(old.version(), f.seen) {
			s.drop(old)
			change, changed = Change{Key: key, Old: s.item(old)}, true
		}
	} else if change, changed = s.set(in); !changed {
		// The object itself is known from an answer, but nobody was told of it yet.
		if have := s.records[in.key]; have != nil && have.version() == in.version {
			change, changed = Change{Key: have.key, Old: s.item(have), New: s.item(have), Echo: true}, true
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
	s := f.store
	arrived := make([]*arrival, 0, len(list))
	for i, item := range list {
		in, err := s.arrived(item)
		if err != nil {
			return err
		}
		arrived = append(arrived, in)
		list[i] = nil
	}
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
	present := make(map[types.NamespacedName]struct{}, len(arrived))
	for _, in := range arrived {
		present[in.key] = struct{}{}
		if old := s.records[in.key]; rewound && old != nil && old.version() != in.version {
			s.drop(old)
			changes = append(changes, Change{Key: old.key, Old: s.item(old)})
		}
		if change, changed := s.set(in); changed {
			changes = append(changes, change)
		}
	}
	for key, old := range s.records {
		if f.scope != "" && key.Namespace != f.scope {
			continue
		}
		if _, ok := present[key]; !ok && (rewound || !newer(old.version(), resourceVersion)) {
			changes = append(changes, Change{Key: key, Old: s.item(old)})
			s.drop(old)
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

// Pack returns what Replace takes in place of an object: what is listed waits, as small as in the Store, until the list is
// complete.
func (f *Feed) Pack(obj *wire.Object) runtime.Object { return f.store.receive(obj, true) }

func (s *Store) arrived(obj any) (*arrival, error) {
	switch obj := obj.(type) {
	case *arrival:
		return obj, nil
	case *wire.Object:
		return s.receive(obj, false), nil
	}
	return nil, unexpected(obj)
}

func unexpected(obj any) error {
	return fmt.Errorf("store: expected an object as it came, got %T", obj)
}

func keyOf(obj metav1.Object) types.NamespacedName {
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
