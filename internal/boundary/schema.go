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
// many list items hold it (O7). The fields apiVersion, kind and metadata at the top, and those that are named, are taken as
// declared. A nil schema declares everything.
func (s *Schema) Undeclared(content map[string]any, but ...string) []Path {
	if s == nil {
		return nil
	}
	top := make(map[string]any, len(content))
	for k, v := range content {
		if k != "apiVersion" && k != "kind" && k != "metadata" && !contains(but, k) {
			top[k] = v
		}
	}
	return s.undeclared(top)
}

// undeclared is Undeclared of content in which no field is taken as declared.
func (s *Schema) undeclared(content map[string]any) []Path {
	if s.declares(content) {
		return nil
	}
	w := &undeclaredWalk{seen: map[string]bool{}}
	w.value(s, content, nil)
	return w.found
}

// declares reports whether all of a value is declared, as it mostly is.
func (s *Schema) declares(v any) bool {
	if s == nil {
		return true
	}
	switch v := v.(type) {
	case map[string]any:
		if s.Type != "object" && s.Type != "" {
			return true // a wrong type is the server's to refuse
		}
		for k, inner := range v {
			if child, declared := s.field(k); declared && !child.declares(inner) || !declared && !s.PreserveUnknown {
				return false
			}
		}
	case []any:
		for _, item := range v {
			if !s.Items.declares(item) {
				return false
			}
		}
	}
	return true
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
// are not allowed. v is not changed; what needs none is shared with it.
func (s *Schema) FillDefaults(v any) any {
	if s == nil {
		return v
	}
	if v == nil && s.Default != nil && !s.Nullable {
		v = s.Default
	}
	switch content := v.(type) {
	case map[string]any:
		out := content
		for k, child := range content {
			childSchema, _ := s.field(k)
			out = with(out, content, k, childSchema.FillDefaults(child))
		}
		for k, child := range s.Properties {
			if _, present := content[k]; !present && child != nil && child.Default != nil {
				out = with(out, content, k, child.FillDefaults(child.Default))
			}
		}
		return out
	case []any:
		var out []any // nil: as it was
		for i, item := range content {
			out = withItem(out, content, i, s.Items.FillDefaults(item))
		}
		if out != nil {
			return out
		}
	}
	return v
}
