//go:build linux

package main

import (
	"strings"
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

// requestsOf counts what a contender asked both sides for objects since a time.
func (s *scene) requestsOf(c contender, since time.Time) (n counts, err error) {
	err = s.eachRequest(c, since, func(e *controlplane.AuditEvent) {
		switch {
		case e.ObjectRef == nil:
		case e.ObjectRef.Resource == "events":
			n.events++
		case e.ObjectRef.Resource == plural && e.IsWrite():
			n.writes++
		case e.ObjectRef.Resource != "leases" && (e.Verb == "get" || e.Verb == "list"):
			n.reads++
		}
	})
	return n, err
}

// restless counts everything that a contender asked both sides since a time but for watches: what it wrote, Events
// included, and what it read. Questions about its own rights store nothing and count as reads.
func (s *scene) restless(c contender, since time.Time) (n counts, err error) {
	err = s.eachRequest(c, since, func(e *controlplane.AuditEvent) {
		switch {
		case e.Verb == "watch":
		case e.IsWrite() && (e.ObjectRef == nil || !strings.HasPrefix(e.ObjectRef.Resource, "selfsubject")):
			n.writes++
		default:
			n.reads++
		}
	})
	return n, err
}

// eachRequest visits what a contender asked both sides since a time and was answered, as their audit logs have it.
func (s *scene) eachRequest(c contender, since time.Time, visit func(*controlplane.AuditEvent)) error {
	for _, side := range []*controlplane.Cluster{s.local, s.remote} {
		entries, err := side.AuditSince(since)
		if err != nil {
			return err
		}
		for i := range entries {
			if e := &entries[i]; e.User.Username == string(c) && e.Stage == "ResponseComplete" {
				visit(e)
			}
		}
	}
	return nil
}

// commits are the writes to Widgets that somebody made on a side since a time, as its audit log has them: a watch would tell
// them only when it gets to it.
type commits struct {
	side        *controlplane.Cluster
	since       time.Time
	by          func(user string) bool
	subresource string
}

// read returns when the first write to each object was done.
func (c commits) read() (map[int]time.Time, error) {
	entries, err := c.side.AuditSince(c.since)
	if err != nil {
		return nil, err
	}
	times := map[int]time.Time{}
	for i := range entries {
		e := &entries[i]
		if e.Stage != "ResponseComplete" || !e.IsWrite() || !c.by(e.User.Username) || e.ObjectRef == nil || e.ObjectRef.Resource != plural ||
			e.ObjectRef.Subresource != c.subresource || e.Code() >= 300 {
			continue
		}
		if number := index(e.ObjectRef.Name); times[number].IsZero() {
			times[number] = e.Time
		}
	}
	return times, nil
}

// openWatches counts the watches that a contender has open, by side and resource.
func (s *scene) openWatches(c contender) (map[string]int, error) {
	all := map[string]int{}
	for side, on := range map[string]*controlplane.Cluster{"local": s.local, "remote": s.remote} {
		open, err := on.OpenWatches(string(c))
		if err != nil {
			return nil, err
		}
		for resource, n := range open {
			all[side+" "+resource] = n
		}
	}
	return all, nil
}
