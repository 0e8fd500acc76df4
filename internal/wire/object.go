// Package wire carries objects as the JSON that an API server sent: what decides whether an object matters is read at
// arrival, and the rest only when somebody asks.
package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Object is an object as it came. It is not changed.
type Object struct {
	metav1.Object // that of Head
	// Head is apiVersion, kind, and metadata without managedFields.
	Head *unstructured.Unstructured
	// JSON is all of it.
	JSON    []byte
	managed managed
}

// managed says where managedFields are in an object's JSON.
type managed struct {
	list  span
	owned []span // what the entries own: the values of fieldsV1
}

// span is a part of a text.
type span struct{ from, to int }

// Parse reads the head of an object, whose JSON it keeps.
func Parse(text []byte) (*Object, error) { return parse(text, false) }

// parse is Parse. Of a text that is known to be JSON no more is read than the head.
func parse(text []byte, known bool) (*Object, error) {
	head, managed, err := headOf(text, known)
	if err != nil {
		return nil, err
	}
	return of(head, managed, text), nil
}

// Of makes an Object of one that is decoded.
func Of(u *unstructured.Unstructured) (*Object, error) {
	text, err := json.Marshal(u.Object)
	if err != nil {
		return nil, fmt.Errorf("encode %s/%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	return Parse(text)
}

func of(head map[string]any, managed managed, text []byte) *Object {
	u := &unstructured.Unstructured{Object: head}
	return &Object{Object: u, Head: u, JSON: text, managed: managed}
}

// Owners returns Head with managedFields, of which each entry has no more than what it owns of the metadata.
func (o *Object) Owners() *unstructured.Unstructured {
	metadata, _ := o.Head.Object["metadata"].(map[string]any)
	if metadata == nil || o.managed.list == (span{}) {
		return o.Head
	}
	var managers any
	err := read(o.JSON[o.managed.list.from:o.managed.list.to], func(d *decoder) (err error) {
		managers, err = d.managers()
		return err
	})
	if err != nil {
		panic(fmt.Sprintf("wire: read managedFields, which were parsed before: %v", err))
	}
	head, metadata := maps.Clone(o.Head.Object), maps.Clone(metadata)
	head["metadata"], metadata["managedFields"] = metadata, managers
	return &unstructured.Unstructured{Object: head}
}

// Slim returns JSON of the object in which managedFields say who wrote, and not what.
func (o *Object) Slim() []byte {
	if len(o.managed.owned) == 0 {
		return o.JSON
	}
	slim, kept := make([]byte, 0, len(o.JSON)), 0
	for _, owned := range o.managed.owned {
		slim = append(append(slim, o.JSON[kept:owned.from]...), "{}"...)
		kept = owned.to
	}
	return append(slim, o.JSON[kept:]...)
}

// Decode returns the whole object, which is the caller's; nil of nil.
func (o *Object) Decode() *unstructured.Unstructured {
	if o == nil {
		return nil
	}
	return Decode(o.JSON)
}

// Decode returns the object of which an Object had this JSON. Whole numbers are int64, as everywhere in Kubernetes.
func Decode(text []byte) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: decode(text, func(string) bool { return true })}
}

// decode reads some fields of what was parsed before.
func decode(text []byte, wanted func(name string) bool) (content map[string]any) {
	err := read(text, func(d *decoder) (err error) {
		content, err = d.some(func(name string) reader {
			if wanted(name) {
				return d.value
			}
			return nil
		})
		return err
	})
	if err != nil {
		panic(fmt.Sprintf("wire: decode what was parsed before: %v", err))
	}
	return content
}

// Head returns what the Head of an Object that had this JSON was.
func Head(text []byte) *unstructured.Unstructured {
	head, _, err := headOf(text, true)
	if err != nil {
		panic(fmt.Sprintf("wire: read the head of what was parsed before: %v", err))
	}
	return &unstructured.Unstructured{Object: head}
}

// Field returns a field of the object, such as its status; nil: it has none.
func (o *Object) Field(field string) any {
	return decode(o.JSON, func(name string) bool { return name == field })[field]
}

// GetObjectKind is part of runtime.Object.
func (o *Object) GetObjectKind() schema.ObjectKind { return o.Head.GetObjectKind() }

// DeepCopyObject is part of runtime.Object.
func (o *Object) DeepCopyObject() runtime.Object {
	return of(o.Head.DeepCopy().Object, o.managed, o.JSON)
}

// errEnough ends a read of what is known to be JSON.
var errEnough = errors.New("no more is needed")

// headOf reads what Head has, and finds managedFields.
func headOf(text []byte, known bool) (head map[string]any, managed managed, err error) {
	err = read(text, func(d *decoder) error {
		if d.PeekKind() == 'n' {
			return d.SkipValue()
		}
		head = map[string]any{}
		return d.fields(func(name string) (err error) {
			switch name {
			case "apiVersion", "kind":
				head[name], err = d.value()
			case "metadata":
				head[name], err = d.metadata(&managed)
			default:
				return d.SkipValue()
			}
			if err == nil && known && len(head) == 3 {
				return errEnough
			}
			return err
		})
	})
	if err == errEnough {
		err = nil
	}
	return head, managed, err
}

func (d *decoder) metadata(found *managed) (any, error) {
	metadata, err := d.some(func(name string) reader {
		if name == "managedFields" {
			return func() (any, error) { return nil, d.find(found) }
		}
		return d.value
	})
	delete(metadata, "managedFields")
	return metadata, err
}

// find passes over managedFields and says where they are.
func (d *decoder) find(found *managed) error {
	*found = managed{}
	if d.PeekKind() != '[' {
		return d.SkipValue()
	}
	if err := d.open('['); err != nil {
		return err
	}
	found.list.from = int(d.InputOffset()) - 1
	for d.PeekKind() != ']' {
		if err := d.findOwned(found); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	found.list.to = int(d.InputOffset())
	return err
}

// findOwned passes over an entry of managedFields and says where what it owns is.
func (d *decoder) findOwned(found *managed) error {
	if d.PeekKind() != '{' {
		return d.SkipValue()
	}
	return d.fields(func(name string) error {
		if name != "fieldsV1" {
			return d.SkipValue()
		}
		value, err := d.ReadValue()
		to := int(d.InputOffset())
		found.owned = append(found.owned, span{to - len(value), to})
		return err
	})
}

// managers reads managedFields, of which each entry is left with what it owns of the metadata.
func (d *decoder) managers() (any, error) {
	if d.PeekKind() != '[' {
		return d.value()
	}
	entries := []any{}
	return entries, d.items(func() error {
		entry, err := d.some(func(name string) reader {
			if name == "fieldsV1" {
				return d.ownedMetadata
			}
			return d.value
		})
		entries = append(entries, entry)
		return err
	})
}

func (d *decoder) ownedMetadata() (any, error) {
	return d.some(func(name string) reader {
		if name == "f:metadata" {
			return d.value
		}
		return nil
	})
}
