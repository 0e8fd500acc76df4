package flow

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Siblings are the flows from one cluster towards several remotes. Those of one kind and direction share the sources,
// and each has to know on which other remotes these have twins (T5). Flows join when they are made, and leave when their
// Run ends. The methods of a nil *Siblings find none.
type Siblings struct {
	mu       sync.Mutex
	flows    []*Flow
	expected map[string]int // by remote
}

// Expect says that flows towards a remote, by its cluster ID, are about to join. Until met is called, whether it holds
// twins counts as not known; met may be called again.
func (s *Siblings) Expect(remote string) (met func()) {
	if s == nil {
		return func() {}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.expected == nil {
		s.expected = map[string]int{}
	}
	s.expected[remote]++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		s.expected[remote]--
		flows := slices.Clone(s.flows)
		s.mu.Unlock()
		for _, f := range flows {
			f.lookAgain(nil)
		}
	})
}

func (s *Siblings) join(f *Flow) {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.flows = append(s.flows, f)
	s.mu.Unlock()
	s.lookAgain(f, nil)
}

func (s *Siblings) leave(f *Flow) {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.flows = slices.DeleteFunc(s.flows, func(other *Flow) bool { return other == f })
	s.mu.Unlock()
	s.lookAgain(f, nil)
}

// others returns the flows that share the sources of one.
func (s *Siblings) others(f *Flow) []*Flow {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var others []*Flow
	for _, other := range s.flows {
		if other != f && other.Direction == f.Direction && other.Kind.GroupKind() == f.Kind.GroupKind() {
			others = append(others, other)
		}
	}
	return others
}

// expects reports whether flows towards another remote are yet to come.
func (s *Siblings) expects(f *Flow) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for remote, n := range s.expected {
		if remote != f.Remote && n > 0 {
			return true
		}
	}
	return false
}

// elsewhere returns the other remotes that hold a twin of a source, and whether some have not told yet. One that can't
// be asked holds none, as far as is known: it shall not hold up the others (F1).
func (s *Siblings) elsewhere(f *Flow, source types.NamespacedName) (remotes []string, unknown bool) {
	unknown = s.expects(f)
	for _, other := range s.others(f) {
		switch holds, known := other.holdsTwin(source); {
		case holds:
			remotes = append(remotes, other.Remote)
		case !known:
			unknown = true
		}
	}
	return remotes, unknown
}

// twinChanged queues a source of which a twin came or went, in the other flows.
func (s *Siblings) twinChanged(f *Flow, source types.NamespacedName, l lane) {
	for _, other := range s.others(f) {
		if e := other.current(); e != nil {
			e.queue.add(source, l)
		}
	}
}

// lookAgain queues the sources that match in the other flows, nil: all of them: what is known of this one's twins changed
// as a whole.
func (s *Siblings) lookAgain(f *Flow, match func(source types.NamespacedName) bool) {
	for _, other := range s.others(f) {
		other.lookAgain(match)
	}
}

// lookAgain queues the sources that match; nil: all.
func (f *Flow) lookAgain(match func(source types.NamespacedName) bool) {
	if e := f.current(); e != nil {
		e.enqueue(func(source, _ types.NamespacedName) bool { return match == nil || match(source) })
	}
}

// current returns the running epoch; nil: there is none.
func (f *Flow) current() *epoch {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.epoch
}

// holdsTwin reports whether the flow's remote holds a twin of a source, and whether that is known, or at least can't be
// known at the moment.
func (f *Flow) holdsTwin(source types.NamespacedName) (holds, known bool) {
	f.mu.Lock()
	starting, e := f.state.Starting, f.epoch
	f.mu.Unlock()
	if e == nil {
		return false, !starting
	}
	return len(e.twins.Named(source)) > 0, e.twinsKnown(source.Namespace) || e.twinsFail()
}

// twinsFail reports whether twins can't be listed.
func (e *epoch) twinsFail() bool {
	return slices.ContainsFunc(e.twinWatches.needed(), func(w *watcher) bool { return !w.feed.Settled() && w.trouble.Load() != nil })
}
