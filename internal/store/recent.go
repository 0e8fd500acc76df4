package store

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// How many objects are kept decoded, and how many bytes of encoded ones these may stand for. One decision asks several
// times for the same few.
const (
	recentMost  = 32
	recentBytes = 64 << 10
)

// recent are the objects that were asked for last, decoded.
type recent struct {
	mu    sync.Mutex
	kept  []decoded // the latest last
	bytes int
}

type decoded struct {
	record *record
	object *unstructured.Unstructured
}

// object returns the object of a record, and keeps it.
func (c *recent) object(r *record, decode func(*record) *unstructured.Unstructured) *unstructured.Unstructured {
	c.mu.Lock()
	i := slices.IndexFunc(c.kept, func(d decoded) bool { return d.record == r })
	if i >= 0 {
		found := c.kept[i]
		c.kept = append(slices.Delete(c.kept, i, i+1), found)
		c.mu.Unlock()
		return found.object
	}
	c.mu.Unlock()
	object := decode(r)
	c.keep(r, object)
	return object
}

// keep takes in an object that is likely to be asked for.
func (c *recent) keep(r *record, object *unstructured.Unstructured) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept, c.bytes = append(c.kept, decoded{r, object}), c.bytes+len(r.data)
	drop := 0
	for len(c.kept)-drop > recentMost || c.bytes > recentBytes && drop < len(c.kept) {
		c.bytes -= len(c.kept[drop].record.data)
		drop++
	}
	c.kept = slices.Delete(c.kept, 0, drop)
}
