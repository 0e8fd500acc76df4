package install

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"isthmus.dev/isthmus/api/v1alpha1"
)

// MissingError says that an object with manifests, or a key of it, does not exist.
type MissingError struct{ error }

// Missing makes a MissingError.
func Missing(format string, args ...any) error { return MissingError{fmt.Errorf(format, args...)} }

// Gather returns the sources of an Installation's manifests, in order. get returns the ConfigMap or Secret of a name in the
// Installation's namespace; its error should name it. A key that is not there comes as a MissingError.
func Gather(i *v1alpha1.Installation, get func(kind, name string) (*unstructured.Unstructured, error)) ([]Source, error) {
	var sources []Source
	for n, m := range i.Spec.Manifests {
		if m.Inline != nil {
			sources = append(sources, Source{Where: fmt.Sprintf("spec.manifests[%d].inline", n), Text: []byte(*m.Inline)})
			continue
		}
		kind, ref := "ConfigMap", m.ConfigMapRef
		if ref == nil {
			kind, ref = "Secret", m.SecretRef
		}
		if ref == nil {
			return nil, fmt.Errorf("spec.manifests[%d]: expected configMapRef, secretRef or inline", n)
		}
		object, err := get(kind, ref.Name)
		if err != nil {
			return nil, err
		}
		where := fmt.Sprintf("%s %s/%s", kind, i.Namespace, ref.Name)
		texts, err := TextsIn(object)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", where, err)
		}
		keys := slices.Sorted(maps.Keys(texts))
		if ref.Key != "" {
			if _, ok := texts[ref.Key]; !ok {
				return nil, Missing("%s has no key %q: expected one of %s", where, ref.Key, strings.Join(keys, ", "))
			}
			keys = []string{ref.Key}
		}
		for _, key := range keys {
			sources = append(sources, Source{Where: where + ", key " + key, Text: texts[key]})
		}
	}
	return sources, nil
}

// TextsIn returns the values of a ConfigMap or Secret.
func TextsIn(object *unstructured.Unstructured) (map[string][]byte, error) {
	clear, encoded := "data", "binaryData"
	if object.GetKind() == "Secret" {
		clear, encoded = "stringData", "data"
	}
	texts := map[string][]byte{}
	packed, _, err := unstructured.NestedStringMap(object.Object, encoded)
	if err != nil {
		return nil, fmt.Errorf("%s: expected strings", encoded)
	}
	for key, text := range packed {
		if texts[key], err = base64.StdEncoding.DecodeString(text); err != nil {
			return nil, fmt.Errorf("%s[%s]: expected base64", encoded, key)
		}
	}
	plain, _, err := unstructured.NestedStringMap(object.Object, clear)
	if err != nil {
		return nil, fmt.Errorf("%s: expected strings", clear)
	}
	for key, text := range plain {
		texts[key] = []byte(text)
	}
	return texts, nil
}
