package config

import (
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxValues bounds what is read, aliases counted as often as they are used, so that a small file can't be huge.
const maxValues = 100_000

// decoder fills the types of the format from a YAML tree. It knows nothing of their meaning.
type decoder struct {
	*report
	read int
	// plugin: the keys of vCluster plugins are among those expected.
	plugin bool
}

// decode reads a node into v. The field says what is expected of a scalar's value and of a list's length.
func (d *decoder) decode(n *yaml.Node, v reflect.Value, p *field.Path, f Field) {
	if d.read++; d.read > maxValues {
		if d.read == maxValues+1 {
			d.add(place(n), pathString(p), "more than %d values in one file: split the rules up", maxValues)
		}
		return
	}
	at := d.find(pathString(p), d.values)
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if want, ok := nodeKinds[v.Kind()]; !ok || n.Kind != want || n.ShortTag() != plainTags[v.Kind()] {
		d.add(at, pathString(p), "%s", mismatch(n, v, f))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.decodeStruct(n, v, p)
	case reflect.Map:
		d.decodeMap(n, v, p)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
		for i, item := range n.Content {
			itemPath := p.Index(i)
			d.values[itemPath.String()] = place(item)
			if v.Type().Elem().Kind() == reflect.Struct {
				setDefaults(v.Index(i))
			}
			d.decode(item, v.Index(i), itemPath, Field{Type: v.Type().Elem()})
		}
	default:
		d.decodeScalar(n, v, p, f)
		return
	}
	if f.MinItems > 0 && len(n.Content) < f.MinItems {
		d.add(at, pathString(p), "is empty: give it at least %d, or remove the key", f.MinItems)
	}
}

// nodeKinds says which node holds a value.
var nodeKinds = map[reflect.Kind]yaml.Kind{
	reflect.Struct: yaml.MappingNode,
	reflect.Map:    yaml.MappingNode,
	reflect.Slice:  yaml.SequenceNode,
	reflect.String: yaml.ScalarNode,
	reflect.Bool:   yaml.ScalarNode,
	reflect.Int:    yaml.ScalarNode,
}

// plainTags says which YAML type a node must have.
var plainTags = map[reflect.Kind]string{
	reflect.Struct: "!!map",
	reflect.Map:    "!!map",
	reflect.Slice:  "!!seq",
	reflect.String: "!!str",
	reflect.Bool:   "!!bool",
	reflect.Int:    "!!int",
}

// decodeStruct reads an object with known keys.
func (d *decoder) decodeStruct(n *yaml.Node, v reflect.Value, p *field.Path) {
	fields := Fields(v.Type())
	path := func(name string) *field.Path { return child(p, name) }
	seen := d.keysOf(n, p, path, func(key, value *yaml.Node, name string) {
		i := slices.IndexFunc(fields, func(f Field) bool { return f.Name == name })
		if i < 0 {
			d.unknown(key, fields, p)
			return
		}
		under := path(name)
		d.values[under.String()] = place(value)
		if value.Style&yaml.FlowStyle == 0 && value.Kind != yaml.ScalarNode || isNull(value) {
			d.values[under.String()] = place(key) // a block, or nothing: the key is where to look
		}
		d.decode(value, v.Field(fields[i].index), under, fields[i])
	})
	for _, f := range fields {
		if _, ok := seen[f.Name]; f.Required && !ok {
			d.add(place(n), child(p, f.Name).String(), "is missing: expected %s", expected(f.Type, f))
		}
	}
}

// decodeMap reads an object whose keys are free.
func (d *decoder) decodeMap(n *yaml.Node, v reflect.Value, p *field.Path) {
	v.Set(reflect.MakeMap(v.Type()))
	path := func(name string) *field.Path { return p.Key(plainKey(name)) }
	d.keysOf(n, p, path, func(key, value *yaml.Node, name string) {
		under := path(name)
		d.keys[under.String()], d.values[under.String()] = place(key), place(value)
		item := reflect.New(v.Type().Elem()).Elem()
		before := len(d.errs)
		d.decode(value, item, under, Field{Type: item.Type()})
		if len(d.errs) == before {
			v.SetMapIndex(reflect.ValueOf(name), item)
		}
	})
}

// keysOf calls visit for each key of the object at p that is a string, the first time it occurs. It returns these keys
// and their positions; path is the path of a key.
func (d *decoder) keysOf(n *yaml.Node, p *field.Path, path func(string) *field.Path, visit func(key, value *yaml.Node, name string)) map[string]position {
	seen := map[string]position{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := place(key)
		switch {
		case key.Kind == yaml.AliasNode:
			d.add(at, pathString(p), "a key can't be an alias: write the key out")
			continue
		case key.Kind != yaml.ScalarNode:
			d.add(at, pathString(p), "a key can't be %s: expected a string; put a value that starts with { or [ in quotes", describe(key))
			continue
		case key.ShortTag() == "!!merge":
			d.add(at, pathString(p), "merge keys (<<) are not supported: write the fields out")
			continue
		case key.ShortTag() != "!!str":
			d.add(at, pathString(p), "the key %s is %s: expected a string; write it as %s", show(key.Value), describe(key), show(key.Value))
			continue
		}
		if before, ok := seen[key.Value]; ok {
			d.add(at, path(key.Value).String(), "duplicate key: it is also at line %d, column %d; remove one of them", before.line, before.column)
			continue
		}
		seen[key.Value] = at
		visit(key, value, key.Value)
	}
	return seen
}

// unknown reports a key that an object does not have.
func (d *decoder) unknown(key *yaml.Node, fields []Field, p *field.Path) {
	var names []string
	for _, f := range fields {
		if !f.Plugin || d.plugin {
			names = append(names, f.Name)
		}
	}
	path := child(p, key.Value).String()
	if places := placesOf(d.format.root, key.Value); len(places) == 1 && places[0] == "" {
		d.add(place(key), path, "unknown field here, it belongs at the top level")
	} else if len(places) > 0 {
		d.add(place(key), path, "unknown field here, it belongs in %s", oneOf(places))
	} else if name, ok := nearest(key.Value, names); ok {
		d.add(place(key), path, "unknown field, did you mean %q?", name)
	} else {
		d.add(place(key), path, "unknown field, expected %s", oneOf(names))
	}
}

// decodeScalar reads a string, number or boolean whose YAML type fits.
func (d *decoder) decodeScalar(n *yaml.Node, v reflect.Value, p *field.Path, f Field) {
	parsed := reflect.New(v.Type())
	if err := n.Decode(parsed.Interface()); err != nil {
		d.errorf(p, "%s", mismatch(n, v, f))
		return
	}
	value := parsed.Elem()
	switch {
	case slices.Contains(f.Later, n.Value):
		d.errorf(p, "%s is not supported in this version: expected %s", show(n.Value), oneOf(f.Enum))
	case f.Enum != nil && !slices.Contains(f.Enum, n.Value):
		if meant, ok := nearest(n.Value, f.Enum); ok {
			d.errorf(p, "unknown value %s, did you mean %q? Expected %s", show(n.Value), meant, oneOf(f.Enum))
		} else {
			d.errorf(p, "unknown value %s, expected %s", show(n.Value), oneOf(f.Enum))
		}
	case f.Name != "" && v.Kind() == reflect.String && value.String() == "" && !f.Empty:
		d.errorf(p, "is an empty string: give it a value, or remove the key")
	case f.Max > 0 && (value.Int() < int64(f.Min) || value.Int() > int64(f.Max)):
		d.errorf(p, "is %s: expected %s", describe(n), expected(f.Type, f))
	default:
		v.Set(value)
	}
}
