package flow

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/internal/cluster"
)

// How long a question waits for more absences to share it. One that comes alone is quick: it waits confirmAlone. When others
// come meanwhile, or the last question was just now, it waits until none has come for confirmQuiet, confirmMost at most.
const (
	confirmAlone = 25 * time.Millisecond
	confirmQuiet = 100 * time.Millisecond
	confirmMost  = time.Second
)

// confirmer asks the source's cluster whether absences can be believed: it is the right cluster, and the CRD that the
// sources came from stands. One question serves every absence that was seen before it was asked (F7). Nobody waits for
// an answer: who did not get one yet is queued again when it is there.
type confirmer struct {
	epoch *epoch

	mu      sync.Mutex
	asked   time.Time // when the last confirmed question was asked
	waiting map[types.NamespacedName]unconfirmed
	asking  bool // a task looks after those that wait
}

// unconfirmed is a source that waits for the next question.
type unconfirmed struct {
	since time.Time // when it was seen to be absent
	lane  lane      // where it is queued when there is an answer
}

func newConfirmer(e *epoch) *confirmer {
	return &confirmer{epoch: e, waiting: map[types.NamespacedName]unconfirmed{}}
}

// covers reports whether absences seen up to since are confirmed.
func (c *confirmer) covers(since time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked.After(since)
}

// await has a source that was seen to be absent at since queued again when the next question is answered. It is handed
// out at the moment.
func (c *confirmer) await(key types.NamespacedName, since time.Time) {
	l := changes
	if c.epoch.queue.fair.isResync(key) {
		l = resyncs
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting[key] = unconfirmed{since, l}
	if !c.asking {
		c.asking = true
		c.epoch.run(c.serve)
	}
}

// serve asks until nobody waits any more.
func (c *confirmer) serve(ctx context.Context) {
	for ctx.Err() == nil {
		c.gather(ctx)
		asking := time.Now()
		err := c.ask(ctx)
		if ctx.Err() != nil {
			return
		}
		answered, more := c.answer(asking, err == nil)
		for key, u := range answered {
			if err == nil {
				c.epoch.queue.add(key, u.lane)
			} else {
				c.epoch.disbelieve(key, err)
			}
		}
		if !more {
			return
		}
	}
}

// gather waits for more absences.
func (c *confirmer) gather(ctx context.Context) {
	known, window := 1, confirmAlone
	if c.covers(time.Now().Add(-confirmMost)) {
		window = confirmQuiet
	}
	for deadline := time.Now().Add(confirmMost); ; window = confirmQuiet {
		pause(ctx, window)
		c.mu.Lock()
		now := len(c.waiting)
		c.mu.Unlock()
		if now <= known || !time.Now().Before(deadline) || ctx.Err() != nil {
			return
		}
		known = now
	}
}

// answer takes in the answer to a question, and returns whom it concerns, and whether others wait for the next one.
func (c *confirmer) answer(asked time.Time, confirmed bool) (concerned map[types.NamespacedName]unconfirmed, more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if confirmed {
		c.asked = asked
	}
	concerned = map[types.NamespacedName]unconfirmed{}
	for key, u := range c.waiting {
		if asked.After(u.since) {
			concerned[key] = u
			delete(c.waiting, key)
		}
	}
	c.asking = len(c.waiting) > 0
	return concerned, c.asking
}

// confirm asks at once, unless absences seen up to since are confirmed, for those who only look; the error says why they
// can't be believed.
func (c *confirmer) confirm(ctx context.Context, since time.Time) error {
	if c.covers(since) {
		return nil
	}
	asking := time.Now()
	if err := c.ask(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = asking
	return nil
}

// ask returns nil when absences that were seen so far can be believed.
func (c *confirmer) ask(ctx context.Context) error {
	e := c.epoch
	ctx, err := e.from.trust(ctx)
	if err != nil {
		return err
	}
	before := e.plan.sourceCRD
	if before == nil {
		return nil
	}
	crd, err := e.from.CRD(ctx, e.plan.source.GroupResource())
	if err != nil {
		return err
	}
	if crd == nil || crd.Terminating || !sameCRD(crd, before) {
		e.check()
		return fmt.Errorf("the CRD of %s is gone, going, or another one than before", e.Kind.Kind)
	}
	return nil
}

// disbelieve takes in that the absence of a source can't be believed: it counts as inferred from then on, and is looked
// at again later.
func (e *epoch) disbelieve(key types.NamespacedName, why error) {
	e.log.Warn("A source is gone, or goes, but that can't be believed yet; its twin stays", "source", key, "reason", why.Error())
	e.states.with(key, func(s *state) { s.gone, s.goneAt = "", time.Now() })
	e.queue.AddRateLimited(key)
}

func sameCRD(a, b *cluster.CRD) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.UID == b.UID
}

func crdGeneration(c *cluster.CRD) int64 {
	if c == nil {
		return 0
	}
	return c.Generation
}
