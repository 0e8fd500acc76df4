//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/rest"

	"isthmus.dev/isthmus/internal/controlplane"
	"isthmus.dev/isthmus/internal/observe"
)

// contender is who carries the objects; it is also the user that does so.
type contender string

const (
	floor   contender = "floor"
	plain   contender = "plain"
	isthmus contender = "isthmus"
)

// contenders are all of them.
var contenders = []contender{floor, plain, isthmus}

// task is what floor is told to do, which knows what to write and so must be told when; the others find out.
type task string

const (
	specs    task = "specs"    // create all twins
	statuses task = "statuses" // return all statuses
	follow   task = "follow"   // carry what changes from now on
)

// contenderArgument makes the bench program a contender, whose job follows as JSON.
const contenderArgument = "contender"

// job is what a process of the bench program is to do as a contender.
type job struct {
	makeup
	Contender contender `json:"contender"`
	Task      task      `json:"task"`
	Count     int       `json:"count"`
	Workers   int       `json:"workers"`
	// SpecVersion and StatusVersion are the highest that objects have.
	SpecVersion   int64 `json:"specVersion"`
	StatusVersion int64 `json:"statusVersion"`
	// Local and Remote are kubeconfigs.
	Local  string `json:"local"`
	Remote string `json:"remote"`
	// Pprof is where net/http/pprof listens.
	Pprof string `json:"pprof"`
}

// start starts the world's owner. What it is to do matters to floor alone.
func (w *world) start(ctx context.Context, do task) (*process, error) {
	address, err := controlplane.FreeAddress()
	if err != nil {
		return nil, err
	}
	if w.owner == isthmus {
		return w.startIsthmus(ctx, address)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	j := job{
		makeup: w.makeup, Contender: w.owner, Task: do, Count: w.count, Workers: w.b.workers,
		SpecVersion: w.specVersion, StatusVersion: w.statusVersion,
		Local: w.localKubeconfig, Remote: w.remoteKubeconfig, Pprof: address,
	}
	return w.b.launch(ctx, w.Namespace, address, self, contenderArgument, string(encode(j)))
}

// startIsthmus runs isthmus sync on the world, with flags added.
func (w *world) startIsthmus(ctx context.Context, pprofAddress string, flags ...string) (*process, error) {
	listen, err := controlplane.FreeAddress()
	if err != nil {
		return nil, err
	}
	p, err := w.b.launch(ctx, w.Namespace, pprofAddress, w.b.binary, append([]string{
		"sync", "--config", w.config, "--local-kubeconfig", w.localKubeconfig, "--remote-kubeconfig", w.remoteKubeconfig,
		"--cluster-id", "local", "--remote-id", "remote", "--instance", w.Namespace, "--listen", listen, "--pprof-bind-address", pprofAddress,
	}, flags...)...)
	if err != nil {
		return nil, err
	}
	p.listen = listen
	return p, nil
}

// contend is what a contender's process does, until it is told to stop.
func contend(argument string) error {
	var j job
	if err := json.Unmarshal([]byte(argument), &j); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	local, err := controlplane.LoadConfig(j.Local)
	if err != nil {
		return err
	}
	remote, err := controlplane.LoadConfig(j.Remote)
	if err != nil {
		return err
	}
	profiles, err := observe.ListenProfiles(j.Pprof)
	if err != nil {
		return err
	}
	go func() {
		if err := observe.ServeProfiles(ctx, profiles); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	run := map[contender]func(context.Context, job, *rest.Config, *rest.Config) error{floor: runFloor, plain: runPlain}[j.Contender]
	if run == nil {
		return fmt.Errorf("no contender %q", j.Contender)
	}
	if err := run(ctx, j, local, remote); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}
