// Package engine runs a configuration between two clusters: it opens the ledger, runs a flow for each kind and direction,
// and says how they stand.
package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/config"
	"isthmus.dev/isthmus/internal/flow"
	"isthmus.dev/isthmus/internal/leader"
	"isthmus.dev/isthmus/internal/ledger"
	"isthmus.dev/isthmus/internal/observe"
)

// reachEvery is how often a cluster that can't be reached at the start is tried again.
const reachEvery = 2 * time.Second

// Options are what an Engine runs with.
type Options struct {
	Config *config.Config
	// ClusterID and RemoteID name the clusters for good; Instance tells apart several Isthmuses of one local cluster.
	ClusterID, RemoteID, Instance string
	// Namespace is where, on the local cluster, the ledger is; CreateNamespace: it is made if need be.
	Namespace       string
	CreateNamespace bool
	// LedgerName is the ledger's own name, for one of several remotes of one instance; empty: the instance's.
	LedgerName    string
	Local, Remote *cluster.Cluster
	// Siblings are the flows of all engines of one local cluster; nil: this one is alone.
	Siblings *flow.Siblings
	// Standing is a remote namespace that is there as long as this runs, which needs no right to watch it; empty: none.
	Standing string
	Metrics  *observe.Metrics
	Logger   *slog.Logger
	// Rights is the command that prints the rights, named where they are missing; empty: none is.
	Rights string
	// Changed is called, without locks, when how rules stand changed, or what Drained and its like return; changes that come
	// together share a call. Nil: nobody wants to know.
	Changed func()
	// TwinMoved is called when a source on the local cluster may have come to have a twin on the remote one, or have none any
	// more; it must not block. Nil: nobody wants to know.
	TwinMoved func(kind schema.GroupKind, source types.NamespacedName)
	// Election says who of several instances runs; nil: this one is alone.
	Election *leader.Election
}

// Engine runs a configuration between two clusters.
type Engine struct {
	Options
	changed chan struct{} // there is a configuration that Run has not taken yet

	news chan struct{} // something is to be told by Options.Changed

	made func() // tells the siblings that the flows are made, or can't be for now

	mu      sync.Mutex
	wanted  *config.Config
	running []*task
	book    *ledger.Ledger // nil: it is not open
	inForce *config.Config // that of the flows that run
	waiting string         // what a start, or a change of the configuration, waits for; empty: nothing
	// wantedSince is when the configuration was read.
	wantedSince time.Time
	// counterparts are the remote namespaces of the run; nil: none has begun.
	counterparts *namespaces
	refused      error // why the file as it is now is not what runs; nil: it is
}

// New makes an Engine; Run runs it.
func New(o Options) *Engine {
	if o.LedgerName == "" {
		o.LedgerName = boundary.OwnName(o.Instance)
	}
	o.Metrics.SetReload(true, time.Now())
	return &Engine{
		Options: o, changed: make(chan struct{}, 1), news: make(chan struct{}, 1), wanted: o.Config, wantedSince: time.Now(), waiting: "starting", made: o.Siblings.Expect(o.RemoteID),
	}
}

// Run runs the flows until ctx ends; then it may be called again. A cluster that can't be reached is waited for; an error
// is one that waiting does not help, such as a ledger of another cluster.
func (e *Engine) Run(ctx context.Context) error {
	defer e.made()
	book, err := e.openLedger(ctx)
	if err != nil || ctx.Err() != nil {
		return err
	}
	r := e.newRun(ctx, book)
	defer r.close()
	if e.Changed != nil {
		go e.tell(ctx)
	}
	for {
		if err := r.take(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			e.Logger.Info("Stopped")
			return nil
		case <-e.changed:
		}
	}
}

// Reload gives Run another configuration, or the next call of Run its first. Flows of which nothing changed go on
// untouched, and rules that are gone are wound down. It returns at once.
func (e *Engine) Reload(c *config.Config) {
	e.mu.Lock()
	e.wanted, e.wantedSince, e.refused = c, time.Now(), nil
	e.mu.Unlock()
	e.Metrics.SetReload(true, time.Now())
	select {
	case e.changed <- struct{}{}:
	default: // Run will take the latest
	}
}

// ReloadFailed tells that a new configuration can't be used: the one before goes on.
func (e *Engine) ReloadFailed(err error) {
	e.mu.Lock()
	e.refused = err
	e.mu.Unlock()
	e.Metrics.SetReload(false, time.Now())
	e.Logger.Warn("The new configuration is refused, and the one before goes on", "error", err)
}

// latest returns the configuration that is to run.
func (e *Engine) latest() *config.Config {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.wanted
}

// tasks returns the flows that run.
func (e *Engine) tasks() []*task {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.running
}

// Idle returns the flows of the configuration's rules without running them, after checking that the ledger, if there is
// one, is of these clusters.
func (e *Engine) Idle(ctx context.Context) ([]*flow.Flow, error) {
	defer e.made()
	o, _, err := e.look(ctx)
	if err != nil {
		return nil, err
	}
	return e.idle(ctx, o, nil, nil), nil
}

// Rehearsal returns the flows that a run would have now, those that wind removed rules down included, for those who only
// look: nothing is written, and Flow.Look is what they are good for.
func (e *Engine) Rehearsal(ctx context.Context) ([]*flow.Flow, error) {
	defer e.made()
	o, book, err := e.look(ctx)
	if err != nil {
		return nil, err
	}
	return e.idle(ctx, o, book, book.Rehearse(e.ledgerRules(e.Config))), nil
}

// look asks both clusters who they are, and reads the ledger.
func (e *Engine) look(ctx context.Context) (ledger.Options, *ledger.Ledger, error) {
	o, err := e.identify(ctx)
	if err != nil {
		return o, nil, err
	}
	book, err := ledger.Read(ctx, o)
	return o, book, err
}

func (e *Engine) idle(ctx context.Context, o ledger.Options, book *ledger.Ledger, removed []ledger.Rule) (flows []*flow.Flow) {
	for _, w := range e.ways(e.Config, o.LocalUID, o.RemoteUID) {
		n := e.namespacesOf(ctx, w, func(string) {})
		base := flow.Options{Ledger: book, Namespaces: n.get, Siblings: e.Siblings, References: &flow.References{}}
		for _, f := range e.flowsOf(w, base, removed) {
			flows = append(flows, flow.New(f))
		}
	}
	return flows
}

// identify asks both clusters who they are, and returns what the ledger is opened with; where only the remote one can't
// be asked, that is all but its UID, beside the error.
func (e *Engine) identify(ctx context.Context) (ledger.Options, error) {
	var localUID, remoteUID string
	var localErr, err error
	var asking sync.WaitGroup
	asking.Go(func() { localUID, localErr = e.Local.UID(ctx) })
	asking.Go(func() { remoteUID, err = e.Remote.UID(ctx) })
	asking.Wait()
	if localErr != nil {
		return ledger.Options{}, localErr
	}
	if localUID == remoteUID {
		return ledger.Options{}, fatal{fmt.Errorf("the local and the remote cluster are the same one (UID of kube-system %s): expected two kubeconfigs of two clusters", localUID)}
	}
	return ledger.Options{
		Client: e.Local.Dynamic(), Namespace: e.Namespace, Name: e.LedgerName,
		ClusterID: e.ClusterID, LocalUID: localUID, RemoteID: e.RemoteID, RemoteUID: remoteUID,
	}, err
}

// openLedger reaches both clusters, waiting for as long as that takes, and opens the ledger.
func (e *Engine) openLedger(ctx context.Context) (*ledger.Ledger, error) {
	var book *ledger.Ledger
	err := e.retry(ctx, func() error {
		o, err := e.identify(ctx)
		if err != nil && o.LocalUID == "" {
			return err
		}
		remoteErr := err // the ledger may know the remote cluster, which the flows then wait for
		book, err = ledger.Open(ctx, o)
		if e.CreateNamespace && apierrors.IsNotFound(err) {
			if err := e.createNamespace(ctx); err != nil {
				return fmt.Errorf("make namespace %s for the ledger: %w", e.Namespace, err)
			}
			book, err = ledger.Open(ctx, o)
		}
		if errors.Is(err, ledger.ErrRemoteUnknown) {
			return remoteErr
		}
		if mismatch := (*ledger.MismatchError)(nil); errors.As(err, &mismatch) {
			return fatal{err}
		}
		return err
	})
	return book, err
}

// createNamespace makes the ledger's namespace.
func (e *Engine) createNamespace(ctx context.Context) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.Namespace}}
	_, err := e.Local.Clientset().CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// fatal marks an error that trying again does not help.
type fatal struct{ error }

// retry tries until it succeeds, a fatal error comes, or ctx ends (then the error is nil). It tells each new reason.
func (e *Engine) retry(ctx context.Context, try func() error) error {
	for {
		err := try()
		if ctx.Err() != nil || err == nil {
			return nil
		}
		if f := (fatal{}); errors.As(err, &f) {
			return f.error
		}
		err = flow.RemediedBy(err, e.Rights)
		e.made()
		e.mu.Lock()
		told := e.waiting == err.Error()
		e.waiting = err.Error()
		e.mu.Unlock()
		if !told {
			e.Logger.Warn("Waiting", "reason", cluster.Reason(err), "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(reachEvery):
		}
	}
}

// Ready says why isthmus is not ready; nil: it is. A rule whose kind is not served, or that is refused, does not make
// it unready: the notes, its metric and the log tell. A cluster that was replaced by another one does.
func (e *Engine) Ready() (notes []string, err error) {
	e.mu.Lock()
	flows, waiting, refused := e.running, e.waiting, e.refused
	e.mu.Unlock()
	if refused != nil {
		notes = append(notes, "the new configuration is refused, and the one before goes on: "+firstLine(refused))
	}
	if e.Election != nil {
		if standby, err := e.Election.Standby(); standby != "" || err != nil {
			return append(notes, standby), err
		}
	}
	switch {
	case waiting != "" && flows == nil:
		return nil, errors.New(waiting)
	case waiting != "":
		notes = append(notes, "the new configuration is not in force yet: "+waiting)
	}
	for _, c := range []*cluster.Cluster{e.Local, e.Remote} {
		if h := c.Health(); !h.Reached {
			return nil, fmt.Errorf("the %s cluster is not reached: %w", c.Role(), h.Err)
		}
	}
	for _, f := range flows {
		state := f.State()
		if state.Active && !state.Ready || state.Starting || state.Replaced {
			return nil, fmt.Errorf("%s: %s", f.Name(), state.Reason)
		}
		gaps := f.Gaps()
		for _, rule := range f.Rules {
			if gaps := gaps[rule.Name]; len(gaps) > 0 {
				notes = append(notes, fmt.Sprintf("does not cross: %s: %s", rule.Name, boundary.GapsMessage(gaps)))
			}
		}
		for _, note := range f.Unseen() {
			notes = append(notes, fmt.Sprintf("unseen: %s: %s", f.Name(), note))
		}
		if !state.Active {
			notes = append(notes, fmt.Sprintf("waiting: %s: %s", f.Name(), state.Reason))
		}
	}
	return notes, nil
}

func firstLine(err error) string {
	line, _, more := strings.Cut(err.Error(), "\n")
	if more {
		line += " …"
	}
	return line
}
