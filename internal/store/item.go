package store

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/internal/wire"
)

// Item is one state of one object. What a Store knows without decoding the object is cheap to ask for. The zero Item
// stands for no object.
type Item struct {
	store  *Store
	record *record
}

// Exists reports whether there is, or was, an object.
func (i Item) Exists() bool { return i.record != nil }

// Key returns namespace and name.
func (i Item) Key() types.NamespacedName { return i.record.key }

// UID returns the UID.
func (i Item) UID() types.UID {
	texts, _ := i.record.parts()
	return types.UID(strings.Clone(texts.uid))
}

// ResourceVersion returns the resourceVersion.
func (i Item) ResourceVersion() string { return strings.Clone(i.record.version()) }

// Deleting reports whether the object has a deletionTimestamp.
func (i Item) Deleting() bool { return i.record.data[0]&deleting != 0 }

// Second returns the second name that Options.Index gave.
func (i Item) Second() (name types.NamespacedName, ok bool) {
	if i.record.second == nil {
		return types.NamespacedName{}, false
	}
	return i.record.second.name, true
}

// Label returns the label that Options.Index gave; empty without a second name.
func (i Item) Label() string {
	if i.record.second == nil {
		return ""
	}
	return i.record.second.label
}

// SecondUID returns the UID that Options.Index gave; empty without a second name.
func (i Item) SecondUID() types.UID {
	texts, _ := i.record.parts()
	return types.UID(strings.Clone(texts.secondUID))
}

// Head returns the head of the object (see wire.Object), which costs less than the whole; nil: there is none.
func (i Item) Head() *unstructured.Unstructured {
	if i.record == nil {
		return nil
	}
	return wire.Head(i.store.expand(i.record))
}

// Object returns the object, which is shared: it must not be changed; nil: there is none.
func (i Item) Object() *unstructured.Unstructured {
	if i.record == nil {
		return nil
	}
	return i.store.recent.object(i.record, i.store.decode)
}

func (r *record) version() string {
	texts, _ := r.parts()
	return texts.version
}
