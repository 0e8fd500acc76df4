// Package wire carries objects as the JSON that an API server sent: what decides whether an object matters is read at
// arrival, and the rest only when somebody asks.
package wire

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Object is an object as it came. It is not changed.
type Object struct {
	metav1.Object // that of Head
	// Head is apiVersion, kind and metadata, in which each entry of managedFields has no more than what it owns of the
	// metadata.
	Head *unstructured.Unstructured
	// JSON is all of it.
	JSON []byte
}

// Parse reads the head of an object, whose JSON it keeps.
func Parse(text []byte) (*Object, error) {
	head, err := headOf(text)
	if err != nil {
		return nil, err
	}
	return of(head, text), nil
}

// Of makes an Object of one that is decoded.
func Of(u *unstructured.Unstructured) (*Object, error) {
	text, err := json.Marshal(u.Object)
	if err != nil {
		return nil, fmt.Errorf("encode %s/%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	return Parse(text)
}

func of(head map[string]any, text []byte) *Object {
	u := &unstructured.Unstructured{Object: head}
	return &Object{Object: u, Head: u, JSON: text}
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

// Field returns a field of the object, such as its status; nil: it has none.
func (o *Object) Field(field string) any {
	return decode(o.JSON, func(name string) bool { return name == field })[field]
}

// GetObjectKind is part of runtime.Object.
func (o *Object) GetObjectKind() schema.ObjectKind { return o.Head.GetObjectKind() }

// DeepCopyObject is part of runtime.Object.
func (o *Object) DeepCopyObject() runtime.Object { return of(o.Head.DeepCopy().Object, o.JSON) }

// headOf reads what Head has.
func headOf(text []byte) (map[string]any, error) {
	var head map[string]any
	err := read(text, func(d *decoder) (err error) {
		head, err = d.some(func(name string) reader {
			switch name {
			case "apiVersion", "kind":
				return d.value
			case "metadata":
				return d.metadata
			}
			return nil
		})
		return err
	})
	return head, err
}

// metadata reads metadata, with what managers own of it.
func (d *decoder) metadata() (any, error) {
	return d.some(func(name string) reader {
		if name == "managedFields" {
			return d.managers
		}
		return d.value
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
