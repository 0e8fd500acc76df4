package installation

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/cluster"
)

// spare makes sure, before an uninstall that takes CustomResourceDefinitions along, that nobody else has objects of theirs. As
// long as somebody has, nothing is removed.
func (p *pass) spare(ctx context.Context, inventory []v1alpha1.InventoryEntry) error {
	counts, known, err := p.instances(ctx, inventory)
	switch {
	case err != nil:
		return err
	case len(counts) > 0:
		p.leaving = verdict{metav1.ConditionFalse, v1alpha1.ReasonInstancesLeft, fmt.Sprintf("deletionPolicy.crds is Delete, and others have objects of what the manifests define: %s. "+
			"Nothing is removed, so that their controllers go on, before these are gone, or deletionPolicy.crds is Keep. %s", fewOf(counts), howToAbandon)}
		return errHalt
	case !known:
		return errHalt // the watches tell
	}
	return nil
}

// instances counts the objects, by definition, that others have of the definitions that would be deleted; known is false as long
// as not all of that is known.
func (p *pass) instances(ctx context.Context, entries []v1alpha1.InventoryEntry) (counts []string, known bool, err error) {
	known = true
	for _, e := range entries {
		if gvkOf(e).GroupKind() != crdKind || p.i.Spec.DeletionPolicy.CRDs != v1alpha1.CRDsDelete || p.gone[keyOfEntry(e)] {
			continue
		}
		resource, err := p.place.kinds.resource(ctx, p.cluster, gvkOf(e))
		if err != nil {
			return nil, false, err
		}
		crd, err := p.get(ctx, resource, "", e.Name)
		if err != nil {
			return nil, false, err
		}
		if !p.stamp.on(crd) || crd.GetDeletionTimestamp() != nil {
			continue
		}
		n, seen, err := p.others(crd)
		if err != nil {
			return nil, false, err
		}
		known = known && seen
		if n > 0 {
			counts = append(counts, fmt.Sprintf("%d of %s", n, e.Name))
		}
	}
	return counts, known, nil
}

// others counts the objects of a definition that are not ours. They are watched from then on.
func (p *pass) others(crd *unstructured.Unstructured) (n int, known bool, err error) {
	gvr, ok := servedBy(crd)
	if !ok {
		return 0, true, nil
	}
	key := feedKey{resource: gvr, Selection: cluster.Selection{}}
	p.blocking[key] = true
	if !p.seen[key] {
		p.blocks[key], p.seen[key] = true, true
		p.place.eyes.want(p.name, p.cluster, p.clusterUID, p.seen)
	}
	if err := p.known(key); err != nil {
		if p.applied.reason == "" {
			return 0, false, nil
		}
		return 0, false, p.sayUnknown(err)
	}
	f := p.place.eyes.feed(key)
	if f == nil {
		return 0, false, nil
	}
	for _, o := range f.all() {
		if !p.stamp.on(o) {
			n++
		}
	}
	return n, true, nil
}

// servedBy returns how a definition's objects are served: in the version that they are stored in, or else any.
func servedBy(crd *unstructured.Unstructured) (gvr schema.GroupVersionResource, ok bool) {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		v, _ := v.(map[string]any)
		name, _ := v["name"].(string)
		if v["served"] == true && (!ok || v["storage"] == true) {
			gvr, ok = schema.GroupVersionResource{Group: group, Version: name, Resource: plural}, true
		}
	}
	return gvr, ok
}
