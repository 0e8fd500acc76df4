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
	// data is a byte of flags, the resourceVersion, the UID, that of the second name, and the object's JSON, squeezed.
	data string
	// second is nil where Options.Index gave no second name.
	second *chained
}

// chained is the second name of a record.
type chained struct {
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
	secondUID := ""
	if s.options.Index != nil {
		if second, ok := s.options.Index(obj.Owners()); ok {
			r.second, secondUID = &chained{name: tight(second.Name), label: unique.Make(second.Label).Value()}, string(second.UID)
			if second.Name.Name == r.key.Name {
				r.second.name.Name = r.key.Name
			}
		}
	}
	texts := []string{obj.GetResourceVersion(), string(obj.GetUID()), secondUID}
	flags := byte(0)
	if obj.GetDeletionTimestamp() != nil {
		flags |= deleting
	}
	plain := obj.JSON
	if s.options.Slim {
		plain = obj.Slim()
	}
	payload, squeezed := s.dictionary.squeeze(plain)
	if squeezed {
		flags |= dense
	}
	var data strings.Builder
	length := 1 + len(payload)
	for _, text := range texts {
		length += binary.MaxVarintLen16 + len(text)
	}
	data.Grow(length)
	data.WriteByte(flags)
	for _, text := range texts {
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
	return wire.Decode(text), len(text)
}

// expand returns the JSON of a record.
func (s *Store) expand(r *record) []byte {
	_, payload := r.parts()
	if r.data[0]&dense != 0 {
		return s.dictionary.expand([]byte(payload))
	}
	return []byte(payload)
}

// texts are what a record has in plain beside the payload.
type texts struct{ version, uid, secondUID string }

// parts takes the data of a record apart. What it returns holds on to all of the data.
func (r *record) parts() (t texts, payload string) {
	rest := r.data[1:]
	for _, text := range []*string{&t.version, &t.uid, &t.secondUID} {
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
	return t, rest
}

// tight returns a name that holds on to nothing but itself. Of namespaces there are few, so all have the same one.
func tight(name types.NamespacedName) types.NamespacedName {
	return types.NamespacedName{Namespace: unique.Make(name.Namespace).Value(), Name: strings.Clone(name.Name)}
}
