package cluster

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// Selection is what of a resource is watched: the object of a name, or those with a label.
type Selection struct {
	// Namespace is where; empty: it is cluster-scoped, or all namespaces are meant.
	Namespace string
	// Name of the one object; Labels is a label selector. At most one of them is set.
	Name, Labels string
}

// WatchObjects keeps store in step with a resource until ctx ends, which it waits for. After a failure, of each kind of which
// failed is told once, it tries again later, or at once when again says so.
func (c *Cluster) WatchObjects(ctx context.Context, gvr schema.GroupVersionResource, s Selection, store cache.ReflectorStore, again <-chan struct{}, failed func(error)) {
	client := c.dynamic.Resource(gvr).Namespace(s.Namespace)
	chosen := func(o metav1.ListOptions) metav1.ListOptions {
		o = narrow(o, s.Name)
		o.LabelSelector = s.Labels
		return o
	}
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, chosen(o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return client.Watch(ctx, chosen(o))
		},
	}
	c.keepWatching(ctx, lw, &unstructured.Unstructured{}, gvr, s.Name, store, again, failed)
}
