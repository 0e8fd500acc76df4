//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"isthmus.dev/isthmus/examples/demo"
	"isthmus.dev/isthmus/internal/controlplane"
)

// user is whom the first Isthmus runs as on both clusters. It holds what isthmus rbac prints, and nothing else.
const user = "isthmus"

// patience is how long a step may take. It is generous: machines are shared.
const patience = 45 * time.Second

// errChecks says that checks failed, which has been told.
var errChecks = errors.New("checks failed")

// world is what a demo runs on: two clusters, the provider's controller, and Isthmus between them. The second scene adds
// tenants of the provider's cluster, the third what objects on both say, the fourth the networks of their pods, the fifth what
// a hub installs on its members.
type world struct {
	out                io.Writer
	check              bool
	dir                string // for what the demo makes; it is removed at the end
	consumer, provider *side
	isthmus            *isthmus
	controller         sync.WaitGroup
	applications       []byte // the CRD
	tenants            []*tenant
	peering            *peering // nil: the third scene has not begun
	direct             *direct  // nil: the fourth has not begun
	fleet              *fleet   // nil: the fifth has not begun
}

func newDemo(out io.Writer, check bool) *world { return &world{out: out, check: check} }

func (w *world) say(format string, args ...any) { _, _ = fmt.Fprintf(w.out, format+"\n", args...) }

// run runs the whole demo. Nothing of it is left when it returns.
func (w *world) run(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		w.stop()
	}()
	passed, total := 0, 0
	for _, scene := range w.scenes() {
		if scene.start != nil {
			if err := scene.start(ctx); err != nil {
				return err
			}
			w.say("\nChecking, step by step:\n")
		}
		morePassed, more := w.runSteps(ctx, scene.steps)
		passed, total = passed+morePassed, total+more
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if scene.show != nil {
			w.say("")
			scene.show(ctx)
		}
	}
	if w.check {
		w.say("\nTrying the commands that people would be shown, and stopping:\n")
		morePassed, more := w.runSteps(ctx, append(commandSteps(), step{title: "Each Isthmus ends within 5 seconds of SIGTERM, with code 0", do: stopsCleanly}))
		passed, total = passed+morePassed, total+more
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	w.say("\ndemo: %d of %d checks passed", passed, total)
	if !w.check {
		w.printThingsToTry()
		<-ctx.Done()
		w.say("\nStopping.")
	}
	if passed != total {
		return errChecks
	}
	return nil
}

// scene is a part of the demo: what it needs besides what is there, its steps, and what people see then.
type scene struct {
	start func(context.Context) error // nil: it goes on with what is there
	steps []step
	show  func(context.Context) // nil: nothing
}

func (w *world) scenes() []scene {
	return []scene{
		{w.start, steps, w.printTable},
		{w.startTenants, tenantSteps, w.printTenants},
		{w.startPeering, peeringSteps, w.printPeering},
		{w.startDirect, directSteps, w.printDirect},
		{nil, peeringEnd, nil},
		{w.startFleet, fleetSteps, w.printFleet},
		{nil, fleetEnd, nil},
	}
}

// start brings up everything and applies the files of examples/demo.
func (w *world) start(ctx context.Context) (err error) {
	w.say("Two real control planes, a controller on one of them, and Isthmus between them.\n")
	if w.dir, err = os.MkdirTemp("", "isthmus-demo-"); err != nil {
		return err
	}
	if _, err := controlplane.Build(ctx, w.out); err != nil {
		return err
	}
	w.say("Compiling Isthmus.")
	if err := buildIsthmus(ctx, w.binary()); err != nil {
		return err
	}
	if w.applications, err = argoCD.crds(ctx, w.say); err != nil {
		return err
	}
	w.say("Starting the clusters consumer and provider (Kubernetes %s).", controlplane.KubernetesVersion)
	if err := w.startClusters(ctx); err != nil {
		return err
	}
	for _, s := range []*side{w.consumer, w.provider} {
		for _, manifest := range [][]byte{file("widget-crd.yaml"), w.applications, file(s.Name() + ".yaml")} {
			if err := s.Apply(ctx, manifest); err != nil {
				return err
			}
		}
	}
	w.say("Starting the provider's widget controller.")
	w.controller.Go(func() { runController(ctx, w.provider) })
	w.say("Starting Isthmus, with the rights that \"isthmus rbac\" prints for examples/demo/sync.yaml and no others.")
	w.isthmus, err = startIsthmus(ctx, w.binary(), w.dir, user, file("sync.yaml"), w.consumer, w.provider)
	return err
}

func (w *world) startClusters(ctx context.Context) error {
	var starting sync.WaitGroup
	errs := make([]error, 2)
	for i, s := range []**side{&w.consumer, &w.provider} {
		starting.Go(func() {
			var with []controlplane.Component
			if i == 1 {
				with = append(with, controlplane.ControllerManager) // without which namespaces do not go
			}
			*s, errs[i] = startSide(ctx, []string{"consumer", "provider"}[i], []string{"team-a", "tenant-42-team-a"}[i], with...)
		})
	}
	starting.Wait()
	return errors.Join(errs...)
}

// stop ends and removes everything, as far as it was started.
func (w *world) stop() {
	for _, p := range w.isthmuses() {
		p.kill()
	}
	w.controller.Wait()
	if w.direct != nil {
		w.direct.net.Close()
	}
	for _, s := range w.clusters() {
		s.Stop()
	}
	if w.dir != "" {
		_ = os.RemoveAll(w.dir)
	}
}

// clusters are those that were started.
func (w *world) clusters() []*side {
	all := []*side{w.consumer, w.provider}
	for _, t := range w.tenants {
		all = append(all, t.cluster)
	}
	return slices.DeleteFunc(all, func(s *side) bool { return s == nil })
}

func (w *world) binary() string { return filepath.Join(w.dir, "isthmus") }

// isthmuses are those that were started.
func (w *world) isthmuses() (all []*isthmus) {
	if w.isthmus != nil {
		all = append(all, w.isthmus)
	}
	for _, t := range w.tenants {
		if t.isthmus != nil {
			all = append(all, t.isthmus)
		}
	}
	if p := w.peering; p != nil {
		all = append(all, slices.DeleteFunc([]*isthmus{p.reflects, p.consents}, func(i *isthmus) bool { return i == nil })...)
	}
	if w.fleet != nil && w.fleet.isthmus != nil {
		all = append(all, w.fleet.isthmus)
	}
	return all
}

// file returns a file of examples/demo.
func file(name string) []byte {
	content, err := demo.Files.ReadFile(name)
	if err != nil {
		panic(err) // it is embedded
	}
	return content
}
