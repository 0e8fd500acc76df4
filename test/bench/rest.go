//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// atRest is what a contender does while nothing changes.
var atRest = figure{
	name: "rest",
	does: "requests and CPU while nothing changes",
	targets: []target{
		{unit: "writes", atMost: true, limit: 0, counted: true},
		{unit: "reads", atMost: true, limit: 0},
		{unit: "% of a core", atMost: true, limit: 1},
	},
	short: true,
	run: func(ctx context.Context, b *bench) error {
		var all []*resting
		defer func() {
			for _, r := range all {
				r.process.kill()
			}
		}()
		err := b.each([]contender{plain, isthmus}, func(c contender) error {
			w, err := b.inStep(ctx, c, b.scaled(3000), 1<<10)
			if err != nil {
				return err
			}
			p, err := w.start(ctx, follow)
			if err != nil {
				return err
			}
			all = append(all, &resting{world: w, process: p})
			return nil
		})
		if err != nil {
			return err
		}
		// A start is not yet rest: what it asks of discovery and of rights comes in by and by.
		if err := pause(ctx, 5*time.Second); err != nil {
			return err
		}
		for _, r := range all {
			if err := r.begin(ctx); err != nil {
				return err
			}
		}
		for until := time.Now().Add(b.span(5 * time.Minute)); time.Now().Before(until); {
			if i := slices.IndexFunc(b.chosen, func(f figure) bool { return f.aside && !b.done[f.name] }); i >= 0 {
				b.take(ctx, b.chosen[i])
			} else if err := pause(ctx, time.Until(until)); err != nil {
				return err
			}
		}
		for _, r := range all {
			if err := r.end(); err != nil {
				return err
			}
		}
		return nil
	},
}

// resting is a contender that has nothing to do. Those that are measured rest at the same time.
type resting struct {
	world   *world
	process *process
	began   time.Time
	cpu     time.Duration // until it began
}

func (r *resting) begin(ctx context.Context) (err error) {
	if err := r.process.idle(ctx); err != nil {
		return err
	}
	r.began = time.Now()
	r.cpu, err = r.process.cpu()
	return err
}

func (r *resting) end() error {
	cpu, err := r.process.cpu()
	if err != nil {
		return orEnd(r.process, err)
	}
	b, c, span := r.world.b, r.world.owner, time.Since(r.began)
	n, err := b.restless(c, r.began)
	if err != nil {
		return err
	}
	scene := fmt.Sprintf("%d objects", r.world.count)
	b.record(result{"rest", scene, c, "writes", float64(n.writes), 1})
	b.record(result{"rest", scene, c, "reads", float64(n.reads), 1})
	b.record(result{"rest", scene, c, "% of a core", (cpu - r.cpu).Seconds() / span.Seconds() * 100, 1})
	return r.process.stop()
}
