package installation

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/cluster"
)

// alwaysThere is what every namespace has, or what tells of others.
var alwaysThere = map[objectKey]bool{
	{"", "ServiceAccount", "", "default"}:         true,
	{"", "ConfigMap", "", "kube-root-ca.crt"}:     true,
	{"", "Event", "", ""}:                         true,
	{"events.k8s.io", "Event", "", ""}:            true,
	{"metrics.k8s.io", "PodMetrics", "", ""}:      true,
	{"", "Endpoints", "", ""}:                     true, // deprecated, and follows its Service
	{"discovery.k8s.io", "EndpointSlice", "", ""}: true,
}

// leftovers tells what is in the destination namespace that nobody owns, once all that was installed is gone: what the
// component made itself. It goes with the namespace, if we created that. What may not be listed is passed over.
func (p *pass) leftovers(ctx context.Context) {
	lists, _ := discovery.ServerPreferredNamespacedResources(p.cluster.Clientset().Discovery())
	var found []v1alpha1.InventoryEntry
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, r := range list.APIResources {
			if slices.Contains(r.Verbs, "list") && !alwaysThere[objectKey{gv.Group, r.Kind, "", ""}] {
				found = append(found, p.unowned(ctx, gv.WithResource(r.Name), gv.WithKind(r.Kind))...)
			}
		}
	}
	p.i.Status.Leftovers = union(found, nil)
	if len(found) > 0 {
		p.r.event(p.i, corev1.EventTypeNormal, "Leftovers", fmt.Sprintf("In namespace %s there is what was not installed, and nobody owns: %s. It goes with the namespace, if that goes", p.namespace, named(found)))
	}
}

func (p *pass) unowned(ctx context.Context, gvr schema.GroupVersionResource, gvk schema.GroupVersionKind) (found []v1alpha1.InventoryEntry) {
	list, err := p.cluster.Metadata().Resource(gvr).Namespace(p.namespace).List(ctx, metav1.ListOptions{Limit: 500})
	if err != nil {
		return nil
	}
	for i := range list.Items {
		o := &list.Items[i]
		if len(o.OwnerReferences) > 0 || o.DeletionTimestamp != nil || alwaysThere[objectKey{gvk.Group, gvk.Kind, "", o.Name}] || o.Annotations[v1alpha1.InstallationAnnotation] == string(p.stamp) {
			continue
		}
		found = append(found, v1alpha1.InventoryEntry{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Namespace: p.namespace, Name: o.Name})
	}
	return found
}

// instances makes sure, where CustomResourceDefinitions are to be deleted, that nobody else has objects of theirs. As long as
// somebody has, nothing is removed.
func (p *pass) instances(ctx context.Context, inventory []v1alpha1.InventoryEntry) error {
	if p.i.Spec.DeletionPolicy.CRDs != v1alpha1.CRDsDelete {
		return nil
	}
	var counts []string
	waits := false
	for _, e := range inventory {
		if gvkOf(e).GroupKind() != crdKind || p.gone[keyOfEntry(e)] {
			continue
		}
		resource, err := p.place.kinds.resource(ctx, p.cluster, gvkOf(e))
		if err != nil {
			return err
		}
		crd, err := p.get(ctx, resource, "", e.Name)
		if err != nil {
			return err
		}
		if !p.stamp.on(crd) || crd.GetDeletionTimestamp() != nil {
			continue
		}
		n, known, err := p.others(crd)
		if err != nil {
			return err
		}
		waits = waits || !known
		if n > 0 {
			counts = append(counts, fmt.Sprintf("%d of %s", n, e.Name))
		}
	}
	switch {
	case len(counts) > 0:
		p.leaving = verdict{metav1.ConditionFalse, v1alpha1.ReasonInstancesLeft, fmt.Sprintf("deletionPolicy.crds is Delete, and others have objects of what the manifests define: %s. "+
			"Nothing is removed, so that their controllers go on, before these are gone, or deletionPolicy.crds is Keep. %s", fewOf(counts), howToAbandon)}
		return errHalt
	case waits:
		return errHalt // the watches tell
	}
	return nil
}

// others counts the objects of a definition that are not ours. They are watched from then on.
func (p *pass) others(crd *unstructured.Unstructured) (n int, known bool, err error) {
	gvr, ok := servedBy(crd)
	if !ok {
		return 0, true, nil
	}
	key := feedKey{resource: gvr, Selection: cluster.Selection{}}
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

// sayUnknown says, of an Installation that is being deleted, that what is there can't be watched.
func (p *pass) sayUnknown(err error) error {
	if p.applied.reason != "" {
		p.leaving, p.applied = p.applied, verdict{}
	}
	return err
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
