package installation

import (
	"context"
	"errors"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/install"
	"isthmus.dev/isthmus/internal/observe"
)

var (
	namespaceKind = schema.GroupKind{Kind: "Namespace"}
	crdKind       = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
)

// see watches what is, or may be, there. It ends the pass until all of that is known.
func (p *pass) see(ctx context.Context, wanted []v1alpha1.InventoryEntry) error {
	if err := p.watch(ctx, union(wanted, union(p.lock.of(p.stamp), p.i.Status.Inventory))); err != nil {
		return err
	}
	for key := range p.seen {
		err := p.known(key)
		switch {
		case err == nil:
		case p.applied.reason == "" || key == p.lockKey():
			return err
		default:
			// A kind of which nothing can be told, like one whose conversion fails because its webhook is not up, holds up its own
			// objects only.
			p.unseen[key.resource] = p.applied
			p.applied = verdict{}
		}
	}
	return nil
}

// watch begins to watch the lock and, for objects that are or may be there, what the hub has installed of each kind in each
// namespace; each namespace by its name, for it may be another's.
func (p *pass) watch(ctx context.Context, entries []v1alpha1.InventoryEntry) error {
	p.resources = map[schema.GroupVersionKind]cluster.Resource{}
	keys := map[feedKey]bool{p.lockKey(): true}
	for key := range p.blocks {
		keys[key] = true
	}
	for _, e := range entries {
		resource, err := p.place.kinds.resource(ctx, p.cluster, gvkOf(e))
		if errors.Is(err, cluster.ErrNotServed) {
			continue
		}
		if err != nil {
			return err
		}
		p.resources[gvkOf(e)] = resource
		keys[p.keyFor(resource, e.Namespace, e.Name)] = true
	}
	if p.dry != nil {
		return nil
	}
	p.seen = keys
	p.place.eyes.want(p.name, p.cluster, p.clusterUID, keys)
	return nil
}

// keyFor returns what is watched for an object.
func (p *pass) keyFor(resource cluster.Resource, namespace, name string) feedKey {
	s := cluster.Selection{Namespace: namespace, Labels: v1alpha1.InstalledByLabel + "=" + p.r.o.Hub}
	if (schema.GroupKind{Group: resource.Group, Kind: resource.Kind}) == namespaceKind {
		s = cluster.Selection{Name: name}
	}
	return feedKey{resource: resource.GroupVersionResource, Selection: s}
}

// known ends the pass unless a feed has seen all that there is.
func (p *pass) known(key feedKey) error {
	f := p.place.eyes.feed(key)
	if f == nil {
		return errHalt // it begins anew: the cluster is another one
	}
	_, _, known, err := f.look(types.NamespacedName{})
	switch {
	case known:
		return nil
	case err == nil:
		return errHalt // it tells when it has
	case cluster.Reason(err) == cluster.ReasonNotServed, cluster.Reason(err) == string(metav1.StatusReasonNotFound):
		p.place.kinds.forgetResource(key.resource)
		return nil // it is not there, then
	}
	p.applied = verdict{metav1.ConditionFalse, p.reasonOf(err), "What is there can't be watched: " + observe.Redact(err, p.secret)}
	return errHalt
}

// readLock reads the lock as it was seen last. It ends the pass as long as it is not known.
func (p *pass) readLock() error {
	name := objectKey{"", "ConfigMap", install.SystemNamespace, install.LockName(p.i.Spec.Component)}
	if p.dry != nil {
		p.lock = readLock(p.dry.live(p, configMapResource, name))
		p.recallRan()
		return errors.Join(p.dry.err, p.lock.err)
	}
	if err := p.known(p.lockKey()); err != nil {
		return err
	}
	var object *unstructured.Unstructured
	if f := p.place.eyes.feed(p.lockKey()); f != nil {
		object, _, _, _ = f.look(typesName(install.SystemNamespace, install.LockName(p.i.Spec.Component)))
	}
	p.lock = readLock(p.latest(name, p.lockKey(), object))
	p.recallRan()
	if p.lock.err != nil {
		p.applied = verdict{metav1.ConditionFalse, v1alpha1.ReasonApplyFailed, p.lock.err.Error()}
		return errHalt
	}
	return nil
}

// recallRan takes in what ran already. What ran for another holder did not run for us.
func (p *pass) recallRan() {
	if p.lock.holder == p.stamp {
		maps.Copy(p.ran, p.lock.ran)
	}
}

// live returns an object as it was seen last; nil: it is not seen, which does not mean that nothing is there.
func (p *pass) live(object *unstructured.Unstructured) *unstructured.Unstructured {
	resource, ok := p.resources[object.GroupVersionKind()]
	if !ok {
		return nil
	}
	if p.dry != nil {
		return p.dry.live(p, resource, keyOf(object))
	}
	key := p.keyFor(resource, object.GetNamespace(), object.GetName())
	f := p.place.eyes.feed(key)
	if f == nil {
		return nil
	}
	seen, _, _, _ := f.look(types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()})
	return p.latest(keyOf(object), key, seen)
}

// blocker returns a foreign object that was found in the way, as it was seen last; nil: there is none, or it is not seen yet.
func (p *pass) blocker(resource cluster.Resource, key objectKey) *unstructured.Unstructured {
	feed := p.place.eyes.feed(p.blockKey(resource, key))
	if feed == nil {
		return nil
	}
	object, _, _, _ := feed.look(typesName(key.namespace, key.name))
	return object
}

// blockKey returns what is watched for a foreign object in the way.
func (p *pass) blockKey(resource cluster.Resource, key objectKey) feedKey {
	return feedKey{resource: resource.GroupVersionResource, Selection: cluster.Selection{Namespace: key.namespace, Name: key.name}}
}

// latest returns the later one of what was seen of an object and what our own write of it was answered with.
func (p *pass) latest(name objectKey, key feedKey, seen *unstructured.Unstructured) *unstructured.Unstructured {
	own := p.fresh[name]
	if own == nil {
		return seen
	}
	f := p.place.eyes.feed(key)
	if f == nil {
		return own
	}
	_, version, known, _ := f.look(types.NamespacedName{})
	if known && !later(own.GetResourceVersion(), version) {
		delete(p.fresh, name)
		return seen
	}
	return own
}
