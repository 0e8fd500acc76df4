package flow

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// supervise looks after what no event tells: the ground that the epoch stands on, the guard, and the end of a wind-down.
func (e *epoch) supervise(ctx context.Context) {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.kick:
			pause(ctx, kickWindow)
			select {
			case <-e.kick:
			default:
			}
			e.revalidate(ctx)
		case <-ticker.C:
			e.sweep(ctx)
		}
	}
}

// sweepEvery is how often an epoch tidies up; nothing waits for it but held deletes that somebody allows.
const sweepEvery = 5 * time.Second

// kickWindow is how long a look at both sides waits for other reasons to look: a CRD changes more than once when it
// changes, and at a start the watches of the CRDs of both sides begin.
const kickWindow = 300 * time.Millisecond

// revalidate ends the epoch when a side no longer serves the kind from the same CRD, and takes in a changed schema.
func (e *epoch) revalidate(ctx context.Context) {
	fresh, err := e.prepare(ctx)
	if ctx.Err() != nil {
		return
	}
	var replaced *replacedError
	if errors.As(err, &replaced) {
		e.end(err)
		return
	}
	if err != nil {
		if fresh == nil || isConnection(err) {
			e.log.Debug("Looking at both sides again failed", "error", err)
			time.AfterFunc(recheckFirst, e.check)
			return
		}
		e.end(fmt.Errorf("%w: %w", errServing, err))
		return
	}
	if e.grown.take() && (fresh.sourcesWide && !e.plan.sourcesWide || fresh.twinsWide && !e.plan.twinsWide) {
		e.end(errWider)
		return
	}
	if !sameCRD(fresh.sourceCRD, e.plan.sourceCRD) || !sameCRD(fresh.twinCRD, e.plan.twinCRD) {
		e.end(fmt.Errorf("%w: the CRD of %s is another one than before", errServing, e.Kind.Kind))
		return
	}
	if crdGeneration(fresh.twinCRD) != crdGeneration(e.plan.twinCRD) || crdGeneration(fresh.sourceCRD) != crdGeneration(e.plan.sourceCRD) {
		e.log.Info("A schema changed; all objects are looked at again")
		e.schemaMu.Lock()
		e.plan.schema, e.plan.statusSchema = fresh.schema, fresh.statusSchema
		e.plan.sourceCRD, e.plan.twinCRD = fresh.sourceCRD, fresh.twinCRD
		clear(e.undeclared)
		e.schemaMu.Unlock()
		e.tellGaps(fresh.gaps)
		e.states.forgetFaults()
		e.enqueueAll()
	}
}
