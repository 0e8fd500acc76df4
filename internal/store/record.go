package store

import (
	"encoding/binary"
	"strings"
	"unique"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/internal/wire"
)

// record is one state of one object, encoded. All but the chain of its second name never changes.
type record struct {
	key types.NamespacedName
	// data is a byte of flags, the resourceVersion, the UID, and the object's JSON, squeezed.
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

// encode makes the record of an object.
func (s *Store) encode(obj *wire.Object) *record {
	r := &record{key: tight(keyOf(obj))}
	if s.options.Index != nil {
		if name, label, ok := s.options.Index(obj.Head); ok {
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
	payload, squeezed := s.dictionary.squeeze(obj.JSON)
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

// decode makes the object of a record, and tells how long its JSON is.
func (s *Store) decode(r *record) (obj *unstructured.Unstructured, size int) {
	text := s.expand(r)
	obj = wire.Decode(text)
	if s.options.Trim != nil {
		s.options.Trim(obj)
	}
	return obj, len(text)
}

// expand returns the JSON of a record.
func (s *Store) expand(r *record) []byte {
	_, _, payload := r.parts()
	if r.data[0]&dense != 0 {
		return s.dictionary.expand([]byte(payload))
	}
	return []byte(payload)
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

// tight returns a name that holds on to nothing but itself. Of namespaces there are few, so all have the same one.
func tight(name types.NamespacedName) types.NamespacedName {
	return types.NamespacedName{Namespace: unique.Make(name.Namespace).Value(), Name: strings.Clone(name.Name)}
}
