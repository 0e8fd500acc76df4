//go:build linux

package main

import (
	"context"
	"fmt"
	"time"
)

// requests counts what crossing costs the API servers.
var requests = figure{
	name: "requests",
	does: "writes and reads per create, update, status and delete",
	targets: []target{
		{unit: "writes/object", cases: "create", atMost: true, limit: 1, counted: true},
		{unit: "writes/object", cases: "update", atMost: true, limit: 1, counted: true},
		{unit: "writes/object", cases: "status", atMost: true, limit: 1, counted: true},
		{unit: "writes/object", cases: "delete", atMost: true, limit: 1, counted: true},
		{unit: "reads/object", cases: "create", atMost: true, limit: 0, counted: true},
		{unit: "reads/object", cases: "update", atMost: true, limit: 0, counted: true},
		{unit: "reads/object", cases: "status", atMost: true, limit: 0, counted: true},
		// The CRD is read before a batch of deletes; how many batches these deletes come in depends on the machine.
		{unit: "reads in all", cases: "delete", atMost: true, limit: 1},
	},
	short: true,
	run: func(ctx context.Context, b *bench) error {
		return b.each(contenders, func(c contender) error { return b.countRequests(ctx, c) })
	},
}

// countRequests lets a contender, which runs all the time, carry each kind of change.
func (b *bench) countRequests(ctx context.Context, c contender) error {
	w, err := b.newWorld(ctx, c, b.scaled(300), 1<<10)
	if err != nil {
		return err
	}
	p, err := w.start(ctx, follow)
	if err != nil {
		return err
	}
	defer p.kill()
	if err := p.idle(ctx); err != nil {
		return err
	}
	local, remote := w.local.record(ctx), w.remote.record(ctx)
	defer local.end()
	defer remote.end()
	each := func(do func(int) error) error { return parallel(ctx, w.count, driverWorkers, do) }
	for _, step := range []struct {
		name  string
		do    func() error
		until func() error
	}{
		{"create", func() error { return w.createSources(ctx) }, func() error { return remote.untilSpecs(ctx, 1, w.count) }},
		{
			"update", func() error { return each(func(i int) error { return w.change(ctx, i, 2) }) },
			func() error { return remote.untilSpecs(ctx, 2, w.count) },
		},
		{"status", func() error { return w.answerAll(ctx, 1) }, func() error { return local.untilStatuses(ctx, 1, w.count) }},
		{"delete", func() error { return w.local.deleteAll(ctx) }, func() error { return remote.untilPresent(ctx, 0) }},
	} {
		began := time.Now()
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		if err := step.until(); err != nil {
			return fmt.Errorf("%s: %w", step.name, orEnd(p, err))
		}
		if err := p.idle(ctx); err != nil {
			return err
		}
		n, err := b.requestsOf(c, began)
		if err != nil {
			return err
		}
		per := func(unit string, n int) {
			b.record(result{"requests", step.name, c, unit, float64(n) / float64(w.count), 1})
		}
		per("writes/object", n.writes)
		if step.name == "delete" {
			b.record(result{"requests", step.name, c, "reads in all", float64(n.reads), 1})
		} else {
			per("reads/object", n.reads)
		}
		per("Events/object", n.events)
	}
	return p.stop()
}
