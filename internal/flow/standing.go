package flow

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// recentCrossings is how many of the last crossings of a rule its latencies are taken from.
const recentCrossings = 256

// Standing is how a rule stands.
type Standing struct {
	// Objects counts the objects by how they stand, as the metric isthmus_objects names it.
	Objects map[string]int
	// Oldest is the change that has waited longest to cross, or to return; nil: none waits.
	Oldest *Pending
	// Recent are the latencies of the last crossings, in order of their length.
	Recent []time.Duration
	// LastError is what went wrong last; nil: nothing has yet.
	LastError *Trouble
}

// Pending is a change that waits.
type Pending struct {
	Source types.NamespacedName
	Since  time.Time
}

// Trouble is something that went wrong with an object. Its message holds no values of Secrets (F4).
type Trouble struct {
	Source  types.NamespacedName
	At      time.Time
	Message string
}

// Standings returns how each of the flow's rules stands. Objects of which no rule is known yet, or that none takes though
// several select them, are under the empty name.
func (f *Flow) Standings() map[string]Standing {
	all := map[string]Standing{}
	for _, rule := range f.Rules {
		all[rule.Name] = f.tallies.standing(rule.Name)
	}
	e := f.current()
	if e == nil {
		return all
	}
	e.states.each(func(key types.NamespacedName, st *state) {
		name := st.rule
		if name == "" && len(f.Rules) == 1 {
			name = f.Rules[0].Name
		}
		s := all[name]
		if s.Objects == nil {
			s.Objects = map[string]int{}
		}
		if st.outcome != "" {
			s.Objects[string(st.outcome)]++
		}
		for _, since := range []time.Time{st.changed, st.statusChanged} {
			if !since.IsZero() && (s.Oldest == nil || since.Before(s.Oldest.Since)) {
				s.Oldest = &Pending{key, since}
			}
		}
		all[name] = s
	})
	if none := all[""]; len(none.Objects) == 0 && none.Oldest == nil {
		delete(all, "")
	}
	return all
}

// tallies are what is remembered of rules for those who ask how they stand.
type tallies struct {
	mu     sync.Mutex
	byRule map[string]*tally
}

type tally struct {
	recent  []time.Duration // a ring
	next    int
	trouble *Trouble
}

func (t *tallies) with(rule string, do func(*tally)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byRule == nil {
		t.byRule = map[string]*tally{}
	}
	if t.byRule[rule] == nil {
		t.byRule[rule] = &tally{}
	}
	do(t.byRule[rule])
}

// crossed takes in how long a change took to cross.
func (t *tallies) crossed(rule string, took time.Duration) {
	t.with(rule, func(one *tally) {
		if len(one.recent) < recentCrossings {
			one.recent = append(one.recent, took)
			return
		}
		one.recent[one.next%recentCrossings] = took
		one.next++
	})
}

// failed takes in what went wrong.
func (t *tallies) failed(rule string, source types.NamespacedName, message string) {
	t.with(rule, func(one *tally) { one.trouble = &Trouble{source, time.Now(), message} })
}

func (t *tallies) standing(rule string) (s Standing) {
	t.with(rule, func(one *tally) {
		s = Standing{Objects: map[string]int{}, Recent: slices.Sorted(slices.Values(one.recent)), LastError: one.trouble}
	})
	return s
}
