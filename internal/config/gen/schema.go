package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"go.yaml.in/yaml/v3"

	"isthmus.dev/isthmus/internal/config"
)

// schema is the part of JSON Schema that the format needs, in the draft that editors understand best.
type schema struct {
	Schema               string             `json:"$schema,omitempty"`
	Title                string             `json:"title,omitempty"`
	Description          string             `json:"description,omitempty"`
	AllOf                []*schema          `json:"allOf,omitempty"`
	Ref                  string             `json:"$ref,omitempty"`
	Type                 string             `json:"type,omitempty"`
	Enum                 []string           `json:"enum,omitempty"`
	Default              any                `json:"default,omitempty"`
	Examples             []any              `json:"examples,omitempty"`
	Pattern              string             `json:"pattern,omitempty"`
	Minimum              int                `json:"minimum,omitempty"`
	Maximum              int                `json:"maximum,omitempty"`
	MinItems             int                `json:"minItems,omitempty"`
	MinProperties        int                `json:"minProperties,omitempty"`
	Required             []string           `json:"required,omitempty"`
	Properties           map[string]*schema `json:"properties,omitempty"`
	AdditionalProperties any                `json:"additionalProperties,omitempty"`
	Items                *schema            `json:"items,omitempty"`
	Definitions          map[string]*schema `json:"definitions,omitempty"`
}

// schemaOf returns the JSON Schema of the file format.
func schemaOf(docs comments) ([]byte, error) {
	g := generator{docs: docs, definitions: map[string]*schema{}}
	root := g.object(reflect.TypeFor[config.File]())
	root.Schema = "http://json-schema.org/draft-07/schema#"
	root.Title = "Isthmus rules"
	root.Definitions = g.definitions
	if g.err != nil {
		return nil, g.err
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(root)
	return out.Bytes(), err
}

type generator struct {
	docs        comments
	definitions map[string]*schema
	err         error
}

// object is the schema of a struct.
func (g *generator) object(t reflect.Type) *schema {
	s := &schema{Type: "object", Description: g.docs[t.Name()], Properties: map[string]*schema{}, AdditionalProperties: false}
	for _, f := range config.Fields(t) {
		if f.Required {
			s.Required = append(s.Required, f.Name)
		}
		s.Properties[f.Name] = g.field(t, f)
	}
	return s
}

// field is the schema of a struct's field.
func (g *generator) field(t reflect.Type, f config.Field) *schema {
	s := g.value(f.Type)
	if s.Ref != "" { // what stands beside a $ref is ignored in this draft
		s = &schema{AllOf: []*schema{s}}
	}
	s.Description = g.docs[t.Name()+"."+f.GoName]
	s.Enum, s.Pattern, s.Minimum, s.Maximum = f.Enum, f.Pattern, f.Min, f.Max
	if s.Type == "object" {
		s.MinProperties = f.MinItems
	} else {
		s.MinItems = f.MinItems
	}
	if f.Default != "" {
		s.Default = g.parse(f.Type, f.Default)
	}
	if f.Example != "" {
		s.Examples = []any{g.parse(f.Type, f.Example)}
	}
	return s
}

// value is the schema of a type.
func (g *generator) value(t reflect.Type) *schema {
	switch t.Kind() {
	case reflect.Struct:
		if g.definitions[t.Name()] == nil {
			g.definitions[t.Name()] = g.object(t)
		}
		return &schema{Ref: "#/definitions/" + t.Name()}
	case reflect.Map:
		return &schema{Type: "object", AdditionalProperties: g.value(t.Elem())}
	case reflect.Slice:
		return &schema{Type: "array", Items: g.value(t.Elem())}
	case reflect.Bool:
		return &schema{Type: "boolean"}
	case reflect.Int:
		return &schema{Type: "integer"}
	}
	return &schema{Type: "string"}
}

// parse reads a default or an example from a tag: a string as it stands, anything else as YAML.
func (g *generator) parse(t reflect.Type, text string) any {
	if t.Kind() == reflect.String {
		return text
	}
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil && g.err == nil {
		g.err = fmt.Errorf("tag value %q: %w", text, err)
	}
	return value
}
