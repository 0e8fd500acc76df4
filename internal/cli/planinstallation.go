package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/cluster/access"
	"isthmus.dev/isthmus/internal/controller/installation"
	"isthmus.dev/isthmus/internal/observe"
)

// checkInstallation finds what is wrong with the flags of a plan for an Installation.
func (o *planOptions) checkInstallation(cmd *cobra.Command) error {
	for _, flag := range append([]string{"controller", "remote", "instance", "namespace"}, fileOnlyFlags...) {
		if cmd.Flags().Changed(flag) {
			return fmt.Errorf("--%s and --installation: an Installation says where it goes: remove one of them", flag)
		}
	}
	namespace, name, ok := strings.Cut(o.installation, "/")
	if !ok || namespace == "" || name == "" {
		return fmt.Errorf("--installation %q: expected NAMESPACE/NAME", o.installation)
	}
	if err := checkLabels([]label{{"--cluster-id", o.clusterID}}); err != nil {
		return err
	}
	return checkOutput(o.output, "table")
}

// planInstallation prints what an Installation would change.
func (o *planOptions) planInstallation(ctx context.Context, stdout, stderr io.Writer) error {
	log := observe.NewLogger(stderr, slog.LevelError, false)
	observe.RouteClientLogs(log)
	agent := "isthmus-plan/" + version()
	local, err := cluster.Connect(cluster.Options{Role: "local", Kubeconfig: o.kubeconfig, Context: o.kubeContext, Logger: log, UserAgent: agent})
	if err != nil {
		return err
	}
	options := installation.Options{Hub: o.clusterID, Local: local, UserAgent: agent, Logger: log}
	if o.providerFile != "" {
		if options.Providers, err = access.OpenProviderFile(o.providerFile); err != nil {
			return fmt.Errorf("--clusterprofile-provider-file: %w", err)
		}
	}
	namespace, name, _ := strings.Cut(o.installation, "/")
	p, err := installation.Rehearse(ctx, options, types.NamespacedName{Namespace: namespace, Name: name})
	if err != nil {
		return err
	}
	if o.output == "table" {
		err = printInstallation(stdout, p)
	} else {
		err = encode(stdout, o.output, p)
	}
	switch {
	case err != nil:
		return err
	case p.Stopped != "":
		return errors.New(p.Stopped)
	case p.Changes:
		return exitCode(exitChanges)
	}
	return nil
}

// printInstallation prints what an Installation would change, a line an object.
func printInstallation(out io.Writer, p *installation.Plan) error {
	if p.Server != "" {
		fmt.Fprintf(out, "Installation %s, to namespace %s at %s:\n", p.Installation, p.Namespace, p.Server)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if len(p.Entries) > 0 {
		fmt.Fprintln(table, "PLAN\tOBJECT\tDETAIL")
	}
	counts := map[string]int{}
	for _, e := range p.Entries {
		detail := e.Why
		switch {
		case e.Refused != "":
			detail += "; the cluster would refuse it: " + e.Refused
		case e.Untried != "":
			detail += "; not tried, for " + e.Untried
		}
		counts[e.Action]++
		fmt.Fprintf(table, "%s\t%s\t%s\n", e.Action, e.Name, cmp.Or(detail, "-"))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	var summary []string
	for _, action := range slices.Sorted(maps.Keys(counts)) {
		summary = append(summary, fmt.Sprintf("%d %s", counts[action], action))
	}
	_, err := fmt.Fprintln(out, strings.Join(append(summary, fmt.Sprintf("%d unchanged", p.Unchanged)), ", "))
	return err
}
