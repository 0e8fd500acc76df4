package store

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// How many objects are kept decoded, and how many bytes of JSON these may stand for. One decision asks several
// times for the same few.
const (
	recentMost  = 32
	recentBytes = 256 << 10
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
	size   int // of its JSON
}

// object returns the object of a record, and keeps it.
func (c *recent) object(r *record, decode func(*record) (object *unstructured.Unstructured, size int)) *unstructured.Unstructured {
	c.mu.Lock()
	i := slices.IndexFunc(c.kept, func(d decoded) bool { return d.record == r })
	if i >= 0 {
		found := c.kept[i]
		c.kept = append(slices.Delete(c.kept, i, i+1), found)
		c.mu.Unlock()
		return found.object
	}
	c.mu.Unlock()
	object, size := decode(r)
	c.keep(decoded{r, object, size})
	return object
}

// keep takes in an object that is likely to be asked for.
func (c *recent) keep(d decoded) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept, c.bytes = append(c.kept, d), c.bytes+d.size
	drop := 0
	for len(c.kept)-drop > recentMost || c.bytes > recentBytes && drop < len(c.kept) {
		c.bytes -= c.kept[drop].size
		drop++
	}
	c.kept = slices.Delete(c.kept, 0, drop)
}
