package installation

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/install"
)

// stampBody returns the apply body of an object of a bundle: with the stamp, a hash of itself, and, in a namespace, the anchor
// there as its owner, so that the cluster's own garbage collector can finish alone (I4). owner nil: it is cluster-scoped, or
// the anchor itself.
func stampBody(object *unstructured.Unstructured, s stamp, hub string, owner *unstructured.Unstructured) map[string]any {
	var out *unstructured.Unstructured
	if owner == nil {
		out = object.DeepCopy()
	} else {
		out = install.WithAnchor(object, owner.GetName(), owner.GetUID())
	}
	install.SetStamp(out, hub, string(s))
	body := withoutNulls(out.Object).(map[string]any)
	delete(body, "status")
	out.SetAnnotations(with(out.GetAnnotations(), v1alpha1.InstalledContentAnnotation, boundary.Hash(body)))
	return out.Object
}

func with(m map[string]string, key, value string) map[string]string {
	out := maps.Clone(m)
	out[key] = value
	return out
}

// mergeBody returns the apply body of what is put on an object that is another's: labels and annotations alone. It is for
// namespaces that were there before (I3).
func mergeBody(object *unstructured.Unstructured) map[string]any {
	metadata := map[string]any{"name": object.GetName()}
	for _, field := range []string{"labels", "annotations"} {
		own, _ := object.Object["metadata"].(map[string]any)
		keys := extended(own[field])
		delete(keys, v1alpha1.InstalledByLabel)
		delete(keys, v1alpha1.InstallationAnnotation)
		metadata[field] = keys
	}
	return map[string]any{"apiVersion": object.GetAPIVersion(), "kind": object.GetKind(), "metadata": metadata}
}

func hashOf(body map[string]any) string {
	metadata, _ := body["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	hash, _ := annotations[v1alpha1.InstalledContentAnnotation].(string)
	return hash
}

// withoutNulls takes null fields out, which server-side apply does not keep.
func withoutNulls(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			if inner == nil {
				delete(v, k)
				continue
			}
			v[k] = withoutNulls(inner)
		}
	case []any:
		for i := range v {
			v[i] = withoutNulls(v[i])
		}
	}
	return v
}

func extended(v any) map[string]any {
	out := map[string]any{}
	if m, ok := v.(map[string]any); ok {
		maps.Copy(out, m)
	}
	return out
}
