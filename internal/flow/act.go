package flow

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/observe"
	"isthmus.dev/isthmus/internal/wire"
)

const levelTrace = observe.LevelTrace

// act carries out a decision. again: decide once more at once. After a write of which the watch has told already, that
// has queued the source.
func (e *epoch) act(ctx context.Context, in boundary.Input, d boundary.Decision) (again bool) {
	if d.Rule != nil {
		e.states.with(in.Key, func(s *state) { s.rule = d.Rule.Name })
	}
	switch d.Action {
	case boundary.Nothing:
		e.rest(ctx, in, d)
		return false
	case boundary.Hold, boundary.Refuse:
		e.hold(ctx, in, d)
		return false
	}
	wait := time.Duration(0)
	e.states.with(in.Key, func(s *state) {
		if isStatus(d.Action) {
			wait = s.status.take(in.Now)
		} else {
			wait = s.spec.take(in.Now)
		}
	})
	if wait > 0 {
		e.queue.fair.want(in.Key, changes)
		e.queue.AddAfter(in.Key, wait)
		return false
	}
	side := e.to
	if writesSource(d.Action) {
		side = e.from
	}
	trusted, err := side.trust(ctx)
	if err != nil {
		if d.Action == boundary.Delete {
			e.tell(in, d.Events...)
		}
		e.failed(ctx, in, d, boundary.OpUpdate, err)
		return false
	}
	ctx, cancel := writing(trusted)
	defer cancel()
	switch d.Action {
	case boundary.Create:
		return e.create(ctx, in, d)
	case boundary.Apply:
		return e.apply(ctx, in, d)
	case boundary.RemoveFields:
		return e.removeFields(ctx, in, d)
	case boundary.Delete:
		return e.delete(ctx, in, d)
	case boundary.Release:
		return e.release(ctx, in, d)
	case boundary.MirrorStatus:
		return e.mirrorStatus(ctx, in, d)
	case boundary.SetFinalizers:
		return e.setFinalizers(ctx, in, d)
	default:
		return e.writeStatus(ctx, in, d)
	}
}

func isStatus(a boundary.Action) bool {
	return a == boundary.ReturnStatus || a == boundary.ClearStatus || a == boundary.MirrorStatus
}

// writesSource reports whether an action writes to the source.
func writesSource(a boundary.Action) bool {
	return a == boundary.ReturnStatus || a == boundary.ClearStatus || a == boundary.SetFinalizers
}

// writing returns a context for a write: a stop does not cut it, but leaves it only so long.
func writing(ctx context.Context) (context.Context, context.CancelFunc) {
	write, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(stopGrace, cancel) })
	return write, func() { stop(); cancel() }
}

// create makes a twin by a create-only apply.
func (e *epoch) create(ctx context.Context, in boundary.Input, d boundary.Decision) bool {
	if d.CreateNamespace {
		switch created, err := e.createNamespace(ctx, in.Place.Namespace); {
		case err != nil:
			return e.failed(ctx, in, d, boundary.OpCreate, err)
		case !created: // somebody else made it; whose it is, its watch tells
			e.queue.AddRateLimited(in.Key)
			return false
		}
	}
	answered := e.guard.creating(in.Key, in.Place)
	twin, err := e.patchTwin(ctx, in.Place, d.Body, boundary.FieldManager, true)
	answered(twin, err)
	if err != nil {
		return e.failed(ctx, in, d, boundary.OpCreate, err)
	}
	e.Siblings.twinChanged(e.Flow, in.Key, changes)
	told := e.written(in, d, twin, observe.OperationCreate, boundary.ReasonCreated, "Created")
	e.twinMoved(in.Key) // of what the answer told, no event tells
	e.remember(ctx, d.Rule, in.Source)
	return !told
}

// apply brings a twin up to date, after handing over what is the target side's now.
func (e *epoch) apply(ctx context.Context, in boundary.Input, d boundary.Decision) bool {
	body := d.Body
	if d.Handover != nil {
		handed, err := e.patchTwin(ctx, in.Place, d.Handover, boundary.HandoverManager, false)
		if err != nil {
			return e.failed(ctx, in, d, boundary.OpUpdate, err)
		}
		body = boundary.Bind(body, handed.Head)
	}
	twin, err := e.patchTwin(ctx, in.Place, body, boundary.FieldManager, true)
	if err != nil {
		return e.failed(ctx, in, d, boundary.OpUpdate, err)
	}
	return !e.written(in, d, twin, observe.OperationUpdate, boundary.ReasonUpdated, "Updated")
}

// removeFields takes out of a twin what others added (O4).
func (e *epoch) removeFields(ctx context.Context, in boundary.Input, d boundary.Decision) bool {
	twin, err := e.jsonPatchTwin(ctx, in.Place, d.Patch)
	if err != nil {
		return e.failed(ctx, in, d, boundary.OpPatch, err)
	}
	told := e.twinWritten(in, d, twin, observe.OperationUpdate)
	e.log.Debug("Took out what others added", "source", in.Key, "twin", in.Place, "rule", d.Rule.Name, "reasons", d.Reasons)
	e.tell(in, d.Events...)
	return !told
}

func (e *epoch) patchTwin(ctx context.Context, place types.NamespacedName, body map[string]any, manager string, force bool) (*wire.Object, error) {
	encoded, err := boundary.Encode(body)
	if err != nil {
		return nil, fmt.Errorf("encode the twin %s: %w", place, err)
	}
	return e.to.Objects(e.plan.twin.GroupVersionResource, place.Namespace).
		Patch(ctx, place.Name, types.ApplyPatchType, encoded, metav1.PatchOptions{FieldManager: manager, Force: &force, DryRun: e.dry})
}

// jsonPatchTwin patches a twin by what must test its state.
func (e *epoch) jsonPatchTwin(ctx context.Context, place types.NamespacedName, patch []map[string]any) (*wire.Object, error) {
	return e.jsonPatch(ctx, e.to, e.plan.twin, place, patch, boundary.FieldManager)
}

// jsonPatch patches an object, or a subresource of it.
func (e *epoch) jsonPatch(ctx context.Context, s *side, r cluster.Resource, key types.NamespacedName, patch []map[string]any, manager string, subresource ...string) (*wire.Object, error) {
	encoded, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encode a patch of %s on the %s cluster: %w", key, s.Role(), err)
	}
	return s.Objects(r.GroupVersionResource, key.Namespace).
		Patch(ctx, key.Name, types.JSONPatchType, encoded, metav1.PatchOptions{FieldManager: manager, DryRun: e.dry}, subresource...)
}

// deleteTwin deletes a twin in the state that was decided on.
func (e *epoch) deleteTwin(ctx context.Context, place types.NamespacedName, d boundary.Decision) error {
	background := metav1.DeletePropagationBackground
	return e.to.Dynamic().Resource(e.plan.twin.GroupVersionResource).Namespace(place.Namespace).
		Delete(ctx, place.Name, metav1.DeleteOptions{
			PropagationPolicy: &background,
			Preconditions:     &metav1.Preconditions{UID: &d.UID, ResourceVersion: &d.ResourceVersion},
			DryRun:            e.dry,
		})
}

// written takes in a twin that was just written. told: the watch has told of it.
func (e *epoch) written(in boundary.Input, d boundary.Decision, twin *wire.Object, operation string, reason boundary.Reason, verb string) (told bool) {
	told = e.twinWritten(in, d, twin, operation)
	e.states.with(in.Key, func(s *state) { s.memory.Wrote = d.Hash })
	e.tellUndeclared(in, d)
	e.rememberAbsent(in, d, true)
	e.log.Debug(verb+" the twin", "source", in.Key, "twin", in.Place, "rule", d.Rule.Name, "reasons", d.Reasons)
	e.tell(in, d.Events...)
	e.tell(in, boundary.Event{Reason: reason, Message: fmt.Sprintf("%s %s %s on the %s cluster", verb, e.Kind.Kind, boundary.FormatName(in.Place), e.to.Role())})
	return told
}

// twinWritten takes in the answer to a write of any kind to a twin. told: the watch has told of it.
func (e *epoch) twinWritten(in boundary.Input, d boundary.Decision, twin *wire.Object, operation string) (told bool) {
	told = e.twins.Put(twin)
	e.metrics.Operation(operation, observe.StatusSuccess)
	e.queue.Forget(in.Key)
	now := time.Now()
	e.metrics.Success(now)
	e.states.with(in.Key, func(s *state) {
		if !s.changed.IsZero() {
			e.metrics.Crossed(now.Sub(s.changed))
			e.tallies.crossed(d.Rule.Name, now.Sub(s.changed))
		}
		s.changed, s.faults = time.Time{}, 0
		s.memory.FaultHash, s.memory.Fault = "", ""
		s.memory.TwinFight, s.memory.TakenOut = d.TwinFight, d.TakenOut
		s.deleted = ""
	})
	return told
}

// delete deletes a twin.
func (e *epoch) delete(ctx context.Context, in boundary.Input, d boundary.Decision) bool {
	if d.ClearFirst {
		if _, err := e.clearUnselected(ctx, in); err != nil {
			return e.failed(ctx, in, d, boundary.OpPatch, err)
		}
	}
	if err := e.deleteTwin(ctx, in.Place, d); err != nil {
		e.tell(in, d.Events...)
		return e.failed(ctx, in, d, boundary.OpDelete, err)
	}
	e.metrics.Operation(observe.OperationDelete, observe.StatusSuccess)
	e.metrics.Success(time.Now())
	e.queue.Forget(in.Key)
	e.states.with(in.Key, func(s *state) { s.deleted, s.memory.Wrote = d.UID, "" })
	e.forget(ctx, in)
	e.log.Debug("Deleted the twin", "source", in.Key, "twin", in.Place, "reasons", d.Reasons)
	e.tell(in, boundary.Event{Reason: boundary.ReasonDeleted, Message: fmt.Sprintf("Deleted %s %s on the %s cluster", e.Kind.Kind, boundary.FormatName(in.Place), e.to.Role())})
	return false // the watch tells when it is gone
}

// release takes the stamp and our ownership off a twin, and leaves the rest.
func (e *epoch) release(ctx context.Context, in boundary.Input, d boundary.Decision) bool {
	if _, err := e.jsonPatchTwin(ctx, in.Place, boundary.ReleasePatch(in.Twin)); err != nil {
		return e.failed(ctx, in, d, boundary.OpPatch, err)
	}
	e.metrics.Operation(observe.OperationUpdate, observe.StatusSuccess)
	e.states.with(in.Key, func(s *state) { s.deleted = d.UID })
	e.log.Info("Let go of the twin", "source", in.Key, "twin", in.Place, "reasons", d.Reasons)
	return false
}

// writeStatus writes, or removes, the status of a source.
func (e *epoch) writeStatus(ctx context.Context, in boundary.Input, d boundary.Decision) bool {
	source, err := e.patchStatus(ctx, e.from, e.plan.source, in.Key, d.UID, d.Status, in.Source.Object["status"] != nil)
	if err != nil {
		return e.failed(ctx, in, d, boundary.OpPatch, err)
	}
	told := e.sources.Put(source)
	e.statusWritten(in, d, source.Field("status"))
	e.log.Debug("Returned the status", "source", in.Key, "twin", in.Place, "reasons", d.Reasons)
	return !told
}

// mirrorStatus writes the source's status to its mirror (M2).
func (e *epoch) mirrorStatus(ctx context.Context, in boundary.Input, d boundary.Decision) bool {
	mirror, err := e.patchStatus(ctx, e.to, e.plan.twin, in.Place, d.UID, d.Status, in.Twin.Object["status"] != nil)
	if err != nil {
		return e.failed(ctx, in, d, boundary.OpPatch, err)
	}
	told := e.twins.Put(mirror)
	e.statusWritten(in, d, mirror.Field("status"))
	e.log.Debug("Mirrored the status", "source", in.Key, "twin", in.Place, "reasons", d.Reasons)
	return !told
}

// statusWritten takes in that a status was written.
func (e *epoch) statusWritten(in boundary.Input, d boundary.Decision, written any) {
	e.metrics.Operation(observe.OperationStatus, observe.StatusSuccess)
	now := time.Now()
	e.metrics.Success(now)
	e.queue.Forget(in.Key)
	e.states.with(in.Key, func(s *state) {
		if !s.statusChanged.IsZero() {
			e.metrics.StatusReturned(now.Sub(s.statusChanged))
		}
		s.statusChanged, s.statusFaults = time.Time{}, 0
	})
	e.rememberStatus(in, d, written)
}

// rememberStatus remembers what the server made of a status.
func (e *epoch) rememberStatus(in boundary.Input, d boundary.Decision, written any) {
	result := boundary.StatusHash(written)
	e.states.with(in.Key, func(s *state) {
		s.memory.StatusFault, s.memory.StatusRetryAt = "", time.Time{}
		s.memory.StatusWritten, s.memory.StatusResult, s.memory.StatusOf = d.StatusHash, result, d.UID
		if d.Action == boundary.MirrorStatus {
			s.memory.TwinFight = d.TwinFight
		} else {
			s.memory.SourceFight = d.SourceFight
		}
	})
}

// patchStatus replaces, or removes, the whole status of the object that has this UID.
func (e *epoch) patchStatus(ctx context.Context, s *side, r cluster.Resource, key types.NamespacedName, uid types.UID, status any, present bool) (*wire.Object, error) {
	patch := []map[string]any{{"op": "test", "path": "/metadata/uid", "value": string(uid)}}
	switch {
	case status != nil:
		patch = append(patch, map[string]any{"op": "add", "path": "/status", "value": status})
	case present:
		patch = append(patch, map[string]any{"op": "remove", "path": "/status"})
	}
	return e.jsonPatch(ctx, s, r, key, patch, e.Identity.StatusManager(), "status")
}

// clearUnselected removes the returned status from a source that is not selected any more, if it still stands: its
// twin, of which the status speaks, is about to go (T2).
func (e *epoch) clearUnselected(ctx context.Context, in boundary.Input) (cleared bool, err error) {
	stamp, _ := boundary.ReadStamp(in.Twin)
	_, err = e.patchStatus(ctx, e.from, e.plan.source, in.Key, stamp.SourceUID, nil, true)
	if answer, _ := boundary.Classify(boundary.OpPatch, err); answer == boundary.Gone || answer == boundary.Stale {
		return false, nil // it is gone, another one stands there, or it has no status
	}
	return err == nil, err
}

// createNamespace makes the namespace of a twin, where there is none.
func (e *epoch) createNamespace(ctx context.Context, name string) (created bool, err error) {
	created, err = CreateNamespace(ctx, e.to.Cluster, e.Identity, name, e.dry)
	if created && e.dry == nil {
		e.log.Info("Created a namespace", "side", e.to.Role(), "namespace", name)
	}
	return created, err
}

// CreateNamespace makes a namespace that belongs to an origin (N4), in a dry run if dry says so; created is false when there
// is one.
func CreateNamespace(ctx context.Context, c *cluster.Cluster, origin boundary.Identity, name string, dry []string) (created bool, err error) {
	encoded, err := json.Marshal(origin.NamespaceBody(name))
	if err != nil {
		return false, err
	}
	force := true
	_, err = c.Dynamic().Resource(namespaceResource).
		Patch(ctx, name, types.ApplyPatchType, encoded, metav1.PatchOptions{FieldManager: boundary.FieldManager, Force: &force, DryRun: dry})
	if apierrors.IsConflict(err) {
		return false, nil
	}
	return err == nil, err
}

var namespaceResource = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
