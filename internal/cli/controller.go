package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/cluster/access"
	"isthmus.dev/isthmus/internal/controller"
	"isthmus.dev/isthmus/internal/observe"
)

// controllerOptions are the flags of isthmus controller.
type controllerOptions struct {
	processOptions
	controllers             []string
	kubeconfig, kubeContext string
	clusterID, instance     string
	namespace               string
	logLevel                string
	providerFile            string
	massDeletion            string
	namespaceSource         string
	liqoNetworks            bool
}

func newControllerCommand() *cobra.Command {
	var o controllerOptions
	cmd := &cobra.Command{
		Use:   "controller --cluster-id ID",
		Short: "Carry what Crossings name between this cluster's offloaded namespaces and its RemoteClusters",
		Long: `Carry what Crossings name between this cluster's offloaded namespaces and its RemoteClusters, as Kubernetes objects
say: RemoteCluster, NamespaceOffloading, Crossing. With --controllers=tenancy, let other clusters have namespaces on
this one, as Consumers say. With --controllers=endpoints, make EndpointSlices of what other clusters sent of the endpoints
of their Services, by ClusterLinks; with reflection besides, send those of Services that cross. With
--controllers=installation, put the manifests of Installations on the clusters that ClusterProfiles name.

It runs until it is told to stop (SIGINT, SIGTERM). What is missing or can't be reached is waited for, and told in the
status of these objects.

The cluster ID must stay the same over restarts: objects that were created under another one are not touched.`,
		Example: `  isthmus controller --cluster-id consumer
  isthmus controller --controllers tenancy
  isthmus controller --cluster-id consumer --controllers reflection,endpoints
  isthmus controller --controllers installation --cluster-id hub --clusterprofile-provider-file providers.json`,
		Args: cobra.NoArgs,
		RunE: interruptible(func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			return o.run(ctx, cmd.ErrOrStderr())
		}),
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.controllers, "controllers", []string{controller.Reflection}, "what runs, of "+strings.Join(controller.All, ", "))
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the local cluster; empty: the cluster that isthmus runs in")
	f.StringVar(&o.kubeContext, "context", "", "context in the kubeconfig; empty: its current one")
	f.StringVar(&o.clusterID, "cluster-id", "", "name of the local cluster, a DNS label, the same for good (required for reflection and installation)")
	f.StringVar(&o.instance, "instance", controllerInstance, "tells several isthmuses apart that serve one local cluster")
	f.StringVar(&o.namespace, "namespace", "isthmus-system", "namespace on the local cluster in which isthmus keeps its ledgers and finds kubeconfigs")
	f.StringVar(&o.logLevel, "log-level", "info", "how much is logged: error, warn, info, debug or trace")
	f.StringVar(&o.providerFile, "clusterprofile-provider-file", "", "file that says which access plugins may be run for ClusterProfiles; empty: none")
	f.StringVar(&o.massDeletion, "mass-deletion", string(boundary.MassDeletionPause), "what happens when inference would delete most twins of a kind: Pause or Allow")
	f.StringVar(&o.namespaceSource, "namespace-source", controller.SourceOffloading, "what says which namespaces have counterparts: offloading (NamespaceOffloadings), or liqo (Liqo's NamespaceMaps; Liqo makes the namespaces then)")
	f.BoolVar(&o.liqoNetworks, "liqo-networks", false, "with --controllers=endpoints, take links from Liqo's Configurations, Connections and IPs, beside ClusterLinks")
	o.processOptions.flags(cmd)
	return cmd
}

// check finds what is wrong with the flags.
func (o *controllerOptions) check() error {
	for _, name := range o.controllers {
		if !slices.Contains(controller.All, name) {
			return fmt.Errorf("--controllers %q: expected some of %s", name, strings.Join(controller.All, ", "))
		}
	}
	labels := []label{{"--instance", o.instance}, {"--namespace", o.namespace}}
	named := slices.ContainsFunc(o.controllers, func(name string) bool { return name == controller.Reflection || name == controller.Installation })
	switch {
	case len(o.controllers) == 0:
		return fmt.Errorf("--controllers: expected some of %s", strings.Join(controller.All, ", "))
	case named && o.clusterID == "":
		return errors.New("--cluster-id: expected the local cluster's name, a DNS label that stays the same for good")
	case named || o.clusterID != "":
		labels = append(labels, label{"--cluster-id", o.clusterID})
	}
	if err := checkLabels(labels); err != nil {
		return err
	}
	if m := boundary.MassDeletion(o.massDeletion); m != boundary.MassDeletionPause && m != boundary.MassDeletionAllow {
		return fmt.Errorf("--mass-deletion %q: expected %s or %s", o.massDeletion, boundary.MassDeletionPause, boundary.MassDeletionAllow)
	}
	if !slices.Contains(controller.NamespaceSources, o.namespaceSource) {
		return fmt.Errorf("--namespace-source %q: expected %s", o.namespaceSource, strings.Join(controller.NamespaceSources, " or "))
	}
	if o.liqoNetworks && !slices.Contains(o.controllers, controller.Endpoints) {
		return fmt.Errorf("--liqo-networks is about endpoints: expected --controllers with %s", controller.Endpoints)
	}
	return o.processOptions.check()
}

func (o *controllerOptions) run(ctx context.Context, stderr io.Writer) error {
	if err := o.check(); err != nil {
		return err
	}
	level, err := observe.ParseLevel(o.logLevel)
	if err != nil {
		return fmt.Errorf("--log-level: %w", err)
	}
	var at slog.LevelVar
	at.Set(level)
	log, own := observe.NewLogger(stderr, &at, o.logFormat == "json"), observe.NewMetrics(version())
	observe.RouteClientLogs(log)
	var providers *access.ProviderFile
	if o.providerFile != "" {
		if providers, err = access.OpenProviderFile(o.providerFile); err != nil {
			return fmt.Errorf("--clusterprofile-provider-file: %w", err)
		}
	}
	open, err := o.open()
	if err != nil {
		return err
	}
	candidate := o.election.candidate()
	local, err := cluster.Connect(cluster.Options{
		Role: "local", Kubeconfig: o.kubeconfig, Context: o.kubeContext, Logger: log, UserAgent: candidate.agent, Gate: candidate.gate,
		OnHealth: func(h cluster.Health) { own.SetReachable("local", h.Reached) },
	})
	if err != nil {
		open.close()
		return err
	}
	metrics := observe.NewRemotes(own)
	c := controller.New(controller.Options{
		Controllers: o.controllers, ClusterID: o.clusterID, Instance: o.instance, Namespace: o.namespace, Local: local,
		Gate: candidate.gate, UserAgent: candidate.agent, Version: version(), Providers: providers,
		MassDeletion: boundary.MassDeletion(o.massDeletion), NamespaceSource: o.namespaceSource, LiqoNetworks: o.liqoNetworks, Metrics: metrics, Own: own, Logger: log,
		Election: candidate.election(local, o.namespace, o.instance, own, log),
	})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	served := make(chan error, 1)
	go func() { served <- open.serve(ctx, metrics, c.Ready, func() any { return c.Status() }) }()
	err = candidate.run(c.Election, c.Run)(ctx)
	cancel()
	return errors.Join(err, <-served)
}
