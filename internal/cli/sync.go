package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/config"
	"isthmus.dev/isthmus/internal/flow"
	"isthmus.dev/isthmus/internal/ledger"
	"isthmus.dev/isthmus/internal/observe"
)

// reachEvery is how often a cluster that can't be reached at the start is tried again.
const reachEvery = 2 * time.Second

// syncOptions are the flags of isthmus sync.
type syncOptions struct {
	config                            string
	localKubeconfig, remoteKubeconfig string
	localContext, remoteContext       string
	clusterID, remoteID, instance     string
	namespace                         string
	listen                            string
	logFormat                         string
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
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return o.run(ctx, cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	o.sides(cmd)
	f.StringVar(&o.listen, "listen", ":8080", "address for /healthz, /readyz and /metrics; empty: none")
	f.StringVar(&o.logFormat, "log-format", "text", "format of the log on standard error: text or json")
	f.BoolVar(&o.allowMassDeletion, "allow-mass-deletion", false, "let deletes go on that the guard would hold, in this run (the file's massDeletion: Allow does it in all)")
	return cmd
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
	for _, name := range []string{"config", "cluster-id", "remote-id"} {
		_ = cmd.MarkFlagRequired(name) // fails only for a flag that does not exist
	}
}

// check finds what is wrong with the flags.
func (o *syncOptions) check() error {
	for _, id := range []struct{ flag, value string }{
		{"--cluster-id", o.clusterID}, {"--remote-id", o.remoteID}, {"--instance", o.instance}, {"--namespace", o.namespace},
	} {
		if problems := validation.IsDNS1123Label(id.value); len(problems) > 0 {
			return fmt.Errorf("%s %q: expected a DNS label: %s", id.flag, id.value, strings.Join(problems, "; "))
		}
	}
	if o.clusterID == o.remoteID {
		return fmt.Errorf("--cluster-id and --remote-id are both %q: expected two names, one a cluster", o.clusterID)
	}
	if o.logFormat != "text" && o.logFormat != "json" {
		return fmt.Errorf("--log-format %q: expected text or json", o.logFormat)
	}
	return nil
}

// syncer is one run of isthmus sync.
type syncer struct {
	*syncOptions
	agent         string // how it calls itself to servers
	file          *config.Config
	log           *slog.Logger
	metrics       *observe.Metrics
	local, remote *cluster.Cluster

	mu      sync.Mutex
	flows   []*flow.Flow
	waiting string // why there are no flows yet
}

func (o *syncOptions) run(ctx context.Context, stderr io.Writer) error {
	if err := o.check(); err != nil {
		return err
	}
	file, err := config.Load(o.config)
	if err != nil {
		return err
	}
	if o.allowMassDeletion {
		file.MassDeletion = boundary.MassDeletionAllow
	}
	level, err := observe.ParseLevel(string(file.LogLevel))
	if err != nil {
		return err
	}
	listener, err := observe.Listen(o.listen)
	if err != nil {
		return err
	}
	s := &syncer{
		syncOptions: o, agent: "isthmus", file: file, waiting: "starting",
		log:     observe.NewLogger(stderr, level, o.logFormat == "json"),
		metrics: observe.NewMetrics(version()),
	}
	observe.RouteClientLogs(s.log)
	if s.local, err = s.connect("local", o.localKubeconfig, o.localContext); err == nil {
		s.remote, err = s.connect("remote", o.remoteKubeconfig, o.remoteContext)
	}
	if err != nil {
		if listener != nil {
			_ = listener.Close()
		}
		return err
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	served := make(chan error, 1)
	go func() { served <- observe.Serve(ctx, listener, s.metrics.Registry(), s.ready) }()
	err = s.serve(ctx)
	cancel()
	return errors.Join(err, <-served)
}

func (s *syncer) connect(role, kubeconfig, kubeContext string) (*cluster.Cluster, error) {
	return cluster.Connect(cluster.Options{
		Role: role, Kubeconfig: kubeconfig, Context: kubeContext, Logger: s.log,
		UserAgent: s.agent + "/" + version(),
		OnHealth:  func(h cluster.Health) { s.metrics.SetReachable(role, h.Reached) },
	})
}

// serve runs the flows until ctx ends.
func (s *syncer) serve(ctx context.Context) error {
	book, err := s.openLedger(ctx)
	if err != nil || ctx.Err() != nil {
		return err
	}
	removed, err := s.begin(ctx, book)
	if err != nil || ctx.Err() != nil {
		return err
	}
	var flows []*flow.Flow
	for _, w := range s.ways(book.LocalUID(), book.RemoteUID()) {
		flows = append(flows, s.flowsOf(ctx, w, book, removed)...)
		defer w.events.Shutdown()
	}
	s.mu.Lock()
	s.flows, s.waiting = flows, ""
	s.mu.Unlock()

	var running sync.WaitGroup
	for _, f := range flows {
		running.Go(func() { f.Run(ctx) })
	}
	running.Wait()
	<-ctx.Done()
	s.log.Info("Stopped")
	return nil
}

// openLedger reaches both clusters, waiting for as long as that takes, and opens the ledger.
func (s *syncer) openLedger(ctx context.Context) (*ledger.Ledger, error) {
	var book *ledger.Ledger
	err := s.retry(ctx, func() error {
		localUID, err := s.local.UID(ctx)
		if err != nil {
			return err
		}
		remoteUID, err := s.remote.UID(ctx)
		if err != nil {
			return err
		}
		if localUID == remoteUID {
			return fatal{fmt.Errorf("the local and the remote cluster are the same one (UID of kube-system %s): expected two kubeconfigs of two clusters", localUID)}
		}
		book, err = ledger.Open(ctx, ledger.Options{
			Client: s.local.Dynamic(), Namespace: s.namespace, Instance: s.instance,
			ClusterID: s.clusterID, LocalUID: localUID, RemoteID: s.remoteID, RemoteUID: remoteUID,
		})
		if mismatch := (*ledger.MismatchError)(nil); errors.As(err, &mismatch) {
			return fatal{err}
		}
		return err
	})
	return book, err
}

// fatal marks an error that trying again does not help.
type fatal struct{ error }

// retry tries until it succeeds, a fatal error comes, or ctx ends (then the error is nil). It tells each new reason.
func (s *syncer) retry(ctx context.Context, try func() error) error {
	for {
		err := try()
		if ctx.Err() != nil || err == nil {
			return nil
		}
		if f := (fatal{}); errors.As(err, &f) {
			return f.error
		}
		s.mu.Lock()
		told := s.waiting == err.Error()
		s.waiting = err.Error()
		s.mu.Unlock()
		if !told {
			s.log.Warn("Waiting", "reason", cluster.Reason(err), "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(reachEvery):
		}
	}
}

// ready says why isthmus is not ready; nil: it is. A rule whose kind is not served, or that is refused, does not make
// it unready: the notes, its metric and the log tell. A cluster that was replaced by another one does.
func (s *syncer) ready() (notes []string, err error) {
	s.mu.Lock()
	flows, waiting := s.flows, s.waiting
	s.mu.Unlock()
	if waiting != "" {
		return nil, errors.New(waiting)
	}
	for _, c := range []*cluster.Cluster{s.local, s.remote} {
		if h := c.Health(); !h.Reached {
			return nil, fmt.Errorf("the %s cluster is not reached: %w", c.Role(), h.Err)
		}
	}
	for _, f := range flows {
		state := f.State()
		if state.Active && !state.Ready || state.Starting || state.Replaced {
			return nil, fmt.Errorf("%s: %s", f.Name(), state.Reason)
		}
		if !state.Active {
			notes = append(notes, fmt.Sprintf("waiting: %s: %s", f.Name(), state.Reason))
		}
	}
	return notes, nil
}
