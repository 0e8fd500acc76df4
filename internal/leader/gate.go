package leader

import (
	"errors"
	"sync/atomic"
	"time"
)

// ErrNotLeading says that a write was not sent, because another instance may lead.
var ErrNotLeading = errors.New("this instance does not hold the lease, or has not renewed it in time")

// Gate tells whether this instance may write. It is shut when the lease has not been renewed for the span of the renew
// deadline, whatever the process did meanwhile: one that was stopped, or slept with its machine, finds it shut.
type Gate struct {
	span    time.Duration
	renewed atomic.Pointer[time.Time] // the start of the last renewal that succeeded; nil: we do not lead
}

// NewGate returns a gate that is shut. span is the renew deadline.
func NewGate(span time.Duration) *Gate { return &Gate{span: span} }

// Check returns nil while this instance may write, and ErrNotLeading otherwise.
func (g *Gate) Check() error {
	if at := g.renewed.Load(); at == nil || g.passed(*at, time.Now()) {
		return ErrNotLeading
	}
	return nil
}

// passed reports whether a renewal at a time has run out by now, by the monotonic clock, which a machine that sleeps
// may stop, or by the wall clock, which somebody may set back.
func (g *Gate) passed(at, now time.Time) bool {
	return now.Sub(at) >= g.span || now.Round(0).Sub(at.Round(0)) >= g.span
}

func (g *Gate) open(at time.Time) { g.renewed.Store(&at) }

func (g *Gate) shut() { g.renewed.Store(nil) }
