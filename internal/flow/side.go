package flow

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"isthmus.dev/isthmus/internal/cluster"
)

// side is one of the two clusters, as long as it is the one that the ledger names (F7).
type side struct {
	*cluster.Cluster
	uid string

	mu      sync.Mutex
	suspect atomic.Bool
}

func newSide(c *cluster.Cluster, uid string) *side { return &side{Cluster: c, uid: uid} }

// doubt is called when a connection broke: another cluster may answer from now on.
func (s *side) doubt() { s.suspect.Store(true) }

// trust makes sure that the cluster is still the one it was, asking it only when there was a reason to doubt it.
func (s *side) trust(ctx context.Context) error {
	if !s.suspect.Load() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.suspect.Load() {
		return nil
	}
	s.suspect.Store(false)
	uid, err := s.UID(ctx)
	if err != nil {
		s.suspect.Store(true)
		return err
	}
	if uid != s.uid {
		s.suspect.Store(true)
		return &replacedError{fmt.Sprintf("the %s cluster was replaced by another one (UID of kube-system %s, before %s)", s.Role(), uid, s.uid)}
	}
	return nil
}

// replacedError says that a cluster is not the one that it was.
type replacedError struct{ message string }

func (e *replacedError) Error() string { return e.message }
