package cluster

import (
	"context"
	"fmt"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus.dev/isthmus/internal/wire"
)

// PageSize is how many objects a page has.
const PageSize = 500

// Lister lists the objects of a resource. It asks for all at once: pages take a server far more time, for it reads the later
// ones from etcd. When that takes a server too long it asks for pages, until it has them all.
type Lister struct {
	objects wire.Resource
	paged   atomic.Bool
}

// Lister returns a Lister of a resource in a namespace ("": in all).
func (c *Cluster) Lister(r Resource, namespace string) *Lister {
	return &Lister{objects: c.Objects(r.GroupVersionResource, namespace)}
}

// List calls each for the objects of a list, or of a page of it, as they come, and returns what the list says of itself. A
// limit is what a page may have, if there are to be pages; without one the list is whole, for whoever asks so follows no
// pages.
func (l *Lister) List(ctx context.Context, o metav1.ListOptions, each func(*wire.Object) error) (metav1.ListMeta, error) {
	if !l.paged.Load() {
		o.Limit = 0
	}
	of, err := l.objects.List(ctx, o, each)
	switch {
	case Reason(err) == ReasonTimeout:
		l.paged.Store(true)
	case err == nil && of.Continue == "":
		l.paged.Store(false)
	}
	return of, err
}

// List lists a resource in a namespace ("": in all), as one moment had it, and says which resourceVersion that was.
func (c *Cluster) List(ctx context.Context, r Resource, namespace string, o metav1.ListOptions) (objects []*wire.Object, resourceVersion string, err error) {
	lister := c.Lister(r, namespace)
	o.Limit = PageSize
	for {
		paged := lister.paged.Load()
		of, err := lister.List(ctx, o, func(object *wire.Object) error {
			objects = append(objects, object)
			return nil
		})
		switch {
		case err != nil && !paged && lister.paged.Load():
			objects = nil
		case err != nil:
			return nil, "", fmt.Errorf("%s cluster: listing %s: %w", c.role, r.GroupResource(), err)
		case of.Continue == "":
			return objects, of.ResourceVersion, nil
		}
		o.Continue = of.Continue
	}
}
