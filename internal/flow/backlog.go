package flow

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// backlog holds the resyncs for which the workqueue has no room yet. All sources of a flow may be in it at once, and the
// memory that they take is given back, which that of the workqueue's own sets never is.
type backlog struct {
	mu      sync.Mutex
	waiting map[types.NamespacedName]struct{}
	order   []string // namespaces, in the order of their turns
	names   map[string][]string
}

// push takes in a key, once.
func (b *backlog) push(key types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.waiting[key]; ok {
		return
	}
	if len(b.waiting) == 0 {
		b.waiting, b.names = map[types.NamespacedName]struct{}{}, map[string][]string{}
	}
	b.waiting[key] = struct{}{}
	if len(b.names[key.Namespace]) == 0 {
		b.order = append(b.order, key.Namespace)
	}
	b.names[key.Namespace] = append(b.names[key.Namespace], key.Name)
}

// pop takes out the next key; ok is false where there is none.
func (b *backlog) pop() (key types.NamespacedName, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 {
		return key, false
	}
	key.Namespace, b.order = b.order[0], b.order[1:]
	names := b.names[key.Namespace]
	key.Name = names[0]
	if names = names[1:]; len(names) > 0 {
		b.names[key.Namespace] = names
		b.order = append(b.order, key.Namespace)
	} else {
		delete(b.names, key.Namespace)
	}
	delete(b.waiting, key)
	if len(b.waiting) == 0 {
		b.waiting, b.names, b.order = nil, nil, nil
	}
	return key, true
}
