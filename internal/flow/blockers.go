package flow

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/store"
)

// blockers are objects of others at places where twins belong. The twins' watch does not show them, so each is
// watched by name until it goes (P4).
type blockers struct {
	epoch *epoch

	mu    sync.Mutex
	known map[types.NamespacedName]*blocker
	tasks sync.WaitGroup
}

type blocker struct {
	object *unstructured.Unstructured
	stop   context.CancelFunc
	// standing reports whether the watch shows the object.
	standing func() bool
}

func newBlockers(e *epoch) *blockers {
	return &blockers{epoch: e, known: map[types.NamespacedName]*blocker{}}
}

// at returns the object of another owner at a place, or nil.
func (b *blockers) at(place types.NamespacedName) *unstructured.Unstructured {
	b.mu.Lock()
	defer b.mu.Unlock()
	if found := b.known[place]; found != nil {
		return found.object
	}
	return nil
}

// found takes in an object that was found at a place, and watches it until it goes or becomes ours.
func (b *blockers) found(ctx context.Context, place types.NamespacedName, obj *unstructured.Unstructured) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if have := b.known[place]; have != nil {
		have.object = obj
		return
	}
	ctx, stop := context.WithCancel(ctx)
	e := b.epoch
	seen := store.New(store.Options{
		Slim: true,
		Changed: func(c store.Change) {
			if !c.New.Exists() || e.isTwin(c.New.Object()) {
				b.gone(place)
			} else {
				b.changed(place, c.New.Object())
			}
		},
		// An object that went before the watch began is told by the first list.
		Listed: func(string) { b.listed(place) },
	})
	w := e.watcher(e.to, e.plan.twin, place.Namespace, "", seen.Feed(place.Namespace))
	w.field = fmt.Sprintf("metadata.name=%s", place.Name)
	b.known[place] = &blocker{object: obj, stop: stop, standing: func() bool { return seen.Get(place) != nil }}
	b.tasks.Go(func() {
		defer e.rescue()
		w.run(ctx)
	})
}

// isTwin reports whether the twins' own watch shows an object.
func (e *epoch) isTwin(o *unstructured.Unstructured) bool {
	return o.GetLabels()[boundary.LabelOrigin] == e.Identity.Cluster
}

func (b *blockers) changed(place types.NamespacedName, obj *unstructured.Unstructured) {
	b.mu.Lock()
	if have := b.known[place]; have != nil {
		have.object = obj
	}
	b.mu.Unlock()
}

// listed drops a blocker that the first list does not show.
func (b *blockers) listed(place types.NamespacedName) {
	b.mu.Lock()
	have := b.known[place]
	b.mu.Unlock()
	if have != nil && !have.standing() {
		b.gone(place)
	}
}

// gone forgets a blocker and lets those who wait for the place try again.
func (b *blockers) gone(place types.NamespacedName) {
	b.mu.Lock()
	if have := b.known[place]; have != nil {
		have.stop()
		delete(b.known, place)
	}
	b.mu.Unlock()
	for _, source := range b.epoch.waiting.at(place) {
		b.epoch.queue.add(source, changes)
	}
}

// drop stops watching a place that nobody waits for any more.
func (b *blockers) drop(place types.NamespacedName) {
	if len(b.epoch.waiting.at(place)) > 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if have := b.known[place]; have != nil {
		have.stop()
		delete(b.known, place)
	}
}
