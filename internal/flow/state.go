package flow

import (
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/observe"
)

// state is what is remembered of one source between decisions. That of a source at rest is kept as a still.
type state struct {
	memory boundary.Memory
	// gone is the UID under which the source was last seen to go, live, and goneAt when it was seen to go or to be
	// terminating.
	gone   types.UID
	goneAt time.Time
	// came is the UID under which the source was last seen to appear, live.
	came types.UID
	// changed and statusChanged are when the oldest change was seen that is not written yet.
	changed, statusChanged time.Time
	// deleted is the UID of a twin that was deleted and whose going the watch has not told yet.
	deleted types.UID
	// crossed is the UID under which the source has had a twin that the ledger does not know of yet (D4).
	crossed types.UID
	// uncertain: whether the last write happened is not known.
	uncertain bool
	// faults and statusFaults count the refusals in a row.
	faults, statusFaults int
	spec                 pace
	status               pace
	outcome              outcome
	// rule took the source by the last decision; empty: none did.
	rule string
}

// outcome is how a source stands, for the metric isthmus_objects.
type outcome string

const (
	inStep  outcome = "in_step"
	pending outcome = "waiting"
	refused outcome = "refused"
	foreign outcome = "foreign"
	paused  outcome = "paused"
	// contended: others undo what we write.
	contended outcome = "contention"
)

var outcomes = []outcome{inStep, pending, refused, foreign, paused, contended}

// pace limits the writes for one object: a few at once, then one each pacedEvery, and each pacedLater when it has gone on
// for pacedLong, so that an object that changes all the time is carried over in its latest state and not in each.
type pace struct {
	spent int
	since time.Time
	busy  time.Time // since when it has not been idle
}

const (
	pacedBurst = 5
	pacedEvery = 250 * time.Millisecond
	pacedLong  = 30 * time.Second
	pacedLater = time.Second
)

// take counts a write, or says how long to wait before it.
func (p *pace) take(now time.Time) (wait time.Duration) {
	if p.idle(now) {
		*p = pace{since: now, busy: now}
	}
	every := pacedEvery
	if now.Sub(p.busy) > pacedLong {
		every = pacedLater
	}
	regained := int(now.Sub(p.since) / every)
	p.spent, p.since = max(0, p.spent-regained), p.since.Add(time.Duration(regained)*every)
	if p.spent >= pacedBurst {
		return p.since.Add(every).Sub(now)
	}
	p.spent++
	return 0
}

// idle reports whether the pace has forgotten all writes.
func (p *pace) idle(now time.Time) bool {
	return now.Sub(p.since) > time.Duration(p.spent)*pacedEvery
}

// states are the states of a flow's sources. Most sources are at rest most of the time, so theirs are kept small.
type states struct {
	mu     sync.Mutex
	awake  map[types.NamespacedName]*state
	still  map[types.NamespacedName]still // of those that are not awake
	counts map[outcome]int
	moved  func() // a source stands otherwise than before; called without the lock
}

func newStates(moved func()) *states {
	return &states{awake: map[types.NamespacedName]*state{}, still: map[types.NamespacedName]still{}, counts: map[outcome]int{}, moved: moved}
}

// with calls do with the state of a source, which is made if need be.
func (s *states) with(key types.NamespacedName, do func(*state)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.awake[key]
	if st == nil {
		st = &state{}
		if packed, ok := s.still[key]; ok {
			*st = packed.open()
			delete(s.still, key)
		}
		s.awake[key] = st
	}
	do(st)
}

// get returns a copy of a source's state.
func (s *states) get(key types.NamespacedName) state {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st := s.awake[key]; st != nil {
		return *st
	}
	if packed, ok := s.still[key]; ok {
		return packed.open()
	}
	return state{}
}

// doze makes the state of a source small, if it is at rest.
func (s *states) doze(key types.NamespacedName, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pack(key, now)
}

// pack is doze for who holds the lock.
func (s *states) pack(key types.NamespacedName, now time.Time) {
	if st := s.awake[key]; st != nil {
		if packed, ok := st.pack(now); ok {
			s.still[key] = packed
			delete(s.awake, key)
		}
	}
}

// each calls do with how every source stands: its outcome, its rule, and what changes of it wait. The state is valid
// during the call only.
func (s *states) each(do func(types.NamespacedName, *state)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, st := range s.awake {
		do(key, st)
	}
	var st state
	for key, packed := range s.still {
		shared := packed.common.Value()
		st.outcome, st.rule = shared.outcome, shared.rule
		do(key, &st)
	}
}

// settle records how a source stands; the empty outcome is for one that is gone.
func (s *states) settle(key types.NamespacedName, o outcome) { s.become(key, o, func(*state) {}) }

// arrive records how a source stands of which no change waits any more.
func (s *states) arrive(key types.NamespacedName, o outcome) {
	s.become(key, o, func(st *state) { st.changed, st.statusChanged = time.Time{}, time.Time{} })
}

// become counts a source under another outcome, and tells that it stands otherwise, if it does.
func (s *states) become(key types.NamespacedName, o outcome, do func(*state)) {
	var before outcome
	s.with(key, func(st *state) {
		if before = st.outcome; before != "" {
			s.counts[before]--
		}
		if o != "" {
			s.counts[o]++
		}
		st.outcome = o
		do(st)
	})
	if before != o {
		s.moved()
	}
}

// count returns how many sources stand in each way.
func (s *states) count() map[outcome]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[outcome]int, len(s.counts))
	for o, n := range s.counts {
		out[o] = n
	}
	return out
}

// contentions returns how many sources are fought over with whom.
func (s *states) contentions() map[observe.Contention]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[observe.Contention]int{}
	for _, st := range s.awake {
		for _, rival := range st.memory.Rivals() {
			out[observe.Contention{Managers: strings.Join(rival.Managers, ","), Paths: strings.Join(rival.Paths, ","), Setting: rival.Setting}]++
		}
	}
	return out
}

// forgetFaults lets everything that was refused be tried again.
func (s *states) forgetFaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.awake {
		st.memory.FaultHash, st.faults = "", 0
		st.memory.StatusFault, st.statusFaults = "", 0
	}
}

// uncertain reports whether it is not known of some write whether it happened.
func (s *states) uncertain() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.awake {
		if st.uncertain {
			return true
		}
	}
	return false
}

// sweep drops the states that say nothing any more, and makes those small that have come to rest.
func (s *states) sweep(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, st := range s.awake {
		if st.outcome == "" && st.gone == "" && st.deleted == "" && st.crossed == "" && !st.uncertain &&
			st.memory == (boundary.Memory{}) && st.spec.idle(now) && st.status.idle(now) {
			delete(s.awake, key)
			continue
		}
		s.pack(key, now)
	}
}
