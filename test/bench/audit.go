//go:build linux

package main

import (
	"time"

	"isthmus.dev/isthmus/internal/controlplane"
)

// counts are requests of one contender, on both sides.
type counts struct {
	// writes are those to Widgets, reads the lists and reads of single objects of any kind; watches are neither.
	writes, reads int
	// events are the Events told, of which nothing is promised.
	events int
}

// requestsOf counts what a contender asked both sides since a time, as their audit logs have it.
func (s *scene) requestsOf(c contender, since time.Time) (n counts, err error) {
	for _, side := range []*controlplane.Cluster{s.local, s.remote} {
		entries, err := side.AuditSince(since)
		if err != nil {
			return n, err
		}
		for _, e := range entries {
			if e.User.Username != string(c) || e.Stage != "ResponseComplete" || e.ObjectRef == nil {
				continue
			}
			switch {
			case e.ObjectRef.Resource == "events":
				n.events++
			case e.ObjectRef.Resource == plural && e.IsWrite():
				n.writes++
			case e.ObjectRef.Resource != "leases" && (e.Verb == "get" || e.Verb == "list"):
				n.reads++
			}
		}
	}
	return n, nil
}
