//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"isthmus.dev/isthmus/internal/controlplane"
)

func newUp() *cobra.Command {
	var with []string
	command := &cobra.Command{
		Use:   "up name [name...]",
		Short: "Start a control plane for each name, until Ctrl-C",
		Long: "Start a control plane for each name, print how to reach it, and keep it until Ctrl-C, which removes it with all its data.\n\n" +
			"By default that is etcd and kube-apiserver: enough for all objects, while nothing acts on them. With controller-manager,\n" +
			"scheduler and kwok, Deployments get pods and pods become ready (on a node that exists on paper).",
		Example: "  controlplane up consumer provider\n  controlplane up one --with controller-manager,scheduler,kwok",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, names []string) error {
			options := controlplane.Options{With: components(with), BuildProgress: command.ErrOrStderr()}
			if err := checkUp(names, options.With); err != nil {
				return err
			}
			return up(command.Context(), command.OutOrStdout(), names, options)
		},
	}
	command.Flags().StringSliceVar(&with, "with", nil, "further components: controller-manager, scheduler, kwok")
	return command
}

func checkUp(names []string, with []controlplane.Component) error {
	for i, name := range names {
		// Names become names of folders, kubeconfig contexts and cluster IDs.
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			return fmt.Errorf("cluster name %q: %s", name, strings.Join(problems, ", "))
		}
		if slices.Contains(names[:i], name) {
			return fmt.Errorf("cluster name %q is given twice", name)
		}
	}
	further := []controlplane.Component{controlplane.ControllerManager, controlplane.Scheduler, controlplane.Kwok}
	for _, component := range with {
		if !slices.Contains(further, component) {
			return fmt.Errorf("--with %s: want some of controller-manager, scheduler, kwok", component)
		}
	}
	return nil
}

// up runs the clusters until the context ends.
func up(ctx context.Context, out io.Writer, names []string, options controlplane.Options) error {
	clusters := make([]*controlplane.Cluster, len(names))
	defer func() {
		for _, cluster := range clusters {
			if cluster != nil {
				cluster.Stop()
			}
		}
	}()
	// Once, before all of them ask for it at the same time.
	if _, err := controlplane.Build(ctx, options.BuildProgress, append(options.With, controlplane.Etcd, controlplane.APIServer, controlplane.Kubectl)...); err != nil {
		return err
	}
	began := time.Now()
	var wait sync.WaitGroup
	failures := make([]error, len(names))
	for i, name := range names {
		wait.Go(func() {
			clusters[i], failures[i] = controlplane.Start(ctx, name, options)
			if failures[i] == nil && slices.Contains(options.With, controlplane.Kwok) {
				failures[i] = clusters[i].AddNode(ctx, "node-1")
			}
		})
	}
	wait.Wait()
	if err := errors.Join(failures...); err != nil {
		return err
	}
	printUp(out, clusters, time.Since(began))
	<-ctx.Done()
	_, _ = fmt.Fprintln(out, "\nStopping.")
	return nil
}

func printUp(out io.Writer, clusters []*controlplane.Cluster, took time.Duration) {
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) }
	say("Running, after %s (Kubernetes %s):\n", took.Round(100*time.Millisecond), controlplane.KubernetesVersion)
	paths := make([]string, len(clusters))
	for i, cluster := range clusters {
		paths[i] = cluster.Kubeconfig()
		say("  %s", cluster.Name())
		say("    server      %s", cluster.URL())
		say("    kubeconfig  %s", cluster.Kubeconfig())
		say("    audit log   %s", cluster.AuditFile())
		say("    all logs    %s/*.log", cluster.Dir())
	}
	first := clusters[0].Name()
	say("\nIn another terminal:\n")
	say("  export KUBECONFIG=%s", strings.Join(paths, ":"))
	say("  go run ./cmd/controlplane kubectl --context %s get namespaces", first)
	say("  go run ./cmd/controlplane kubectl --context %s create configmap hello --from-literal=key=value", first)
	say("\nCtrl-C stops everything and removes all data.")
}
