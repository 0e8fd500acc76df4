package cluster

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"

	"isthmus.dev/isthmus/internal/wire"
)

// pageSize is how many objects one request lists.
const pageSize = 500

// List lists a resource in a namespace ("": in all) in pages, as one moment had it, and says which resourceVersion that
// was.
func (c *Cluster) List(ctx context.Context, r Resource, namespace string, o metav1.ListOptions) (objects []*wire.Object, resourceVersion string, err error) {
	client := c.Objects(r.GroupVersionResource, namespace)
	pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return client.List(ctx, o) })
	pages.PageSize = pageSize
	list, _, err := pages.List(ctx, o)
	if err == nil {
		err = meta.EachListItem(list, func(item runtime.Object) error {
			object, ok := item.(*wire.Object)
			if !ok {
				return fmt.Errorf("the list holds a %T", item)
			}
			objects = append(objects, object)
			return nil
		})
	}
	if err != nil {
		return nil, "", fmt.Errorf("%s cluster: listing %s: %w", c.role, r.GroupResource(), err)
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return nil, "", fmt.Errorf("%s cluster: listing %s: %w", c.role, r.GroupResource(), err)
	}
	return objects, accessor.GetResourceVersion(), nil
}
