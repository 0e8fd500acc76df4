package boundary

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// How a fight with another writer comes to rest (O6).
const (
	// fightWrites is how many put-backs in a row, none of which stood for fightQuiet, make a fight.
	fightWrites = 8
	fightQuiet  = 30 * time.Second
	// fightPause is the time between put-backs from then on. When one stands as long as that, the fight is over.
	fightPause = time.Minute
	// fightChange is the time that a change of the source waits after any write while a fight rests: with fightWrites
	// before, that makes no more than ten writes in thirty seconds.
	fightChange = 10 * time.Second
	// fightRetell is when a fight that goes on is told again: Events last an hour.
	fightRetell = 30 * time.Minute
)

// Fight is what is remembered of others who undo what is written to one object. It is never changed in place; nil: there
// is nothing to remember.
type Fight struct {
	// Writes counts the put-backs in a row, Last is when the latest write was.
	Writes int
	Last   time.Time
	// Since is when it came to rest, Told when that was told last; zero: it did not.
	Since, Told time.Time
	// Rival is who it is with, as far as known; only when it rests.
	Rival Rival
}

// Resting reports whether put-backs are spaced out.
func (f *Fight) Resting() bool { return f != nil && !f.Since.IsZero() }

// Over reports whether a fight that does not rest is as good as none: nobody undid a write for long enough.
func (f *Fight) Over(now time.Time) bool {
	return f == nil || !f.Resting() && now.Sub(f.Last) >= fightQuiet
}

// next returns the earliest time of a next write; zero: at once. putBack: it answers another writer.
func (f *Fight) next(putBack bool, now time.Time) time.Time {
	switch {
	case f.Resting() && !putBack:
		return f.Last.Add(fightChange)
	case f.Resting(), f != nil && putBack && f.Writes >= fightWrites && now.Sub(f.Last) < fightQuiet:
		return f.Last.Add(fightPause)
	}
	return time.Time{}
}

// wrote returns what to remember after a write.
func (f *Fight) wrote(putBack bool, now time.Time) *Fight {
	switch {
	case !f.Resting() && !putBack:
		return f
	case f == nil || !f.Resting() && now.Sub(f.Last) >= fightQuiet:
		return &Fight{Writes: 1, Last: now}
	}
	next := *f
	next.Writes, next.Last = min(f.Writes+1, fightWrites), now
	return &next
}

// held returns what to remember of a write that has to wait, and whether that is to be told.
func (f *Fight) held(rival Rival, now time.Time) (next *Fight, tell bool) {
	resting := Fight{}
	if f != nil {
		resting = *f
	}
	if resting.Since.IsZero() {
		resting.Since = now
	}
	resting.Rival = rival
	if tell = now.Sub(resting.Told) >= fightRetell; tell {
		resting.Told = now
	}
	return &resting, tell
}

// stands returns what to remember when there is nothing to put back: nil once that has been so for long enough, and
// otherwise when to look again.
func (f *Fight) stands(now time.Time) (next *Fight, again time.Time) {
	switch {
	case f == nil:
		return nil, time.Time{}
	case !f.Resting() && now.Sub(f.Last) < fightQuiet:
		return f, time.Time{}
	case f.Resting() && now.Sub(f.Last) < fightPause:
		return f, f.Last.Add(fightPause)
	}
	return nil, time.Time{}
}

// Rivals returns who writes against us: in fights that rest, and by adding again what was taken out.
func (m Memory) Rivals() []Rival {
	var rivals []Rival
	for _, f := range []*Fight{m.TwinFight, m.SourceFight} {
		if f.Resting() {
			rivals = append(rivals, f.Rival)
		}
	}
	if m.TakenOut != nil && m.TakenOut.Left != nil {
		rivals = append(rivals, *m.TakenOut.Left)
	}
	return rivals
}

// Rival is another writer: who, where, and which setting would end the fight.
type Rival struct {
	// Does says what it does, as in "changes the twin back".
	Does string
	// Managers are the field managers, the likeliest first, a few of them; empty: managedFields do not tell.
	Managers []string
	// Paths are the places, a few of them; empty: the whole object.
	Paths []string
	// Setting would end it, as a rule has it; empty: no setting would.
	Setting string
}

// String tells about a rival in words that stay the same as long as it does.
func (r Rival) String() string {
	who := "somebody whom managedFields do not name"
	if len(r.Managers) > 0 {
		who = "field manager " + strings.Join(r.Managers, ", ")
	}
	where := ""
	if len(r.Paths) > 0 {
		where = " (" + strings.Join(r.Paths, ", ") + ")"
	}
	end := "stop the other writer"
	if r.Setting != "" {
		end = "set " + r.Setting + ", or stop the other writer"
	}
	return fmt.Sprintf("%s %s%s each time; to end it, %s", who, r.Does, where, end)
}

// fewNames is how many managers or paths messages and metrics name.
const fewNames = 4

// few returns the first few of names, and a sign that there are more.
func few(names []string) []string {
	if len(names) > fewNames {
		return append(slices.Clone(names[:fewNames]), "…")
	}
	return names
}

// toTwin lets a write to the twin happen, unless a fight over it rests: then what remains is done, and the write waits.
// putBack: the write answers another writer.
func (d *decider) toTwin(putBack bool, rival func() Rival, write func()) {
	fight := d.in.Memory.TwinFight
	next := fight.next(putBack, d.in.Now)
	if !next.After(d.in.Now) {
		write()
		d.out.TwinFight = fight.wrote(putBack, d.in.Now)
		return
	}
	wait := func() {
		d.out.TwinFight = d.contend(fight, next, rival())
		d.hold(UntilCalm, "a write to the twin waits until %s, for others undo it", next.Format(time.RFC3339))
	}
	switch {
	case d.in.Twin == nil:
		d.clearStatusOr(wait)
	case d.out.Rule.Mode == ModeMirror:
		wait()
	default:
		d.returnStatusOr(d.out.Rule, false, wait)
	}
}

// twinStands takes in that there is nothing to put back on the twin.
func (d *decider) twinStands() {
	fight, again := d.in.Memory.TwinFight.stands(d.in.Now)
	d.out.TwinFight = fight
	d.wake(again)
}

// contend takes in that a write waits because of a fight.
func (d *decider) contend(fight *Fight, next time.Time, rival Rival) *Fight {
	fight, tell := fight.held(rival, d.in.Now)
	message := "another writer undoes what is written here, so that is written once a minute only: " + rival.String()
	d.out.Contended = true
	d.because("%s (since %s)", message, fight.Since.Format(time.RFC3339))
	d.wake(next)
	if tell {
		d.out.Events = append(d.out.Events, Event{true, ReasonContention, message})
	}
	return fight
}

// wake has the next decision be made at a time, or earlier; the zero time asks for nothing.
func (d *decider) wake(at time.Time) {
	if !at.IsZero() && (d.out.RetryAt.IsZero() || at.Before(d.out.RetryAt)) {
		d.out.RetryAt = at
	}
}
