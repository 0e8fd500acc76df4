package installation

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"isthmus.dev/isthmus/api/v1alpha1"
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
