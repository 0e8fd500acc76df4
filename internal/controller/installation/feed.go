package installation

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"isthmus.dev/isthmus/internal/cluster"
)

// feedKey says what a feed watches.
type feedKey struct {
	resource schema.GroupVersionResource
	cluster.Selection
}

// feed keeps what is watched of one kind in one place, as it was seen last.
type feed struct {
	key   feedKey
	again chan struct{} // look again at once after a failure
	stop  context.CancelFunc
	// changed is called after a change, with the objects before and after it, either of which may be nil; both are after all
	// was listed anew, or could not be. It is called without locks.
	changed func(before, after *unstructured.Unstructured)

	mu      sync.Mutex
	objects map[types.NamespacedName]*unstructured.Unstructured
	version string // the state of the server that this is, at least
	synced  bool
	err     error // why it is not known what is there
}

// start begins to watch, until ctx ends.
func (f *feed) start(ctx context.Context, c *cluster.Cluster) {
	ctx, f.stop = context.WithCancel(ctx)
	go c.WatchObjects(ctx, f.key.resource, f.key.Selection, f, f.again, func(err error) {
		f.mu.Lock()
		f.err = err
		f.mu.Unlock()
		f.changed(nil, nil)
	})
}

// look returns an object as it was seen last, nil if there is none; known is false before all was seen once, and err says why.
func (f *feed) look(name types.NamespacedName) (object *unstructured.Unstructured, version string, known bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.synced {
		return nil, "", false, f.err
	}
	return f.objects[name], f.version, true, nil
}

// all returns all objects, in no order.
func (f *feed) all() (objects []*unstructured.Unstructured) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range f.objects {
		objects = append(objects, o)
	}
	return objects
}

// nudge makes the feed try again at once, if it waits after a failure.
func (f *feed) nudge() {
	select {
	case f.again <- struct{}{}:
	default:
	}
}

// The methods of cache.ReflectorStore.

// Add takes in an object that came.
func (f *feed) Add(o any) error { return f.Update(o) }

// Update takes in an object that changed.
func (f *feed) Update(o any) error { return f.take(o, false) }

// Delete takes in that an object went.
func (f *feed) Delete(o any) error { return f.take(o, true) }

func (f *feed) take(o any, gone bool) error {
	object, ok := o.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("expected an object, got %T", o)
	}
	name := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
	f.mu.Lock()
	before, after := f.objects[name], object
	if gone {
		after = nil
		delete(f.objects, name)
	} else {
		f.objects[name] = object
	}
	f.advance(object.GetResourceVersion())
	f.mu.Unlock()
	f.changed(before, after)
	return nil
}

// Replace takes in a complete list.
func (f *feed) Replace(list []any, version string) error {
	objects := make(map[types.NamespacedName]*unstructured.Unstructured, len(list))
	for _, o := range list {
		object, ok := o.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("expected an object, got %T", o)
		}
		objects[types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}] = object
	}
	f.mu.Lock()
	f.objects, f.version, f.synced, f.err = objects, version, true, nil
	f.mu.Unlock()
	f.changed(nil, nil)
	return nil
}

// Resync does nothing.
func (f *feed) Resync() error { return nil }

// UpdateResourceVersion takes in that nothing changed until a state of the server.
func (f *feed) UpdateResourceVersion(version string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.advance(version)
}

// advance moves to a later state. The caller holds the lock.
func (f *feed) advance(version string) {
	if !later(f.version, version) {
		f.version = version
	}
}

// later reports whether a resourceVersion is after another one of the same resource. Ones that are no numbers are not.
func later(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}
