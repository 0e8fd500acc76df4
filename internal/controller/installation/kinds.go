package installation

import (
	"context"
	"errors"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus.dev/isthmus/internal/cluster"
)

// kinds remembers how a cluster serves kinds. That it does not serve one is not remembered.
type kinds struct {
	mu    sync.Mutex
	uid   string // of the cluster
	found map[schema.GroupVersionKind]cluster.Resource
}

func newKinds() *kinds { return &kinds{found: map[schema.GroupVersionKind]cluster.Resource{}} }

// of makes it the memory of a cluster.
func (k *kinds) of(uid string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.uid != uid {
		k.uid, k.found = uid, map[schema.GroupVersionKind]cluster.Resource{}
	}
}

// forget asks again next time how a kind is served.
func (k *kinds) forget(gvk schema.GroupVersionKind) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.found, gvk)
}

// forgetResource does so for the kind of a resource.
func (k *kinds) forgetResource(gvr schema.GroupVersionResource) {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.found, func(_ schema.GroupVersionKind, r cluster.Resource) bool { return r.GroupVersionResource == gvr })
}

// resource returns how a cluster serves a kind. Its errors are those of cluster.Resource.
func (k *kinds) resource(ctx context.Context, c *cluster.Cluster, gvk schema.GroupVersionKind) (cluster.Resource, error) {
	k.mu.Lock()
	resource, ok := k.found[gvk]
	k.mu.Unlock()
	if ok {
		return resource, nil
	}
	resource, err := c.Resource(ctx, gvk)
	if err == nil {
		k.mu.Lock()
		k.found[gvk] = resource
		k.mu.Unlock()
	}
	return resource, err
}

// scopes answers whether kinds are in namespaces, out of what was asked before; what it could not answer is in missing.
type scopes struct {
	known   map[schema.GroupKind]bool
	missing map[schema.GroupKind]bool
}

func (s *scopes) of(gk schema.GroupKind) (namespaced, known bool) {
	namespaced, known = s.known[gk]
	if !known {
		s.missing[gk] = true
	}
	return namespaced, known
}

// learn asks a cluster for what is missing, and reports whether anything was learnt.
func (s *scopes) learn(ctx context.Context, k *kinds, c *cluster.Cluster) (learnt bool, err error) {
	for gk := range s.missing {
		delete(s.missing, gk)
		versions := []string{"v1"}
		if gk.Group != "" {
			if versions, err = c.Versions(ctx, gk.Group); err != nil {
				return learnt, err
			}
		}
		for _, version := range versions {
			resource, err := k.resource(ctx, c, gk.WithVersion(version))
			if errors.Is(err, cluster.ErrNotServed) {
				continue
			}
			if err != nil {
				return learnt, err
			}
			s.known[gk], learnt = resource.Namespaced, true
			break
		}
	}
	return learnt, nil
}
