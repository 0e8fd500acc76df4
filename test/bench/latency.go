//go:build linux

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"isthmus.dev/isthmus/internal/controlplane"
)

// latency is how long a change takes to cross, from its commit on one side to that on the other, at some changes a
// second.
var latency = figure{
	name: "latency",
	does: "from a change's commit on one side to that on the other",
	targets: []target{
		{unit: "ms", cases: "p50", against: floor, atMost: true, limit: 1.3},
		{unit: "ms", cases: "p99", against: floor, atMost: true, limit: 2},
	},
	run: func(ctx context.Context, b *bench) error {
		count := b.scaled(3000)
		return b.turns(ctx, contenders, func(ctx context.Context, round int, c contender) error {
			w, err := b.inStep(ctx, c, count, 1<<10)
			if err != nil {
				return err
			}
			return w.latencies(ctx, round)
		})
	},
}

// latencies takes the samples of one round.
func (w *world) latencies(ctx context.Context, round int) error {
	p, err := w.start(ctx, follow)
	if err != nil {
		return err
	}
	defer p.kill()
	if err := p.idle(ctx); err != nil {
		return err
	}
	for _, rate := range []int{10, 30, 60} {
		for _, way := range []struct {
			name        string
			version     *int64
			write       func(context.Context, int, int64) error
			from, to    *controlplane.Cluster
			subresource string
		}{
			{"spec out", &w.specVersion, w.change, w.b.scene.local, w.b.scene.remote, ""},
			{"status back", &w.statusVersion, w.answer, w.b.scene.remote, w.b.scene.local, "status"},
		} {
			*way.version++
			v, began := *way.version, time.Now()
			n, err := atRate(ctx, rate, min(w.count, int(w.b.span(5*time.Second).Seconds()*float64(rate))), func(i int) error { return way.write(ctx, i, v) })
			if err != nil {
				return err
			}
			took, err := crossed(ctx, n, func(i int) int { return i },
				commits{way.from, began, func(user string) bool { return user != string(w.owner) }, way.subresource},
				commits{way.to, began, func(user string) bool { return user == string(w.owner) }, way.subresource})
			if err != nil {
				return fmt.Errorf("%s at %d/s: %w", way.name, rate, orEnd(p, err))
			}
			w.b.percentiles("latency", fmt.Sprintf("%d/s, %s", rate, way.name), w.owner, round, took, 50, 99)
			w.b.say("  %d/s, %s, %s, round %d: p50 %.1f ms, p99 %.1f ms", rate, way.name, w.owner, round, percentile(took, 50), percentile(took, 99))
		}
	}
	return p.stop()
}

// atRate begins to write objects 0 to n-1 at so many a second, whether or not those before are done, and returns n.
func atRate(ctx context.Context, perSecond, n int, write func(int) error) (int, error) {
	tick := time.NewTicker(time.Second / time.Duration(perSecond))
	defer tick.Stop()
	errs := make(chan error, n)
	var writing sync.WaitGroup
	for i := range n {
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-tick.C:
		}
		writing.Go(func() { errs <- write(i) })
	}
	writing.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return 0, err
		}
	}
	return n, nil
}

// crossed waits until n objects, which those are which tells, were written on one side, and then on the other, and returns how
// many milliseconds each took.
func crossed(ctx context.Context, n int, which func(int) int, from, to commits) (took []float64, err error) {
	for deadline := time.Now().Add(patience); ; {
		began, err := from.read()
		if err != nil {
			return nil, err
		}
		ended, err := to.read()
		if err != nil {
			return nil, err
		}
		took = took[:0]
		for i := range n {
			from, to := began[which(i)], ended[which(i)]
			if !from.IsZero() && !to.IsZero() {
				took = append(took, float64(to.Sub(from).Microseconds())/1000)
			}
		}
		if len(took) == n {
			return took, nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("of %d objects %d have crossed within %s", n, len(took), patience)
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
}
