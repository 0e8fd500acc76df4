package fleet

import (
	"context"
	"time"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/engine"
)

// ensureAgain is how long a counterpart that could not be made waits for the next try.
const ensureAgain = 10 * time.Second

// ensure makes the counterparts that are missing on a remote whose namespaces are ours to make, so that they are there
// before the first object crosses, until ctx ends.
func (s *ship) ensure(ctx context.Context, changed func()) {
	for ctx.Err() == nil {
		var later <-chan time.Time
		for _, name := range s.toMake() {
			err := s.engine.MakeCounterpart(ctx, name)
			s.mu.Lock()
			before := s.unmade[name]
			s.unmade[name] = err
			s.mu.Unlock()
			if err != nil {
				later = time.After(ensureAgain)
			}
			if (err == nil) != (before == nil) {
				changed()
			}
		}
		select {
		case <-ctx.Done():
		case <-later:
		case <-s.look:
		}
	}
}

// toMake returns the counterparts that are known to be missing.
func (s *ship) toMake() (names []string) {
	if s.agreed() != v1alpha1.ConsentConsumer {
		return nil
	}
	for _, name := range s.engine.Current().Namespaces {
		if reason, _, ready := s.engine.NamespaceReady(name); !ready && reason == engine.ReasonMissing {
			names = append(names, name)
		}
	}
	return names
}

// lookAgain has ensure look again.
func (s *ship) lookAgain() {
	select {
	case s.look <- struct{}{}:
	default:
	}
}
