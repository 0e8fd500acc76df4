package boundary

// Schema is what a server declares of a kind: the part of an OpenAPI schema that decides about fields. Nodes may be
// shared and cyclic.
type Schema struct {
	// Type is "object", "array", "string", "integer", "number", "boolean", or empty for any.
	Type string
	// Properties are the declared fields of an object.
	Properties map[string]*Schema
	// Additional describes the values of a map; nil: none declared.
	Additional *Schema
	// Items describes the items of a list.
	Items *Schema
	// PreserveUnknown accepts undeclared fields (x-kubernetes-preserve-unknown-fields, or a free-form object).
	PreserveUnknown bool
	// EmbeddedResource declares apiVersion, kind and metadata implicitly (x-kubernetes-embedded-resource).
	EmbeddedResource bool
	// IntOrString accepts both (x-kubernetes-int-or-string).
	IntOrString bool
	// ListType is "atomic" (also when empty), "set" or "map".
	ListType string
	// ListMapKeys are the keys of a list of type "map".
	ListMapKeys []string
	// MapType is "granular" (also when empty) or "atomic".
	MapType string
	// Nullable accepts null.
	Nullable bool
	// Default is the value that the server fills in for an absent field; nil: none.
	Default any
}

// Undeclared returns the paths in content that the schema does not declare, outermost first and each once, however
// many list items hold it (O7). The fields apiVersion, kind and metadata at the top are taken as declared. A nil schema
// declares everything.
func (s *Schema) Undeclared(content map[string]any) []Path {
	if s == nil {
		return nil
	}
	w := &undeclaredWalk{seen: map[string]bool{}}
	top := map[string]any{}
	for k, v := range content {
		if k != "apiVersion" && k != "kind" && k != "metadata" {
			top[k] = v
		}
	}
	w.value(s, top, nil)
	return w.found
}

type undeclaredWalk struct {
	found []Path
	seen  map[string]bool
}

func (w *undeclaredWalk) value(s *Schema, v any, at Path) {
	if s == nil {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		if s.Type != "object" && s.Type != "" {
			return // a wrong type is the server's to refuse
		}
		for _, k := range sortedKeys(v) {
			if child, declared := s.field(k); declared {
				w.value(child, v[k], at.Field(k))
			} else if !s.PreserveUnknown {
				w.add(at.Field(k))
			}
		}
	case []any:
		for _, item := range v {
			w.value(s.Items, item, at.Items())
		}
	}
}

func (w *undeclaredWalk) add(p Path) {
	if text := p.String(); !w.seen[text] {
		w.seen[text] = true
		w.found = append(w.found, p)
	}
}

// field returns what the schema says of a field, and whether it is declared at all. A declared field may have no
// schema of its own: anything goes there.
func (s *Schema) field(name string) (*Schema, bool) {
	if child, ok := s.Properties[name]; ok {
		return child, true
	}
	if s.EmbeddedResource && (name == "apiVersion" || name == "kind" || name == "metadata") {
		return nil, true
	}
	if s.Additional != nil {
		return s.Additional, true
	}
	if len(s.Properties) == 0 && s.Type == "" {
		return nil, true // says nothing: anything goes
	}
	return nil, false
}

// At returns the schema of the place that a path names, and whether the path is declared. A path into a free-form
// subtree is declared and has no schema.
func (s *Schema) At(p Path) (*Schema, bool) {
	for _, step := range p {
		if s == nil {
			return nil, true
		}
		if step.EachItem {
			if s.Type != "array" && s.Type != "" {
				return nil, false
			}
			s = s.Items
			continue
		}
		child, declared := s.field(step.Field)
		if !declared && !s.PreserveUnknown {
			return nil, false
		}
		s = child
	}
	return s, true
}

// FillDefaults returns v with the defaults that a server would add to absent fields, and put in the place of nulls that
// are not allowed. v is not changed.
func (s *Schema) FillDefaults(v any) any {
	if s == nil {
		return v
	}
	if v == nil && s.Default != nil && !s.Nullable {
		v = s.Default
	}
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, child := range v {
			childSchema, _ := s.field(k)
			out[k] = childSchema.FillDefaults(child)
		}
		for k, child := range s.Properties {
			if _, present := out[k]; !present && child != nil && child.Default != nil {
				out[k] = child.FillDefaults(child.Default)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = s.Items.FillDefaults(v[i])
		}
		return out
	}
	return v
}
