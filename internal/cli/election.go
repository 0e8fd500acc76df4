package cli

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/leader"
	"isthmus.dev/isthmus/internal/observe"
)

// electionOptions are the flags by which one of several instances runs.
type electionOptions struct {
	enabled bool
	times   leader.Times
}

func (o *electionOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.enabled, "leader-elect", false, "run several instances, of which the one that holds a Lease carries objects and the others stand by")
	f.DurationVar(&o.times.LeaseDuration, "leader-elect-lease-duration", 15*time.Second, "how long the others wait after the last renewal of the Lease that they saw, before one takes over")
	f.DurationVar(&o.times.RenewDeadline, "leader-elect-renew-deadline", 10*time.Second, "how long the leader writes without a renewal of the Lease; less than its duration")
	f.DurationVar(&o.times.RetryPeriod, "leader-elect-retry-period", 2*time.Second, "the time between two tries to take or renew the Lease")
}

func (o *electionOptions) check() error {
	if !o.enabled {
		return nil
	}
	return o.times.Check()
}

// candidate is this process in an election, or alone.
type candidate struct {
	electionOptions
	identity string
	// agent is how it calls itself to servers, and opens, unless nil, what lets its writes pass.
	agent string
	opens *leader.Gate
	gate  func() error
}

func (o electionOptions) candidate() candidate {
	c := candidate{electionOptions: o, agent: "isthmus/" + version()}
	if o.enabled {
		c.identity, c.opens = leader.NewIdentity(), leader.NewGate(o.times.RenewDeadline)
		c.gate = c.opens.Check
		// The audit logs tell the instances apart.
		c.agent += fmt.Sprintf(" (%s)", c.identity)
	}
	return c
}

// election returns the election that it takes part in; nil: it is alone.
func (c candidate) election(local *cluster.Cluster, namespace, instance string, metrics *observe.Metrics, log *slog.Logger) *leader.Election {
	if !c.enabled {
		return nil
	}
	return leader.New(leader.Options{
		Cluster: local, Namespace: namespace, Name: boundary.OwnName(instance), Identity: c.identity,
		Times: c.times, Gate: c.opens, Metrics: metrics, Logger: log,
	})
}

// run returns how to run something: as long as this instance leads, if one of several is elected.
func (candidate) run(election *leader.Election, run func(context.Context) error) func(context.Context) error {
	if election == nil {
		return run
	}
	return func(ctx context.Context) error { return election.Run(ctx, run) }
}
