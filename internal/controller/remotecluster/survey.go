package remotecluster

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/controller/link"
)

// survey asks a remote what is worth knowing of it beside who it is. It is a link.Survey.
type survey struct {
	// every is how often it is asked what it serves, when nothing tells of a change.
	every time.Duration

	mu    sync.Mutex
	kinds []schema.GroupVersionResource // to ask for
	said  answers
}

// answers are what a remote said last. What it did not answer stays as it was before.
type answers struct {
	version string
	consent v1alpha1.Consent
	served  map[schema.GroupVersionResource]bool
	at      time.Time // of the last complete answers about what it serves
}

var namespaceRequests = v1alpha1.GroupVersion.WithResource("namespacerequests")

// want makes the survey ask whether the remote serves these kinds, and reports whether they are others than before.
func (s *survey) want(kinds []schema.GroupVersionResource) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Equal(s.kinds, kinds) {
		return false
	}
	s.kinds = slices.Clone(kinds)
	return true
}

// answers returns what the remote said last.
func (s *survey) answers() answers {
	s.mu.Lock()
	defer s.mu.Unlock()
	said := s.said
	said.served = maps.Clone(said.served)
	return said
}

// Stale: it is time to ask, since the last answers are old, or lack something.
func (s *survey) Stale() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, kind := range s.kinds {
		if !s.said.served[kind] {
			return true
		}
	}
	return time.Since(s.said.at) >= s.every
}

// Ask asks the remote all there is to know.
func (s *survey) Ask(ctx context.Context, limit time.Duration, c *cluster.Cluster) {
	s.mu.Lock()
	kinds := s.kinds
	s.mu.Unlock()
	next := s.answers()
	if v, err := link.Limited(ctx, limit, c.Version); err == nil {
		next.version = v
	}
	serves := func(gvr schema.GroupVersionResource) (bool, error) {
		return link.Limited(ctx, limit, func(ctx context.Context) (bool, error) { return c.Serves(ctx, gvr) })
	}
	if asks, err := serves(namespaceRequests); err == nil {
		next.consent = v1alpha1.ConsentConsumer
		if asks {
			next.consent = v1alpha1.ConsentProvider
		}
	}
	served, complete := make(map[schema.GroupVersionResource]bool, len(kinds)), true
	for _, kind := range kinds {
		there, err := serves(kind)
		if err != nil {
			complete = false
			there = next.served[kind]
		}
		served[kind] = there
	}
	next.served = served
	if complete {
		next.at = time.Now()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() == nil { // else the access has changed meanwhile
		s.said = next
	}
}
