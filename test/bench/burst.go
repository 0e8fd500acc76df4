//go:build linux

package main

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// burst is more changes than anybody asked for: one object changed without end, and all deleted and created again.
var burst = figure{
	name: "burst",
	does: "one object changed 10,000 times; all objects deleted and created again",
	targets: []target{
		{unit: "writes", atMost: true, limit: 300},
		{unit: "writes/object", atMost: true, limit: 2, counted: true},
	},
	run: func(ctx context.Context, b *bench) error {
		return b.each([]contender{isthmus}, func(c contender) error { return b.burstOf(ctx, c) })
	},
}

func (b *bench) burstOf(ctx context.Context, c contender) error {
	w, err := b.newWorld(ctx, c, b.scaled(1000), 1<<10)
	if err != nil {
		return err
	}
	if err := w.createSources(ctx); err != nil {
		return err
	}
	p, err := w.start(ctx, follow)
	if err != nil {
		return err
	}
	defer p.kill()
	remote := w.remote.record(ctx)
	defer remote.end()
	if err := remote.untilSpecs(ctx, 1, w.count); err != nil {
		return orEnd(p, err)
	}
	if err := p.idle(ctx); err != nil {
		return err
	}

	changes := b.scaled(10000)
	began := time.Now()
	if err := w.changeOne(ctx, changes); err != nil {
		return err
	}
	last := int64(changes) + 1
	if err := remote.wait(ctx, "the last change of the burst", func() bool { return remote.specs[last] > 0 }); err != nil {
		return orEnd(p, err)
	}
	if err := p.idle(ctx); err != nil {
		return err
	}
	n, err := b.requestsOf(c, began)
	if err != nil {
		return err
	}
	b.record(result{"burst", fmt.Sprintf("one object changed %d times", changes), c, "writes", float64(n.writes), 1})

	began = time.Now()
	if err := w.local.deleteAll(ctx); err != nil {
		return err
	}
	if err := w.createSources(ctx); err != nil {
		return err
	}
	again := fmt.Sprintf("%d twins created again", w.count)
	err = remote.wait(ctx, again, func() bool {
		anew := 0
		for _, o := range remote.objects {
			if o.present && o.appeared.After(began) {
				anew++
			}
		}
		return anew == w.count
	})
	if err != nil {
		return orEnd(p, err)
	}
	if err := p.idle(ctx); err != nil {
		return err
	}
	if n, err = b.requestsOf(c, began); err != nil {
		return err
	}
	b.record(result{"burst", fmt.Sprintf("%d deleted and created again", w.count), c, "writes/object", float64(n.writes) / float64(w.count), 1})
	if err := p.stop(); err != nil {
		return err
	}
	return w.drop(ctx)
}

// changeOne changes object 0 n times, a few changes at a time, so that the server is the limit; the last one comes last.
func (w *world) changeOne(ctx context.Context, n int) error {
	err := parallel(ctx, n-1, 4, func(i int) error {
		err := w.change(ctx, 0, int64(i)+2)
		if apierrors.IsConflict(err) {
			return nil // the server gave up on this one among the others
		}
		return err
	})
	if err != nil {
		return err
	}
	return w.change(ctx, 0, int64(n)+1)
}
