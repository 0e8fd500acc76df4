package installation

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/install"
)

// lookEvery is how often what is about to go is looked at again, should no watch tell of it.
const lookEvery = 30 * time.Second

// prune removes what the inventory has and the manifests do not have any more.
func (p *pass) prune(ctx context.Context) error {
	entries := without(p.lock.inventory, p.wanted())
	if p.dry != nil {
		return p.dry.remove(p, entries)
	}
	p.gone = map[objectKey]bool{}
	counts, known, err := p.instances(ctx, entries)
	switch {
	case err != nil:
		return err
	case len(counts) > 0:
		p.waits = append(p.waits, fmt.Sprintf("others' objects of what the manifests do not define any more to be gone, before the definitions are deleted: %s", fewOf(counts)))
		return nil
	case !known:
		return errHalt // the watches tell
	}
	left, why, err := p.remove(ctx, entries)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		p.waits = append(p.waits, fmt.Sprintf("what the manifests do not have any more to be gone: %s%s", named(left), why))
		p.soon(lookEvery)
	}
	p.pruned = len(left) == 0 && p.done()
	return nil
}

// remove takes what is ours of entries away, in order, each step once the one before is gone. It returns what is not gone
// yet, and what is known of why.
func (p *pass) remove(ctx context.Context, entries []v1alpha1.InventoryEntry) (left []v1alpha1.InventoryEntry, why string, err error) {
	for _, step := range install.Order(p.i.Spec.Component, entries) {
		for _, e := range step {
			if p.gone[keyOfEntry(e)] {
				continue
			}
			gone, reason, err := p.removeOne(ctx, e)
			if err != nil {
				return nil, "", err
			}
			if gone {
				p.gone[keyOfEntry(e)] = true
				delete(p.fresh, keyOfEntry(e))
				continue
			}
			left = append(left, e)
			if reason != "" {
				why = " (" + reason + ")"
			}
		}
		if len(left) > 0 {
			return left, why, nil
		}
	}
	return nil, "", nil
}

// removeOne takes an object away if it is ours. gone: nothing of ours is left there.
func (p *pass) removeOne(ctx context.Context, e v1alpha1.InventoryEntry) (gone bool, why string, err error) {
	resource, err := p.place.kinds.resource(ctx, p.cluster, gvkOf(e))
	if errors.Is(err, cluster.ErrNotServed) {
		return true, "", nil // with its kind
	}
	if err != nil {
		return false, "", err
	}
	live, err := p.get(ctx, resource, e.Namespace, e.Name)
	if err != nil || live == nil {
		return live == nil && err == nil, "", err
	}
	group := gvkOf(e).GroupKind()
	switch {
	case !p.stamp.on(live) && group == namespaceKind:
		return p.unmerge(ctx, resource, live)
	case !p.stamp.on(live):
		return true, "", nil
	case live.GetDeletionTimestamp() != nil:
		return false, fmt.Sprintf("%s is being deleted%s", keyOf(live), heldBy(live)), nil
	case group == crdKind && p.i.Spec.DeletionPolicy.CRDs != v1alpha1.CRDsDelete:
		return p.removed(keyOfEntry(e), boundary.OpPatch, true, p.letGo(ctx, resource, live))
	case group == namespaceKind:
		keeps, err := p.keepsNamespace(ctx, live)
		if err != nil {
			return false, "", err
		}
		if keeps {
			return p.removed(keyOfEntry(e), boundary.OpPatch, true, p.letGo(ctx, resource, live))
		}
	}
	err = p.erase(ctx, resource, live)
	atOnce := len(live.GetFinalizers()) == 0 && !ownsPods[group] && group != namespaceKind && group != crdKind
	return p.removed(keyOfEntry(e), boundary.OpDelete, atOnce, err)
}

// removed takes in the answer to a removal, after which an object is gone at once, or goes in a while.
func (p *pass) removed(key objectKey, op boundary.Operation, atOnce bool, err error) (gone bool, why string, failed error) {
	if errors.Is(err, errLost) {
		return false, "", err
	}
	switch answer, after := boundary.Classify(op, err); answer {
	case boundary.Done:
		return atOnce, "", nil
	case boundary.Gone, boundary.NotServed, boundary.NamespaceMissing:
		return true, "", nil
	case boundary.Stale, boundary.Exists:
		p.soon(time.Second)
		return false, key.String() + " changed just now", nil
	case boundary.Unauthenticated:
		return false, "", err
	case boundary.Unknown:
		if !ofObject(err) {
			return false, "", fmt.Errorf("%s: %w", key, err)
		}
		fallthrough
	default:
		p.soon(max(after, 5*time.Second))
		return false, fmt.Sprintf("%s: %s", key, redacted(err, answer, p.secret || boundary.HoldsSecrets(gvkOf(v1alpha1.InventoryEntry{Group: key.group, Version: "v1", Kind: key.kind})))), nil
	}
}

// unmerge takes off a namespace that is another's what was put on it.
func (p *pass) unmerge(ctx context.Context, resource cluster.Resource, live *unstructured.Unstructured) (gone bool, why string, err error) {
	if _, any := boundary.AppliedBy(live, p.mergeManager()); !any {
		return true, "", nil
	}
	if err := p.mayWrite(ctx); err != nil {
		return false, "", err
	}
	_, err = p.send(ctx, resource, boundary.Bind(map[string]any{
		"apiVersion": live.GetAPIVersion(), "kind": live.GetKind(), "metadata": map[string]any{"name": live.GetName()},
	}, live), p.mergeManager())
	return p.removed(keyOf(live), boundary.OpUpdate, true, err)
}

// keepsNamespace reports whether a namespace that was created by us is to stay: because that is asked for, or because others
// install into it as well.
func (p *pass) keepsNamespace(ctx context.Context, namespace *unstructured.Unstructured) (bool, error) {
	if p.i.Spec.DeletionPolicy.Namespace == v1alpha1.NamespaceKeep || namespace.GetName() == install.SystemNamespace || p.i.Spec.Destination == nil && namespace.GetName() == p.i.Namespace {
		return true, nil
	}
	list, err := p.cluster.Metadata().Resource(configMaps).Namespace(namespace.GetName()).List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.InstalledByLabel})
	if err != nil {
		return false, fmt.Errorf("looking for the anchors of others in namespace %s: %w", namespace.GetName(), err)
	}
	for i := range list.Items {
		if s := stamp(list.Items[i].Annotations[v1alpha1.InstallationAnnotation]); s != "" && s != p.stamp {
			return true, nil
		}
	}
	return false, nil
}
