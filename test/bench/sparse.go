//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// sparse is many objects of a kind, of which few are opted in. In floor's column stands what it is held against: a bare
// list of them all, and the memory of isthmus with those few alone.
var sparse = figure{
	name: "sparse",
	does: "20,000 objects of the kind, 100 opted in, beside one list of all, and the memory with 100 alone (floor)",
	targets: []target{
		{unit: "s", against: floor, atMost: true, limit: 1.2},
		{unit: "MiB of heap in use", against: floor, atMost: true, limit: 1.1},
	},
	run: func(ctx context.Context, b *bench) error {
		all, err := b.inStep(ctx, isthmus, b.scaled(20000), 1<<10)
		if err != nil {
			return err
		}
		few := b.scaled(100)
		alone, err := b.inStep(ctx, isthmus, few, 1<<10)
		if err != nil {
			return err
		}
		m, err := alone.footprint(ctx)
		if err != nil {
			return err
		}
		scene := fmt.Sprintf("%d of %d", few, all.count)
		b.record(result{"sparse", scene, floor, "MiB of heap in use", m.inUse / (1 << 20), 1})
		return all.fewCross(ctx, few, scene)
	},
}

// fewCross lets another isthmus carry a few objects of a world in step, to a namespace of its own.
func (w *world) fewCross(ctx context.Context, few int, scene string) error {
	other, err := w.b.newWorld(ctx, isthmus, few, w.Size) // for its namespace on the remote side
	if err != nil {
		return err
	}
	err = os.WriteFile(other.config, fmt.Appendf(nil, `version: v1
namespaces: {%s: %s}
syncResources:
- {apiVersion: %s, kind: %s, direction: toHost, policy: AllowList, workers: %d}
`, w.Namespace, other.Namespace, apiVersion, kind, w.b.workers), 0o600)
	if err != nil {
		return err
	}
	if err := w.b.grant(ctx, other.config, other.Namespace); err != nil {
		return err
	}
	err = parallel(ctx, few, driverWorkers, func(i int) error {
		return w.local.patch(ctx, types.MergePatchType, name(i), []byte(`{"metadata":{"annotations":{"`+optIn+`":"true"}}}`))
	})
	if err != nil {
		return err
	}
	_, listing, err := w.local.list(ctx)
	if err != nil {
		return err
	}
	w.b.record(result{"sparse", scene, floor, "s", listing.Seconds(), 1})
	remote := other.remote.record(ctx)
	defer remote.end()
	p, err := other.start(ctx, follow)
	if err != nil {
		return err
	}
	defer p.kill()
	if err := remote.untilPresent(ctx, few); err != nil {
		return orEnd(p, err)
	}
	w.b.record(result{"sparse", scene, isthmus, "s", time.Since(p.started).Seconds(), 1})
	if err := p.stop(); err != nil {
		return err
	}
	m, err := other.footprint(ctx) // started anew, as the few alone are
	if err != nil {
		return err
	}
	w.b.record(result{"sparse", scene, isthmus, "MiB of heap in use", m.inUse / (1 << 20), 1})
	w.b.record(result{"sparse", scene, isthmus, "MiB resident", m.resident / (1 << 20), 1})
	return nil
}
