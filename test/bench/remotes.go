//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"isthmus.dev/isthmus/test/harness"
)

// remotes is how long changes take to cross to the other remotes of one isthmus controller while one of them hangs: it
// takes connections, and never answers. floor and plain have nothing like it: in floor's column stands how
// long it takes while all are well. The remotes are views of one cluster.
var remotes = figure{
	name: "remotes",
	does: "from a change's commit to that of its twin on nine remotes while a tenth hangs, beside that while it is well (floor)",
	targets: []target{
		{unit: "ms", cases: "p99", against: floor, atMost: true, limit: 1.1},
	},
	aside: true,
	run: func(ctx context.Context, b *bench) error {
		w, err := b.newViews(ctx)
		if err != nil {
			return err
		}
		defer w.stop()
		p, err := w.run(ctx)
		if err != nil {
			return err
		}
		defer p.kill()
		if err := w.latencies(ctx, p); err != nil {
			return orEnd(p, err)
		}
		return p.stop()
	},
}

const (
	remoteCount = 10
	// remoteRate is how many changes a second there are on all remotes together.
	remoteRate = 20
)

// views are a fleet whose remotes are views of its remote cluster.
type views struct {
	*fleet
	views []*view
	// line leads to the last of them.
	line *harness.Line
	// count is how many sources there are: source i is in a namespace of remote i modulo remoteCount.
	count   int
	version int64
}

// newViews makes ten remotes, and sources for each.
func (b *bench) newViews(ctx context.Context) (*views, error) {
	f, err := b.newFleet(ctx, "remotes")
	if err != nil {
		return nil, err
	}
	w := &views{fleet: f, count: int(b.span(remotePhase).Seconds()*remoteRate) / remoteCount * remoteCount}
	if err := w.make(ctx); err != nil {
		w.stop()
		return nil, err
	}
	return w, nil
}

// account is whom the views ask the cluster as: a token can go through them, and a certificate can't.
const account = "isthmus"

// remotePhase is how long all are well, or one hangs, in a round.
const remotePhase = 12 * time.Second

func (w *views) make(ctx context.Context) error {
	remote := w.scene.remote
	err := remote.Apply(ctx, fmt.Appendf(nil, `{apiVersion: v1, kind: Namespace, metadata: {name: %[1]s}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: %[2]s, namespace: %[1]s}}
`, home, account))
	if err != nil {
		return err
	}
	if err := w.grantOn(ctx, remote, "--crossings", w.crossings, "--side", "remote", "--subject-serviceaccount", home+"/"+account); err != nil {
		return err
	}
	token, err := remote.ServiceAccountKubeconfig(ctx, home, account)
	if err != nil {
		return err
	}
	for i := range remoteCount {
		name := viewName(i)
		v, err := newView(remote, name+"-twins")
		if err != nil {
			return err
		}
		w.views = append(w.views, v)
		address := v.server.URL
		if i == remoteCount-1 {
			if w.line, err = harness.NewLine(name, strings.TrimPrefix(address, "https://")); err != nil {
				return err
			}
			address = w.line.URL()
		}
		kubeconfig, err := v.kubeconfig(token, address)
		if err != nil {
			return err
		}
		if err := w.reach(ctx, name, kubeconfig); err != nil {
			return err
		}
		if err := w.namespace(ctx, name); err != nil {
			return err
		}
		if err := w.offload(ctx, name, name+"-twins", name); err != nil {
			return err
		}
	}
	w.version = 1
	return parallel(ctx, w.count, driverWorkers, func(i int) error {
		m := makeup{Namespace: viewName(i % remoteCount), Size: 1 << 10, Seed: w.b.seed, OptedIn: true}
		return w.sources.in(m.Namespace).create(ctx, m.object(i, 1))
	})
}

func viewName(i int) string { return fmt.Sprintf("remote-%d", i) }

func (w *views) stop() {
	if w.line != nil {
		w.line.Cut()
	}
	for _, v := range w.views {
		v.stop()
	}
	w.fleet.stop()
}

// latencies takes the samples of all rounds. Which comes first, that all are well or that one hangs, alternates.
func (w *views) latencies(ctx context.Context, p *process) error {
	sources, twins := w.sources.record(ctx), w.twins.record(ctx)
	defer sources.end()
	defer twins.end()
	if err := twins.untilSpecs(ctx, 1, w.count); err != nil {
		return err
	}
	if err := p.idle(ctx); err != nil {
		return err
	}
	phase := func(round int, column contender) error {
		w.version++
		v, began := w.version, time.Now()
		n, err := atRate(ctx, remoteRate, w.count, func(i int) error {
			return w.sources.in(viewName(i%remoteCount)).change(ctx, i, v)
		})
		if err != nil {
			return err
		}
		others := n / remoteCount * (remoteCount - 1)
		took, err := crossed(ctx, others, func(i int) int { return i/(remoteCount-1)*remoteCount + i%(remoteCount-1) },
			commits{w.scene.local, began, func(user string) bool { return user != string(isthmus) }, ""},
			commits{w.scene.remote, began, func(user string) bool { return strings.HasSuffix(user, ":"+account) }, ""})
		if err != nil {
			return err
		}
		w.b.percentiles("remotes", fmt.Sprintf("%d/s to %d remotes", remoteRate, remoteCount), column, round, took, 50, 90, 99)
		w.b.say("  %s, round %d: p50 %.1f ms, p99 %.1f ms", map[contender]string{floor: "all are well", isthmus: "one hangs"}[column], round,
			percentile(took, 50), percentile(took, 99))
		return nil
	}
	hangs := func(round int) error {
		if err := w.line.Hang(); err != nil {
			return err
		}
		if err := phase(round, isthmus); err != nil {
			return err
		}
		if !twins.specAt(remoteCount-1, w.version).IsZero() {
			return errors.New("the remote that is to hang took a change")
		}
		began := time.Now()
		if err := w.line.Answer(); err != nil {
			return err
		}
		if err := twins.untilSpecs(ctx, w.version, w.count); err != nil {
			return err
		}
		w.b.say("  it has what it missed %.1f s after it answers again", time.Since(began).Seconds())
		return p.idle(ctx)
	}
	well := func(round int) error { return phase(round, floor) }
	for round := range w.b.rounds {
		order := []func(int) error{well, hangs}
		if round%2 == 1 {
			order[0], order[1] = hangs, well
		}
		for _, one := range order {
			if err := one(round + 1); err != nil {
				return fmt.Errorf("round %d: %w", round+1, err)
			}
		}
	}
	return nil
}
