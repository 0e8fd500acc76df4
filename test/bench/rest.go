//go:build linux

package main

import (
	"context"
	"fmt"
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
		return b.each([]contender{plain, isthmus}, func(c contender) error { return b.restOf(ctx, c) })
	},
}

// restOf lets a contender that has nothing to do run for a while.
func (b *bench) restOf(ctx context.Context, c contender) error {
	w, err := b.inStep(ctx, c, b.scaled(3000), 1<<10)
	if err != nil {
		return err
	}
	p, err := w.start(ctx, follow)
	if err != nil {
		return err
	}
	defer p.kill()
	// Its start is not yet rest: what it asks of discovery and of rights comes in by and by.
	if err := pause(ctx, 5*time.Second); err != nil {
		return err
	}
	if err := p.idle(ctx); err != nil {
		return err
	}
	began := time.Now()
	before, err := p.cpu()
	if err != nil {
		return err
	}
	if err := pause(ctx, b.span(5*time.Minute)); err != nil {
		return err
	}
	after, err := p.cpu()
	if err != nil {
		return orEnd(p, err)
	}
	span := time.Since(began)
	n, err := b.restless(c, began)
	if err != nil {
		return err
	}
	scene := fmt.Sprintf("%d objects", w.count)
	b.record(result{"rest", scene, c, "writes", float64(n.writes), 1})
	b.record(result{"rest", scene, c, "reads", float64(n.reads), 1})
	b.record(result{"rest", scene, c, "% of a core", (after - before).Seconds() / span.Seconds() * 100, 1})
	return p.stop()
}
