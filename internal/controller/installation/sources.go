package installation

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
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

// missingError says that a source, or a key of it, does not exist.
type missingError struct{ error }

// sourceKeys returns what is watched on the hub for an Installation's manifests.
func sourceKeys(i *v1alpha1.Installation) map[feedKey]bool {
	keys := map[feedKey]bool{}
	for _, m := range i.Spec.Manifests {
		if m.Inline == nil {
			key, _, _ := sourceOf(i, m)
			keys[key] = true
		}
	}
	return keys
}

func sourceOf(i *v1alpha1.Installation, m v1alpha1.ManifestSource) (key feedKey, kind, only string) {
	ref, resource, kind := m.ConfigMapRef, configMaps, "ConfigMap"
	if m.SecretRef != nil {
		ref, resource, kind = m.SecretRef, secrets, "Secret"
	}
	return feedKey{resource: resource, Selection: cluster.Selection{Namespace: i.Namespace, Name: ref.Name}}, kind, ref.Key
}

// secretManifests reports whether some of the manifests come from a Secret, so that no value in them may be told.
func secretManifests(i *v1alpha1.Installation) bool {
	return slices.ContainsFunc(i.Spec.Manifests, func(m v1alpha1.ManifestSource) bool { return m.SecretRef != nil })
}

// gather returns the texts of an Installation's manifests, in order, and what tells one state of them from another. look
// returns what is seen of a key. The error is errNotRead, or a missingError.
func gather(i *v1alpha1.Installation, look func(feedKey) (object *unstructured.Unstructured, known bool, err error)) (sources []install.Source, state string, err error) {
	states := []string{fmt.Sprint(i.Generation)}
	for n, m := range i.Spec.Manifests {
		if m.Inline != nil {
			sources = append(sources, install.Source{Where: fmt.Sprintf("spec.manifests[%d].inline", n), Text: []byte(*m.Inline)})
			continue
		}
		key, kind, only := sourceOf(i, m)
		where := fmt.Sprintf("%s %s/%s", kind, key.Namespace, key.Name)
		object, known, err := look(key)
		switch {
		case err != nil:
			return nil, "", fmt.Errorf("%s can't be read: %w", where, err)
		case !known:
			return nil, "", errNotRead
		case object == nil:
			return nil, "", missingError{fmt.Errorf("%s, which has manifests, does not exist", where)}
		}
		texts, err := textsIn(object, kind)
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", where, err)
		}
		names := []string{only}
		if only == "" {
			names = slices.Sorted(maps.Keys(texts))
		}
		for _, name := range names {
			text, ok := texts[name]
			if !ok {
				return nil, "", missingError{fmt.Errorf("%s has no key %q; it has %s", where, name, strings.Join(slices.Sorted(maps.Keys(texts)), ", "))}
			}
			sources = append(sources, install.Source{Where: where + ", key " + name, Text: text})
		}
		states = append(states, string(object.GetUID())+"/"+object.GetResourceVersion())
	}
	return sources, strings.Join(states, " "), nil
}

// textsIn returns the values of a ConfigMap or Secret.
func textsIn(object *unstructured.Unstructured, kind string) (map[string][]byte, error) {
	texts := map[string][]byte{}
	plain, _, _ := unstructured.NestedStringMap(object.Object, "data")
	encoded, _, _ := unstructured.NestedStringMap(object.Object, "binaryData")
	if kind == "Secret" {
		plain, encoded = nil, plain
	}
	for key, text := range plain {
		texts[key] = []byte(text)
	}
	for key, text := range encoded {
		content, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, fmt.Errorf("key %q: is not base64", key)
		}
		texts[key] = content
	}
	return texts, nil
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
