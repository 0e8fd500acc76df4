package controller

import (
	"time"

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
	// Remotes are how what runs for each remote stands, sorted by remote.
	Remotes []engine.Status `json:"remotes"`
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
	r := c.reflection
	c.mu.Unlock()
	if r != nil {
		s.Remotes = r.fleet.Status(c.Version)
	}
	return s
}
