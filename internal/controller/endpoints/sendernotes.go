package endpoints

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// notes are what a Sender remembers of slices between two looks. The zero value is ready for use.
type notes struct {
	mu sync.Mutex
	// undecided are the slices of which it is not known whether their Service has crossed.
	undecided map[types.NamespacedName]bool
	// told is what was told of a slice last.
	told map[types.NamespacedName]string
	// blocked are the slices that ShadowEndpointSlices of others are in the way of, by these.
	blocked map[types.NamespacedName]types.NamespacedName
}

// begin notes that a slice is looked at: until end, it is undecided, so that nothing that changes meanwhile is missed.
func (n *notes) begin(key types.NamespacedName) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.undecided == nil {
		n.undecided, n.blocked = map[types.NamespacedName]bool{}, map[types.NamespacedName]types.NamespacedName{}
	}
	n.undecided[key] = true
}

// end takes in what a look at a slice came to.
func (n *notes) end(key types.NamespacedName, w *work) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !w.undecided {
		delete(n.undecided, key)
	}
	for by, slice := range n.blocked {
		if slice == key {
			delete(n.blocked, by)
		}
	}
	for _, by := range w.blocked {
		n.blocked[by] = key
	}
	if w.slice == nil {
		delete(n.told, key)
	}
}

// takeUndecided returns the undecided slices, and forgets them: the next look decides.
func (n *notes) takeUndecided() (keys []types.NamespacedName) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for key := range n.undecided {
		keys = append(keys, key)
	}
	clear(n.undecided)
	return keys
}

// blockedBy returns the slice that a ShadowEndpointSlice of others is, or was, in the way of.
func (n *notes) blockedBy(name types.NamespacedName) []types.NamespacedName {
	n.mu.Lock()
	defer n.mu.Unlock()
	if slice, ok := n.blocked[name]; ok {
		return []types.NamespacedName{slice}
	}
	return nil
}

// tells reports whether a message of a slice is another one than the last.
func (n *notes) tells(key types.NamespacedName, message string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.told[key] == message {
		return false
	}
	if n.told == nil {
		n.told = map[types.NamespacedName]string{}
	}
	n.told[key] = message
	if message == "" {
		delete(n.told, key)
	}
	return true
}
