package cluster

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// WatchObject watches one namespaced object, as RBAC with resourceNames permits it, and keeps nothing of it. It returns
// at once and watches until ctx ends. tell gets each state of the object, nil when there is none, and, once for each kind
// of failure, why the state can't be known; it is called by one goroutine and must not block.
func (c *Cluster) WatchObject(ctx context.Context, gvr schema.GroupVersionResource, namespace, name string, tell func(*unstructured.Unstructured, error)) {
	client := c.dynamic.Resource(gvr).Namespace(namespace)
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, narrow(o, name))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return client.Watch(ctx, narrow(o, name))
		},
	}
	go c.keepWatching(ctx, lw, &unstructured.Unstructured{}, gvr, name, oneObject{tell}, nil, func(err error) {
		tell(nil, fmt.Errorf("%s cluster: watching %s %s/%s: %w", c.role, gvr.GroupResource(), namespace, name, err))
	})
}

// oneObject is a store that keeps nothing and passes on the states of one object.
type oneObject struct {
	tell func(*unstructured.Unstructured, error)
}

func (o oneObject) Add(obj any) error { return o.Update(obj) }
func (o oneObject) Resync() error     { return nil }
func (o oneObject) Delete(any) error  { o.tell(nil, nil); return nil }
func (o oneObject) Update(obj any) error {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("expected an object, got %T", obj)
	}
	o.tell(u, nil)
	return nil
}

// Replace takes in a complete list: of the one object, or empty.
func (o oneObject) Replace(list []any, _ string) error {
	if len(list) == 0 {
		return o.Delete(nil)
	}
	return o.Update(list[0])
}
