package boundary

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Assumed returns what an apply body makes, as far as that can be told without asking the server: for rehearsals of what
// can't be tried yet. All of it is owned by our Apply entry.
func Assumed(body map[string]any) *unstructured.Unstructured {
	twin := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(body)}
	owned := map[string]any{}
	for field := range twin.Object {
		owned["f:"+field] = map[string]any{}
	}
	metadata := map[string]any{}
	for _, field := range []string{"labels", "annotations"} {
		keys := map[string]any{}
		for key := range rawMetadata(twin, field) {
			keys["f:"+key] = map[string]any{}
		}
		metadata["f:"+field] = keys
	}
	owned["f:metadata"] = metadata
	delete(owned, "f:apiVersion")
	delete(owned, "f:kind")
	setManagedFields(twin, []any{map[string]any{
		"manager": FieldManager, "operation": string(metav1.ManagedFieldsOperationApply),
		"apiVersion": twin.GetAPIVersion(), "fieldsType": "FieldsV1", "fieldsV1": owned,
	}})
	twin.SetResourceVersion("")
	twin.SetGeneration(1)
	return twin
}

// TakeHandover gives a twin what HandoverManager owns of another state of it: for rehearsals of two writes of which the
// second does not know of the first.
func TakeHandover(twin, handed *unstructured.Unstructured) {
	handover := func(e managedEntry) bool { return e.appliedBy(HandoverManager) }
	entries := slices.DeleteFunc(managedFields(twin), handover)
	if i := slices.IndexFunc(managedFields(handed), handover); i >= 0 {
		entries = append(entries, managedFields(handed)[i])
	}
	list := make([]any, len(entries))
	for i, e := range entries {
		list[i] = map[string]any(e)
	}
	setManagedFields(twin, list)
}

func setManagedFields(obj *unstructured.Unstructured, entries []any) {
	metadata := asObject(obj.Object["metadata"])
	metadata["managedFields"] = entries
}
