//go:build unix

package controlplane

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
)

// byThemselves are kinds whose objects come and change by themselves, or show
// what other kinds show.
var byThemselves = []string{"Event", "Lease", "ComponentStatus", "Endpoints"}

// EachObject visits all objects of the cluster that a label selector selects,
// of every kind that can be listed, but for Events, Leases, and kinds that show
// others. Groups that are not served for now are told by an error
// ([discovery.IsGroupDiscoveryFailedError]) after the rest was visited.
func (c *Cluster) EachObject(ctx context.Context, selector string, visit func(kind schema.GroupKind, object *unstructured.Unstructured)) error {
	known, err := discovery.NewDiscoveryClientForConfig(c.Config())
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		return err
	}
	groups, missing := known.ServerPreferredResources()
	if missing != nil && !discovery.IsGroupDiscoveryFailedError(missing) {
		return fmt.Errorf("asking cluster %s what it serves: %w", c.name, missing)
	}
	for _, group := range groups {
		version, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			return err
		}
		for _, resource := range group.APIResources {
			if !slices.Contains(resource.Verbs, "list") || slices.Contains(byThemselves, resource.Kind) {
				continue
			}
			list, err := client.Resource(version.WithResource(resource.Name)).List(ctx, metav1.ListOptions{LabelSelector: selector})
			if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
				continue // its definition went meanwhile
			}
			if err != nil {
				return fmt.Errorf("listing %s of cluster %s: %w", resource.Name, c.name, err)
			}
			for i := range list.Items {
				visit(version.WithKind(resource.Kind).GroupKind(), &list.Items[i])
			}
		}
	}
	return missing
}
