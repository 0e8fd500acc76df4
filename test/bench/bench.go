//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// options are what the flags say.
type options struct {
	rounds, workers int
	scale           float64
	short           bool
	seed            uint64
	out             string
	only            string
}

// figure is one thing that is measured.
type figure struct {
	name, does string
	// targets are what its values must reach.
	targets []target
	// short: a short run has it, for its counts.
	short bool
	// aside: it has clusters of its own, so that it is measured while the others rest, if they do.
	aside bool
	run   func(ctx context.Context, b *bench) error
}

// bench is one run.
type bench struct {
	options
	*scene
	results []result
	chosen  []figure
	done    map[string]bool  // figures that were taken, or are
	failed  map[string]error // figures that could not be measured
	kept    map[keptKey]*world
	began   time.Time
}

// result is one measured value.
type result struct {
	Figure    string    `json:"figure"`
	Case      string    `json:"case"`
	Contender contender `json:"contender"`
	Unit      string    `json:"unit"`
	Value     float64   `json:"value"`
	// Round is when it was measured, from 1; 0: over all rounds.
	Round int `json:"round"`
}

// run measures the figures, prints what came out, and writes it to a file; ok: no count is wrong, and all figures were
// measured.
func run(ctx context.Context, o options, chosen []figure) (ok bool, err error) {
	b := &bench{options: o, chosen: chosen, done: map[string]bool{}, failed: map[string]error{}, kept: map[keptKey]*world{}, began: time.Now()}
	b.say("Starting two control planes and building isthmus")
	if b.scene, err = newScene(ctx); err != nil {
		return false, err
	}
	defer b.close()
	for _, f := range chosen {
		b.take(ctx, f)
	}
	rows := judge(chosen, b.results, b.failed)
	b.say("Done")
	fmt.Println()
	if err := printTable(os.Stdout, rows); err != nil {
		return false, err
	}
	if err := writeResults(o, b.began, b.results, rows); err != nil {
		return false, err
	}
	return len(b.failed) == 0 && !slices.ContainsFunc(rows, row.wrong), nil
}

// take measures a figure, unless that was done.
func (b *bench) take(ctx context.Context, f figure) {
	if b.done[f.name] {
		return
	}
	b.done[f.name] = true
	b.say("%s: %s", f.name, f.does)
	err := f.run(ctx, b)
	if ctx.Err() != nil {
		err = errors.New("it was interrupted")
	}
	if err != nil {
		b.failed[f.name] = err
		b.say("%s could not be measured: %v", f.name, err)
	}
}

// say tells how far it is.
func (b *bench) say(format string, args ...any) {
	fmt.Printf("%6.1fs  %s\n", time.Since(b.began).Seconds(), fmt.Sprintf(format, args...))
}

// record takes in a value.
func (b *bench) record(r result) { b.results = append(b.results, r) }

// percentiles records percentiles of the values of a round.
func (b *bench) percentiles(figure, case_ string, c contender, round int, values []float64, percents ...float64) {
	for _, p := range percents {
		b.record(result{figure, fmt.Sprintf("%s, p%g", case_, p), c, "ms", percentile(values, p), round})
	}
}

// scaled returns a number of objects at the run's scale; few are always left.
func (b *bench) scaled(n int) int { return min(n, max(20, int(float64(n)*b.scale))) }

// span returns a span of time at the run's scale, two seconds at least.
func (b *bench) span(d time.Duration) time.Duration {
	return min(d, max(2*time.Second, time.Duration(float64(d)*b.scale)))
}

// turns lets contenders take turns, in every round in another order.
func (b *bench) turns(ctx context.Context, contenders []contender, take func(ctx context.Context, round int, c contender) error) error {
	for round := range b.rounds {
		at := round % len(contenders)
		err := b.each(slices.Concat(contenders[at:], contenders[:at]), func(c contender) error { return take(ctx, round+1, c) })
		if err != nil {
			return fmt.Errorf("round %d: %w", round+1, err)
		}
	}
	return nil
}

// each lets contenders take one turn, those that are asked for.
func (b *bench) each(contenders []contender, take func(contender) error) error {
	for _, c := range contenders {
		if b.only != "" && string(c) != b.only {
			continue
		}
		if err := take(c); err != nil {
			return fmt.Errorf("%s: %w", c, err)
		}
	}
	return nil
}
