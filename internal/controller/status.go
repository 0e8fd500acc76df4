package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"isthmus.dev/isthmus/internal/controller/installation"
	"isthmus.dev/isthmus/internal/controller/remotecluster"
	"isthmus.dev/isthmus/internal/engine"
	"isthmus.dev/isthmus/internal/leader"
)

// Status is how a controller stands: what /status serves. It holds no values of objects (F4).
type Status struct {
	Version   string    `json:"version"`
	Isthmus   string    `json:"isthmus"`
	ClusterID string    `json:"clusterID,omitempty"`
	Instance  string    `json:"instance"`
	Time      time.Time `json:"time"`
	// Ready and Reason are those of /readyz.
	Ready       bool          `json:"ready"`
	Reason      string        `json:"reason,omitempty"`
	Election    *leader.State `json:"election,omitempty"`
	Controllers []string      `json:"controllers"`
	// Refused says, by Crossing, what is wrong with it, so that it carries nothing.
	Refused map[string]string `json:"refused,omitempty"`
	// Remotes are how what runs for each remote stands, sorted by remote.
	Remotes []engine.Status `json:"remotes"`
	// Installations are how they stand, with what is there of each, sorted by namespace and name.
	Installations []installation.Standing `json:"installations,omitempty"`
}

// Status returns how everything stands now.
func (c *Controller) Status() Status {
	_, unready := c.Ready()
	s := Status{
		Version: engine.StatusVersion, Isthmus: c.Version, ClusterID: c.ClusterID, Instance: c.Instance, Time: time.Now(),
		Ready: unready == nil, Controllers: c.Controllers, Remotes: []engine.Status{},
	}
	if unready != nil {
		s.Reason = unready.Error()
	}
	if c.Election != nil {
		election := c.Election.State()
		s.Election = &election
	}
	c.mu.Lock()
	r, installer := c.reflection, c.installer
	c.mu.Unlock()
	if installer != nil {
		// Out of a cache; before that is filled nothing is known.
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		s.Installations, _ = installer.Standings(ctx)
	}
	if r != nil {
		s.Refused, s.Remotes = r.fleet.Refused(), r.status(c.Version)
	}
	return s
}

// status returns how each remote stands: what runs for it, or why nothing does.
func (r *reflection) status(version string) []engine.Status {
	all := r.fleet.Status(version)
	for _, remote := range r.remotes.All() {
		if slices.ContainsFunc(all, func(s engine.Status) bool { return s.RemoteID == remote.Name }) {
			continue
		}
		all = append(all, engine.Status{
			Version: engine.StatusVersion, Isthmus: version, ClusterID: r.fleet.ClusterID, RemoteID: remote.Name, Instance: r.fleet.Instance,
			Time: time.Now(), Reason: unused(remote), Rules: []engine.RuleStatus{},
		})
	}
	slices.SortFunc(all, func(a, b engine.Status) int { return cmp.Compare(a.RemoteID, b.RemoteID) })
	return all
}

// unready says in a line each which remotes are not ready, and why.
func (r *reflection) unready() (notes []string) {
	running := r.fleet.Names()
	for _, remote := range r.remotes.All() {
		why := unused(remote)
		if slices.Contains(running, remote.Name) {
			why = r.fleet.Why(remote.Name)
		}
		if line, _, _ := strings.Cut(why, "\n"); line != "" {
			notes = append(notes, fmt.Sprintf("remote %s: %s", remote.Name, line))
		}
	}
	return notes
}

// unused says why nothing runs for a remote.
func unused(remote remotecluster.Remote) string {
	if remote.Usable {
		return "it was not asked yet who makes namespaces there"
	}
	return fmt.Sprintf("its RemoteCluster can't be used: %s: %s", remote.Reason, remote.Message)
}
