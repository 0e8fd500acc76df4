package flow

import (
	"context"
	"fmt"
	"sync"
	"time"

	"isthmus.dev/isthmus/internal/cluster"
)

// confirmWindow is how long a confirmation waits for other deletes to share it.
const confirmWindow = 25 * time.Millisecond

// confirmer asks the source's cluster whether absences can be believed: it is the right cluster, and the CRD that the
// sources came from stands. One question serves every absence that was seen before it was asked (F7).
type confirmer struct {
	epoch *epoch

	mu    sync.Mutex
	asked time.Time // when the last confirmed question was asked
}

func newConfirmer(e *epoch) *confirmer { return &confirmer{epoch: e} }

// confirm returns nil when absences seen up to since can be believed.
func (c *confirmer) confirm(ctx context.Context, since time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked.After(since) {
		return nil
	}
	if age := time.Since(since); age < confirmWindow {
		timer := time.NewTimer(confirmWindow - age)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		}
	}
	asking := time.Now()
	e := c.epoch
	ctx, err := e.from.trust(ctx)
	if err != nil {
		return err
	}
	if before := e.plan.sourceCRD; before != nil {
		crd, err := e.from.CRD(ctx, e.plan.source.GroupResource())
		if err != nil {
			return err
		}
		if crd == nil || crd.Terminating || !sameCRD(crd, before) {
			e.check()
			return fmt.Errorf("the CRD of %s is gone, going, or another one than before", e.Kind.Kind)
		}
	}
	c.asked = asking
	return nil
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
