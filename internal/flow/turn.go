package flow

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// turn is that of a source that is handled, to decide what is to be done. While there is a change that somebody waits for,
// resyncs decide one after the other: thousands at once would take the processors from it (F9). Leave a turn before anything
// is waited for.
type turn struct {
	hurried       func() bool // a change waits, or is being handled
	alone         *sync.Mutex // nil: the turn of a change, which waits for nobody
	taken, locked bool
}

// turn returns the turn of a source that was handed out.
func (e *epoch) turn(key types.NamespacedName) *turn {
	if e.queue.fair.isResync(key) {
		return &turn{hurried: e.queue.fair.hurried, alone: &e.deciding}
	}
	return &turn{}
}

// take waits until it is the source's turn.
func (t *turn) take() {
	if t.taken || t.alone == nil {
		return
	}
	t.taken = true
	if t.hurried() {
		t.alone.Lock()
		t.locked = true
	}
}

// leave lets others have their turn.
func (t *turn) leave() {
	if t.locked {
		t.alone.Unlock()
	}
	t.taken, t.locked = false, false
}
