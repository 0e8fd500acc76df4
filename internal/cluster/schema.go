package cluster

import (
	"strings"

	"isthmus.dev/isthmus/internal/boundary"
)

const refPrefix = "#/components/schemas/"

// converter turns OpenAPI v3 into what decides about fields. Each $ref is converted once and its node shared, so types
// that contain themselves (JSONSchemaProps) end.
type converter struct {
	// definitions are the named schemas that $ref refers to; CRDs have none.
	definitions map[string]any
	// prunes: an object that declares no fields loses all of them, as a CRD's does. Elsewhere it is free-form.
	prunes bool
	done   map[string]*boundary.Schema
	// later completes nodes that are copies of others, once those are whole.
	later []func()
}

// schemaOfCRD converts an openAPIV3Schema of a CRD; nil means that everything is preserved.
func schemaOfCRD(openAPIV3Schema map[string]any) *boundary.Schema {
	if openAPIV3Schema == nil {
		return &boundary.Schema{Type: "object", PreserveUnknown: true}
	}
	return (&converter{prunes: true, done: map[string]*boundary.Schema{}}).convert(openAPIV3Schema)
}

// schemaOfDefinition converts the named definition of an OpenAPI v3 document.
func schemaOfDefinition(definitions map[string]any, name string, prunes bool) *boundary.Schema {
	c := &converter{definitions: definitions, prunes: prunes, done: map[string]*boundary.Schema{}}
	s := c.named(name)
	for _, complete := range c.later {
		complete()
	}
	return s
}

func (c *converter) named(name string) *boundary.Schema {
	if s, ok := c.done[name]; ok {
		return s
	}
	s := &boundary.Schema{}
	c.done[name] = s // before its content is converted, which may refer to it
	switch {
	case strings.HasSuffix(name, ".meta.v1.ObjectMeta"), strings.HasSuffix(name, ".meta.v1.ListMeta"):
		*s = boundary.Schema{Type: "object", PreserveUnknown: true}
	case strings.HasSuffix(name, ".api.resource.Quantity"):
		*s = boundary.Schema{IntOrString: true}
	default:
		definition, ok := c.definitions[name].(map[string]any)
		if !ok {
			*s = boundary.Schema{PreserveUnknown: true} // a reference to nothing tells nothing
			break
		}
		*s = *c.convert(definition)
	}
	return s
}

func (c *converter) convert(in map[string]any) *boundary.Schema {
	if ref := refOf(in); ref != "" {
		return c.annotated(c.named(ref), in)
	}
	out := &boundary.Schema{
		Type:             text(in["type"]),
		PreserveUnknown:  in["x-kubernetes-preserve-unknown-fields"] == true,
		EmbeddedResource: in["x-kubernetes-embedded-resource"] == true,
		IntOrString:      in["x-kubernetes-int-or-string"] == true || in["format"] == "int-or-string",
		MapType:          text(in["x-kubernetes-map-type"]),
		Nullable:         in["nullable"] == true,
		Default:          c.defaultOf(in),
	}
	if out.IntOrString {
		out.Type = ""
	}
	out.ListType, out.ListMapKeys = listType(in)
	if properties, ok := in["properties"].(map[string]any); ok && len(properties) > 0 {
		out.Properties = make(map[string]*boundary.Schema, len(properties))
		for name, p := range properties {
			out.Properties[name] = c.child(p)
		}
	}
	switch values := in["additionalProperties"].(type) {
	case map[string]any:
		out.Additional = c.convert(values)
	case bool:
		if values {
			out.Additional = freeForm()
		}
	}
	if items, ok := in["items"]; ok {
		out.Items = c.child(items)
	}
	saysNothing := len(out.Properties) == 0 && out.Additional == nil && in["additionalProperties"] != false && !out.IntOrString
	if saysNothing && (out.Type == "" || out.Type == "object" && !c.prunes) {
		out.PreserveUnknown = true
	}
	return out
}

// listType returns how the items of a list are told apart, as the server's own merging reads it.
func listType(in map[string]any) (string, []string) {
	if t := text(in["x-kubernetes-list-type"]); t != "" {
		var keys []string
		list, _ := in["x-kubernetes-list-map-keys"].([]any)
		for _, k := range list {
			keys = append(keys, text(k))
		}
		return t, keys
	}
	switch text(in["x-kubernetes-patch-strategy"]) {
	case "merge", "merge,retainKeys":
		if key := text(in["x-kubernetes-patch-merge-key"]); key != "" {
			return "map", []string{key}
		}
		if in["items"] != nil {
			return "set", nil
		}
	}
	return "", nil
}

func (c *converter) child(v any) *boundary.Schema {
	if m, ok := v.(map[string]any); ok {
		return c.convert(m)
	}
	return freeForm()
}

// annotated returns what a $ref refers to with what stands beside the $ref. It is shared unless something does.
func (c *converter) annotated(s *boundary.Schema, in map[string]any) *boundary.Schema {
	mapType, def := text(in["x-kubernetes-map-type"]), c.defaultOf(in)
	nullable := in["nullable"] == true
	if mapType == "" && def == nil && !nullable {
		return s
	}
	own := &boundary.Schema{}
	c.later = append(c.later, func() { // s may be half-way through its own conversion
		*own = *s
		if mapType != "" {
			own.MapType = mapType
		}
		own.Default, own.Nullable = def, nullable
	})
	return own
}

// defaultOf returns a default that a server fills in. In definitions of built-in kinds, zero values stand for the
// encoding of Go's zero values and are not filled in.
func (c *converter) defaultOf(in map[string]any) any {
	def := in["default"]
	if c.prunes {
		return def
	}
	switch d := def.(type) {
	case string:
		if d == "" {
			return nil
		}
	case bool:
		if !d {
			return nil
		}
	case int64:
		if d == 0 {
			return nil
		}
	case float64:
		if d == 0 {
			return nil
		}
	case map[string]any:
		if len(d) == 0 {
			return nil
		}
	case []any:
		if len(d) == 0 {
			return nil
		}
	}
	return def
}

// refOf returns the name that a schema refers to, directly or as the only part of an allOf.
func refOf(in map[string]any) string {
	if ref := text(in["$ref"]); ref != "" {
		return strings.TrimPrefix(ref, refPrefix)
	}
	if all, ok := in["allOf"].([]any); ok && len(all) == 1 {
		if part, ok := all[0].(map[string]any); ok {
			return strings.TrimPrefix(text(part["$ref"]), refPrefix)
		}
	}
	return ""
}

func freeForm() *boundary.Schema { return &boundary.Schema{PreserveUnknown: true} }

func text(v any) string {
	s, _ := v.(string)
	return s
}
