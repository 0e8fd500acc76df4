package rbac

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Guess makes up the resource of a kind as Kubernetes' own tools do, but for gateways, which they call gatewaies. It is
// wrong for irregular plurals, and takes every kind for a namespaced one.
func Guess(kind schema.GroupVersionKind) Resource {
	plural, singular := meta.UnsafeGuessKindToResource(kind)
	for _, ending := range []string{"ay", "ey", "oy", "uy"} {
		if strings.HasSuffix(singular.Resource, ending) {
			return Resource{Name: singular.Resource + "s", Guessed: true}
		}
	}
	return Resource{Name: plural.Resource, Guessed: true}
}

// Discovery is the part of a discovery client that finding resources needs.
type Discovery interface {
	ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error)
}

// Discover returns a function that asks a cluster for the resources of kinds. Those that it does not serve are guessed, so
// that roles can be made before a kind is installed.
func Discover(cluster Discovery) func(schema.GroupVersionKind) (Resource, error) {
	return func(kind schema.GroupVersionKind) (Resource, error) {
		served, err := cluster.ServerResourcesForGroupVersion(kind.GroupVersion().String())
		if apierrors.IsNotFound(err) {
			return Guess(kind), nil
		}
		if err != nil {
			return Resource{}, fmt.Errorf("asking the cluster for %s: %w", kind.GroupVersion(), err)
		}
		for _, r := range served.APIResources {
			if r.Kind == kind.Kind && !strings.Contains(r.Name, "/") {
				return Resource{Name: r.Name, ClusterScoped: !r.Namespaced}, nil
			}
		}
		return Guess(kind), nil
	}
}
