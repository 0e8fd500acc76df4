package boundary

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// References returns what a rule translates in a source, as the decision about it does (X). An error says what can't be
// translated.
func References(in Input, rule *Rule) ([]Translated, error) {
	want, err := desire(&in, rule)
	return want.refs, err
}

// FieldOwner says whom a place of a twin belongs to, and all below it.
type FieldOwner struct {
	Path  string `json:"path"`
	Owner string `json:"owner"`
}

// The owners of fields that are no field managers of their own.
const (
	OwnerSource = "source"
	OwnerTarget = "target side"
	OwnerNobody = "nobody (a default, or set by admission)"
)

// Owners tells whom the fields of a twin belong to, by its managedFields and by what the rule leaves to the target side.
// Places whose parts all belong to one owner are told as one.
func Owners(twin *unstructured.Unstructured, rule *Rule, source *unstructured.Unstructured) (fields []FieldOwner) {
	w := ownersWalk{}
	if rule != nil && source != nil {
		w.target = RemoteOwnedPaths(rule, source.Object)
	}
	var sets []managerSet
	for _, entry := range managedFields(twin) {
		if set, ok := entry.set(); ok {
			sets = append(sets, managerSet{entry.owner(), set})
		}
	}
	content := map[string]any{}
	for field, v := range twin.Object {
		switch field {
		case "apiVersion", "kind":
		case "metadata":
			kept := map[string]any{}
			for _, part := range []string{"labels", "annotations", "finalizers", "ownerReferences"} {
				if value, ok := asObject(v)[part]; ok {
					kept[part] = value
				}
			}
			content[field] = kept
		default:
			content[field] = v
		}
	}
	for _, field := range sortedKeys(content) {
		fields = append(fields, w.element(content[field], fieldElement(field), nil, field, sets)...)
	}
	return fields
}

// owner is what an entry's manager is called.
func (e managedEntry) owner() string {
	switch {
	case e.ours():
		return OwnerSource
	case e.appliedBy(HandoverManager):
		return OwnerTarget + " (handed over)"
	}
	manager, _ := e["manager"].(string)
	return manager
}

type managerSet struct {
	owner string
	set   *fieldpath.Set
}

type ownersWalk struct{ target []Path }

// element tells about a value under one element of the sets.
func (w *ownersWalk) element(v any, e fieldpath.PathElement, above fieldpath.Path, text string, sets []managerSet) []FieldOwner {
	at := append(above[:len(above):len(above)], e)
	var inner []managerSet
	var leaf []string
	for _, s := range sets {
		if below, ok := s.set.Children.Get(e); ok {
			inner = append(inner, managerSet{s.owner, below})
		} else if s.set.Members.Has(e) {
			leaf = append(leaf, s.owner)
		}
	}
	if len(inner) > 0 {
		if parts := w.parts(v, at, text, inner); len(parts) > 0 {
			return collapse(text, parts)
		}
	}
	return []FieldOwner{{text, w.name(leaf, at)}}
}

// parts tells about the fields of an object, or the items of a list that has keys.
func (w *ownersWalk) parts(v any, at fieldpath.Path, text string, sets []managerSet) (fields []FieldOwner) {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range sortedKeys(v) {
			fields = append(fields, w.element(v[k], fieldElement(k), at, joinField(text, k), sets)...)
		}
	case []any:
		for i, item := range v {
			e, found := fieldpath.PathElement{}, false
			for _, s := range sets {
				for _, candidate := range elementsOf(s.set) {
					if !found && elementFits(candidate, item, true) {
						e, found = candidate, true
					}
				}
			}
			if !found {
				fields = append(fields, FieldOwner{fmt.Sprintf("%s[%d]", text, i), w.name(nil, at)})
				continue
			}
			fields = append(fields, w.element(item, e, at, text+itemText(e), sets)...)
		}
	}
	return fields
}

// name writes who owns a place.
func (w *ownersWalk) name(managers []string, at fieldpath.Path) string {
	slices.Sort(managers)
	managers = slices.Compact(managers)
	target := slices.ContainsFunc(w.target, func(p Path) bool { return leadsTo(p, at) })
	switch {
	case target && len(managers) == 0:
		return OwnerTarget
	case target:
		return OwnerTarget + ": " + strings.TrimPrefix(strings.Join(managers, ", "), OwnerTarget+" ")
	case len(managers) == 0:
		return OwnerNobody
	}
	return strings.Join(managers, ", ")
}

// collapse tells parts that belong to one owner as one.
func collapse(text string, parts []FieldOwner) []FieldOwner {
	for _, part := range parts {
		if part.Owner != parts[0].Owner {
			return parts
		}
	}
	return []FieldOwner{{text, parts[0].Owner}}
}

// joinField writes a field of a place.
func joinField(text, field string) string {
	step := Path{{Field: field}}.String()
	if strings.HasPrefix(step, "[") || text == "" {
		return text + step
	}
	return text + "." + step
}

// itemText writes which item of a list an element stands for.
func itemText(e fieldpath.PathElement) string {
	if e.Key == nil {
		if e.Value != nil {
			return fmt.Sprintf("[%v]", (*e.Value).Unstructured())
		}
		return "[*]"
	}
	keys := map[string]any{}
	for _, key := range *e.Key {
		keys[key.Name] = key.Value.Unstructured()
	}
	return KeyedItem(keys)
}

// KeyedItem writes which item of a list has these keys.
func KeyedItem(keys map[string]any) string {
	var texts []string
	for _, k := range sortedKeys(keys) {
		texts = append(texts, fmt.Sprintf("%s=%v", k, keys[k]))
	}
	return "[" + strings.Join(texts, ",") + "]"
}

// Marks tells by what an object shows whose it is: its controller, the marks of tools that deploy, and its field
// managers, so that somebody who finds it in the way knows whom to ask.
func Marks(obj *unstructured.Unstructured) (marks []string) {
	labels, annotations := obj.GetLabels(), obj.GetAnnotations()
	add := func(format, value string) {
		if value != "" {
			marks = append(marks, fmt.Sprintf(format, value))
		}
	}
	if stamp, _ := ReadStamp(obj); stamp.Origin != "" {
		marks = append(marks, fmt.Sprintf("a twin of %s of cluster ID %s, written by %s", FormatName(stamp.Source), stamp.Origin, cmp.Or(stamp.Writer, "nobody known")))
	}
	for _, owner := range obj.GetOwnerReferences() {
		marks = append(marks, fmt.Sprintf("owned by %s %s", owner.Kind, owner.Name))
	}
	add("Helm release %s", annotations["meta.helm.sh/release-name"])
	add("Argo CD: %s", annotations["argocd.argoproj.io/tracking-id"])
	add("Argo CD instance %s", labels["argocd.argoproj.io/instance"])
	add("Flux kustomization %s", labels["kustomize.toolkit.fluxcd.io/name"])
	add("kapp app %s", labels["kapp.k14s.io/app"])
	add("applyset %s", labels["applyset.kubernetes.io/part-of"])
	add("vCluster %s", labels["vcluster.loft.sh/managed-by"])
	add("Liqo, from %s", labels["offloading.liqo.io/origin"])
	add("labelled as managed by %s", labels["app.kubernetes.io/managed-by"])
	var managers []string
	for _, entry := range obj.GetManagedFields() {
		if entry.Subresource == "" && !slices.Contains(managers, entry.Manager) {
			managers = append(managers, entry.Manager)
		}
	}
	add("written by %s", strings.Join(managers, ", "))
	return marks
}
