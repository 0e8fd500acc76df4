package store

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/internal/wire"
)

// arrival is an object on its way into the Store.
type arrival struct {
	key     types.NamespacedName
	version string
	// keep is what Options.Keep said at a turn of the Store.
	keep bool
	turn int
	// object is nil for one that is packed in any case, record for one that is not packed yet.
	object *wire.Object
	record *record
}

// GetObjectKind is part of runtime.Object.
func (in *arrival) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject is part of runtime.Object.
func (in *arrival) DeepCopyObject() runtime.Object { return in }

// receive prepares an object that arrives, without the lock: what takes time is done here. One that does not matter now is
// packed only if it has to wait for a list to be complete.
func (s *Store) receive(obj *wire.Object, waits bool) *arrival {
	in := &arrival{key: keyOf(obj), version: obj.GetResourceVersion()}
	s.mu.RLock()
	in.turn = s.turn
	have := s.records[in.key]
	s.mu.RUnlock()
	in.keep = s.options.Keep == nil || s.options.Keep(obj.Head)
	if waits || in.keep && (have == nil || have.version() != in.version) {
		in.record = s.encode(obj)
	}
	if !waits {
		in.object = obj
	}
	return in
}

// keeps reports whether an arrival matters. The caller holds the lock.
func (s *Store) keeps(in *arrival) bool {
	if in.turn != s.turn && s.options.Keep != nil {
		in.keep, in.turn = s.options.Keep(s.head(in)), s.turn
	}
	return in.keep
}

func (s *Store) head(in *arrival) *unstructured.Unstructured {
	if in.object != nil {
		return in.object.Head
	}
	return s.item(in.record).Head()
}

// set stores an object unless a newer one is there, and returns what changed. The caller holds the lock.
func (s *Store) set(in *arrival) (Change, bool) {
	old := s.records[in.key]
	if old != nil && !newer(in.version, old.version()) {
		return Change{}, false
	}
	if !s.keeps(in) {
		if old == nil {
			return Change{}, false
		}
		s.drop(old)
		return Change{Key: old.key, Old: s.item(old)}, true
	}
	if in.record == nil {
		in.record = s.encode(in.object)
	}
	if old != nil {
		s.drop(old)
	}
	s.records[in.record.key] = in.record
	if second := in.record.second; second != nil {
		second.next = s.index[second.name]
		s.index[second.name] = in.record
	}
	return Change{Key: in.record.key, Old: s.item(old), New: s.item(in.record)}, true
}
