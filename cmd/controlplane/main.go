//go:build unix

// Command controlplane starts real Kubernetes control planes on this machine:
// etcd and kube-apiserver, on demand kube-controller-manager, kube-scheduler
// and kwok, all compiled from source once.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"isthmus.dev/isthmus/internal/controlplane"
)

func main() {
	// SIGHUP: the terminal was closed.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := newCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "controlplane",
		Short:         "Real Kubernetes control planes on this machine, for trying things out",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(newBuild(), newUp(), newKubectl())
	return root
}

func newBuild() *cobra.Command {
	var all bool
	command := &cobra.Command{
		Use:   "build [component...]",
		Short: "Compile components; without names what a plain cluster needs",
		Long: "Compile components into the user's cache directory, where they are found from then on.\n" +
			"Without names: etcd, kube-apiserver and kubectl. Further ones: kube-controller-manager, kube-scheduler, kwok.",
		RunE: func(command *cobra.Command, names []string) error {
			parts := components(names)
			if all {
				parts = controlplane.All()
			}
			bins, err := controlplane.Build(command.Context(), command.ErrOrStderr(), parts...)
			if err != nil {
				return err
			}
			command.Println("The components are in", bins.Dir)
			return nil
		},
	}
	command.Flags().BoolVar(&all, "all", false, "compile all components")
	return command
}

func newKubectl() *cobra.Command {
	return &cobra.Command{
		Use:   "kubectl [argument...]",
		Short: "Run the kubectl that belongs to the control planes",
		Long: "Run the kubectl that belongs to the control planes, compiling it where needed.\n" +
			"All arguments are kubectl's. It uses the clusters in $KUBECONFIG, as \"up\" prints it.",
		DisableFlagParsing: true,
		RunE: func(command *cobra.Command, arguments []string) error {
			bins, err := controlplane.Build(command.Context(), command.ErrOrStderr(), controlplane.Kubectl)
			if err != nil {
				return err
			}
			// In place of this process, so that signals, the terminal and the
			// exit code are kubectl's own.
			path := bins.Path(controlplane.Kubectl)
			err = syscall.Exec(path, append([]string{"kubectl"}, arguments...), os.Environ())
			return fmt.Errorf("running %s: %w", path, err)
		},
	}
}

func components(names []string) []controlplane.Component {
	parts := make([]controlplane.Component, len(names))
	for i, name := range names {
		parts[i] = component(name)
	}
	return parts
}

// component accepts the names without "kube-", too.
func component(name string) controlplane.Component {
	for _, known := range controlplane.All() {
		if string(known) == "kube-"+name {
			return known
		}
	}
	return controlplane.Component(name)
}
