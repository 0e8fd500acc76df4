//go:build linux

package main

import (
	"context"
	"fmt"
	"time"
)

// firstSync carries all of many objects: the specs out, and then, with the contender started anew, all statuses back.
var firstSync = figure{
	name: "first-sync",
	does: "all specs out, all statuses back",
	targets: []target{
		{unit: "objects/s", against: floor, limit: 0.9},
		{unit: "objects/s", against: plain, limit: 1.3},
		{unit: "CPU s/1000", cases: "1 KiB", against: plain, atMost: true, limit: 0.333},
	},
	run: func(ctx context.Context, b *bench) error {
		for _, sizes := range []struct {
			count, size int
			name        string
		}{{3000, 1 << 10, "1 KiB"}, {500, 20 << 10, "20 KiB"}} {
			count := b.scaled(sizes.count)
			err := b.turns(ctx, contenders, func(ctx context.Context, round int, c contender) error {
				w, err := b.newWorld(ctx, c, count, sizes.size)
				if err != nil {
					return err
				}
				out, back, err := w.carryAll(ctx)
				if err != nil {
					return err
				}
				scene := fmt.Sprintf("%d × %s", count, sizes.name)
				for i, way := range []phase{out, back} {
					called := scene + []string{", specs out", ", statuses back"}[i]
					b.record(result{"first-sync", called, c, "objects/s", way.perSecond, round})
					b.record(result{"first-sync", called + ", from the start", c, "s", way.took.Seconds(), round})
				}
				b.record(result{"first-sync", scene, c, "CPU s/1000", (out.cpu + back.cpu).Seconds() / float64(2*count) * 1000, round})
				b.say("  %s, %s, round %d: %.0f/s out, %.0f/s back", scene, c, round, out.perSecond, back.perSecond)
				if round == b.rounds && sizes.size == 1<<10 {
					b.keep(w)
					return nil
				}
				return w.drop(ctx)
			})
			if err != nil {
				return err
			}
		}
		return nil
	},
}

// phase is what carrying all objects of a world one way took.
type phase struct {
	perSecond float64       // from the first write to the last
	took      time.Duration // from the start of the process to the last write
	cpu       time.Duration // of the process, until it rests
}

// carryAll fills an empty world and brings it into step: the owner carries the specs out, and then, started anew, the
// statuses back.
func (w *world) carryAll(ctx context.Context) (out, back phase, err error) {
	if err := w.createSources(ctx); err != nil {
		return out, back, fmt.Errorf("create the sources: %w", err)
	}
	if out, err = w.carry(ctx, specs, w.remote); err != nil {
		return out, back, err
	}
	if err := w.answerAll(ctx, 1); err != nil {
		return out, back, fmt.Errorf("answer: %w", err)
	}
	back, err = w.carry(ctx, statuses, w.local)
	return out, back, err
}

// carry runs the owner until all objects have crossed to one side.
func (w *world) carry(ctx context.Context, what task, to *widgets) (s phase, err error) {
	seen := to.record(ctx)
	defer seen.end()
	p, err := w.start(ctx, what)
	if err != nil {
		return s, err
	}
	defer p.kill()
	until := seen.untilSpecs
	if what == statuses {
		until = seen.untilStatuses
	}
	if err := until(ctx, 1, w.count); err != nil {
		return s, fmt.Errorf("%s: %w", what, orEnd(p, err))
	}
	if err := p.idle(ctx); err != nil {
		return s, err
	}
	if s.cpu, err = p.cpu(); err != nil {
		return s, err
	}
	var last time.Time
	if s.perSecond, last, err = seen.throughput(1, what == statuses); err != nil {
		return s, err
	}
	s.took = last.Sub(p.started)
	return s, p.stop()
}

// orEnd returns why a process ended, if it has, and otherwise err.
func orEnd(p *process, err error) error {
	if ended := p.running(); ended != nil {
		return ended
	}
	return err
}
