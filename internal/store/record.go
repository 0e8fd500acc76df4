package store

import (
	"encoding/binary"
	"fmt"
	"maps"
	"strings"
	"unique"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/types"
)

// record is one state of one object, encoded. All but the chain of its second name never changes.
type record struct {
	key types.NamespacedName
	// data is a byte of flags, the resourceVersion, the UID, and what is left of the object (as CBOR), squeezed.
	data string
	// second is nil where Options.Index gave no second name.
	second *second
}

// second is what a record has beside its key by Options.Index.
type second struct {
	name  types.NamespacedName
	label string
	// next has the same second name; guarded by the Store's lock.
	next *record
}

// The flags of a record.
const (
	deleting byte = 1 << iota // the object has a deletionTimestamp
	dense                     // the payload is compressed with the Store's dictionary
)

// encode makes the record of an object, which it does not change.
func (s *Store) encode(obj *unstructured.Unstructured) *record {
	r := &record{key: tight(keyOf(obj))}
	if s.options.Index != nil {
		if name, label, ok := s.options.Index(obj); ok {
			r.second = &second{name: tight(name), label: unique.Make(label).Value()}
			if name.Name == r.key.Name {
				r.second.name.Name = r.key.Name
			}
		}
	}
	version, uid := obj.GetResourceVersion(), string(obj.GetUID())
	flags := byte(0)
	if obj.GetDeletionTimestamp() != nil {
		flags |= deleting
	}
	payload, err := direct.Marshal(stripped(obj))
	if err != nil {
		// Objects come out of a decoder, so they go into an encoder.
		panic(fmt.Sprintf("store: encode %s: %v", r.key, err))
	}
	payload, squeezed := s.dictionary.squeeze(payload)
	if squeezed {
		flags |= dense
	}
	var data strings.Builder
	data.Grow(1 + 2*binary.MaxVarintLen16 + len(version) + len(uid) + len(payload))
	data.WriteByte(flags)
	for _, text := range []string{version, uid} {
		data.Write(binary.AppendUvarint(nil, uint64(len(text))))
		data.WriteString(text)
	}
	data.Write(payload)
	r.data = data.String()
	return r
}

// decode makes the object of a record.
func (s *Store) decode(r *record) *unstructured.Unstructured {
	version, uid, payload := r.parts()
	var content map[string]any
	encoded := []byte(payload)
	var err error
	if r.data[0]&dense != 0 {
		encoded, err = s.dictionary.expand(encoded)
	}
	if err == nil {
		err = direct.Unmarshal(encoded, &content)
	}
	if err != nil {
		panic(fmt.Sprintf("store: decode %s: %v", r.key, err)) // it was encoded above
	}
	restore(content, r.key, version, uid)
	return &unstructured.Unstructured{Object: content}
}

// parts takes the data of a record apart. What it returns holds on to all of the data.
func (r *record) parts() (version, uid, payload string) {
	rest := r.data[1:]
	for _, text := range []*string{&version, &uid} {
		length, n := 0, 0
		for shift := 0; ; shift += 7 {
			b := rest[n]
			length, n = length|int(b&0x7f)<<shift, n+1
			if b < 0x80 {
				break
			}
		}
		*text, rest = rest[n:n+length], rest[n+length:]
	}
	return version, uid, rest
}

// The fields of metadata that a record has already.
var known = []string{"namespace", "name", "resourceVersion", "uid"}

// stripped returns the content of an object without what its record has already.
func stripped(obj *unstructured.Unstructured) map[string]any {
	metadata, ok := obj.Object["metadata"].(map[string]any)
	if !ok {
		return obj.Object
	}
	content := maps.Clone(obj.Object)
	rest := maps.Clone(metadata)
	for _, field := range known {
		if text, ok := rest[field].(string); ok && text != "" {
			delete(rest, field)
		}
	}
	content["metadata"] = rest
	return content
}

// restore undoes stripped.
func restore(content map[string]any, key types.NamespacedName, version, uid string) {
	metadata, ok := content["metadata"].(map[string]any)
	if !ok {
		return
	}
	for i, text := range []string{key.Namespace, key.Name, version, uid} {
		if text != "" {
			metadata[known[i]] = strings.Clone(text)
		}
	}
}

// tight returns a name that holds on to nothing but itself. Of namespaces there are few, so all have the same one.
func tight(name types.NamespacedName) types.NamespacedName {
	return types.NamespacedName{Namespace: unique.Make(name.Namespace).Value(), Name: strings.Clone(name.Name)}
}
