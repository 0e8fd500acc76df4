package config

import (
	"reflect"
	"strconv"
	"strings"
)

// Field is one key of the file, as the tags of its struct field declare it.
type Field struct {
	// Name is the key in the file; GoName the struct field's name.
	Name, GoName string
	// Type is the type of the value.
	Type reflect.Type
	// Required fields have no default.
	Required bool
	// Default is the value of an absent field, in YAML; Computed says in words what it is when it depends on others.
	Default, Computed string
	// Enum lists the values allowed, Later those that a later version will allow.
	Enum, Later []string
	// Min and Max bound a number, and MinItems the length of a list or map; 0 means no bound.
	Min, Max, MinItems int
	// Pattern is a regular expression for editors; the checks after decoding say more exactly what is wrong.
	Pattern string
	// Example is a value, in YAML.
	Example string
	// Empty strings are values.
	Empty bool
	// Plugin marks a key for vCluster plugins alone.
	Plugin bool
	index  int
}

// Fields returns the keys of an object of the file format, in order.
func Fields(t reflect.Type) []Field {
	var fields []Field
	for i := range t.NumField() {
		f := t.Field(i)
		fields = append(fields, Field{
			Name:     f.Tag.Get("json"),
			GoName:   f.Name,
			Type:     f.Type,
			Required: f.Tag.Get("required") == "true",
			Default:  f.Tag.Get("default"),
			Computed: f.Tag.Get("computed"),
			Enum:     list(f.Tag.Get("enum")),
			Later:    list(f.Tag.Get("later")),
			Min:      number(f.Tag.Get("min")),
			Max:      number(f.Tag.Get("max")),
			MinItems: number(f.Tag.Get("minItems")),
			Pattern:  f.Tag.Get("pattern"),
			Example:  f.Tag.Get("example"),
			Empty:    f.Tag.Get("empty") == "true",
			Plugin:   f.Tag.Get("plugin") == "true",
			index:    i,
		})
	}
	return fields
}

func list(tag string) []string {
	if tag == "" {
		return nil
	}
	return strings.Split(tag, ",")
}

// number reads a tag; one that is no number counts as absent, which a test of the schema would show.
func number(tag string) int {
	n, _ := strconv.Atoi(tag)
	return n
}

// setDefaults gives a struct's fields their defaults, nested ones included.
func setDefaults(v reflect.Value) {
	for _, f := range Fields(v.Type()) {
		field := v.Field(f.index)
		switch field.Kind() {
		case reflect.Struct:
			setDefaults(field)
		case reflect.String:
			field.SetString(f.Default)
		case reflect.Bool:
			field.SetBool(f.Default == "true")
		case reflect.Int:
			field.SetInt(int64(number(f.Default)))
		}
	}
}

// placesOf lists where in a file with this root a key of this name is known, for a hint to who put it elsewhere.
func placesOf(root reflect.Type, name string) []string {
	var places []string
	var walk func(t reflect.Type, at string)
	walk = func(t reflect.Type, at string) {
		for _, f := range Fields(t) {
			if f.Name == name {
				places = append(places, at)
			}
			under := strings.TrimPrefix(at+"."+f.Name, ".")
			switch {
			case f.Type.Kind() == reflect.Struct:
				walk(f.Type, under)
			case f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct:
				walk(f.Type.Elem(), under+"[]")
			}
		}
	}
	walk(root, "")
	return places
}
