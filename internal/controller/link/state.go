package link

import (
	"context"
	"errors"

	"k8s.io/client-go/rest"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/cluster"
)

// State is what a link knows of its cluster.
type State struct {
	// Client reaches the cluster. It stays the same for as long as the link lives: what changes of the access goes into it. nil
	// until that said something usable for the first time.
	Client *cluster.Cluster
	// Access is why it is not known how the cluster is reached: ErrNotRead, an ErrMissing, or what is wrong. Unhealthy is why the
	// cluster is not to be used although that is known.
	Access, Unhealthy error
	// Probe is what the cluster said when it was asked last, and Health what the latest request of anyone's told.
	Probe  Probe
	Health cluster.Health
}

// Barred returns why the cluster is not to be talked to, as a reason of v1alpha1 and a message; the reason is empty if it may
// be.
func (s State) Barred() (reason, message string) {
	switch {
	case errors.Is(s.Access, ErrNotRead):
		return v1alpha1.ReasonConnecting, "How it is reached was not read yet"
	case s.Access != nil:
		return v1alpha1.ReasonAccess, s.Access.Error()
	case s.Unhealthy != nil:
		return v1alpha1.ReasonUnhealthy, s.Unhealthy.Error()
	}
	return "", ""
}

// Away returns why a cluster that may be talked to does not answer, as Barred does; the reason is empty if it does.
func (s State) Away() (reason, message string) {
	switch {
	case s.Health.Err != nil:
		return reasonOf(s.Health.Err), s.Health.Err.Error()
	case s.Probe.Err != nil:
		return reasonOf(s.Probe.Err), s.Probe.Err.Error()
	case s.Probe.At.IsZero():
		return v1alpha1.ReasonConnecting, "It was not asked yet who it is"
	}
	return "", ""
}

// reasonOf returns the reason for a failed request.
func reasonOf(err error) string {
	switch reason := cluster.Reason(err); reason {
	case cluster.ReasonRefused:
		return v1alpha1.ReasonRefused
	case cluster.ReasonCertificateExpired:
		return v1alpha1.ReasonTLS
	case "":
		return v1alpha1.ReasonUnknown
	default:
		return reason
	}
}

// Once finds out about a cluster once, for who only looks: it returns what the State of a link would be. o.Found is not
// called, and the Client follows no changes.
func Once(ctx context.Context, o Options, name string, from Origin, survey Survey) State {
	var served profiles
	seen := sighting{known: true}
	if from.profile() {
		served.resource, seen.err = o.Local.Preferred(ctx, profileKind)
	}
	resource := from.resource(served)
	switch seen.unserved = resource.Empty(); {
	case seen.err == nil && !seen.unserved:
		seen.object, seen.err = readNow(ctx, o.Local, resource, from)
	}
	var s State
	var config *rest.Config
	if config, s.Unhealthy, s.Access = from.config(seen, o.Providers); s.Access != nil || s.Unhealthy != nil {
		return s
	}
	s.Client, s.Access = cluster.Connect(cluster.Options{
		Role: name, UserAgent: o.UserAgent, Gate: o.Gate, Logger: o.Logger,
		Source: func(bool) (*rest.Config, error) { return config, nil },
	})
	if s.Access != nil {
		return s
	}
	s.Probe = ask(ctx, o.Timing.Answer, s.Client, Probe{}, survey)
	s.Health = s.Client.Health()
	return s
}
