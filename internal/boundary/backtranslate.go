package boundary

// BackTranslate returns a twin's status with the translated references in it as the source wrote them (T4): objects with
// a name wherever they stand, and strings where a patch of a status path says so. refs are what Apply translated; a
// caller that wants the twin's own name translated as well adds it. The status is not changed; what holds no such
// reference is shared with it.
func (p *Patches) BackTranslate(status any, refs []Translated) any {
	if len(refs) == 0 {
		return status
	}
	var node *patchNode
	if p != nil {
		node = p.status.field("status")
	}
	return returning(refs).value(node, status, nil, true)
}

// returning are references on their way back.
type returning []Translated

// value returns what becomes of a value. in is the object that it is a field of; anywhere: objects are translated unless
// a patch says otherwise.
func (r returning) value(n *patchNode, v any, in map[string]any, anywhere bool) any {
	patchType := n.patchType()
	switch patchType {
	case PatchNone:
		anywhere = false
	case RewriteRef:
		anywhere = true
	}
	switch content := v.(type) {
	case string:
		if text := r.text(patchType, content, in); text != content {
			return text
		}
	case []any:
		if !anywhere && (n == nil || n.leaf()) {
			return v
		}
		var out []any // nil: as it was
		for i, item := range content {
			out = withItem(out, content, i, r.value(n.item(i), item, nil, anywhere))
		}
		if out != nil {
			return out
		}
	case map[string]any:
		if !anywhere && (n == nil || n.leaf()) {
			return v
		}
		return r.object(n, content, anywhere)
	}
	return v
}

func (r returning) object(n *patchNode, object map[string]any, anywhere bool) any {
	out := object
	for field, v := range object {
		out = with(out, object, field, r.value(n.field(field), v, object, anywhere))
	}
	if !anywhere {
		return out
	}
	from, ok := r.match(object)
	if !ok {
		return out
	}
	if n.field("name").patchType() == "" {
		out = with(out, object, "name", from.Name)
	}
	if namespace, _ := object["namespace"].(string); namespace != "" && from.Namespace != "" && n.field("namespace").patchType() == "" {
		out = with(out, object, "namespace", from.Namespace)
	}
	return out
}

// text translates a string that a patch of a status path names.
func (r returning) text(patchType PatchType, text string, in map[string]any) string {
	switch patchType {
	case RewriteName:
		if from, ok := r.match(map[string]any{"name": text, "namespace": in["namespace"]}); ok {
			return from.Name
		}
	case RewriteNamespace:
		return r.namespace(text)
	}
	return text
}

// namespace translates a namespace, if the references that became one of it agree on where they came from.
func (r returning) namespace(namespace string) string {
	from := ""
	for _, ref := range r {
		switch {
		case ref.To.Namespace != namespace || ref.From.Namespace == "" || ref.From.Namespace == from:
		case from == "":
			from = ref.From.Namespace
		default:
			return namespace
		}
	}
	if from == "" {
		return namespace
	}
	return from
}

// match finds the source's reference that an object on the twin's side is the translation of. All that both state has
// to agree; of several the first that agrees in its kind is taken, else the first.
func (r returning) match(object map[string]any) (from Reference, ok bool) {
	name, _ := object["name"].(string)
	if name == "" {
		return Reference{}, false
	}
	namespace, _ := object["namespace"].(string)
	kind, _ := object["kind"].(string)
	group, groupKnown := groupOf(object)
	for _, ref := range r {
		to := ref.To
		switch {
		case to.Name != name,
			namespace != "" && to.Namespace != "" && namespace != to.Namespace,
			kind != "" && to.Kind != "" && kind != to.Kind,
			groupKnown && to.GroupKnown && group != to.Group:
		case kind != "" && kind == to.Kind:
			return ref.From, true
		case !ok:
			from, ok = ref.From, true
		}
	}
	return from, ok
}
