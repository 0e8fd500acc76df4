package boundary

import (
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
	annotations := obj.GetAnnotations()
	source, okSource := parseName(annotations[AnnotationSource])
	twin, okTwin := parseName(annotations[AnnotationTwin])
	generation, err := strconv.ParseInt(annotations[AnnotationSourceGeneration], 10, 64)
	stamp = Stamp{
		Origin:           obj.GetLabels()[LabelOrigin],
		Writer:           annotations[AnnotationWriter],
		Rule:             annotations[AnnotationRule],
		Source:           source,
		Twin:             twin,
		SourceUID:        types.UID(annotations[AnnotationSourceUID]),
		SourceGeneration: generation,
		Applied:          annotations[AnnotationApplied],
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
	stamp, whole := ReadStamp(obj)
	switch {
	case !whole, stamp.Origin != id.Cluster, stamp.Writer != id.Writer(), stamp.Twin != nameOf(obj):
		return Foreign
	case stamp.Source != source:
		return OursForAnother
	}
	return OursForThis
}

// SourceOf returns the source that an object of ours came from; ok is false for a foreign one (N2).
func (id Identity) SourceOf(obj *unstructured.Unstructured) (source types.NamespacedName, ok bool) {
	stamp, _ := ReadStamp(obj)
	return stamp.Source, id.Provenance(obj, stamp.Source) == OursForThis
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

func nameOf(obj *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}
