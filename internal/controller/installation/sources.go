package installation

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/install"
)

var (
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	secrets    = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
)

// errNotRead says that a source is not known yet.
var errNotRead = errors.New("the manifests were not read yet")

// sourceKeys returns what is watched on the hub for an Installation's manifests.
func sourceKeys(i *v1alpha1.Installation) map[feedKey]bool {
	keys := map[feedKey]bool{}
	for _, m := range i.Spec.Manifests {
		if m.ConfigMapRef != nil {
			keys[sourceKey(i, "ConfigMap", m.ConfigMapRef.Name)] = true
		}
		if m.SecretRef != nil {
			keys[sourceKey(i, "Secret", m.SecretRef.Name)] = true
		}
	}
	return keys
}

func sourceKey(i *v1alpha1.Installation, kind, name string) feedKey {
	resource := configMaps
	if kind == "Secret" {
		resource = secrets
	}
	return feedKey{resource: resource, Selection: cluster.Selection{Namespace: i.Namespace, Name: name}}
}

// secretManifests reports whether some of the manifests come from a Secret, so that no value in them may be told.
func secretManifests(i *v1alpha1.Installation) bool {
	return slices.ContainsFunc(i.Spec.Manifests, func(m v1alpha1.ManifestSource) bool { return m.SecretRef != nil })
}

// gather returns the texts of an Installation's manifests, in order, and what tells one state of them from another. look
// returns what is seen of a key. The error may be errNotRead, or an install.MissingError.
func gather(i *v1alpha1.Installation, look func(feedKey) (object *unstructured.Unstructured, known bool, err error)) (sources []install.Source, state string, err error) {
	states := []string{fmt.Sprint(i.Generation)}
	sources, err = install.Gather(i, func(kind, name string) (*unstructured.Unstructured, error) {
		where := fmt.Sprintf("%s %s/%s", kind, i.Namespace, name)
		object, known, err := look(sourceKey(i, kind, name))
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s can't be read: %w", where, err)
		case !known:
			return nil, errNotRead
		case object == nil:
			return nil, install.Missing("%s, which has manifests, does not exist", where)
		}
		states = append(states, string(object.GetUID())+"/"+object.GetResourceVersion())
		return object, nil
	})
	return sources, strings.Join(states, " "), err
}

// hubEyes keeps an eye on the manifests of an Installation, on the hub.
func (r *Installer) hubEyes(i *v1alpha1.Installation) func(feedKey) (*unstructured.Unstructured, bool, error) {
	if r.sources == nil { // who only looks keeps no watches
		return func(key feedKey) (*unstructured.Unstructured, bool, error) {
			object, err := r.o.Local.Dynamic().Resource(key.resource).Namespace(key.Namespace).Get(r.ctx, key.Name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil, true, nil
			}
			return object, err == nil, err
		}
	}
	who := types.NamespacedName{Namespace: i.Namespace, Name: i.Name}
	r.sources.want(who, r.o.Local, "hub", sourceKeys(i))
	return func(key feedKey) (*unstructured.Unstructured, bool, error) {
		f := r.sources.feed(key)
		if f == nil {
			return nil, false, nil
		}
		object, _, known, err := f.look(types.NamespacedName{Namespace: key.Namespace, Name: key.Name})
		return object, known, err
	}
}
