package boundary

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// The stamp (docs/contract.md, "The stamp"): one label, which watches of twins select on, and annotations.
const (
	Prefix = "isthmus.dev/"

	LabelOrigin                = Prefix + "origin"
	AnnotationWriter           = Prefix + "writer"
	AnnotationRule             = Prefix + "rule"
	AnnotationSource           = Prefix + "source"
	AnnotationSourceUID        = Prefix + "source-uid"
	AnnotationSourceGeneration = Prefix + "source-generation"
	AnnotationTwin             = Prefix + "twin"
	AnnotationApplied          = Prefix + "applied"
)

// stampKeys are all keys of the stamp.
var stampKeys = []string{
	LabelOrigin, AnnotationWriter, AnnotationRule, AnnotationSource, AnnotationSourceUID,
	AnnotationSourceGeneration, AnnotationTwin, AnnotationApplied,
}

// Stamp is what a twin says about where it comes from.
type Stamp struct {
	Origin, Writer, Rule string
	// Source is the source's namespace and name, Twin the twin's own.
	Source, Twin types.NamespacedName
	SourceUID    types.UID
	// SourceGeneration is the source's generation that the content came from.
	SourceGeneration int64
	// Applied is the versioned hash of the applied body.
	Applied string
}

// ReadStamp reads an object's stamp. Whole is false when a key is missing or damaged.
func ReadStamp(obj *unstructured.Unstructured) (stamp Stamp, whole bool) {
	labels, annotations := rawMetadata(obj, "labels"), rawMetadata(obj, "annotations")
	annotation := func(key string) string {
		text, _ := annotations[key].(string)
		return text
	}
	source, okSource := parseName(annotation(AnnotationSource))
	twin, okTwin := parseName(annotation(AnnotationTwin))
	generation, err := strconv.ParseInt(annotation(AnnotationSourceGeneration), 10, 64)
	origin, _ := labels[LabelOrigin].(string)
	stamp = Stamp{
		Origin:           origin,
		Writer:           annotation(AnnotationWriter),
		Rule:             annotation(AnnotationRule),
		Source:           source,
		Twin:             twin,
		SourceUID:        types.UID(annotation(AnnotationSourceUID)),
		SourceGeneration: generation,
		Applied:          annotation(AnnotationApplied),
	}
	whole = okSource && okTwin && err == nil && stamp.Origin != "" && stamp.Writer != "" && stamp.Rule != "" &&
		stamp.SourceUID != "" && stamp.Applied != ""
	return stamp, whole
}

// annotations returns the stamp as annotations, without those that the hash leaves out.
func (s Stamp) annotations() map[string]any {
	return map[string]any{
		AnnotationWriter:    s.Writer,
		AnnotationRule:      s.Rule,
		AnnotationSource:    FormatName(s.Source),
		AnnotationSourceUID: string(s.SourceUID),
		AnnotationTwin:      FormatName(s.Twin),
	}
}

// Provenance says whose an object on the twin's side is.
type Provenance int

// Whose an object is, from the most foreign on.
const (
	// Foreign objects were not created by this Isthmus, or their stamp is damaged (P5).
	Foreign Provenance = iota
	// OursForAnother is a twin of another source.
	OursForAnother
	// OursForThis is the twin of the source in question.
	OursForThis
)

// Provenance tells whose twin an object is, seen from a source (docs/contract.md, "The stamp").
func (id Identity) Provenance(obj *unstructured.Unstructured, source types.NamespacedName) Provenance {
	switch stamp, ours := id.StampOf(obj); {
	case !ours:
		return Foreign
	case stamp.Source != source:
		return OursForAnother
	}
	return OursForThis
}

// StampOf returns the stamp of an object that this Isthmus created; ours is false for any other (N2).
func (id Identity) StampOf(obj *unstructured.Unstructured) (stamp Stamp, ours bool) {
	stamp, whole := ReadStamp(obj)
	ours = whole && stamp.Origin == id.Cluster && stamp.Writer == id.Writer() && stamp.Twin == nameOf(obj) && !altered(obj)
	return stamp, ours
}

// altered reports whether somebody else changed a key of the stamp, be it to something that still reads well: the server
// takes what others change out of our Apply entry. Without such an entry there is no telling.
func altered(obj *unstructured.Unstructured) bool {
	for _, entry := range managedFields(obj) {
		if !entry.ours() {
			continue
		}
		fields := asObject(asObject(entry["fieldsV1"])["f:metadata"])
		labels, annotations := asObject(fields["f:labels"]), asObject(fields["f:annotations"])
		for _, key := range stampKeys {
			if labels["f:"+key] == nil && annotations["f:"+key] == nil {
				return true
			}
		}
		return false
	}
	return false
}

// NamespaceBody is the create-only apply body of a remote namespace that belongs to this origin (N4).
func (id Identity) NamespaceBody(name string) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{
			"name": name, "resourceVersion": "1",
			"labels":      map[string]any{LabelOrigin: id.Cluster},
			"annotations": map[string]any{AnnotationWriter: id.Writer()},
		},
	}
}

// ReleasePatch is the JSON patch that takes the stamp and all ownership off a twin and leaves its values, if the twin
// is still in the state given.
func ReleasePatch(twin *unstructured.Unstructured) []map[string]any {
	annotations := slices.DeleteFunc(slices.Clone(stampKeys), func(key string) bool { return key == LabelOrigin })
	return DisownPatch(twin, []string{LabelOrigin}, annotations)
}

// DisownPatch is the JSON patch that takes labels and annotations off an object, of those that it has, and all ownership off its
// fields, and leaves everything else, if the object is still in the state given.
func DisownPatch(object *unstructured.Unstructured, labels, annotations []string) []map[string]any {
	patch := []map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": string(object.GetUID())},
		{"op": "replace", "path": "/metadata/resourceVersion", "value": object.GetResourceVersion()},
		{"op": "replace", "path": "/metadata/managedFields", "value": []any{map[string]any{}}},
	}
	remove := func(field string, keys []string) {
		has := rawMetadata(object, field)
		for _, key := range keys {
			if _, ok := has[key]; ok {
				patch = append(patch, map[string]any{"op": "remove", "path": "/metadata/" + field + "/" + escapePointer(key)})
			}
		}
	}
	remove("labels", labels)
	remove("annotations", annotations)
	return patch
}

// OwnName is the name of what an instance keeps on its local cluster: the ConfigMap that is its ledger, and its Lease.
func OwnName(instance string) string { return "isthmus-" + instance }

// escapePointer escapes a key for a JSON pointer (RFC 6901).
func escapePointer(key string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}

// FormatName writes namespace/name, or the name alone for a cluster-scoped object.
func FormatName(n types.NamespacedName) string {
	if n.Namespace == "" {
		return n.Name
	}
	return n.Namespace + "/" + n.Name
}

func parseName(text string) (types.NamespacedName, bool) {
	namespace, name, namespaced := strings.Cut(text, "/")
	if !namespaced {
		namespace, name = "", text
	}
	ok := name != "" && !strings.Contains(name, "/") && (!namespaced || namespace != "")
	return types.NamespacedName{Namespace: namespace, Name: name}, ok
}

// rawMetadata returns a map in an object's metadata as it stands, not copied: read it only.
func rawMetadata(obj *unstructured.Unstructured, field string) map[string]any {
	return asObject(asObject(obj.Object["metadata"])[field])
}

func nameOf(obj *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}
