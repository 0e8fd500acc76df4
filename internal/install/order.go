package install

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus.dev/isthmus/api/v1alpha1"
)

// removal is the order of removal by phase: first what would keep others from going, admission and aggregated APIs; then
// custom resources, while their controllers still run; then their definitions, the workloads, and the rest.
var removal = []func(PhaseName) bool{
	func(p PhaseName) bool { return p == PhaseWebhooks },
	func(p PhaseName) bool { return p == PhaseCustom },
	func(p PhaseName) bool { return p == PhaseCRDs },
	func(p PhaseName) bool { return p == PhaseWorkloads },
	func(p PhaseName) bool { return p == PhaseConfig || p == PhaseRBAC },
}

// Order returns the entries of a component's inventory in the order of removal: each group is gone before the next one is
// deleted. The anchors come after all that they may own, then namespaces. Groups without entries are left out.
func Order(component string, entries []v1alpha1.InventoryEntry) [][]v1alpha1.InventoryEntry {
	groups := make([][]v1alpha1.InventoryEntry, len(removal)+2)
	for _, entry := range entries {
		n := removalOf(component, entry)
		groups[n] = append(groups[n], entry)
	}
	var out [][]v1alpha1.InventoryEntry
	for _, group := range groups {
		if len(group) > 0 {
			out = append(out, group)
		}
	}
	return out
}

func removalOf(component string, entry v1alpha1.InventoryEntry) int {
	if IsAnchor(component, entry) {
		return len(removal)
	}
	phase := PhaseOf(schema.GroupKind{Group: entry.Group, Kind: entry.Kind})
	for n, in := range removal {
		if in(phase) {
			return n
		}
	}
	return len(removal) + 1
}

// IsAnchor reports whether an entry is one of the component's anchors.
func IsAnchor(component string, entry v1alpha1.InventoryEntry) bool {
	return entry.Group == "" && entry.Kind == "ConfigMap" && entry.Name == AnchorName(component)
}
