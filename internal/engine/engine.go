// Package engine runs a configuration between two clusters: it opens the ledger, runs a flow for each kind and direction,
// and says how they stand.
package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/config"
	"isthmus.dev/isthmus/internal/flow"
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
	// Namespace is where, on the local cluster, the ledger is.
	Namespace     string
	Local, Remote *cluster.Cluster
	// Siblings are the flows of all engines of one local cluster; nil: this one is alone.
	Siblings *flow.Siblings
	// Standing is a remote namespace that is there as long as this runs, which needs no right to watch it; empty: none.
	Standing string
	Metrics  *observe.Metrics
	Logger   *slog.Logger
}

// Engine runs a configuration between two clusters.
type Engine struct {
	Options

	made func() // tells the siblings that the flows are made, or can't be for now

	mu      sync.Mutex
	flows   []*flow.Flow
	waiting string // why there are no flows yet
}

// New makes an Engine; Run runs it.
func New(o Options) *Engine {
	return &Engine{Options: o, waiting: "starting", made: o.Siblings.Expect(o.RemoteID)}
}

// Run runs the flows until ctx ends. A cluster that can't be reached is waited for; an error is one that waiting does not
// help, such as a ledger of another cluster.
func (e *Engine) Run(ctx context.Context) error {
	defer e.made()
	book, err := e.openLedger(ctx)
	if err != nil || ctx.Err() != nil {
		return err
	}
	removed, err := e.begin(ctx, book)
	if err != nil || ctx.Err() != nil {
		return err
	}
	var flows []*flow.Flow
	for _, w := range e.ways(book.LocalUID(), book.RemoteUID()) {
		events := observe.NewEvents(w.from.Clientset(), "isthmus", e.Config.Events)
		events.LogTo(e.Logger)
		defer events.Shutdown()
		flows = append(flows, e.flowsOf(ctx, w, flow.Options{Ledger: book, Events: events, Siblings: e.Siblings}, removed)...)
	}
	e.made()
	e.mu.Lock()
	e.flows, e.waiting = flows, ""
	e.mu.Unlock()

	var running sync.WaitGroup
	for _, f := range flows {
		running.Go(func() { f.Run(ctx) })
	}
	running.Wait()
	<-ctx.Done()
	e.Logger.Info("Stopped")
	return nil
}

// Idle returns the flows of the configuration's rules without running them, after checking that the ledger, if there is
// one, is of these clusters.
func (e *Engine) Idle(ctx context.Context) ([]*flow.Flow, error) {
	o, _, err := e.look(ctx)
	if err != nil {
		return nil, err
	}
	return e.idle(ctx, o, nil, nil), nil
}

// Rehearsal returns the flows that a run would have now, those that wind removed rules down included, for those who only
// look: nothing is written, and Flow.Look is what they are good for.
func (e *Engine) Rehearsal(ctx context.Context) ([]*flow.Flow, error) {
	o, book, err := e.look(ctx)
	if err != nil {
		return nil, err
	}
	return e.idle(ctx, o, book, book.Rehearse(e.rules())), nil
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
	for _, w := range e.ways(o.LocalUID, o.RemoteUID) {
		flows = append(flows, e.flowsOf(ctx, w, flow.Options{Ledger: book}, removed)...)
	}
	return flows
}

// identify asks both clusters who they are, and returns what the ledger is opened with.
func (e *Engine) identify(ctx context.Context) (ledger.Options, error) {
	localUID, err := e.Local.UID(ctx)
	if err != nil {
		return ledger.Options{}, err
	}
	remoteUID, err := e.Remote.UID(ctx)
	if err != nil {
		return ledger.Options{}, err
	}
	if localUID == remoteUID {
		return ledger.Options{}, fatal{fmt.Errorf("the local and the remote cluster are the same one (UID of kube-system %s): expected two kubeconfigs of two clusters", localUID)}
	}
	return ledger.Options{
		Client: e.Local.Dynamic(), Namespace: e.Namespace, Instance: e.Instance,
		ClusterID: e.ClusterID, LocalUID: localUID, RemoteID: e.RemoteID, RemoteUID: remoteUID,
	}, nil
}

// openLedger reaches both clusters, waiting for as long as that takes, and opens the ledger.
func (e *Engine) openLedger(ctx context.Context) (*ledger.Ledger, error) {
	var book *ledger.Ledger
	err := e.retry(ctx, func() error {
		o, err := e.identify(ctx)
		if err != nil {
			return err
		}
		book, err = ledger.Open(ctx, o)
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
func (e *Engine) retry(ctx context.Context, try func() error) error {
	for {
		err := try()
		if ctx.Err() != nil || err == nil {
			return nil
		}
		if f := (fatal{}); errors.As(err, &f) {
			return f.error
		}
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
	flows, waiting := e.flows, e.waiting
	e.mu.Unlock()
	if waiting != "" {
		return nil, errors.New(waiting)
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
		if !state.Active {
			notes = append(notes, fmt.Sprintf("waiting: %s: %s", f.Name(), state.Reason))
		}
	}
	return notes, nil
}
