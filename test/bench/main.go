//go:build linux

// Command bench measures Isthmus between two real control planes on this machine, beside two references that it contains:
// floor, a bare client that does the same writes and knows in advance what to write, and plain, a controller as one
// writes it in an afternoon with controller-runtime. The API servers share the machine with whoever is measured, so
// figures are ratios within one run: the contenders take turns, in another order each round, and medians are judged.
//
//	go run ./test/bench                        # all figures: "make bench"
//	go run ./test/bench -short                 # small, for CI: "make bench-short"
//	go run ./test/bench -figures latency -scale 0.1 -rounds 1
//
// It exits with 1 where a count is wrong (requests, writes at rest, writes at a restart) or a figure could not be
// measured; times and sizes are told beside what they must reach, and judged by people.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
)

// figures are what is measured, in this order: the first ones leave objects in step that later ones use.
var figures = []figure{firstSync, latency, requests, atRest, memory, restart, sparse, burst, namespaces, remotes}

func main() {
	// The bench program itself is what floor and plain run in, each in a process of its own.
	if len(os.Args) == 3 && os.Args[1] == contenderArgument {
		if err := contend(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	var o options
	var names string
	flag.CommandLine = flag.NewFlagSet("bench", flag.ExitOnError) // a library of the controllers has flags of its own
	flag.StringVar(&names, "figures", "", "comma-separated names of the figures to measure; empty: all ("+figureNames()+")")
	flag.IntVar(&o.rounds, "rounds", 3, "how often each contender takes its turn")
	flag.Float64Var(&o.scale, "scale", 1, "multiplies numbers of objects and spans of time")
	flag.BoolVar(&o.short, "short", false, "one small round of the figures that count requests")
	flag.StringVar(&o.out, "out", "bench-results.json", "file for every value that was measured, as JSON")
	flag.Uint64Var(&o.seed, "seed", 1, "makes the objects' content")
	flag.StringVar(&o.only, "only", "", "the one contender that takes its turns, to look into it; empty: all")
	flag.IntVar(&o.workers, "workers", 16, "objects that each contender handles at once")
	flag.Parse()
	if o.short {
		o.rounds, o.scale = 1, 0.03
	}
	chosen, err := choose(names, o.short)
	if err := errors.Join(o.check(flag.Args()), err); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	debug.SetGCPercent(400) // it shares the machine with whom it measures
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	ok, err := run(ctx, o, chosen)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// check says what is wrong with the options, and sees that the results can be written, before anything is measured.
func (o options) check(arguments []string) error {
	switch {
	case len(arguments) > 0:
		return fmt.Errorf("expected flags only, got %q", arguments)
	case o.rounds < 1:
		return fmt.Errorf("-rounds is %d: expected at least 1", o.rounds)
	case !(o.scale > 0) || math.IsInf(o.scale, 1): // NaN is not above 0 either
		return fmt.Errorf("-scale is %v: expected a positive number", o.scale)
	case o.workers < 1:
		return fmt.Errorf("-workers is %d: expected at least 1", o.workers)
	case o.only != "" && !slices.Contains(contenders, contender(o.only)):
		return fmt.Errorf("-only is %q: expected one of %s", o.only, contenders)
	}
	out, err := os.OpenFile(o.out, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("-out: %w", err)
	}
	return out.Close()
}

func figureNames() string {
	names := make([]string, 0, len(figures))
	for _, f := range figures {
		names = append(names, f.name)
	}
	return strings.Join(names, ", ")
}

// choose returns the figures of these names; without names all, or those of a short run.
func choose(names string, short bool) (chosen []figure, err error) {
	if names == "" {
		for _, f := range figures {
			if f.short || !short {
				chosen = append(chosen, f)
			}
		}
		return chosen, nil
	}
	wanted := map[string]bool{}
	for name := range strings.SplitSeq(names, ",") {
		wanted[strings.TrimSpace(name)] = true
	}
	for _, f := range figures {
		if wanted[f.name] {
			chosen = append(chosen, f)
			delete(wanted, f.name)
		}
	}
	for name := range wanted {
		return nil, fmt.Errorf("there is no figure %q: expected some of %s", name, figureNames())
	}
	return chosen, nil
}
