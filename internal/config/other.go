package config

import (
	"bytes"
	"encoding/json"
	"reflect"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Decode reads a file of another format, YAML or JSON, as strictly as [Parse] does its own: into a new T, a struct whose fields have the
// tags that file.go describes. list is the key of the list that the file is, and what are its items; check, if set, notes
// what is wrong beyond what the tags say. name is what messages call the file. The error is of type Errors, and holds all faults.
func Decode[T any](name string, data []byte, list, what string, check func(v *T, fault func(p *field.Path, format string, args ...any))) (*T, error) {
	v := new(T)
	r := newReport(name)
	r.format = format{root: reflect.TypeFor[T](), least: "`" + list + ": []`", what: what, list: list}
	if json.Valid(data) {
		data = bytes.ReplaceAll(data, []byte("\t"), []byte(" ")) // YAML does not take all tabs that JSON does; in strings there are none
	}
	tree := readTree(data, r)
	if tree == nil {
		return nil, r.result()
	}
	r.values[""] = place(tree)
	root := reflect.ValueOf(v).Elem()
	setDefaults(root)
	(&decoder{report: r}).decode(tree, root, nil, Field{})
	if check != nil {
		check(v, r.errorf)
	}
	if err := r.result(); err != nil {
		return nil, err
	}
	return v, nil
}
