//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"isthmus.dev/isthmus/internal/controlplane"
)

// world is a namespace on both sides, whose objects one contender carries.
type world struct {
	makeup
	b     *bench
	owner contender
	count int
	// specVersion and statusVersion are the highest that objects have.
	specVersion, statusVersion int64
	// local and remote are the driver's clients, those of an admin.
	local, remote *widgets
	// config is the file that isthmus runs with.
	config string
	// kubeconfigs of the owner.
	localKubeconfig, remoteKubeconfig string
}

// driverWorkers is how many objects the driver writes at once.
const driverWorkers = 16

// newWorld makes an empty world for a contender, and for count objects of about size bytes.
func (b *bench) newWorld(ctx context.Context, owner contender, count, size int) (*world, error) {
	b.worlds++
	w := &world{
		makeup: makeup{Namespace: fmt.Sprintf("bench-%d-%s", b.worlds, owner), Size: size, Seed: b.seed},
		b:      b, owner: owner, count: count,
	}
	var err error
	for _, c := range []*controlplane.Cluster{b.scene.local, b.scene.remote} {
		if err := c.Apply(ctx, []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: "+w.Namespace+"}\n")); err != nil {
			return nil, err
		}
	}
	if w.local, err = newWidgets(b.localConfig, w.Namespace); err != nil {
		return nil, err
	}
	if w.remote, err = newWidgets(b.remoteConfig, w.Namespace); err != nil {
		return nil, err
	}
	if w.localKubeconfig, err = b.scene.local.UserKubeconfig(string(owner)); err != nil {
		return nil, err
	}
	if w.remoteKubeconfig, err = b.scene.remote.UserKubeconfig(string(owner)); err != nil {
		return nil, err
	}
	if owner != isthmus {
		return w, nil
	}
	w.config = filepath.Join(b.dir, w.Namespace+".yaml")
	err = os.WriteFile(w.config, fmt.Appendf(nil, `version: v1
namespaces: {%[1]s: %[1]s}
syncResources:
- {apiVersion: %[2]s, kind: %[3]s, direction: toHost, statusSync: true, workers: %[4]d}
`, w.Namespace, apiVersion, kind, b.workers), 0o600)
	if err != nil {
		return nil, err
	}
	return w, b.grant(ctx, w.config, w.Namespace)
}

// createSources creates all sources in version 1.
func (w *world) createSources(ctx context.Context) error {
	w.specVersion = 1
	return parallel(ctx, w.count, driverWorkers, func(i int) error { return w.local.create(ctx, w.object(i, 1)) })
}

// change changes source i to a version.
func (w *world) change(ctx context.Context, i int, v int64) error {
	return w.local.change(ctx, i, v)
}

// answer sets the status of twin i to a version.
func (w *world) answer(ctx context.Context, i int, v int64) error {
	return w.remote.patch(ctx, types.MergePatchType, name(i), encode(map[string]any{"status": status(i, v)}), "status")
}

// answerAll sets the status of all twins to a version.
func (w *world) answerAll(ctx context.Context, v int64) error {
	w.statusVersion = max(w.statusVersion, v)
	return parallel(ctx, w.count, driverWorkers, func(i int) error { return w.answer(ctx, i, v) })
}

// drop deletes all objects; nobody carries them any more. One by one, by many, that is quicker than a collection.
func (w *world) drop(ctx context.Context) error {
	var errs [2]error
	var sides sync.WaitGroup
	for i, side := range []*widgets{w.local, w.remote} {
		sides.Go(func() {
			errs[i] = parallel(ctx, w.count, driverWorkers, func(i int) error { return client.IgnoreNotFound(side.delete(ctx, name(i))) })
		})
	}
	sides.Wait()
	return errors.Join(errs[:]...)
}

// keptKey is what worlds are told apart by that figures share.
type keptKey struct {
	owner       contender
	count, size int
}

// keep keeps a world that is in step for other figures (inStep).
func (b *bench) keep(w *world) { b.kept[keptKey{w.owner, w.count, w.Size}] = w }

// inStep returns a world whose objects are in step, specs and statuses, while nobody runs: one that an earlier figure
// kept, or a new one. Figures leave it in step.
func (b *bench) inStep(ctx context.Context, owner contender, count, size int) (*world, error) {
	if w := b.kept[keptKey{owner, count, size}]; w != nil {
		return w, nil
	}
	w, err := b.newWorld(ctx, owner, count, size)
	if err != nil {
		return nil, err
	}
	b.say("  %s brings %d objects into step", owner, count)
	if _, _, err := w.carryAll(ctx); err != nil {
		return nil, err
	}
	b.keep(w)
	return w, nil
}

// parallel calls do for 0 to n-1, a few at a time, and returns the first error; the rest is left out then.
func parallel(ctx context.Context, n, workers int, do func(int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	next := make(chan int)
	for range workers {
		group.Go(func() {
			for i := range next {
				if err := do(i); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
feed:
	for i := range n {
		select {
		case next <- i:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	group.Wait()
	return context.Cause(ctx)
}
