// Command kwok is kwok, ended with the process that started it. It plays the
// kubelets, so that pods on nodes that do not exist become ready. "kwok stages"
// prints the stages that come with kwok, as its flag --config takes them.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	nodelease "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
	"sigs.k8s.io/kwok/pkg/config"
	"sigs.k8s.io/kwok/pkg/kwok/cmd"
	"sigs.k8s.io/kwok/pkg/log"
	"sigs.k8s.io/kwok/pkg/utils/signals"

	"isthmus.dev/controlplane/internal/lifeline"
)

// stages make nodes ready and keep them so, and make pods ready, completed or
// gone as soon as that is asked for.
var stages = []string{
	nodefast.DefaultNodeInit,
	nodelease.DefaultNodeHeartbeatWithLease,
	podfast.DefaultPodReady,
	podfast.DefaultPodComplete,
	podfast.DefaultPodDelete,
}

func main() {
	lifeline.Hold()
	if len(os.Args) == 2 && os.Args[1] == "stages" {
		fmt.Println(strings.Join(stages, "\n---\n"))
		return
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "kwok:", err)
		os.Exit(1)
	}
}

func run() error {
	// kwok reads --config and its log flags before its command exists, and
	// leaves every other flag to the command.
	flags := pflag.NewFlagSet("global", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.Usage = func() {}
	ctx, _ := log.InitFlags(signals.SetupSignalContext(), flags)
	ctx, err := config.InitFlags(ctx, flags)
	if err != nil {
		return fmt.Errorf("reading flags and configuration: %w", err)
	}
	command := cmd.NewCommand(ctx)
	command.PersistentFlags().AddFlagSet(flags)
	return command.ExecuteContext(ctx)
}
