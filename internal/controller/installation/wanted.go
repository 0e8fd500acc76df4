package installation

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/install"
)

// stampBody returns the apply body of an object of a bundle: with the stamp, a hash of itself, and, in a namespace, the anchor
// there as its owner, so that the cluster's own garbage collector can finish alone (I4). owner nil: it is cluster-scoped, or
// the anchor itself.
func stampBody(object *unstructured.Unstructured, s stamp, hub string, owner *unstructured.Unstructured) map[string]any {
	out := object.DeepCopy()
	if owner != nil {
		out = install.WithAnchor(object, owner.GetName(), owner.GetUID())
	}
	install.SetStamp(out, hub, string(s))
	body := withoutNulls(out.Object).(map[string]any)
	delete(body, "status")
	out.SetAnnotations(with(out.GetAnnotations(), v1alpha1.InstalledContentAnnotation, contentHash(body)))
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

// bound ties an apply body to one state of one object, so that nothing else is written.
func bound(body map[string]any, to *unstructured.Unstructured) map[string]any {
	return withMetadata(body, map[string]any{"uid": string(to.GetUID()), "resourceVersion": to.GetResourceVersion()})
}

// createOnly makes an apply body that the server refuses with a conflict when anything of that name exists.
func createOnly(body map[string]any) map[string]any {
	return withMetadata(body, map[string]any{"resourceVersion": "1"})
}

func withMetadata(body, add map[string]any) map[string]any {
	out := maps.Clone(body)
	metadata := extended(body["metadata"])
	maps.Copy(metadata, add)
	out["metadata"] = metadata
	return out
}

// contentHash tells apply bodies apart. The library writes maps in the order of their keys.
func contentHash(body map[string]any) string {
	text, err := json.Marshal(body)
	if err != nil { // a body comes out of a decoder
		panic(fmt.Sprintf("hash of an object that is not JSON: %T", err))
	}
	sum := sha256.Sum256(text)
	return "v1-" + hex.EncodeToString(sum[:16])
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
