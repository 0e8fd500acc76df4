package cli

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"isthmus.dev/isthmus/internal/observe"
)

// processOptions are the flags of what runs until it is told to stop.
type processOptions struct {
	listen    string
	pprof     string
	logFormat string
	election  electionOptions
}

func (o *processOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", ":8080", "address for /healthz, /readyz, /metrics and /status; empty: none")
	f.StringVar(&o.pprof, "pprof-bind-address", "", "address for profiles of this process, at /debug/pprof/, better a loopback one such as 127.0.0.1:6060; empty: none")
	f.StringVar(&o.logFormat, "log-format", "text", "format of the log on standard error: text or json")
	o.election.flags(cmd)
}

// check finds what is wrong with the flags.
func (o *processOptions) check() error {
	if o.logFormat != "text" && o.logFormat != "json" {
		return fmt.Errorf("--log-format %q: expected text or json", o.logFormat)
	}
	return o.election.check()
}

// listeners are where a process answers: health and metrics, and profiles. Either is nil where it does not.
type listeners struct{ health, profiles net.Listener }

// open takes the addresses that the flags name.
func (o *processOptions) open() (l listeners, err error) {
	if l.health, err = observe.Listen(o.listen); err != nil {
		return listeners{}, err
	}
	if l.profiles, err = observe.ListenProfiles(o.pprof); err != nil {
		l.close()
		return listeners{}, err
	}
	return l, nil
}

// close gives the addresses back where nothing will be served.
func (l listeners) close() {
	for _, one := range []net.Listener{l.health, l.profiles} {
		if one != nil {
			_ = one.Close()
		}
	}
}

// serve answers until ctx ends, and closes l.
func (l listeners) serve(ctx context.Context, metrics prometheus.Gatherer, ready func() ([]string, error), status func() any) error {
	profiles := make(chan error, 1)
	go func() { profiles <- observe.ServeProfiles(ctx, l.profiles) }()
	return errors.Join(observe.Serve(ctx, l.health, metrics, ready, status), <-profiles)
}
