//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

// restart is a start with everything in step. In floor's column are bare lists of both sides at once, whose answers
// nobody decodes.
var restart = figure{
	name: "restart",
	does: "a start with everything in step, beside bare lists of both sides (floor)",
	targets: []target{
		{unit: "writes", atMost: true, limit: 0, counted: true},
		{unit: "s", against: floor, atMost: true, limit: 1.3},
	},
	short: true,
	run: func(ctx context.Context, b *bench) error {
		for _, n := range []int{3000, 20000} {
			w, err := b.inStep(ctx, isthmus, b.scaled(n), 1<<10)
			if err != nil {
				return err
			}
			for round := range b.rounds {
				if err := w.restarts(ctx, round+1); err != nil {
					return err
				}
			}
		}
		return nil
	},
}

// restarts takes one round.
func (w *world) restarts(ctx context.Context, round int) error {
	scene := fmt.Sprintf("%d objects", w.count)
	listing, err := w.listBoth(ctx)
	if err != nil {
		return err
	}
	w.b.record(result{"restart", scene, floor, "s", listing.Seconds(), round})
	began := time.Now()
	p, err := w.start(ctx, follow)
	if err != nil {
		return err
	}
	defer p.kill()
	if err := p.untilInStep(ctx, w.count); err != nil {
		return orEnd(p, err)
	}
	w.b.record(result{"restart", scene, isthmus, "s", time.Since(p.started).Seconds(), round})
	if err := p.idle(ctx); err != nil {
		return err
	}
	if err := pause(ctx, w.b.span(5*time.Second)); err != nil {
		return err
	}
	n, err := w.b.requestsOf(isthmus, began)
	if err != nil {
		return err
	}
	w.b.record(result{"restart", scene, isthmus, "writes", float64(n.writes), round})
	return p.stop()
}

// listBoth lists both sides at once and returns how long it took until both were there.
func (w *world) listBoth(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	var localErr, remoteErr error
	var listing sync.WaitGroup
	listing.Go(func() { _, _, localErr = w.local.list(ctx) })
	_, _, remoteErr = w.remote.list(ctx)
	listing.Wait()
	if localErr != nil {
		return 0, localErr
	}
	return time.Since(began), remoteErr
}

// untilInStep waits until isthmus says that n objects are in step. It asks for /status, which counts when it is asked; the
// metrics are set every few seconds.
func (p *process) untilInStep(ctx context.Context, n int) error {
	for deadline := time.Now().Add(patience); ; {
		var status struct {
			Rules []struct{ Objects map[string]int }
		}
		text, err := get(ctx, "http://"+p.listen+"/status")
		if err == nil {
			err = json.Unmarshal([]byte(text), &status)
		}
		have := 0
		for _, rule := range status.Rules {
			have += rule.Objects["in_step"]
		}
		if err == nil && have == n {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not within %s: %d objects in step; there are %d: %w", patience, n, have, err)
		}
		if err := p.running(); err != nil {
			return err
		}
		// To count takes a lock that isthmus itself needs.
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}
