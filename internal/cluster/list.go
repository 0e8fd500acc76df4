package cluster

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus.dev/isthmus/internal/wire"
)

// List lists a resource in a namespace ("": in all), as one moment had it, and says which resourceVersion that was.
func (c *Cluster) List(ctx context.Context, r Resource, namespace string, o metav1.ListOptions) (objects []*wire.Object, resourceVersion string, err error) {
	of, err := c.Objects(r.GroupVersionResource, namespace).List(ctx, o, func(object *wire.Object) error {
		objects = append(objects, object)
		return nil
	})
	if err != nil {
		return nil, "", fmt.Errorf("%s cluster: listing %s: %w", c.role, r.GroupResource(), err)
	}
	return objects, of.ResourceVersion, nil
}
