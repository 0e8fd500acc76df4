package boundary

import (
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// FieldManager is the manager of server-side apply that owns the source's fields on a twin (O1).
const FieldManager = "isthmus"

// hashVersion leads the value of the stamp's "applied"; another version makes each twin be written once more (O4).
const hashVersion = "v1"

// reservedKeys never cross from a source and can't be kept (P2, first group; P6).
var reservedKeys = []string{
	Prefix + "*", "vcluster.loft.sh/*", "kupe.cloud/*", "offloading.liqo.io/*",
	"liqo.io/" + allowReflection, "liqo.io/" + skipReflection,
	"kubectl.kubernetes.io/last-applied-configuration",
}

// droppedKeys do not cross unless a rule keeps them: by these marks another tool would take the twin for its own (P2).
var droppedKeys = []string{
	"argocd.argoproj.io/tracking-id", "argocd.argoproj.io/refresh", "meta.helm.sh/*", "kapp.k14s.io/*",
	"applyset.kubernetes.io/*", "deployment.kubernetes.io/revision",
}

// ReservedKey reports whether a label or annotation key can never cross from a source, whatever a rule says (P2).
func ReservedKey(key string) bool { return closest(reservedKeys, key) > 0 }

// crosses says whether a label or annotation key flows from source to twin (O2, P2). Where a rule both drops and keeps
// it, the longer pattern wins.
func (r *Rule) crosses(key string) bool {
	drop, keep := closest(r.DropKeys, key), closest(r.KeepKeys, key)
	switch {
	case ReservedKey(key), drop > 0 && drop >= keep:
		return false
	case keep > 0:
		return true
	}
	return closest(droppedKeys, key) == 0
}

// closest returns the length of the longest pattern that matches a key, 0 when none does. A pattern is a key, or a
// prefix that ends in "/*".
func closest(patterns []string, key string) int {
	most := 0
	for _, pattern := range patterns {
		prefix, isPrefix := strings.CutSuffix(pattern, "/*")
		if pattern == key || isPrefix && strings.HasPrefix(key, prefix+"/") {
			most = max(most, len(pattern))
		}
	}
	return most
}

// desired is what a source's twin should be.
type desired struct {
	// body is the apply body: identity, content, labels and annotations with the whole stamp.
	body map[string]any
	// hash is the value of the stamp's "applied".
	hash string
	// remoteOwned are the paths that were left to the target side.
	remoteOwned []Path
	// refs are the references that were translated.
	refs []Translated
}

// desire builds the twin of a source under a rule: every top-level field but metadata and status (O1), labels and
// annotations (O2), the stamp (P1), with its references translated (X), without what the target side owns (O3) and what
// it does not declare (O7). An error says what can't be translated (X4).
func desire(in *Input, rule *Rule) (desired, error) {
	source := in.Source
	d := desired{remoteOwned: RemoteOwnedPaths(rule, source.Object)}
	stamp := Stamp{
		Origin: in.Identity.Cluster, Writer: in.Identity.Writer(), Rule: rule.Name,
		Source: in.Key, Twin: in.Place, SourceUID: source.GetUID(),
	}

	own := make(map[string]any, len(source.Object)+2)
	maps.Copy(own, source.Object)
	delete(own, "status")
	own["metadata"] = metadataOf(source, rule)
	translated, refs, err := rule.Patches.Apply(own, in.Key, in.Naming.Translator(rule, in.Resolve))
	if err != nil {
		return desired{}, err
	}
	d.refs = refs
	var content any = translated
	for _, path := range d.remoteOwned {
		content = without(content, path)
	}
	for _, path := range in.Undeclared {
		content = without(content, path)
	}

	d.body = content.(map[string]any)
	// What belongs to the target side may be all of them; the stamp is written all the same.
	metadata := orEmpty(d.body["metadata"])
	labels, annotations := orEmpty(metadata["labels"]), orEmpty(metadata["annotations"])
	in.Naming.Mark(rule, source, in.Place, labels, annotations)
	for k, v := range rule.ExtraLabels {
		labels[k] = v
	}
	labels[LabelOrigin] = stamp.Origin
	maps.Copy(annotations, stamp.annotations())
	metadata["labels"], metadata["annotations"] = labels, annotations
	if carried := rule.carried(source); len(carried) > 0 {
		metadata["finalizers"] = asList(carried)
	}
	metadata["name"] = in.Place.Name
	if in.Place.Namespace != "" {
		metadata["namespace"] = in.Place.Namespace
	}
	d.body["apiVersion"], d.body["kind"] = rule.Kind.GroupVersion().String(), rule.Kind.Kind
	d.body["metadata"] = metadata
	d.body = rule.enforceProject(d.body) // last, for it goes by the twin's labels

	d.hash = Hash(d.body)
	annotations[AnnotationApplied] = d.hash
	annotations[AnnotationSourceGeneration] = strconv.FormatInt(source.GetGeneration(), 10)
	return d, nil
}

// metadataOf returns the labels and annotations of a source that flow (P2, P6).
func metadataOf(source *unstructured.Unstructured, rule *Rule) map[string]any {
	filter := func(field string) map[string]any {
		keys := rawMetadata(source, field)
		out := make(map[string]any, len(keys)+len(stampKeys))
		for k, v := range keys {
			if text, ok := v.(string); ok && rule.crosses(k) {
				out[k] = text
			}
		}
		return out
	}
	return map[string]any{"labels": filter("labels"), "annotations": filter("annotations")}
}

func asList(texts []string) []any {
	list := make([]any, len(texts))
	for i, text := range texts {
		list[i] = text
	}
	return list
}

// orEmpty returns a map as it is, or an empty one where there is none. What metadataOf made is nobody else's, so that it
// need not be copied to be written to.
func orEmpty(v any) map[string]any {
	if m := asObject(v); m != nil {
		return m
	}
	return map[string]any{}
}

// extend returns a copy of a map that can be written to, empty where there is none.
func extend(v any) map[string]any {
	out := map[string]any{}
	maps.Copy(out, asObject(v))
	return out
}

// Hash returns the versioned hash of an apply body; equal bodies have equal hashes.
func Hash(body map[string]any) string {
	sum := digest(body)
	return hashVersion + "-" + hex.EncodeToString(sum[:16])
}

// Bind ties an apply body to one state of one object, so that a foreign one is never written (P3). It takes the place of an
// earlier state that the body may be tied to.
func Bind(body map[string]any, to *unstructured.Unstructured) map[string]any {
	out := maps.Clone(body)
	metadata := maps.Clone(body["metadata"].(map[string]any))
	metadata["uid"], metadata["resourceVersion"] = string(to.GetUID()), to.GetResourceVersion()
	out["metadata"] = metadata
	return out
}

// testState heads a JSON patch that is for one state of one object, as Bind does for an apply body.
func testState(obj *unstructured.Unstructured) []map[string]any {
	return []map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": string(obj.GetUID())},
		{"op": "test", "path": "/metadata/resourceVersion", "value": obj.GetResourceVersion()},
	}
}

// CreateOnly makes an apply body that the server refuses with a conflict when anything of that name exists (P3).
func CreateOnly(body map[string]any) map[string]any {
	out := maps.Clone(body)
	metadata := maps.Clone(body["metadata"].(map[string]any))
	metadata["resourceVersion"] = "1"
	out["metadata"] = metadata
	return out
}

func contains(list []string, s string) bool { return slices.Contains(list, s) }

// CheckRemoteOwned reports a remote-owned path that the remote schema does not allow: the parts of a list can be told
// apart only by the keys of its items, and what is always replaced as a whole has one owner (O3).
func (r *Rule) CheckRemoteOwned(schema *Schema) error {
	for _, path := range r.RemoteOwned {
		for i, step := range path {
			above, declared := schema.At(path[:i])
			if !declared {
				break
			}
			var why string
			switch {
			case step.EachItem && (above == nil || above.ListType != "map"):
				why = fmt.Sprintf("the items of %s have no keys to tell them apart; name the whole list", path[:i])
			case above != nil && above.MapType == "atomic":
				why = fmt.Sprintf("%s is replaced as a whole; name that", path[:i])
			case i > 0 && path[i-1].EachItem && keyOfItems(schema, path[:i-1], step.Field):
				why = fmt.Sprintf("%s is a key of %s, by which its items are told apart", step.Field, path[:i-1])
			default:
				continue
			}
			return fmt.Errorf("rule %s: %s can't belong to the target side: %s", r.Name, path, why)
		}
	}
	return nil
}

func keyOfItems(schema *Schema, list Path, field string) bool {
	s, _ := schema.At(list)
	return s != nil && contains(s.ListMapKeys, field)
}
