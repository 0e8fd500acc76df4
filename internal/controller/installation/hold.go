package installation

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/install"
)

// claim ends the pass if another one has the component, before anything is looked at or written.
func (p *pass) claim() error {
	switch p.lock.held(p.stamp) {
	case lockOthers:
		return p.heldBy(p.lock.holder)
	case lockGivenUp:
		return p.lost(fmt.Sprintf("The lock, ConfigMap %s/%s on the cluster, was released by its annotation %s: take the annotation off for this Installation to go on",
			install.SystemNamespace, install.LockName(p.i.Spec.Component), v1alpha1.ReleaseAnnotation))
	}
	return nil
}

// take makes sure that the component is ours on the cluster, and that the lock names all that is, or is about to be, there;
// so does the status, for an abandonment to tell what was left when the cluster can't be asked (I6).
func (p *pass) take(ctx context.Context) error {
	inventory := union(p.wanted(), p.i.Status.Inventory)
	switch p.lock.held(p.stamp) {
	case lockLetGo:
		p.r.event(p.i, corev1.EventTypeNormal, "LockTaken", fmt.Sprintf("Component %s is taken over from %s, whose lock was released. It has left: %s", p.i.Spec.Component, p.lock.holder, named(p.lock.inventory)))
		// What the former holder has left is not ours.
	case lockFree:
		if len(p.i.Status.Inventory) > 0 && p.dry == nil {
			p.r.event(p.i, corev1.EventTypeWarning, "LockGone", fmt.Sprintf("The lock, ConfigMap %s/%s on the cluster, was gone, and is taken again", install.SystemNamespace, install.LockName(p.i.Spec.Component)))
		}
	case lockOurs:
		inventory = union(p.wanted(), p.lock.inventory)
	}
	if p.lock.held(p.stamp) != lockOurs || !p.lock.knows(inventory, p.ran) {
		if err := p.writeLock(ctx, inventory); err != nil {
			return err
		}
	}
	return p.copyInventory(ctx)
}

// copyInventory makes the status have the inventory that the lock has.
func (p *pass) copyInventory(ctx context.Context) error {
	if asJSON(p.i.Status.Inventory) == asJSON(p.lock.inventory) {
		return nil
	}
	p.i.Status.Inventory, p.i.Status.Objects = p.lock.inventory, int32(len(p.lock.inventory))
	return p.save(ctx)
}

// heldBy says that another one has the component.
func (p *pass) heldBy(holder stamp) error {
	who := holder.String()
	if former, ok := holder.installation(p.r.o.Hub); ok && former == p.name {
		_, uid, _ := strings.Cut(string(holder), p.name.String()+"/")
		who = fmt.Sprintf("a former Installation of this name (UID %s), which was let go without its cluster,", uid)
	}
	message := fmt.Sprintf("Component %s is on this cluster already: %s has it, and keeps it. This Installation goes on by itself when that is gone. If its cluster is gone for good, "+
		"the annotation %s: \"true\" on ConfigMap %s/%s there releases it", p.i.Spec.Component, who, v1alpha1.ReleaseAnnotation, install.SystemNamespace, install.LockName(p.i.Spec.Component))
	if len(p.i.Status.Inventory) > 0 {
		return p.lost(message)
	}
	p.applied = verdict{metav1.ConditionFalse, v1alpha1.ReasonLockHeld, message}
	p.available = verdict{metav1.ConditionFalse, v1alpha1.ReasonNotApplied, "Nothing is installed"}
	return errHalt
}

// lost says that the component was ours.
func (p *pass) lost(message string) error {
	p.applied = verdict{metav1.ConditionFalse, v1alpha1.ReasonLockLost, message + ". Nothing is written any more"}
	return errHalt
}

// writeLock takes the lock, or writes what it says.
func (p *pass) writeLock(ctx context.Context, inventory []v1alpha1.InventoryEntry) error {
	body := p.lock.body(p.i.Spec.Component, p.r.o.Hub, p.stamp, inventory, p.ran)
	if p.dry != nil {
		p.lock.inventory = inventory
		return nil
	}
	if err := p.verify(ctx); err != nil {
		return err
	}
	object, err := p.send(ctx, configMapResource, body, boundary.FieldManager)
	op := boundary.OpUpdate
	if p.lock.object == nil {
		op = boundary.OpCreate
	}
	switch answer, _ := boundary.Classify(op, err); answer {
	case boundary.Done:
	case boundary.NamespaceMissing:
		if err := p.makeLockNamespace(ctx); err != nil {
			return fmt.Errorf("creating namespace %s for the lock: %w", install.SystemNamespace, err)
		}
		p.soon(time.Millisecond)
		return errHalt
	case boundary.Exists, boundary.Stale, boundary.Gone:
		p.soon(time.Second) // the watch tells who has it
		p.applied = verdict{metav1.ConditionFalse, v1alpha1.ReasonLooking, "The lock changed just now"}
		return errHalt
	default:
		return fmt.Errorf("taking the lock, ConfigMap %s/%s: %w", install.SystemNamespace, install.LockName(p.i.Spec.Component), err)
	}
	p.fresh[objectKey{"", "ConfigMap", install.SystemNamespace, install.LockName(p.i.Spec.Component)}] = object
	p.lock = readLock(object)
	return nil
}

// makeLockNamespace creates the namespace of locks. It is nobody's.
func (p *pass) makeLockNamespace(ctx context.Context) error {
	_, err := p.send(ctx, namespaceResource, boundary.CreateOnly(map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": install.SystemNamespace},
	}), boundary.FieldManager)
	if answer, _ := boundary.Classify(boundary.OpCreate, err); answer == boundary.Exists {
		return nil
	}
	return err
}

// note makes lock and status say what is there now: after a pass that pruned, or ran something.
func (p *pass) note(ctx context.Context) error {
	inventory := p.lock.inventory
	if p.pruned {
		inventory = p.wanted()
		for key := range p.ran {
			if !p.runs[key] {
				delete(p.ran, key)
			}
		}
	}
	if !p.lock.knows(inventory, p.ran) {
		if err := p.writeLock(ctx, inventory); err != nil {
			return err
		}
	}
	p.i.Status.Inventory, p.i.Status.Objects = p.lock.inventory, int32(len(p.lock.inventory))
	return nil
}

// stillOurs reports whether the lock is ours as it was seen last: a holder that finds it lost stops at once.
func (p *pass) stillOurs() bool {
	name := install.LockName(p.i.Spec.Component)
	object := p.lock.object
	if f := p.place.eyes.feed(p.lockKey()); f != nil {
		seen, version, known, _ := f.look(typesName(install.SystemNamespace, name))
		if known && (object == nil || !later(object.GetResourceVersion(), version)) {
			object = seen
		}
	}
	switch readLock(object).held(p.stamp) {
	case lockOurs:
		return true
	case lockGivenUp:
		return p.i.DeletionTimestamp != nil // it is about to let go itself
	}
	return false
}
