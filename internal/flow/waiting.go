package flow

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// waitList remembers which sources wait for which places on the other side.
type waitList struct {
	mu      sync.Mutex
	sources map[types.NamespacedName]map[types.NamespacedName]bool // by place
	places  map[types.NamespacedName]map[types.NamespacedName]bool // by source
}

func (w *waitList) wait(place, source types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sources == nil {
		w.sources = map[types.NamespacedName]map[types.NamespacedName]bool{}
		w.places = map[types.NamespacedName]map[types.NamespacedName]bool{}
	}
	put(w.sources, place, source)
	put(w.places, source, place)
}

// done ends the waiting of a source for a place.
func (w *waitList) done(place, source types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	take(w.sources, place, source)
	take(w.places, source, place)
}

// leave ends all waiting of a source, and returns the places that it waited for.
func (w *waitList) leave(source types.NamespacedName) []types.NamespacedName {
	w.mu.Lock()
	defer w.mu.Unlock()
	places := slices.Collect(maps.Keys(w.places[source]))
	for _, place := range places {
		take(w.sources, place, source)
	}
	delete(w.places, source)
	return places
}

// at returns the sources that wait for a place.
func (w *waitList) at(place types.NamespacedName) []types.NamespacedName {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.sources[place]))
}

func put(m map[types.NamespacedName]map[types.NamespacedName]bool, key, value types.NamespacedName) {
	if m[key] == nil {
		m[key] = map[types.NamespacedName]bool{}
	}
	m[key][value] = true
}

func take(m map[types.NamespacedName]map[types.NamespacedName]bool, key, value types.NamespacedName) {
	delete(m[key], value)
	if len(m[key]) == 0 {
		delete(m, key)
	}
}
