package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/config"
	"isthmus.dev/isthmus/internal/engine"
	"isthmus.dev/isthmus/internal/observe"
)

// syncOptions are the flags of isthmus sync.
type syncOptions struct {
	processOptions
	config                            string
	localKubeconfig, remoteKubeconfig string
	localContext, remoteContext       string
	clusterID, remoteID, instance     string
	namespace                         string
	allowMassDeletion                 bool
}

func newSyncCommand() *cobra.Command {
	var o syncOptions
	cmd := &cobra.Command{
		Use:   "sync --config FILE --cluster-id ID --remote-id ID",
		Short: "Carry the objects that a file names from one cluster to another, and their status back",
		Long: `Carry the objects that a file names from the local cluster to the remote one, and their status back.

It runs until it is told to stop (SIGINT, SIGTERM). A cluster that can't be reached, a kind that is not served yet
and a right that is missing are waited for; what is waited for is logged, and shown by /readyz.

The identities must stay the same over restarts: objects that were created under another one are not touched.`,
		Example: `  isthmus sync --config sync.yaml --local-kubeconfig consumer.yaml --remote-kubeconfig provider.yaml \
    --cluster-id consumer --remote-id provider`,
		Args: cobra.NoArgs,
		RunE: interruptible(func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			return o.run(ctx, cmd.ErrOrStderr())
		}),
	}
	o.sides(cmd)
	o.require(cmd)
	o.massDeletion(cmd)
	o.processOptions.flags(cmd)
	return cmd
}

// massDeletion is the flag that lets held deletes go on.
func (o *syncOptions) massDeletion(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.allowMassDeletion, "allow-mass-deletion", false, "let deletes go on that the guard would hold, in this run (the file's massDeletion: Allow does it in all)")
}

// sides are the flags that say what crosses between which clusters, and who it is that carries it.
func (o *syncOptions) sides(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.config, "config", "", "the file that says what crosses (required)")
	f.StringVar(&o.localKubeconfig, "local-kubeconfig", "", "kubeconfig of the cluster whose objects cross; empty: the cluster that isthmus runs in")
	f.StringVar(&o.localContext, "local-context", "", "context in the local kubeconfig; empty: its current one")
	f.StringVar(&o.remoteKubeconfig, "remote-kubeconfig", "", "kubeconfig of the cluster that they cross to; empty: the cluster that isthmus runs in")
	f.StringVar(&o.remoteContext, "remote-context", "", "context in the remote kubeconfig; empty: its current one")
	f.StringVar(&o.clusterID, "cluster-id", "", "name of the local cluster, a DNS label, the same for good (required)")
	f.StringVar(&o.remoteID, "remote-id", "", "name of the remote cluster, a DNS label, the same for good (required)")
	f.StringVar(&o.instance, "instance", "default", "tells several isthmuses apart that serve one local cluster")
	f.StringVar(&o.namespace, "namespace", "isthmus-system", "namespace on the local cluster in which isthmus keeps its ledger")
}

// require makes the flags required without which sides are not known.
func (o *syncOptions) require(cmd *cobra.Command) {
	for _, name := range []string{"config", "cluster-id", "remote-id"} {
		_ = cmd.MarkFlagRequired(name) // fails only for a flag that does not exist
	}
}

// label is the value of a flag that is to be a DNS label.
type label struct{ flag, value string }

func checkLabels(labels []label) error {
	for _, l := range labels {
		if problems := validation.IsDNS1123Label(l.value); len(problems) > 0 {
			return fmt.Errorf("%s %q: expected a DNS label: %s", l.flag, l.value, strings.Join(problems, "; "))
		}
	}
	return nil
}

// check finds what is wrong with the flags.
func (o *syncOptions) check() error {
	err := checkLabels([]label{
		{"--cluster-id", o.clusterID}, {"--remote-id", o.remoteID}, {"--instance", o.instance}, {"--namespace", o.namespace},
	})
	if err != nil {
		return err
	}
	if o.clusterID == o.remoteID {
		return fmt.Errorf("--cluster-id and --remote-id are both %q: expected two names, one a cluster", o.clusterID)
	}
	return o.processOptions.check()
}

func (o *syncOptions) run(ctx context.Context, stderr io.Writer) error {
	if err := o.check(); err != nil {
		return err
	}
	again := make(chan os.Signal, 1)
	signal.Notify(again, syscall.SIGHUP)
	defer signal.Stop(again)
	file, err := config.Load(o.config)
	if err != nil {
		return err
	}
	var level slog.LevelVar
	if err := o.apply(file, &level); err != nil {
		return err
	}
	open, err := o.open()
	if err != nil {
		return err
	}
	log, metrics := observe.NewLogger(stderr, &level, o.logFormat == "json"), observe.NewMetrics(version())
	run, e, err := o.elected(file, log, metrics)
	if err != nil {
		open.close()
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	served := make(chan error, 1)
	go func() {
		served <- open.serve(ctx, metrics.Registry(), e.Ready, func() any { return e.Status(version()) })
	}()
	go config.Watch(ctx, o.config, file.Hash, again, func(c *config.Config, err error) {
		if err == nil {
			err = o.apply(c, &level)
		}
		if err != nil {
			e.ReloadFailed(err)
			return
		}
		log.Info("The configuration was read again", "file", o.config, "hash", c.Hash)
		e.Reload(c)
	})
	err = run(ctx)
	cancel()
	return errors.Join(err, <-served)
}

// elected makes the engine and returns how to run it: as long as this instance leads, if one of several is elected.
func (o *syncOptions) elected(file *config.Config, log *slog.Logger, metrics *observe.Metrics) (run func(context.Context) error, e *engine.Engine, err error) {
	candidate := o.election.candidate()
	if e, err = o.engine(file, candidate.agent, candidate.gate, log, metrics); err != nil {
		return nil, nil, err
	}
	e.Election = candidate.election(e.Local, o.namespace, o.instance, metrics, log)
	return candidate.run(e.Election, e.Run), e, nil
}

// apply puts into force what a file says of the process itself, and in the file what the flags say.
func (o *syncOptions) apply(file *config.Config, level *slog.LevelVar) error {
	if err := file.Plugin.Known(); err != nil {
		return err
	}
	l, err := observe.ParseLevel(string(file.LogLevel))
	if err != nil {
		return err
	}
	level.Set(l)
	if o.allowMassDeletion {
		file.MassDeletion = boundary.MassDeletionAllow
	}
	return nil
}

// engine makes the engine that carries what a file names, between the clusters that the flags name. agent is how it
// calls itself to their servers, and gate, unless nil, what lets its writes pass.
func (o *syncOptions) engine(file *config.Config, agent string, gate func() error, log *slog.Logger, metrics *observe.Metrics) (*engine.Engine, error) {
	if err := file.Plugin.Known(); err != nil {
		return nil, fmt.Errorf("%s: %w", o.config, err)
	}
	observe.RouteClientLogs(log)
	connect := func(role, kubeconfig, kubeContext string) (*cluster.Cluster, error) {
		return cluster.Connect(cluster.Options{
			Role: role, Kubeconfig: kubeconfig, Context: kubeContext, Logger: log, UserAgent: agent, Gate: gate,
			OnHealth: func(h cluster.Health) { metrics.SetReachable(role, h.Reached) },
		})
	}
	local, err := connect("local", o.localKubeconfig, o.localContext)
	if err != nil {
		return nil, err
	}
	remote, err := connect("remote", o.remoteKubeconfig, o.remoteContext)
	if err != nil {
		return nil, err
	}
	return engine.New(engine.Options{
		Config: file, ClusterID: o.clusterID, RemoteID: o.remoteID, Instance: o.instance, Namespace: o.namespace,
		Rights: "isthmus rbac", Local: local, Remote: remote, Metrics: metrics, Logger: log,
	}), nil
}
