//go:build linux

package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// namespaces is what one more offloaded namespace costs isthmus controller, from the commit of its NamespaceOffloading
// to that of the twin of an object in it. floor and plain have nothing like it: in floor's column stands what it costs
// where few namespaces are offloaded.
var namespaces = figure{
	name: "namespaces",
	does: "time to offload one more namespace, and watches open, beside those where 10 are offloaded (floor)",
	targets: []target{
		{unit: "ms", cases: "p50", against: floor, atMost: true, limit: 1.5}, // that counts as constant
		{unit: "watches", cases: "in all", against: floor, atMost: true, limit: 1, counted: true},
		{unit: "watches", cases: "of the kind", atMost: true, limit: 1, counted: true},
	},
	aside: true,
	run: func(ctx context.Context, b *bench) error {
		for round := range b.rounds {
			if err := b.offloadOneMore(ctx, round+1); err != nil {
				return fmt.Errorf("round %d: %w", round+1, err)
			}
		}
		return nil
	},
}

const (
	fewOffloaded  = 10
	manyOffloaded = 500
	// moreOffloaded is how many more are offloaded then, one after the other.
	moreOffloaded = 15
)

// offloadOneMore takes the values of one round, of which each has clusters and an isthmus of its own.
func (b *bench) offloadOneMore(ctx context.Context, round int) error {
	f, err := b.newFleet(ctx, "namespaces")
	if err != nil {
		return err
	}
	defer f.stop()
	if err := f.grantOn(ctx, f.scene.remote, "--crossings", f.crossings, "--side", "remote", "--subject-user", string(isthmus)); err != nil {
		return err
	}
	path, err := f.scene.remote.UserKubeconfig(string(isthmus))
	if err != nil {
		return err
	}
	kubeconfig, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := f.reach(ctx, "remote", kubeconfig); err != nil {
		return err
	}
	p, err := f.run(ctx)
	if err != nil {
		return err
	}
	defer p.kill()
	twins := f.twins.record(ctx)
	defer twins.end()

	many := b.scaled(manyOffloaded)
	scene := fmt.Sprintf("one more of %d", many)
	offloaded := 0
	for _, level := range []struct {
		offloaded int
		column    contender
	}{{fewOffloaded, floor}, {many, isthmus}} {
		err := parallel(ctx, level.offloaded-offloaded, driverWorkers, func(i int) error { return f.prepare(ctx, offloaded+i, true) })
		if err != nil {
			return err
		}
		offloaded = level.offloaded
		if err := twins.untilPresent(ctx, offloaded); err != nil {
			return orEnd(p, err)
		}
		var took []float64
		for range moreOffloaded {
			one, err := f.more(ctx, p, twins, offloaded)
			if err != nil {
				return orEnd(p, err)
			}
			took = append(took, one)
			offloaded++
		}
		b.percentiles("namespaces", scene, level.column, round, took, 50, 90)
		open, err := f.openWatches(isthmus)
		if err != nil {
			return err
		}
		all := 0
		for _, n := range open {
			all += n
		}
		b.record(result{"namespaces", fmt.Sprintf("%d offloaded, in all", many), level.column, "watches", float64(all), round})
		for _, side := range []string{"local ", "remote "} {
			b.record(result{"namespaces", fmt.Sprintf("%d offloaded, of the kind, %s", many, strings.TrimSpace(side)), level.column, "watches", float64(open[side+plural]), round})
		}
		b.say("  %d offloaded, round %d: one more in %.0f ms; %d watches: %s", level.offloaded, round, median(took), all, listed(open))
	}
	return p.stop()
}

// prepare makes namespace i with a Widget that is opted in, and offloads it.
func (f *fleet) prepare(ctx context.Context, i int, offload bool) error {
	m := makeup{Namespace: fmt.Sprintf("team-%d", i), Size: 1 << 10, Seed: f.b.seed, OptedIn: true}
	if err := f.namespace(ctx, m.Namespace); err != nil {
		return err
	}
	if err := f.sources.in(m.Namespace).create(ctx, m.object(i, 1)); err != nil || !offload {
		return err
	}
	return f.offload(ctx, m.Namespace, m.Namespace+"-twins", "remote")
}

// more offloads one more namespace, and returns how many milliseconds later the twin of its object was there.
func (f *fleet) more(ctx context.Context, p *process, twins *recorder, i int) (took float64, err error) {
	if err := f.prepare(ctx, i, false); err != nil {
		return 0, err
	}
	if err := p.idle(ctx); err != nil {
		return 0, err
	}
	m := fmt.Sprintf("team-%d", i)
	if err := f.offload(ctx, m, m+"-twins", "remote"); err != nil {
		return 0, err
	}
	committed := time.Now()
	if err := twins.untilPresent(ctx, i+1); err != nil {
		return 0, err
	}
	return float64(twins.specAt(i, 1).Sub(committed).Microseconds()) / 1000, nil
}

// listed lists what was counted.
func listed(counts map[string]int) string {
	var all []string
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, fmt.Sprintf("%s %d", what, counts[what]))
	}
	return strings.Join(all, ", ")
}
