package boundary

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// fieldKinds is the table of what a field is called that refers to an object of a core kind without stating it: by the
// convention of Kubernetes' own API (volumes, env and envFrom of a pod, TLS of an Ingress), which most custom resources
// follow. A name of another word may end in a row's (apiTokenSecretRef); the longest row that fits counts, so the rows
// without a kind keep out what is only called alike.
var fieldKinds = []struct {
	// words end the field's name, one of fieldEndings left out.
	words string
	// kind is of the core group; empty: the name tells nothing.
	kind string
}{
	{"secret", "Secret"},
	{"configMap", "ConfigMap"},
	{"externalSecret", ""},
	{"sealedSecret", ""},
	{"vaultSecret", ""},
}

// fieldEndings may follow the words.
var fieldEndings = []string{"KeyRefs", "KeyRef", "KeySelector", "Refs", "Ref", "Names", "Name", "s"}

// fieldKind returns the kind that a field's name implies; empty: none.
func fieldKind(field string) string {
	for _, ending := range fieldEndings {
		if words, ok := strings.CutSuffix(field, ending); ok {
			field = words
			break
		}
	}
	longest, kind := 0, ""
	for _, row := range fieldKinds {
		capital := strings.ToUpper(row.words[:1]) + row.words[1:]
		if (field == row.words || strings.HasSuffix(field, capital)) && len(row.words) > longest {
			longest, kind = len(row.words), row.kind
		}
	}
	return kind
}

// impliedKind returns the core kind that the reference at a patch's path has by the name of its field, or of the object
// that holds its name; empty: none.
func (p Patch) impliedKind() string {
	if p.Type != RewriteName && p.Type != RewriteRef || p.ofAnnotation() {
		return ""
	}
	field := ""
	for _, step := range p.Path {
		if step.Field != "" && (step.Field != "name" || field == "") {
			field = step.Field
		}
	}
	return fieldKind(field)
}

// implied completes the target of a reference that states no kind by what the name of its field tells. The place stays
// what it is: a name may mislead, so only messages go by it.
func (t VirtualNames) implied(target Target, ref Reference) Target {
	kind := schema.GroupKind{Kind: ref.Implied}
	if ref.Implied == "" || t.Copied[kind] {
		return target
	}
	placement, carried := t.Kinds[kind]
	switch {
	case !carried:
		target.ForPods = contains(carriedForPods, ref.Implied)
	case !placement.Mirrored && t.Resolve != nil:
		if found := t.Resolve(placement.object(kind, ref)); found.Known && !found.Crosses {
			target.Dangling, target.Absent = true, true
		}
	}
	return target
}
