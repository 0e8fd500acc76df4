package store

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/s2"
)

// A dictionary is made from the first objects when so many have come, for a few do not pay for it; it is as long as that,
// and of no object takes more than the two ends. Objects of one kind are alike in all but their values.
const (
	dictionaryAfter = 64
	dictionarySize  = 16 << 10
	dictionaryEnd   = 2 << 10
)

// dictionary compresses the objects of one store with what they have in common. It stays the same once it is made.
type dictionary struct {
	made atomic.Pointer[s2.Dict]

	mu     sync.Mutex
	sample []byte
	seen   int
}

// squeeze compresses an encoded object, if there is a dictionary and it pays. It may return the object itself.
func (d *dictionary) squeeze(plain []byte) (out []byte, squeezed bool) {
	made := d.made.Load()
	if made == nil {
		d.learn(plain)
		return plain, false
	}
	out = made.Encode(nil, plain)
	if len(out) >= len(plain) {
		return plain, false
	}
	return out, true
}

// expand undoes squeeze.
func (d *dictionary) expand(squeezed []byte) []byte {
	plain, err := d.made.Load().Decode(nil, squeezed)
	if err != nil {
		panic(fmt.Sprintf("store: expand what was squeezed before: %v", err))
	}
	return plain
}

// learn takes in an object, and makes the dictionary when it has seen enough.
func (d *dictionary) learn(plain []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.made.Load() != nil {
		return
	}
	if len(d.sample) < dictionarySize {
		end := min(dictionaryEnd, len(plain)/2)
		d.sample = append(append(d.sample, plain[:end]...), plain[len(plain)-end:]...)
	}
	if d.seen++; d.seen < dictionaryAfter {
		return
	}
	if made := s2.MakeDict(d.sample, nil); made != nil {
		d.made.Store(made)
	}
	d.sample = nil
}
