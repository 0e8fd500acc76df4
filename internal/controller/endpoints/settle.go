package endpoints

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/api/v1alpha1"
	mapping "isthmus.dev/isthmus/internal/endpoints"
)

// settling is whether a link is used as being up, and since when it says otherwise.
type settling struct {
	uid   types.UID
	up    bool
	since time.Time // zero: it says the same
}

// calm puts into links whether each is used as being up: as it was, until it has said otherwise for the settle time. It returns
// how long until the next has; zero: none does. Everything else about a link counts at once: stale addresses lead elsewhere.
func (l *Links) calm(objects []v1alpha1.ClusterLink, links map[string]*mapping.Link, now time.Time) (remaining time.Duration) {
	next := map[string]settling{}
	for i := range objects {
		link := links[objects[i].Name]
		if link == nil {
			continue
		}
		s, known := l.settled[link.ClusterID]
		switch {
		case !known || s.uid != objects[i].UID || s.up == link.Up:
			s = settling{uid: objects[i].UID, up: link.Up}
		case s.since.IsZero():
			s.since = now
			fallthrough
		default:
			if left := l.settle - now.Sub(s.since); left > 0 {
				remaining = soonest(remaining, left)
			} else {
				s = settling{uid: s.uid, up: link.Up}
			}
		}
		link.Up = s.up
		next[link.ClusterID] = s
	}
	l.settled = next
	return remaining
}
