//go:build unix

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// startTimeout bounds how long a component may take to become ready. It is
// generous because machines that run tests are busy.
const startTimeout = 2 * time.Minute

// Options say what a cluster has beyond etcd and kube-apiserver. The zero value
// is good.
type Options struct {
	// With are further components: ControllerManager, Scheduler, Kwok. They can
	// also be started later, with [Cluster.StartComponent].
	With []Component
	// Port is the API server's port on 127.0.0.1, 0 for a free one. With the
	// port of a stopped cluster, and PKIFrom it, a new cluster takes its place:
	// its kubeconfigs go on to work, on other data.
	Port int
	// PKIFrom is a cluster, also a stopped one, whose certificate authority and
	// token key this one uses too.
	PKIFrom *Cluster
	// ServingCertNotAfter is when the API server's certificate expires, by
	// default in years. With a time in the past nobody but the methods of
	// Cluster themselves can connect.
	ServingCertNotAfter time.Time
	// NoAudit switches the audit log off.
	NoAudit bool
	// NoAuditBodies keeps the bodies of writes out of the audit log: the server
	// would encode each object once more for it, which benchmarks would measure.
	NoAuditBodies bool
	// APIServerArgs are appended to kube-apiserver's arguments.
	APIServerArgs []string
	// BuildProgress gets the progress of a build, where one is needed; default
	// is standard error.
	BuildProgress io.Writer
}

// Cluster is a running control plane. Its methods may be called concurrently;
// starting, killing and restarting the same component at once is the caller's
// to avoid.
type Cluster struct {
	name     string
	dir      string
	bins     Binaries
	options  Options
	pki      *pki
	port     int
	etcdPort int
	admin    *rest.Config
	client   kubernetes.Interface
	uid      types.UID
	audited  auditMarks

	mu       sync.Mutex
	children map[Component]*child
	paused   map[Component]bool
	ports    map[Component]int
	releases []func()
	stopped  bool
}

// Start builds what is needed, and starts etcd, kube-apiserver and the
// components that options name. It returns when all of them are ready; ctx
// bounds the start, not the life of the cluster, which lasts until
// [Cluster.Stop] or the end of this process. name is for people: it names
// folders and contexts. The error quotes the log of a component that failed.
func Start(ctx context.Context, name string, options Options) (*Cluster, error) {
	progress := options.BuildProgress
	if progress == nil {
		progress = os.Stderr
	}
	bins, err := Build(ctx, progress, append([]Component{Etcd, APIServer, Kubectl}, options.With...)...)
	if err != nil {
		return nil, fmt.Errorf("starting cluster %s: %w", name, err)
	}
	c := &Cluster{
		name: name, bins: bins, options: options,
		children: map[Component]*child{},
		paused:   map[Component]bool{},
		ports:    map[Component]int{},
	}
	if err := c.start(ctx); err != nil {
		c.Stop()
		return nil, fmt.Errorf("starting cluster %s: %w", name, err)
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	dir, release, err := newWorkspace(c.name)
	if err != nil {
		return fmt.Errorf("making a folder for its data: %w", err)
	}
	c.dir = dir
	c.releases = append(c.releases, release)
	if c.port, err = c.reserve(c.options.Port); err != nil {
		return err
	}
	if c.etcdPort, err = c.reserve(0); err != nil {
		return err
	}
	if err := c.writeFiles(); err != nil {
		return err
	}
	// Both at once: kube-apiserver loads while etcd starts.
	for _, component := range []Component{Etcd, APIServer} {
		if err := c.launch(component); err != nil {
			return err
		}
	}
	for _, component := range []Component{Etcd, APIServer} {
		if err := c.waitReady(ctx, component); err != nil {
			return err
		}
	}
	if err := c.waitNamespaces(ctx); err != nil {
		return err
	}
	return c.StartComponent(ctx, c.options.With...)
}

// Name returns the name that the cluster was started with.
func (c *Cluster) Name() string { return c.name }

// Dir returns the folder of the cluster's data, logs and kubeconfigs. Stop
// removes it.
func (c *Cluster) Dir() string { return c.dir }

// Port returns the API server's port on 127.0.0.1.
func (c *Cluster) Port() int { return c.port }

// URL returns the API server's address.
func (c *Cluster) URL() string { return fmt.Sprintf("https://127.0.0.1:%d", c.port) }

// UID returns the UID of the namespace kube-system, which identifies a cluster.
func (c *Cluster) UID() types.UID { return c.uid }

// Binaries returns the programs that the cluster runs, and kubectl.
func (c *Cluster) Binaries() Binaries { return c.bins }

// LogFile returns the path of a component's log.
func (c *Cluster) LogFile(component Component) string { return c.path(string(component) + ".log") }

func (c *Cluster) path(elements ...string) string {
	return filepath.Join(append([]string{c.dir}, elements...)...)
}

// PID returns the process ID of a component, 0 if it does not run.
func (c *Cluster) PID(component Component) int {
	if child := c.child(component); child != nil && child.running() {
		return child.pid()
	}
	return 0
}

// StartComponent starts components that do not run yet, building them where
// needed, and returns when they are healthy; of ControllerManager it also waits
// for the default ServiceAccount, which pods need.
func (c *Cluster) StartComponent(ctx context.Context, components ...Component) error {
	if len(components) == 0 {
		return nil
	}
	progress := c.options.BuildProgress
	if progress == nil {
		progress = os.Stderr
	}
	if _, err := Build(ctx, progress, components...); err != nil {
		return err
	}
	for _, component := range components {
		if c.PID(component) != 0 {
			continue
		}
		if err := c.launch(component); err != nil {
			return err
		}
	}
	for _, component := range components {
		if err := c.waitReady(ctx, component); err != nil {
			return err
		}
	}
	return nil
}

// Kill ends a component at once, as a crash does (SIGKILL), and returns when it
// is gone. Its data stays for [Cluster.Restart].
func (c *Cluster) Kill(component Component) error {
	child := c.child(component)
	if child == nil {
		return fmt.Errorf("killing %s of cluster %s: it was not started", component, c.name)
	}
	child.kill()
	<-child.done
	c.setPaused(component, false)
	return nil
}

// Pause stops a component without ending it (SIGSTOP): from its return on, the
// component's connections stay open and nothing is answered.
func (c *Cluster) Pause(component Component) error {
	err := c.signal(component, syscall.SIGSTOP)
	if err == nil {
		err = waitStopped(c.child(component).pid())
	}
	if err != nil {
		return fmt.Errorf("pausing %s of cluster %s: %w", component, c.name, err)
	}
	c.setPaused(component, true)
	return nil
}

// Resume lets a paused component go on.
func (c *Cluster) Resume(component Component) error {
	if err := c.signal(component, syscall.SIGCONT); err != nil {
		return fmt.Errorf("resuming %s of cluster %s: %w", component, c.name, err)
	}
	c.setPaused(component, false)
	return nil
}

// Restart starts a component again on its old data and port, and returns when
// it is ready. One that still runs is killed first. After a restart of etcd it
// also waits until the API server, if that runs, is ready again.
func (c *Cluster) Restart(ctx context.Context, component Component) error {
	if err := c.Kill(component); err != nil {
		return err
	}
	if component == APIServer {
		if err := trimAudit(c.AuditFile()); err != nil {
			return fmt.Errorf("restarting %s of cluster %s: trimming the audit log: %w", component, c.name, err)
		}
	}
	if err := c.StartComponent(ctx, component); err != nil {
		return fmt.Errorf("restarting cluster %s: %w", c.name, err)
	}
	if component == Etcd && c.PID(APIServer) != 0 && !c.isPaused(APIServer) {
		return c.waitReady(ctx, APIServer)
	}
	return nil
}

// Stop ends all components at once and removes the cluster's data. Further
// calls do nothing. The port and the certificate authority of a stopped cluster
// can be given to a new one.
func (c *Cluster) Stop() {
	c.mu.Lock()
	c.stopped = true
	children := make([]*child, 0, len(c.children))
	for _, child := range c.children {
		children = append(children, child)
	}
	releases := c.releases
	c.releases = nil
	c.mu.Unlock()
	for _, child := range children {
		child.kill()
	}
	for _, child := range children {
		<-child.done
	}
	for _, release := range slices.Backward(releases) {
		release()
	}
}

func (c *Cluster) signal(component Component, sig syscall.Signal) error {
	child := c.child(component)
	if child == nil || !child.running() {
		return errors.New("it does not run")
	}
	return child.signal(sig)
}

// launch starts the process of a component.
func (c *Cluster) launch(component Component) error {
	cmd, err := c.command(component)
	if err != nil {
		return fmt.Errorf("starting %s: %w", component, err)
	}
	log, err := os.OpenFile(c.LogFile(component), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("starting %s: %w", component, err)
	}
	defer func() { _ = log.Close() }()
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.dir, log, log

	// Under the lock, so that Stop sees every process that was started.
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return fmt.Errorf("starting %s: the cluster was stopped", component)
	}
	child, err := startChild(cmd)
	if err != nil {
		return fmt.Errorf("starting %s: %w", component, err)
	}
	c.children[component] = child
	return nil
}

// waitReady polls a component until it is ready, has ended, or ctx has.
func (c *Cluster) waitReady(ctx context.Context, component Component) error {
	child := c.child(component)
	if child == nil {
		return fmt.Errorf("waiting for %s: it was not started", component)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not ready after %s", startTimeout))
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := c.ready(ctx, component)
		if err == nil {
			return nil
		}
		select {
		case <-child.done:
			return fmt.Errorf("%s ended (%w), the last lines of its log:\n%s", component, endOf(child), lastLines(c.LogFile(component)))
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w (last: %w), the last lines of its log:\n%s",
				component, context.Cause(ctx), err, lastLines(c.LogFile(component)))
		case <-ticker.C:
		}
	}
}

func endOf(child *child) error {
	if child.err == nil {
		return errors.New("exit status 0")
	}
	return child.err
}

func (c *Cluster) child(component Component) *child {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.children[component]
}

func (c *Cluster) setPaused(component Component, paused bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused[component] = paused
}

func (c *Cluster) isPaused(component Component) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.paused[component]
}

// reserve takes a port until the cluster is stopped.
func (c *Cluster) reserve(wanted int) (int, error) {
	port, release, err := reservePort(wanted)
	if err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.releases = append(c.releases, release)
	return port, nil
}
