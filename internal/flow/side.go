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
	trusted atomic.Pointer[string] // the server whose cluster's UID was asked for last
}

func newSide(e End) *side {
	s := &side{Cluster: e.Cluster, uid: e.UID}
	s.doubt()
	return s
}

// doubt is called when a connection broke: another cluster may answer from now on.
func (s *side) doubt() { s.suspect.Store(true) }

// trust makes sure that the cluster is still the one it was, asking it only when there was a reason to doubt it. The
// context that it returns lets requests go to no other server than the one that was asked.
func (s *side) trust(ctx context.Context) (context.Context, error) {
	if pinned, ok := s.known(ctx); ok {
		return pinned, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if pinned, ok := s.known(ctx); ok {
		return pinned, nil
	}
	s.suspect.Store(false)
	server := s.Server()
	pinned := s.Pin(ctx, server)
	uid, err := s.UID(pinned)
	if err != nil {
		s.suspect.Store(true)
		return nil, err
	}
	if uid != s.uid {
		s.suspect.Store(true)
		return nil, &replacedError{fmt.Sprintf("the %s cluster was replaced by another one (UID of kube-system %s, before %s)", s.Role(), uid, s.uid)}
	}
	s.trusted.Store(&server)
	return pinned, nil
}

// known returns the pinned context when there is no reason for doubt.
func (s *side) known(ctx context.Context) (context.Context, bool) {
	trusted := s.trusted.Load()
	if s.suspect.Load() || trusted == nil || *trusted != s.Server() {
		return nil, false
	}
	return s.Pin(ctx, *trusted), true
}

// replacedError says that a cluster is not the one that it was.
type replacedError struct{ message string }

func (e *replacedError) Error() string { return e.message }
