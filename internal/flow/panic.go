package flow

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

// panicError is a panic in a flow. It ends the epoch and no more: other flows, and the process, go on.
type panicError struct{ what string }

// Error says what the panic was about.
func (p *panicError) Error() string { return "it panicked (" + p.what + ") and is started again soon" }

// caught tells of a panic and returns it as an error; nil where there was none. Only what the runtime itself says of it is
// shown: any other value may hold part of an object (F4).
func (f *Flow) caught(value any) error {
	if value == nil {
		return nil
	}
	what := fmt.Sprintf("a %T", value)
	if err, ok := value.(error); ok {
		if fault := runtime.Error(nil); errors.As(err, &fault) {
			what = fault.Error()
		}
	}
	f.metrics.Panicked()
	f.log.Error("The flow panicked", "panic", what, "stack", string(debug.Stack()))
	return &panicError{what}
}

// rescue is deferred by whatever runs beside an epoch: a panic there ends the epoch.
func (e *epoch) rescue() {
	if err := e.caught(recover()); err != nil {
		e.end(err)
	}
}

// runner returns how to run what an epoch does beside others: a panic in a task ends the epoch.
func (e *epoch) runner(ctx context.Context, tasks *sync.WaitGroup) func(task func(context.Context)) {
	return func(task func(context.Context)) {
		tasks.Go(func() {
			defer e.rescue()
			task(ctx)
		})
	}
}

func panicked(err error) bool {
	var p *panicError
	return errors.As(err, &p)
}

// waitFor waits for tasks to end, but not for long after a panic, which may have left one locked out for good.
func waitFor(after error, tasks ...*sync.WaitGroup) {
	ended := make(chan struct{})
	go func() {
		for _, t := range tasks {
			t.Wait()
		}
		close(ended)
	}()
	var late <-chan time.Time
	if panicked(after) {
		late = time.After(stopGrace)
	}
	select {
	case <-ended:
	case <-late:
	}
}
