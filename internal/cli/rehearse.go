package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"github.com/spf13/cobra"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/cluster/access"
	"isthmus.dev/isthmus/internal/config"
	"isthmus.dev/isthmus/internal/controller"
	"isthmus.dev/isthmus/internal/flow"
	"isthmus.dev/isthmus/internal/observe"
	"isthmus.dev/isthmus/internal/plan"
)

// rehearsalOptions are the flags of commands that tell what a run would do: of isthmus sync, which a file configures, or of
// isthmus controller, which objects do.
type rehearsalOptions struct {
	syncOptions
	controller, endpoints   bool
	kubeconfig, kubeContext string
	remote                  string
	providerFile            string
}

// What a flag is for: a file, or a controller.
var (
	fileOnlyFlags = []string{"config", "local-kubeconfig", "local-context", "remote-kubeconfig", "remote-context", "remote-id"}
	objectFlags   = []string{"kubeconfig", "context", "remote", "clusterprofile-provider-file", "endpoints"}
)

func (o *rehearsalOptions) flags(cmd *cobra.Command) {
	o.sides(cmd)
	f := cmd.Flags()
	f.BoolVar(&o.controller, "controller", false, "what crosses is not said by a file but by Crossings, NamespaceOffloadings and RemoteClusters, as isthmus controller has it")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "with --controller: kubeconfig of the local cluster; empty: the cluster that isthmus runs in")
	f.StringVar(&o.kubeContext, "context", "", "with --controller: context in the kubeconfig; empty: its current one")
	f.StringVar(&o.remote, "remote", "", "with --controller: the RemoteCluster that is told about; empty: all")
	f.BoolVar(&o.endpoints, "endpoints", false, "with --controller: it runs with --controllers=reflection,endpoints")
	f.StringVar(&o.providerFile, "clusterprofile-provider-file", "", "with --controller: file that says which access plugins may be run for ClusterProfiles; empty: none")
	f.Lookup("config").Usage = "the file that says what crosses (required, unless --controller is given)"
	f.Lookup("remote-id").Usage = "name of the remote cluster, a DNS label, the same for good (required with --config)"
	f.Lookup("instance").Usage = "tells several isthmuses apart that serve one local cluster (with --controller: controller by default)"
	_ = cmd.MarkFlagRequired("cluster-id") // fails only for a flag that does not exist
}

// check finds what is wrong with the flags.
func (o *rehearsalOptions) check(cmd *cobra.Command) error {
	o.logFormat = "text"
	given := func(names []string) string {
		if i := slices.IndexFunc(names, func(name string) bool { return cmd.Flags().Changed(name) }); i >= 0 {
			return "--" + names[i]
		}
		return ""
	}
	if !o.controller {
		switch flag := given(objectFlags); {
		case flag != "":
			return fmt.Errorf("%s is for --controller: add it, or name both clusters of a file by --local-kubeconfig and --remote-kubeconfig", flag)
		case o.config == "":
			return errors.New("--config is missing: expected the file that says what crosses, or --controller where objects do")
		case o.remoteID == "":
			return errors.New("--remote-id is missing: expected the remote cluster's name, a DNS label that stays the same for good")
		}
		return o.syncOptions.check()
	}
	switch flag := given(fileOnlyFlags); {
	case flag == "--local-kubeconfig" || flag == "--local-context":
		return fmt.Errorf("%s and --controller: name the local cluster by --kubeconfig and --context", flag)
	case flag == "--remote-id":
		return fmt.Errorf("%s and --controller: name the RemoteCluster by --remote, or leave it out for all", flag)
	case flag == "--config":
		return fmt.Errorf("%s and --controller: what crosses is said by a file or by objects: remove one of them", flag)
	case flag != "":
		return fmt.Errorf("%s and --controller: RemoteClusters say how remotes are reached: remove it", flag)
	}
	if !cmd.Flags().Changed("instance") {
		o.instance = controllerInstance
	}
	return checkLabels([]label{{"--cluster-id", o.clusterID}, {"--instance", o.instance}, {"--namespace", o.namespace}})
}

// rehearsal is what a run would carry, for who only looks.
type rehearsal struct {
	// context is one in which whoever answers now answers to the end.
	context context.Context
	// remotes has one without a name where a file says what crosses.
	remotes []plan.Remote
	// refused says which objects are wrong as a whole.
	refused []string
}

// rehearse finds out what a run would carry now.
func (o *rehearsalOptions) rehearse(ctx context.Context, agent string, stderr io.Writer) (*rehearsal, error) {
	log := observe.NewLogger(stderr, slog.LevelError, false)
	if o.controller {
		return o.rehearseController(ctx, agent, log)
	}
	file, err := config.Load(o.config)
	if err != nil {
		return nil, err
	}
	if o.allowMassDeletion {
		file.MassDeletion = boundary.MassDeletionAllow
	}
	file.Events = false
	e, err := o.engine(file, agent+"/"+version(), nil, log, observe.NewMetrics(version()))
	if err != nil {
		return nil, err
	}
	ctx = e.Local.Pin(e.Remote.Pin(ctx, e.Remote.Server()), e.Local.Server())
	flows, err := e.Rehearsal(ctx)
	if err != nil {
		return nil, flow.Remedied(err, "")
	}
	return &rehearsal{context: ctx, remotes: []plan.Remote{{Flows: flows}}}, nil
}

func (o *rehearsalOptions) rehearseController(ctx context.Context, agent string, log *slog.Logger) (*rehearsal, error) {
	observe.RouteClientLogs(log)
	agent += "/" + version()
	local, err := cluster.Connect(cluster.Options{Role: "local", Kubeconfig: o.kubeconfig, Context: o.kubeContext, Logger: log, UserAgent: agent})
	if err != nil {
		return nil, err
	}
	options := controller.Options{
		Controllers: []string{controller.Reflection},
		ClusterID:   o.clusterID, Instance: o.instance, Namespace: o.namespace, Local: local, UserAgent: agent,
		MassDeletion: boundary.MassDeletionPause, Metrics: observe.NewRemotes(observe.NewMetrics(version())), Logger: log,
	}
	if o.allowMassDeletion {
		options.MassDeletion = boundary.MassDeletionAllow
	}
	if o.endpoints {
		options.Controllers = append(options.Controllers, controller.Endpoints)
	}
	if o.providerFile != "" {
		if options.Providers, err = access.OpenProviderFile(o.providerFile); err != nil {
			return nil, fmt.Errorf("--clusterprofile-provider-file: %w", err)
		}
	}
	r := &rehearsal{}
	if r.remotes, r.refused, r.context, err = controller.Rehearse(ctx, options); err != nil {
		return nil, err
	}
	if o.remote != "" && !slices.ContainsFunc(r.remotes, func(remote plan.Remote) bool { return remote.Name == o.remote }) {
		return nil, fmt.Errorf("--remote %q: there is no such RemoteCluster", o.remote)
	}
	return r, nil
}
