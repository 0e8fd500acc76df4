package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// processOptions are the flags of what runs until it is told to stop.
type processOptions struct {
	listen    string
	logFormat string
	election  electionOptions
}

func (o *processOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", ":8080", "address for /healthz, /readyz, /metrics and /status; empty: none")
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
