package flow

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/observe"
	"isthmus.dev/isthmus/internal/wire"
)

// staleWait is how long a stale answer waits for the watch to bring the change.
const staleWait = time.Second

// namespaceWait is how long a missing namespace is waited for when it can't be watched.
const namespaceWait = 10 * time.Second

// rest takes in that nothing is to be done.
func (e *epoch) rest(ctx context.Context, in boundary.Input, d boundary.Decision) {
	e.queue.Forget(in.Key)
	e.metrics.Operation(observe.OperationSync, observe.StatusSuccess)
	if d.Rule == nil {
		for _, place := range e.waiting.leave(in.Key) {
			e.blockers.drop(place)
		}
		e.states.arrive(in.Key, "")
		if in.Twin == nil {
			e.states.with(in.Key, func(s *state) { *s = state{spec: s.spec, status: s.status} })
		}
		return
	}
	switch {
	case d.Contended:
		e.states.settle(in.Key, contended)
	case d.StatusRefused:
		e.states.settle(in.Key, refused)
	case d.TakenOut != nil && d.TakenOut.Left != nil: // what came back is left
		e.states.arrive(in.Key, contended)
	default:
		e.states.arrive(in.Key, inStep)
	}
	e.recall(in, d)
	e.tell(in, d.Events...)
	e.toldContested(in, d)
	e.tellUndeclared(in, d)
	e.rememberAbsent(in, d, false)
	if in.Twin != nil {
		e.remember(ctx, d.Rule, in.Source)
	}
}

// tellUndeclared remembers what has been told on the source of fields that the remote side does not declare, and logs
// what was not logged since the schema is what it is (O7).
func (e *epoch) tellUndeclared(in boundary.Input, d boundary.Decision) {
	message := boundary.UndeclaredMessage(in.Undeclared)
	told := message == "" || slices.ContainsFunc(d.Events, func(event boundary.Event) bool { return event.Message == message })
	if !told || in.Memory.Undeclared == message {
		return
	}
	e.states.with(in.Key, func(s *state) { s.memory.Undeclared = message })
	if message != "" && e.firstUndeclared(message) {
		e.log.Warn("Fields do not cross", "rule", d.Rule.Name, "source", in.Key, "reason", message)
	}
}

// firstUndeclared reports whether a message about undeclared fields is the first of its kind under the present schema.
func (e *epoch) firstUndeclared(message string) bool {
	e.schemaMu.Lock()
	defer e.schemaMu.Unlock()
	if e.undeclared[message] {
		return false
	}
	e.undeclared[message] = true
	return true
}

// hold takes in that something is waited for.
func (e *epoch) hold(ctx context.Context, in boundary.Input, d boundary.Decision) {
	e.metrics.Operation(observe.OperationSync, observe.StatusSkipped)
	how := pending
	switch {
	case d.Blocked:
		how = foreign
	case d.Until == boundary.UntilGuard:
		how = paused
	case d.Action == boundary.Refuse, d.Until == boundary.UntilRetry:
		how = refused
	case d.Contended:
		how = contended
	}
	e.states.settle(in.Key, how)
	if how == paused && !e.guard.holds(in.Key) {
		e.queue.add(in.Key, resyncs) // it was let go in this moment
	}
	if d.Until == boundary.UntilPlaceFree || d.Until == boundary.UntilTwinGone {
		e.waiting.wait(in.Place, in.Key)
	} else {
		e.waiting.done(in.Place, in.Key)
	}
	if d.Blocked && !e.isTwin(in.Twin) && e.blockers.at(in.Place) == nil {
		e.queue.add(in.Key, changes) // it went in this moment
	}
	e.recall(in, d)
	if d.Action == boundary.Refuse && d.Rule != nil && len(d.Reasons) > 0 {
		e.tallies.failed(d.Rule.Name, in.Key, d.Reasons[len(d.Reasons)-1])
	}
	e.log.Debug("Held", "source", in.Key, "twin", in.Place, "until", d.Until, "reasons", d.Reasons)
	e.tell(in, d.Events...)
	e.toldContested(in, d)
}

// toldContested remembers whether it has been told that the status could be that of several twins (T5).
func (e *epoch) toldContested(in boundary.Input, d boundary.Decision) {
	if in.Memory.StatusContested != d.StatusContested {
		e.states.with(in.Key, func(s *state) { s.memory.StatusContested = d.StatusContested })
	}
}

// recall takes in what is to be remembered of a decision that writes nothing, and when it is to be made again.
func (e *epoch) recall(in boundary.Input, d boundary.Decision) {
	e.states.with(in.Key, func(s *state) {
		s.memory.TwinFight, s.memory.SourceFight, s.memory.TakenOut = d.TwinFight, d.SourceFight, d.TakenOut
	})
	e.logFight(in, d, in.Memory.TwinFight, d.TwinFight)
	e.logFight(in, d, in.Memory.SourceFight, d.SourceFight)
	if !d.RetryAt.IsZero() {
		e.queue.AddAfter(in.Key, time.Until(d.RetryAt))
	}
}

// logFight logs when a fight with another writer comes to rest, and when it is over (O6).
func (e *epoch) logFight(in boundary.Input, d boundary.Decision, before, after *boundary.Fight) {
	switch {
	case after.Resting() && !before.Resting():
		e.log.Warn("Another writer undoes what is written, so that is written once a minute only", "source", in.Key, "twin", in.Place,
			"rule", d.Rule.Name, "managers", after.Rival.Managers, "paths", after.Rival.Paths, "setting", after.Rival.Setting)
	case before.Resting() && after == nil:
		e.log.Info("No other writer undoes what is written any more", "source", in.Key, "twin", in.Place, "rule", d.Rule.Name)
	}
}

// tell puts Events on the source.
func (e *epoch) tell(in boundary.Input, events ...boundary.Event) {
	if in.Source == nil {
		return
	}
	for _, event := range events {
		kind := corev1.EventTypeNormal
		if event.Warning {
			kind = corev1.EventTypeWarning
		}
		e.Events.Emit(in.Source, kind, string(event.Reason), event.Message)
	}
}

// failed takes in an answer that is not "done". again: decide once more at once.
func (e *epoch) failed(ctx context.Context, in boundary.Input, d boundary.Decision, op boundary.Operation, err error) (again bool) {
	answer, retryAfter := boundary.Classify(op, err)
	e.metrics.Error(answer.ErrorType())
	message := e.words(answer, err)
	e.log.Debug("A write failed", "source", in.Key, "twin", in.Place, "action", d.Action, "answer", answer, "error", message)
	if answer != boundary.Exists && answer != boundary.Stale && answer != boundary.Gone && d.Rule != nil {
		e.tallies.failed(d.Rule.Name, in.Key, fmt.Sprintf("%s: %s", answer, message))
	}
	switch answer {
	case boundary.Exists:
		return e.lookAgain(ctx, in.Key, in.Place)
	case boundary.Stale, boundary.Gone:
		e.queue.AddAfter(in.Key, staleWait)
		return false
	case boundary.NamespaceMissing, boundary.NamespaceTerminating:
		e.states.settle(in.Key, pending)
		e.queue.AddAfter(in.Key, namespaceWait)
		return false
	case boundary.NotServed:
		e.check()
		e.queue.AddRateLimited(in.Key)
		return false
	case boundary.Unknown, boundary.Unauthenticated:
		if isConnection(err) {
			e.to.doubt()
			e.from.doubt()
		}
		e.states.with(in.Key, func(s *state) { s.uncertain = op != boundary.OpPatch })
		e.states.settle(in.Key, pending)
		if retryAfter > 0 {
			e.queue.AddAfter(in.Key, wait.Jitter(retryAfter, 0.25)) // others were told the same
		} else {
			e.queue.AddRateLimited(in.Key)
		}
		return false
	}
	e.fault(in, d, answer, message)
	return isStatus(d.Action) // everything else goes on
}

// words are what is told of an answer; it shows no values of kinds that hold secrets (F4).
func (e *epoch) words(answer boundary.Answer, err error) string {
	secret := boundary.HoldsSecrets(e.Kind)
	switch answer {
	case boundary.NotPermitted, boundary.QuotaExceeded, boundary.NamespaceTerminating, boundary.NamespaceMissing:
		secret = false // such messages name verbs, kinds and amounts only
	}
	return observe.Redact(err, secret)
}

// fault takes in that the object, or the right to write it, is refused: it is said on the source, and tried again when
// something changes, or after a while.
func (e *epoch) fault(in boundary.Input, d boundary.Decision, answer boundary.Answer, message string) {
	e.metrics.Operation(operationOf(d.Action), observe.StatusError)
	most := faultMost
	if answer != boundary.Fault {
		most = recheckMost // a right, a quota or a policy may change without any event that we see
	}
	wait := time.Duration(0)
	e.states.with(in.Key, func(s *state) {
		faults := &s.faults
		if isStatus(d.Action) {
			faults = &s.statusFaults
		}
		wait = min(most, faultFirst<<min(*faults, 10))
		*faults++
		switch retryAt := time.Now().Add(wait); {
		case isStatus(d.Action):
			s.memory.StatusFault, s.memory.StatusRetryAt = boundary.StatusFault(d.StatusHash, statusOf(in, d)), retryAt
		case d.Hash != "":
			s.memory.FaultHash, s.memory.Fault, s.memory.RetryAt = d.Hash, message, retryAt
		}
	})
	e.states.settle(in.Key, refused)
	e.queue.AddAfter(in.Key, wait)
	if strings.Contains(message, "field not declared in schema") {
		e.check() // the schema that we know may be out of date
	}
	e.log.Warn("Refused", "source", in.Key, "twin", in.Place, "action", d.Action, "why", answer, "error", message)
	e.tell(in, boundary.Event{Warning: true, Reason: reasonOf(d.Action), Message: fmt.Sprintf("%s: %s", answer, message)})
}

// statusOf returns the status that a status action would replace.
func statusOf(in boundary.Input, d boundary.Decision) any {
	if d.Action == boundary.MirrorStatus {
		return in.Twin.Object["status"]
	}
	return in.Source.Object["status"]
}

// lookAgain reads what is at a place, live. It returns false, with the source queued for later, when that fails.
func (e *epoch) lookAgain(ctx context.Context, key, place types.NamespacedName) bool {
	found, err := e.read(ctx, place)
	switch {
	case err == nil && found == nil:
	case err != nil:
		e.log.Debug("Looking again failed", "twin", place, "reason", cluster.Reason(err), "error", err)
		e.queue.AddRateLimited(key)
		return false
	case e.isTwin(found.Head):
		e.twins.Put(found)
		e.twinMoved(key)
	default:
		e.waiting.wait(place, key)
		e.blockers.found(e.ctx, place, found.Decode())
	}
	e.states.with(key, func(s *state) { s.uncertain = false })
	return true
}

// read reads what is at a place, live; nil: nothing.
func (e *epoch) read(ctx context.Context, place types.NamespacedName) (*wire.Object, error) {
	return readObject(ctx, e.to, e.plan.twin, place)
}

// readSource reads a source, live; nil: there is none.
func (e *epoch) readSource(ctx context.Context, key types.NamespacedName) (*wire.Object, error) {
	return readObject(ctx, e.from, e.plan.source, key)
}

func readObject(ctx context.Context, s *side, r cluster.Resource, key types.NamespacedName) (*wire.Object, error) {
	found, err := s.Objects(r.GroupVersionResource, key.Namespace).Get(ctx, key.Name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return found, err
}

func operationOf(a boundary.Action) string {
	switch a {
	case boundary.Create:
		return observe.OperationCreate
	case boundary.Delete:
		return observe.OperationDelete
	case boundary.ReturnStatus, boundary.ClearStatus, boundary.MirrorStatus:
		return observe.OperationStatus
	}
	return observe.OperationUpdate
}

func reasonOf(a boundary.Action) boundary.Reason {
	switch a {
	case boundary.Create:
		return boundary.ReasonCreateFailed
	case boundary.Delete:
		return boundary.ReasonDeleteFailed
	case boundary.Apply, boundary.RemoveFields, boundary.Release:
		return boundary.ReasonUpdateFailed
	case boundary.SetFinalizers:
		return boundary.ReasonSyncFailed
	}
	return boundary.ReasonPatchFailed
}
