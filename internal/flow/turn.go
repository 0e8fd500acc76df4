package flow

import (
	"runtime"
	"sync"
)

// gate lets resyncs have their turns: thousands at once would take the processors from the changes that somebody waits for (F9).
type gate struct {
	hurried func() bool // a change waits, or is being handled
	all     chan struct{}
	alone   sync.Mutex
}

func newGate(hurried func() bool) *gate {
	return &gate{hurried: hurried, all: make(chan struct{}, runtime.GOMAXPROCS(0))}
}

// turn is that of a source that is handled. What it has may be taken and left again; leave it before anything is waited for.
type turn struct {
	gate        *gate // nil: that of a change, which waits for nobody
	held, alone bool
}

// take waits until it is the source's turn: one resync has its turn at a time while changes are about, else as many as there
// are processors.
func (t *turn) take() {
	if t.gate == nil || t.held {
		return
	}
	t.gate.all <- struct{}{}
	t.held = true
	if t.gate.hurried() {
		t.gate.alone.Lock()
		t.alone = true
	}
}

// leave lets others have their turn.
func (t *turn) leave() {
	if !t.held {
		return
	}
	if t.alone {
		t.gate.alone.Unlock()
	}
	t.held, t.alone = false, false
	<-t.gate.all
}
