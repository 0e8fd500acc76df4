package vcluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/yaml"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/config"
	"isthmus.dev/isthmus/internal/engine"
	"isthmus.dev/isthmus/internal/observe"
	"isthmus.dev/isthmus/internal/vcluster/pluginv2"
)

// ledgerNamespace is where, on the virtual cluster, the ledger is.
const ledgerNamespace = "isthmus-system"

// restart is how long a run that ended with an error rests before the next.
const restart = 30 * time.Second

// agent is what the plugin calls itself to API servers.
const agent = "isthmus-plugin"

// Plugin answers vCluster, and runs the engine while it is told to lead. Whatever is wrong with the configuration or with
// either cluster, it answers: vCluster waits for its answers before it starts the tenant's control plane.
type Plugin struct {
	pluginv2.UnimplementedPluginServer
	ctx     context.Context
	version string
	text    string // the configuration
	metrics *observe.Metrics
	running sync.WaitGroup

	mu      sync.Mutex
	log     *slog.Logger
	begun   bool
	options *engine.Options // what to run; nil: nothing can be
	leads   bool
	engine  *engine.Engine
	problem error  // why nothing crosses
	late    string // a note for readiness: since when health is served, and why not before; empty: from the start
	host    *host  // nil: not known
}

func newPlugin(ctx context.Context, version, text string) *Plugin {
	return &Plugin{ctx: ctx, version: version, text: text, metrics: observe.NewMetrics(version), log: slog.New(slog.DiscardHandler)}
}

// wait waits for all that runs to end, for a time at most.
func (p *Plugin) wait(most time.Duration) {
	ended := make(chan struct{})
	go func() {
		p.running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(most):
	}
}

// Initialize takes in what vCluster tells. It makes no request to a cluster.
func (p *Plugin) Initialize(_ context.Context, request *pluginv2.Initialize_Request) (*pluginv2.Initialize_Response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.begun {
		return nil, status.Error(codes.FailedPrecondition, "Initialize was called before")
	}
	p.begun = true
	level, early := observe.LevelInfo, p.early()
	p.log = observe.NewLogger(stderr{}, level, false)
	err := p.prepare(request.GetConfig())
	p.serve(early.Listen)
	if err == nil {
		return &pluginv2.Initialize_Response{}, nil
	}
	p.options = nil
	p.report(err)
	if early.FailurePolicy == config.FailureAbort {
		return nil, status.Errorf(codes.FailedPrecondition, "isthmus: %v", err)
	}
	return &pluginv2.Initialize_Response{}, nil
}

// early are the settings that count although others may be faulty.
type early struct {
	FailurePolicy config.FailurePolicy `json:"failurePolicy"`
	Listen        string               `json:"listen"`
}

func (p *Plugin) early() early {
	var e early
	if err := yaml.Unmarshal([]byte(p.text), &e); err != nil || e.Listen == "" || config.CheckListen(e.Listen) != nil {
		e.Listen = config.DefaultPluginListen
	}
	return e
}

// prepare makes what SetLeader runs.
func (p *Plugin) prepare(told string) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("reading the configuration panicked (a %T), which is a fault of Isthmus", v)
		}
	}()
	around, err := read(told)
	if len(around.host) > 0 && around.cluster.Name != "" {
		remote, connectErr := p.connect("remote", around.host)
		if connectErr != nil {
			return errors.Join(err, connectErr)
		}
		p.host = &host{cluster: remote, virtual: around.cluster}
	}
	if err != nil {
		return err
	}
	file, err := config.ParsePlugin(configVariable, []byte(p.text), around.cluster)
	if err != nil {
		return err
	}
	level, err := observe.ParseLevel(string(file.LogLevel))
	if err != nil {
		return err
	}
	p.log = observe.NewLogger(stderr{}, level, false)
	observe.RouteClientLogs(p.log)
	p.host.quiet = !file.Events
	if err := around.fits(file); err != nil {
		return err
	}
	local, err := p.connect("local", around.virtual)
	if err != nil {
		return err
	}
	p.options = &engine.Options{
		Config: file, ClusterID: file.Plugin.ClusterID, RemoteID: file.Plugin.RemoteID, Instance: file.Plugin.Instance,
		Namespace: ledgerNamespace, CreateNamespace: true, Rights: "isthmus rbac --format vcluster", Local: local, Remote: p.host.cluster,
		Standing: around.cluster.HostNamespace, Metrics: p.metrics, Logger: p.log,
	}
	p.log.Info("Ready to lead", "virtualCluster", around.cluster.Name, "hostNamespace", around.cluster.HostNamespace,
		"clusterID", file.Plugin.ClusterID, "rules", len(file.Rules))
	return nil
}

func (p *Plugin) connect(role string, kubeconfig []byte) (*cluster.Cluster, error) {
	return cluster.Connect(cluster.Options{
		Role: role, Content: kubeconfig, Logger: p.log, UserAgent: agent + "/" + p.version,
		OnHealth: func(h cluster.Health) { p.metrics.SetReachable(role, h.Reached) },
	})
}

// GetPluginConfig says that the plugin wants to see none of the tenant's requests.
func (p *Plugin) GetPluginConfig(context.Context, *pluginv2.GetPluginConfig_Request) (*pluginv2.GetPluginConfig_Response, error) {
	return &pluginv2.GetPluginConfig_Response{Config: "{}"}, nil
}

// Mutate leaves the object as it is.
func (p *Plugin) Mutate(context.Context, *pluginv2.Mutate_Request) (*pluginv2.Mutate_Response, error) {
	return &pluginv2.Mutate_Response{}, nil
}

// SetLeader lets the flows run.
func (p *Plugin) SetLeader(context.Context, *pluginv2.SetLeader_Request) (*pluginv2.SetLeader_Response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.options != nil && !p.leads {
		p.running.Go(func() { p.run(*p.options) })
	}
	p.leads = true
	return &pluginv2.SetLeader_Response{}, nil
}

// run runs the engine, and again some time after it failed.
func (p *Plugin) run(o engine.Options) {
	for p.ctx.Err() == nil {
		e := engine.New(o)
		p.mu.Lock()
		p.engine, p.problem = e, nil
		p.mu.Unlock()
		p.metrics.SetFaulty(false)
		err := runOnce(p.ctx, e)
		if err == nil || p.ctx.Err() != nil {
			return
		}
		p.mu.Lock()
		p.report(errors.New(inKeys.Replace(err.Error())))
		p.mu.Unlock()
		select {
		case <-p.ctx.Done():
		case <-time.After(restart):
		}
	}
}

// runOnce runs the engine; a panic is an error.
func runOnce(ctx context.Context, e *engine.Engine) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("it panicked (a %T), which is a fault of Isthmus", v)
		}
	}()
	return e.Run(ctx)
}

// inKeys names the keys of a plugin's configuration in a message about the flags of isthmus sync.
var inKeys = strings.NewReplacer("--cluster-id", "clusterID", "--remote-id", "remoteID", "--instance", "instance",
	"check --local-kubeconfig", "the virtual cluster was made anew", "check --remote-kubeconfig", "the host cluster is another one")

// report tells everywhere that nothing crosses, and why. The caller holds the lock.
func (p *Plugin) report(err error) {
	p.problem = err
	p.metrics.SetFaulty(true)
	p.log.Error("Nothing crosses", "error", err)
	p.tell("Nothing crosses: " + err.Error())
}

// tell writes an Event about the plugin, if its host is known. The caller holds the lock.
func (p *Plugin) tell(message string) {
	if h := p.host; h != nil && !h.quiet {
		p.running.Go(func() { h.tell(p.ctx, message) })
	}
}

// stderr is the process's standard error as it is at the moment: that of a plugin is put in place of the first one, so that
// vCluster prints it.
type stderr struct{}

var _ io.Writer = stderr{}

func (stderr) Write(b []byte) (int, error) { return os.Stderr.Write(b) }

// host is the cluster that the virtual one runs on.
type host struct {
	cluster *cluster.Cluster
	virtual boundary.VirtualCluster
	quiet   bool // no Events
}
