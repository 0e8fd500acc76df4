// Package leader lets one of several instances carry objects, while the others stand by: a Lease on the local cluster
// says which one.
package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/klog/v2"

	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/observe"
)

// Times are those of an election, as in all components of Kubernetes.
type Times struct {
	// LeaseDuration is how long the others wait after the last renewal that they saw.
	LeaseDuration time.Duration
	// RenewDeadline is how long the leader goes on without a renewal.
	RenewDeadline time.Duration
	// RetryPeriod is the time between two tries.
	RetryPeriod time.Duration
}

// Check says which flag (--leader-elect-…) is wrong, and what it has to be.
func (t Times) Check() error {
	const flag = "--leader-elect-"
	switch {
	case t.LeaseDuration < time.Second || t.LeaseDuration%time.Second != 0:
		return fmt.Errorf(flag+"lease-duration %s: expected whole seconds, one at least", t.LeaseDuration)
	case t.RetryPeriod <= 0:
		return fmt.Errorf(flag+"retry-period %s: expected more than 0", t.RetryPeriod)
	case t.RenewDeadline >= t.LeaseDuration:
		return fmt.Errorf(flag+"renew-deadline %s: expected less than "+flag+"lease-duration, %s", t.RenewDeadline, t.LeaseDuration)
	case t.RenewDeadline <= time.Duration(leaderelection.JitterFactor*float64(t.RetryPeriod)):
		return fmt.Errorf(flag+"renew-deadline %s: expected more than %g times "+flag+"retry-period, %s", t.RenewDeadline, leaderelection.JitterFactor, t.RetryPeriod)
	}
	return nil
}

// NewIdentity returns a name for this process that no other has.
func NewIdentity() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return host + "_" + utilrand.String(8)
}

// Options say what an Election is about.
type Options struct {
	// Cluster is where the Lease is, Namespace and Name which one it is.
	Cluster         *cluster.Cluster
	Namespace, Name string
	// Identity is this process's; see NewIdentity.
	Identity string
	Times    Times
	// Gate is opened while this process leads. Its span is Times.RenewDeadline.
	Gate    *Gate
	Metrics *observe.Metrics
	Logger  *slog.Logger
}

// Election makes one of several processes lead.
type Election struct {
	Options

	mu     sync.Mutex
	holder string
	err    error // why the Lease can't be read or written; nil: it can
}

// New prepares an election; Run takes part in it.
func New(o Options) *Election { return &Election{Options: o} }

// State is how an election stands.
type State struct {
	// Identity is this process's name, Holder that of the one that holds the lease; empty: none is known yet.
	Identity string `json:"identity"`
	Holder   string `json:"holder,omitempty"`
	// Leading: this process may write.
	Leading bool `json:"leading"`
	// Err says why the Lease can't be read or written; nil: it can.
	Err error `json:"-"`
}

// State returns how the election stands now.
func (e *Election) State() State {
	e.mu.Lock()
	defer e.mu.Unlock()
	return State{Identity: e.Identity, Holder: e.holder, Leading: e.Gate.Check() == nil, Err: e.err}
}

// Standby says of a process that does not lead who does; empty: this one leads. An error is why it could not take over.
func (e *Election) Standby() (note string, err error) {
	switch s := e.State(); {
	case s.Leading:
		return "", nil
	case s.Err != nil:
		return "", fmt.Errorf("the lease can't be read or written: %w", s.Err)
	case s.Holder == "" || s.Holder == s.Identity:
		return "", errors.New("waiting for the lease")
	default:
		return fmt.Sprintf("standby: %s holds the lease", s.Holder), nil
	}
}

// Run calls run whenever this process leads, with a context that ends with the lease, until ctx ends or run returns an
// error or returns without having lost the lease. The lease is released only after run has returned.
func (e *Election) Run(ctx context.Context, run func(context.Context) error) error {
	e.Metrics.SetLeading(false)
	for ctx.Err() == nil {
		if err := e.term(ctx, run); err != nil {
			return err
		}
	}
	return nil
}

// term waits for the lease and runs until it is lost or ctx ends.
func (e *Election) term(ctx context.Context, run func(context.Context) error) error {
	// The renewals go on while run stops.
	electing, stop := context.WithCancel(klog.NewContext(context.WithoutCancel(ctx), klog.Logger{})) // we tell it ourselves
	defer stop()
	give := context.AfterFunc(ctx, stop) // as a candidate there is nothing to stop first
	defer give()
	over := make(chan error, 1)
	lease := e.newLock(stop)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lease, Name: e.Name,
		LeaseDuration: e.Times.LeaseDuration, RenewDeadline: e.Times.RenewDeadline, RetryPeriod: e.Times.RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				give()
				over <- e.lead(ctx, leading, run)
				stop()
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}
	elector.Run(electing)
	if !lease.acquired {
		return nil
	}
	err = <-over
	lease.release()
	return err
}

// lead runs until the lease is lost, ctx ends, or run returns.
func (e *Election) lead(ctx, leading context.Context, run func(context.Context) error) error {
	e.Logger.Info("This instance leads", "lease", e.lease(), "identity", e.Identity)
	e.Metrics.SetLeading(true)
	defer e.Metrics.SetLeading(false)
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(leading, cancel)()
	err := run(running)
	if ctx.Err() == nil && leading.Err() != nil {
		e.Logger.Warn("The lease is lost; this instance stands by", "lease", e.lease(), "identity", e.Identity, "holder", e.State().Holder)
	}
	return err
}

func (e *Election) lease() string { return e.Namespace + "/" + e.Name }

// saw takes in who holds the lease.
func (e *Election) saw(holder string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if holder != e.holder && holder != "" && holder != e.Identity {
		e.Logger.Info("This instance stands by", "lease", e.lease(), "identity", e.Identity, "holder", holder)
	}
	e.holder, e.err = holder, nil
}

// failed takes in that the Lease could not be read or written, and tells each new reason.
func (e *Election) failed(ctx context.Context, err error) {
	if errors.Is(ctx.Err(), context.Canceled) || apierrors.IsConflict(err) || apierrors.IsNotFound(err) && e.absent(err) {
		return // somebody else was faster, or it is about to be made
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil || e.err.Error() != err.Error() {
		e.Logger.Warn("The lease can't be read or written", "lease", e.lease(), "reason", cluster.Reason(err), "error", err)
	}
	e.err = err
}

// absent reports whether it is the Lease that is not found, and not its namespace.
func (e *Election) absent(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Name == e.Name
}
