package boundary

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// FormerSystem is a system whose copies can be taken over.
type FormerSystem string

// The systems.
const (
	// FormerKupe is the generic sync plugin for vCluster.
	FormerKupe FormerSystem = "kupe"
	// FormerVCluster is vCluster's own syncing.
	FormerVCluster FormerSystem = "vcluster"
	// FormerOrigin is an Isthmus under another cluster ID or instance.
	FormerOrigin FormerSystem = "origin"
)

// The marks of the generic sync plugin.
const (
	kupePrefix               = "kupe.cloud/"
	labelKupeManagedBy       = kupePrefix + "managed-by"
	kupeManager              = "vcluster-sync"
	annotationKupeSyncedFrom = kupePrefix + "synced-from"
)

// Former is whose copies are taken over.
type Former struct {
	System FormerSystem
	// Cluster is the virtual cluster that the copies came from; the zero value: it is not known.
	Cluster VirtualCluster
	// Home and Instance are the former cluster ID and instance of an Isthmus (FormerOrigin).
	Home, Instance string
	// Replaced is the UID of the namespace kube-system of a sources' cluster that the present one replaced; empty: it
	// is still the same. Then names tell what belongs together, for all UIDs changed (FormerOrigin).
	Replaced string
}

// String names the system for messages.
func (f Former) String() string {
	switch f.System {
	case FormerKupe:
		return "the kupe plugin"
	case FormerVCluster:
		return "vCluster"
	}
	return fmt.Sprintf("cluster ID %s, instance %s", f.Home, f.Instance)
}

// Claim is what an object says by a former system's marks of where it comes from.
type Claim struct {
	// Source is the namespace and name of its source, UID that one's UID; empty: it does not count.
	Source types.NamespacedName
	UID    types.UID
	// Rule is the rule that it came by; empty: it does not say.
	Rule string
	// Stranger says why the object is not the former system's after all, but another's of its sort; empty: it is.
	Stranger string
	// Certain: there is no other of its sort whose object it could be. Otherwise only the source's UID tells.
	Certain bool
}

// of reports whether the claim is for this very source.
func (c Claim) of(source *unstructured.Unstructured) bool {
	return c.Stranger == "" && c.Source == nameOf(source) && (c.UID == "" || c.UID == source.GetUID())
}

// Claim reads the former system's marks on an object on the twins' side of a direction; id is who would own it from now
// on. ok is false when it does not carry them.
func (f Former) Claim(obj *unstructured.Unstructured, direction Direction, id Identity) (claim Claim, ok bool) {
	switch {
	case f.System == FormerOrigin:
		return f.stamped(obj, direction, id)
	case f.System == FormerKupe && rawText(obj, "labels", labelKupeManagedBy) != kupeManager:
		return Claim{}, false
	case f.System == FormerKupe && direction == FromRemote:
		// Some write cluster-scoped names with a slash in front.
		source, ok := parseName(strings.TrimPrefix(rawText(obj, "annotations", annotationKupeSyncedFrom), "/"))
		return Claim{Source: source, Certain: true}, ok
	case direction == FromRemote:
		return Claim{}, false // vCluster marks what it brings to its host
	}
	claim = Claim{
		Source: types.NamespacedName{
			Namespace: rawText(obj, "annotations", AnnotationVClusterNamespace),
			Name:      rawText(obj, "annotations", AnnotationVClusterName),
		},
		UID: types.UID(rawText(obj, "annotations", AnnotationVClusterUID)),
	}
	if claim.Source.Name == "" || claim.UID == "" {
		return Claim{}, false
	}
	known := f.Cluster != VirtualCluster{}
	markers := []string{f.Cluster.Marker(), f.Cluster.MarkerCluster()}
	if f.System == FormerKupe {
		markers = append(markers, f.Cluster.MarkerShared())
	}
	switch marker := rawText(obj, "labels", LabelVClusterManagedBy); {
	case known && slices.Contains(markers, marker):
		claim.Certain = f.System == FormerKupe
	case marker == "" && f.System == FormerVCluster:
		return Claim{}, false
	case marker != "" && known:
		claim.Stranger = fmt.Sprintf("is of another virtual cluster, %s", marker)
	}
	return claim, true
}

// stamped reads a stamp of ours under another identity.
func (f Former) stamped(obj *unstructured.Unstructured, direction Direction, id Identity) (Claim, bool) {
	stamp, whole := ReadStamp(obj)
	if !whole || stamp.Twin != nameOf(obj) || altered(obj) {
		return Claim{}, false
	}
	claim := Claim{Source: stamp.Source, UID: stamp.SourceUID, Rule: stamp.Rule, Certain: true}
	claim.Stranger = f.strange(stamp.Origin, stamp.Writer, direction, id)
	if f.Replaced != "" && strings.HasSuffix(stamp.Writer, "/"+f.Replaced) {
		claim.UID = ""
	}
	return claim, true
}

// strange says why an origin and a writer are not those of the former Isthmus; empty: they are.
func (f Former) strange(origin, writer string, direction Direction, id Identity) string {
	parts := strings.Split(writer, "/")
	switch {
	case len(parts) != 3:
		return fmt.Sprintf("was written by %q, which is no Isthmus", writer)
	case parts[0] != f.Home || parts[1] != f.Instance:
		return fmt.Sprintf("belongs to cluster ID %s, instance %s", parts[0], parts[1])
	case direction == ToRemote && origin != f.Home: // the other way it is the remote side's ID, which may be another now
		return fmt.Sprintf("comes from cluster %s", origin)
	case parts[2] != id.ClusterUID && parts[2] != f.Replaced:
		return fmt.Sprintf("comes from another cluster (UID of kube-system %s, here %s); if this one replaced it, add --replaced-cluster %s",
			parts[2], id.ClusterUID, parts[2])
	}
	return ""
}

// identity are the labels and annotations that say whose copy an object is: who owns one of them made it.
func (f Former) identity() []string {
	switch f.System {
	case FormerKupe:
		return []string{labelKupeManagedBy, annotationKupeSyncedFrom, AnnotationVClusterUID}
	case FormerVCluster:
		return []string{AnnotationVClusterUID}
	}
	return []string{AnnotationSourceUID}
}

// managers returns the field managers, but ours, that made the former system's copy.
func (f Former) managers(obj *unstructured.Unstructured) []string {
	var names []string
	for _, entry := range managedFields(obj) {
		metadata := asObject(asObject(entry["fieldsV1"])["f:metadata"])
		for _, field := range []string{"f:labels", "f:annotations"} {
			for key := range asObject(metadata[field]) {
				name, _ := entry["manager"].(string)
				if entry.theirs() && contains(f.identity(), strings.TrimPrefix(key, "f:")) && !contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	slices.Sort(names)
	return names
}

// theirs reports whether an entry is of others, and for the object itself rather than a subresource.
func (e managedEntry) theirs() bool {
	return !e.ours() && !e.appliedBy(HandoverManager) && (e["subresource"] == nil || e["subresource"] == "")
}

// split returns what the managers own of an object, beside subresources, what all others own, and their entries.
func split(obj *unstructured.Unstructured, managers []string) (theirs, others *fieldpath.Set, kept []any) {
	theirs, others = &fieldpath.Set{}, &fieldpath.Set{}
	for _, entry := range managedFields(obj) {
		set, ok := entry.set()
		if !ok {
			set = &fieldpath.Set{}
		}
		name, _ := entry["manager"].(string)
		if entry.theirs() && contains(managers, name) {
			theirs = theirs.Union(set)
			continue
		}
		others, kept = others.Union(set), append(kept, map[string]any(entry))
	}
	return theirs, others, kept
}

// LetGo is the JSON patch that takes the former managers off a twin of ours, in this very state, so that a field that
// the source drops goes from it; with them go the labels and annotations that nobody else owns and that do not cross.
// It is nil when there is none of them.
func LetGo(twin *unstructured.Unstructured, rule *Rule, managers []string) []map[string]any {
	theirs, others, kept := split(twin, managers)
	if len(kept) == len(managedFields(twin)) || len(kept) == 0 {
		return nil
	}
	patch := []map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": string(twin.GetUID())},
		{"op": "replace", "path": "/metadata/resourceVersion", "value": twin.GetResourceVersion()},
		{"op": "replace", "path": "/metadata/managedFields", "value": kept},
	}
	for _, field := range []string{"labels", "annotations"} {
		for _, key := range sortedKeys(rawMetadata(twin, field)) {
			path := fieldpath.MakePathOrDie("metadata", field, key)
			if theirs.Has(path) && !others.Has(path) && !rule.crosses(key) {
				patch = append(patch, map[string]any{"op": "remove", "path": "/metadata/" + field + "/" + escapePointer(key)})
			}
		}
	}
	return patch
}

// rawText returns a label or annotation as it stands; empty where it is none or no text.
func rawText(obj *unstructured.Unstructured, field, key string) string {
	text, _ := rawMetadata(obj, field)[key].(string)
	return text
}
