package installation

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/controller/keep"
	"isthmus.dev/isthmus/internal/install"
)

// leave takes away all that was installed, the lock last, and lets the Installation go (I5).
func (p *pass) leave(ctx context.Context) error {
	switch {
	case keep.Released(p.i):
		return p.abandon(ctx)
	case p.i.Status.ClusterUID == "":
		return p.letInstallationGo(ctx) // nothing was ever written there
	}
	ctx, err := p.resolve(ctx)
	if err != nil {
		if p.resolved.reason != "" {
			p.leaving = verdict{metav1.ConditionFalse, p.resolved.reason, fmt.Sprintf("What was installed can't be removed. %s. %s", p.resolved.message, howToAbandon)}
		}
		return err
	}
	if err := p.readLock(); err != nil {
		return p.sayUnknown(err)
	}
	// These watches tell what goes; what is there is read one by one, so that nothing has to be known before.
	if err := p.watch(ctx, union(p.lock.of(p.stamp), p.i.Status.Inventory)); err != nil {
		return err
	}
	switch p.lock.held(p.stamp) {
	case lockOthers, lockLetGo:
		if len(p.i.Status.Inventory) == 0 {
			return p.letInstallationGo(ctx)
		}
		p.leaving = verdict{metav1.ConditionFalse, v1alpha1.ReasonLockLost, fmt.Sprintf("Component %s is that of %s now, so that nothing is removed. Left are: %s. %s",
			p.i.Spec.Component, p.lock.holder, named(p.i.Status.Inventory), howToAbandon)}
		return errHalt
	case lockFree:
		if len(p.i.Status.Inventory) == 0 {
			return p.letInstallationGo(ctx)
		}
		if err := p.writeLock(ctx, p.i.Status.Inventory); err != nil {
			return err
		}
	}
	return p.uninstall(ctx)
}

// uninstall removes everything in the inventory, step by step.
func (p *pass) uninstall(ctx context.Context) error {
	p.leaving = verdict{metav1.ConditionFalse, v1alpha1.ReasonUninstalling, "What was installed is being removed"}
	inventory := union(p.lock.inventory, p.i.Status.Inventory)
	if err := p.spare(ctx, inventory); err != nil {
		return err
	}
	var content, namespaces []v1alpha1.InventoryEntry
	for _, e := range inventory {
		if gvkOf(e).GroupKind() == namespaceKind {
			namespaces = append(namespaces, e)
		} else {
			content = append(content, e)
		}
	}
	if err := p.waitGone(ctx, content); err != nil {
		return err
	}
	if !p.listed {
		p.leftovers(ctx)
		p.listed = true
	}
	if err := p.waitGone(ctx, namespaces); err != nil {
		return err
	}
	return p.finish(ctx)
}

// waitGone removes what is ours of entries, and ends the pass until it is gone.
func (p *pass) waitGone(ctx context.Context, entries []v1alpha1.InventoryEntry) error {
	left, why, err := p.remove(ctx, entries)
	if err != nil || len(left) == 0 {
		return err
	}
	p.leaving.message = fmt.Sprintf("What was installed is being removed; waiting for %s to be gone%s", named(left), why)
	p.soon(lookEvery)
	return errHalt
}

// finish lets the lock go, and then the Installation, of which nothing is left.
func (p *pass) finish(ctx context.Context) error {
	removed := len(p.lock.inventory)
	p.i.Status.Inventory, p.i.Status.Objects = nil, 0
	if err := p.save(ctx); err != nil {
		return err
	}
	if err := p.mayFinish(ctx); err != nil {
		return err
	}
	l := p.lock.object
	err := p.cluster.Dynamic().Resource(configMaps).Namespace(install.SystemNamespace).Delete(ctx, l.GetName(), metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: ptr.To(l.GetUID()), ResourceVersion: ptr.To(l.GetResourceVersion())},
	})
	switch answer, _ := boundary.Classify(boundary.OpDelete, err); answer {
	case boundary.Done, boundary.Gone, boundary.NamespaceMissing:
	case boundary.Stale:
		p.soon(time.Second)
		return errHalt
	default:
		return fmt.Errorf("letting the lock go, ConfigMap %s/%s: %w", install.SystemNamespace, l.GetName(), err)
	}
	p.r.event(p.i, corev1.EventTypeNormal, "Uninstalled", fmt.Sprintf("%d objects were removed", removed))
	return p.letInstallationGo(ctx)
}

// mayFinish is mayWrite for the lock itself: one that is ours, also when somebody released it meanwhile.
func (p *pass) mayFinish(ctx context.Context) error {
	if p.lock.holder != p.stamp {
		return errLost
	}
	return p.verify(ctx)
}

// abandon lets the Installation go with everything left where it is, and lists that in as many Events as it takes.
func (p *pass) abandon(ctx context.Context) error {
	left := []string{"nothing"}
	if len(p.i.Status.Inventory) > 0 {
		left = listed(union(p.i.Status.Inventory, []v1alpha1.InventoryEntry{{Version: "v1", Kind: "ConfigMap", Namespace: install.SystemNamespace, Name: install.LockName(p.i.Spec.Component)}}))
	}
	for n, part := range left {
		of := ""
		if len(left) > 1 {
			of = fmt.Sprintf(" (%d of %d)", n+1, len(left))
		}
		p.r.event(p.i, corev1.EventTypeWarning, "Abandoned", fmt.Sprintf("It was let go by the annotation %s. Left on its cluster%s: %s", v1alpha1.ReleaseAnnotation, of, part))
	}
	p.r.o.Logger.Warn("An Installation was abandoned", "installation", p.name, "left", left)
	return p.letInstallationGo(ctx)
}

// letInstallationGo takes the finalizer off.
func (p *pass) letInstallationGo(ctx context.Context) error {
	p.standing = standing{}
	if err := keep.Quiet(keep.LetGo(ctx, p.r.client, p.i, v1alpha1.InstallationFinalizer)); err != nil {
		return err
	}
	return errHalt
}

// sayUnknown says, of an Installation that is being deleted, that what is there can't be watched.
func (p *pass) sayUnknown(err error) error {
	if p.applied.reason != "" && p.i.DeletionTimestamp != nil {
		p.leaving, p.applied = p.applied, verdict{}
	}
	return err
}
