package boundary

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Translated is a reference that a patch translated.
type Translated struct {
	// Path is where it stands in the object, with the indexes of list items.
	Path string
	// From is the source's reference, To the twin's. A namespace that the reference leaves out is filled in. After
	// RewriteNamespace both have a namespace only.
	From, To Reference
	// Dangling: what it refers to does not cross, or can't be reached from the twin (X3). Absent: only because no rule
	// takes the object.
	Dangling, Absent bool
	// ForPods: no rule carries it, and vCluster only where a pod uses it.
	ForPods bool
	// Roams is the object that it refers to, where only what is known of that tells its place. Unknown: nothing is.
	Roams   *Object
	Unknown bool
}

// Apply translates the references in a source, status excluded (X). It returns the object as the other side should have
// it, and what was translated, in the order of the paths. The object is not changed; what no patch touches is shared
// with it. An error names the place and what was expected there; then nothing is returned (X4).
func (p *Patches) Apply(object map[string]any, source types.NamespacedName, tr Translator) (out map[string]any, refs []Translated, err error) {
	if p == nil || p.content == nil {
		return object, nil, nil
	}
	w := &translation{source: source, tr: tr}
	changed, wrong := w.below(p.content, object)
	if wrong != nil {
		return nil, nil, wrong
	}
	for i, path := range w.paths {
		w.refs[i].Path = path.outermostFirst().String()
	}
	return changed.(map[string]any), w.refs, nil
}

// translation is one run of Apply. Places are put together on the way back, innermost step first, so that a walk that
// finds nothing needs no memory.
type translation struct {
	source types.NamespacedName
	tr     Translator
	refs   []Translated
	// paths are where refs stand, seen from where the walk is.
	paths []innerPath
}

// innerPath is a path whose innermost step comes first.
type innerPath []Step

func (p innerPath) outermostFirst() Path {
	path := slices.Clone(Path(p))
	slices.Reverse(path)
	return path
}

// wrongType is a value that a patch can't be applied to (X3). It shows no value: that may be secret (F4).
type wrongType struct {
	patchType     PatchType
	expected, got string
	at            innerPath
}

func (e *wrongType) Error() string {
	return fmt.Sprintf("%s is %s: %s expects %s there", e.at.outermostFirst(), e.got, e.patchType, e.expected)
}

// within adds a step to where the error is.
func (e *wrongType) within(steps ...Step) *wrongType {
	e.at = append(e.at, steps...)
	return e
}

func unexpected(patchType PatchType, expected string, got any) *wrongType {
	return &wrongType{patchType: patchType, expected: expected, got: typeOf(got)}
}

// inField and inItem are steps.
func inField(name string) Step { return Step{Field: name} }
func inItem(index int) Step    { return Step{IsIndex: true, Index: index} }

// value returns what becomes of a value under a node. in is the object that it is a field of; nil: it is an item of a list.
func (w *translation) value(n *patchNode, v any, in map[string]any) (any, *wrongType) {
	if v == nil {
		return v, nil // as if it were not there
	}
	switch patchType := n.patchType(); patchType {
	case RewriteName, RewriteNamespace:
		text, ok := v.(string)
		switch {
		case !ok:
			return nil, unexpected(patchType, "a string", v)
		case text == "":
			return v, nil // it refers to nothing
		case patchType == RewriteName:
			return w.name(n, text, in), nil
		}
		return w.namespace(text), nil
	case RewriteRef, RewriteHostRef, RewriteLabelSelector:
		object, ok := v.(map[string]any)
		switch {
		case !ok:
			return nil, unexpected(patchType, "an object", v)
		case patchType == RewriteLabelSelector:
			return w.selector(object)
		}
		return w.reference(n, object)
	}
	return w.below(n, v)
}

// below returns what becomes of a value by what a node says of the fields or items in it.
func (w *translation) below(n *patchNode, v any) (any, *wrongType) {
	switch content := v.(type) {
	case map[string]any:
		out := content
		for _, f := range n.fields {
			child, present := content[f.name]
			if !present {
				continue
			}
			before := len(w.paths)
			changed, wrong := w.value(f.node, child, content)
			if wrong != nil {
				return nil, wrong.within(inField(f.name))
			}
			w.within(before, inField(f.name))
			out = with(out, content, f.name, changed)
		}
		return out, nil
	case []any:
		var out []any // nil: as it was
		for i, item := range content {
			node := n.item(i)
			if node == nil {
				continue
			}
			before := len(w.paths)
			changed, wrong := w.value(node, item, nil)
			if wrong != nil {
				return nil, wrong.within(inItem(i))
			}
			w.within(before, inItem(i))
			out = withItem(out, content, i, changed)
		}
		if out != nil {
			return out, nil
		}
	}
	return v, nil
}

// within adds a step to where the references stand that were translated in it.
func (w *translation) within(before int, step Step) {
	for i := before; i < len(w.paths); i++ {
		w.paths[i] = append(w.paths[i], step)
	}
}

// with sets a field of an object that still is the original, or a copy that may be written to; it returns the latter.
func with(object, original map[string]any, field string, value any) map[string]any {
	if same(object[field], value) {
		return object
	}
	if same(object, original) {
		object = maps.Clone(original)
	}
	object[field] = value
	return object
}

// withItem sets an item of a list in a copy, which is made when there is none yet and the item differs.
func withItem(copied, original []any, index int, value any) []any {
	if copied == nil {
		if same(original[index], value) {
			return nil
		}
		copied = slices.Clone(original)
	}
	copied[index] = value
	return copied
}

// name translates a string that names an object in the source's namespace, or in the one that a sibling names (X2).
func (w *translation) name(n *patchNode, name string, in map[string]any) any {
	ref, stated := Reference{Implied: n.implies, Namespace: w.source.Namespace, Name: name}, false
	if !n.patch.ofAnnotation() { // annotations are no siblings
		if sibling, ok := in["namespace"].(string); ok && sibling != "" {
			ref.Namespace, stated = sibling, true
		}
	}
	target := w.target(&ref, stated)
	w.record(ref, target)
	return target.Name
}

// namespace translates a string that names a namespace.
func (w *translation) namespace(namespace string) any {
	counterpart, dangling := w.tr.Namespace(namespace)
	w.record(Reference{Namespace: namespace}, Target{Namespace: counterpart, Dangling: dangling})
	return counterpart
}

// reference translates an object that refers to another (X2). Its name and namespace are left to patches of their own,
// where there are any.
func (w *translation) reference(n *patchNode, object map[string]any) (any, *wrongType) {
	for _, field := range []string{"name", "namespace", "kind"} {
		if _, ok := object[field].(string); !ok && object[field] != nil {
			return nil, unexpected(n.patch.Type, "a string", object[field]).within(inField(field))
		}
	}
	below, wrong := w.below(n, object)
	if wrong != nil {
		return nil, wrong
	}
	out := below.(map[string]any)
	name, _ := object["name"].(string)
	namespace, _ := object["namespace"].(string)
	ref := Reference{Namespace: namespace, Name: name}
	ref.Kind, _ = object["kind"].(string)
	ref.Group, ref.GroupKnown = groupOf(object)
	if ref.Kind == "" && ref.Group == "" {
		ref.Implied = n.implies
	}
	stated := namespace != ""
	if !stated {
		ref.Namespace = w.source.Namespace
	}

	var target Target
	switch {
	case n.patch.Type == RewriteHostRef:
		if stated {
			target.Namespace = w.twinNamespace(namespace)
		}
		target.Name = name
	case name == "":
		if !stated {
			return out, nil // it refers to nothing
		}
		target.Namespace, target.Dangling = w.tr.Namespace(namespace)
	default:
		target = w.target(&ref, stated)
		if n.field("name").patchType() == "" {
			out = with(out, object, "name", target.Name)
		}
	}
	if stated && target.Namespace != "" && n.field("namespace").patchType() == "" {
		out = with(out, object, "namespace", target.Namespace)
	}
	if n.patch.Type == RewriteRef || stated {
		// What was written counts: patches of their own may have their say.
		target.Name, _ = out["name"].(string)
		if written, ok := out["namespace"].(string); ok && stated && target.Namespace != "" {
			target.Namespace = written
		}
		w.record(ref, target)
	}
	return out, nil
}

// target asks where an object is on the other side. A reference to a cluster-scoped one loses the namespace that was
// filled in. One that states no namespace reaches no further than the twin's.
func (w *translation) target(ref *Reference, stated bool) Target {
	target := w.tr.Object(*ref)
	switch {
	case target.Namespace == "":
		ref.Namespace = ""
	case !stated && target.Namespace != w.twinNamespace(ref.Namespace):
		target.Dangling = true
	}
	return target
}

// twinNamespace returns the namespace of the twin, or for a cluster-scoped source the counterpart of another namespace.
func (w *translation) twinNamespace(other string) string {
	if namespace := w.tr.TwinNamespace(w.source.Namespace); namespace != "" {
		return namespace
	}
	counterpart, _ := w.tr.Namespace(other)
	return counterpart
}

func (w *translation) record(from Reference, target Target) {
	to := from
	to.Namespace, to.Name = target.Namespace, target.Name
	w.refs = append(w.refs, Translated{From: from, To: to, Dangling: target.Dangling, Absent: target.Absent, ForPods: target.ForPods, Roams: target.Roams, Unknown: target.Unknown})
	w.paths = append(w.paths, nil)
}

// typeOf names the JSON type of a value.
func typeOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	}
	return "a number"
}
