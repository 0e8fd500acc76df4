//go:build linux

package main

import (
	"context"
	"fmt"
	"time"
)

// memory is what a contender needs for objects whose both sides it watches, after a start with all in step.
var memory = figure{
	name: "memory",
	does: "heap after a collection, and resident memory, by number of objects; what one more costs is told from the first number to the last",
	targets: []target{
		{unit: "KiB/object", atMost: true, limit: 3},
		{unit: "KiB/object", against: plain, atMost: true, limit: 0.2},
		{unit: "MiB of heap in use", cases: besidePlain, against: plain, atMost: true, limit: 0.2},
		{unit: "MiB resident", cases: besidePlain, against: plain, atMost: true, limit: 0.2},
		{unit: "slope of the second half / first", atMost: true, limit: 1.15},
	},
	run: func(ctx context.Context, b *bench) error {
		return b.each([]contender{plain, isthmus}, func(c contender) error { return b.memoryOf(ctx, c) })
	},
}

// besidePlain is in the names of the cases in which both are measured.
const besidePlain = "beside plain"

// memoryOf measures one contender in a world that grows, which other figures use after it.
func (b *bench) memoryOf(ctx context.Context, c contender) error {
	w, err := b.newWorld(ctx, c, 0, 1<<10)
	if err != nil {
		return err
	}
	sizes := []int{b.scaled(3000), b.scaled(10000), b.scaled(20000)}
	both := 2 // sizes: they tell what an object costs plain, and to fill it takes minutes
	if c == plain {
		sizes = sizes[:both]
	}
	var heaps []float64
	for i, n := range sizes {
		if err := w.grow(ctx, n); err != nil {
			return fmt.Errorf("grow to %d objects: %w", n, err)
		}
		m, err := w.footprint(ctx)
		if err != nil {
			return err
		}
		heaps = append(heaps, m.inUse)
		scene := fmt.Sprintf("%d objects", n)
		if i < both {
			scene += ", " + besidePlain
		}
		b.record(result{"memory", scene, c, "MiB of heap in use", m.inUse / (1 << 20), 1})
		b.record(result{"memory", scene, c, "MiB of heap objects", m.objects / (1 << 20), 1})
		b.record(result{"memory", scene, c, "MiB resident", m.resident / (1 << 20), 1})
		b.record(result{"memory", scene, c, "MiB resident without the program", m.anonymous / (1 << 20), 1})
		b.record(result{"memory", scene, c, "MiB resident at most", m.peak / (1 << 20), 1})
		b.say("  %s, %s: %.1f MiB of heap, %.1f MiB resident", scene, c, m.inUse/(1<<20), m.resident/(1<<20))
	}
	slope := func(i, j int) float64 { return (heaps[j] - heaps[i]) / float64(sizes[j]-sizes[i]) }
	last := len(sizes) - 1
	b.record(result{"memory", "one more object", c, "KiB/object", slope(0, last) / 1024, 1})
	if last > 1 {
		b.record(result{"memory", "linear", c, "slope of the second half / first", slope(1, 2) / slope(0, 1), 1})
	}
	b.keep(w)
	return nil
}

// footprint is the memory of a process, in bytes: of its heap the spans in use and the objects, and what is resident, without
// the pages of its program, and at most.
type footprint struct{ inUse, objects, resident, anonymous, peak float64 }

// footprint starts the owner of a world in step, and measures when it rests.
func (w *world) footprint(ctx context.Context) (m footprint, err error) {
	p, err := w.start(ctx, follow)
	if err != nil {
		return m, err
	}
	defer p.kill()
	if m, err = p.footprint(ctx); err != nil {
		return m, orEnd(p, err)
	}
	return m, p.stop()
}

// footprint measures a process that has just started, when it rests.
func (p *process) footprint(ctx context.Context) (m footprint, err error) {
	if err := pause(ctx, 2*time.Second); err != nil { // or it rests before it has begun
		return m, err
	}
	if err := p.idle(ctx); err != nil {
		return m, err
	}
	if err := p.resident(&m); err != nil {
		return m, err
	}
	m.inUse, m.objects, err = p.heap(ctx)
	return m, err
}

// grow brings the world to n objects in step, while its owner runs. They get no status: that would take as long again.
func (w *world) grow(ctx context.Context, n int) error {
	remote := w.remote.record(ctx)
	defer remote.end()
	p, err := w.start(ctx, follow)
	if err != nil {
		return err
	}
	defer p.kill()
	had := w.count
	w.specVersion, w.count = 1, n
	err = parallel(ctx, n-had, driverWorkers, func(i int) error { return w.local.create(ctx, w.object(had+i, 1)) })
	if err != nil {
		return err
	}
	if err := remote.untilSpecs(ctx, 1, n); err != nil {
		return orEnd(p, err)
	}
	if err := p.idle(ctx); err != nil {
		return err
	}
	return p.stop()
}
