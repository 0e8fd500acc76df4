package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// mismatch says what a node is and what was expected instead.
func mismatch(n *yaml.Node, v reflect.Value, f Field) string {
	want := expected(v.Type(), f)
	switch {
	case isNull(n):
		return fmt.Sprintf("has no value: expected %s; give it one, or remove the key", want)
	case v.Kind() == reflect.String && slices.Contains([]string{"!!bool", "!!int", "!!float", "!!timestamp"}, n.ShortTag()):
		return fmt.Sprintf("is %s: expected %s; write %s in quotes", describe(n), want, strconv.Quote(n.Value))
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.String && n.ShortTag() == "!!str":
		return fmt.Sprintf("is %s: expected %s; write it as [%s]", describe(n), want, show(n.Value))
	}
	return fmt.Sprintf("is %s: expected %s", describe(n), want)
}

// describe names what a node is, for messages.
func describe(n *yaml.Node) string {
	names := map[string]string{
		"!!map": "an object", "!!seq": "a list", "!!str": "the string", "!!bool": "the boolean", "!!int": "the number",
		"!!float": "the number", "!!null": "null", "!!timestamp": "the date", "!!binary": "binary data",
	}
	name, ok := names[n.ShortTag()]
	switch {
	case !ok:
		return "of the YAML type " + show(n.Tag)
	case n.Kind != yaml.ScalarNode || isNull(n) || n.ShortTag() == "!!binary":
		return name
	case n.ShortTag() == "!!str":
		return name + " " + show(n.Value)
	}
	return name + " " + n.Value
}

// expected names what a type takes, for messages.
func expected(t reflect.Type, f Field) string {
	switch {
	case f.Enum != nil:
		return oneOf(f.Enum)
	case f.Max > 0:
		return fmt.Sprintf("a whole number from %d to %d", f.Min, f.Max)
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "an object (key: value)"
	case reflect.Slice:
		return "a list"
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number"
	}
	if f.Example != "" {
		return "a string like " + f.Example
	}
	return "a string"
}

func place(n *yaml.Node) position { return position{n.Line, n.Column} }

// child is the path of a key of the object at p, which is nil for the file itself.
func child(p *field.Path, name string) *field.Path {
	switch {
	case !simpleName.MatchString(name) && p != nil:
		return p.Key(show(name))
	case !simpleName.MatchString(name):
		return field.NewPath(show(name))
	case p == nil:
		return field.NewPath(name)
	}
	return p.Child(name)
}

var (
	simpleName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,256}$`)
	simpleKey  = regexp.MustCompile(`^[A-Za-z0-9_./-]{1,320}$`)
)

// plainKey is a map's key as it stands in a path: quoted where it would be mistaken for something else.
func plainKey(key string) string {
	if simpleKey.MatchString(key) {
		return key
	}
	return show(key)
}

// pathString writes a path; that of the file itself is empty.
func pathString(p *field.Path) string {
	if p == nil {
		return ""
	}
	return p.String()
}
