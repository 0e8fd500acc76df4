package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"isthmus.dev/isthmus/internal/adopt"
	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/config"
	"isthmus.dev/isthmus/internal/observe"
)

// adoptOptions are the flags of isthmus adopt.
type adoptOptions struct {
	syncOptions
	from, replaced, output string
	dryRun, yes            bool
}

func newAdoptCommand() *cobra.Command {
	var o adoptOptions
	cmd := &cobra.Command{
		Use:   "adopt --from kupe|vcluster|origin=ID[/INSTANCE] --config FILE [--cluster-id ID --remote-id ID] --dry-run|--yes",
		Short: "Take over objects that another system, or an Isthmus under another cluster ID, carried across",
		Long: `Take over the objects that another system carried across by what the file's rules select: they get this Isthmus's
stamp in place, and the former field manager lets go of them. Nothing is deleted and nothing is created anew.

  kupe                   copies of the generic sync plugin for vCluster
  vcluster               what vCluster itself carried to its host cluster
  origin=ID[/INSTANCE]   twins of an Isthmus under another cluster ID or instance (without it: the one of --instance)

With a plugin's vcluster.yaml, --cluster-id, --remote-id and --instance are those of the plugin.

Stop the former system first, and run isthmus sync afterwards, with the same flags. It ends with code 0 when nothing is
refused and nothing fails. It needs the rights that isthmus sync needs, and no others.`,
		Example: `  isthmus adopt --from kupe --config sync.yaml --local-kubeconfig consumer.yaml --remote-kubeconfig provider.yaml \
    --cluster-id consumer --remote-id provider --dry-run`,
		Args: arguments(cobra.NoArgs),
		RunE: interruptible(func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			file, err := config.Load(o.config)
			if err != nil {
				return err
			}
			if err := o.identify(file, cmd.Flags().Changed); err != nil {
				return usageError(cmd, err)
			}
			former, err := o.check()
			if err != nil {
				return usageError(cmd, err)
			}
			return o.run(ctx, file, former, cmd.OutOrStdout(), cmd.ErrOrStderr())
		}),
	}
	o.sides(cmd)
	o.require(cmd)
	f := cmd.Flags()
	f.StringVar(&o.from, "from", "", "whose objects to take over: kupe, vcluster or origin=ID[/INSTANCE] (required)")
	f.StringVar(&o.replaced, "replaced-cluster", "", "with origin: take over also what came from the cluster, of this UID of the namespace kube-system, that the present one replaced")
	f.BoolVar(&o.dryRun, "dry-run", false, "say what would happen, and change nothing")
	f.BoolVar(&o.yes, "yes", false, "do it")
	f.StringVarP(&o.output, "output", "o", "table", "table, or json: an object a line")
	_ = cmd.MarkFlagRequired("from")                           // fails only for a flag that does not exist
	for _, name := range []string{"cluster-id", "remote-id"} { // a plugin's configuration has them
		delete(f.Lookup(name).Annotations, cobra.BashCompOneRequiredFlag)
	}
	return cmd
}

// identify takes who this is from a plugin's configuration, where flags do not say it; a flag must not say otherwise.
func (o *adoptOptions) identify(file *config.Config, given func(flag string) bool) error {
	plugin := file.Plugin
	for _, id := range []struct {
		flag, key string
		value     *string
		known     string
	}{
		{"cluster-id", "clusterID", &o.clusterID, plugin.ClusterID}, {"remote-id", "remoteID", &o.remoteID, plugin.RemoteID}, {"instance", "instance", &o.instance, plugin.Instance},
	} {
		switch {
		case plugin.Name == "" && !given(id.flag) && *id.value == "":
			return fmt.Errorf("--%s is missing: expected a name for the cluster, as isthmus sync has it", id.flag)
		case plugin.Name == "":
		case id.flag == "cluster-id" && plugin.AnyVirtualCluster && !given(id.flag):
			return plugin.Known()
		case id.flag == "cluster-id" && plugin.AnyVirtualCluster: // run tells what is missing
		case given(id.flag) && *id.value != id.known:
			return fmt.Errorf("--%s is %q, but the plugin runs with %s %q: remove the flag, or set %s in the plugin's configuration", id.flag, *id.value, id.key, id.known, id.key)
		default:
			*id.value = id.known
		}
	}
	return nil
}

// check finds what is wrong with the flags, and reads --from.
func (o *adoptOptions) check() (boundary.Former, error) {
	o.logFormat = "text"
	if err := o.syncOptions.check(); err != nil {
		return boundary.Former{}, err
	}
	switch {
	case o.dryRun == o.yes:
		return boundary.Former{}, errors.New("expected one of --dry-run, which says what would happen, and --yes, which does it")
	case o.output != "table" && o.output != "json":
		return boundary.Former{}, fmt.Errorf("--output %q: expected table or json", o.output)
	}
	system, id, named := strings.Cut(o.from, "=")
	former := boundary.Former{System: boundary.FormerSystem(system), Replaced: o.replaced}
	origin := former.System == boundary.FormerOrigin
	switch {
	case origin && named:
		former.Home, former.Instance, named = strings.Cut(id, "/")
		if !named {
			former.Instance = o.instance
		}
		if len(validation.IsDNS1123Label(former.Home))+len(validation.IsDNS1123Label(former.Instance)) > 0 {
			return boundary.Former{}, fmt.Errorf("--from %q: expected origin=ID or origin=ID/INSTANCE, both DNS labels", o.from)
		}
	case origin, named, former.System != boundary.FormerKupe && former.System != boundary.FormerVCluster:
		return boundary.Former{}, fmt.Errorf("--from %q: expected kupe, vcluster or origin=ID[/INSTANCE]", o.from)
	}
	if o.replaced != "" && !origin {
		return boundary.Former{}, errors.New("--replaced-cluster belongs to --from origin=ID: other systems' marks do not say which cluster they came from")
	}
	return former, nil
}

func (o *adoptOptions) run(ctx context.Context, file *config.Config, former boundary.Former, stdout, stderr io.Writer) error {
	former.Cluster = file.VirtualCluster
	if former.System == boundary.FormerVCluster && former.Cluster == (boundary.VirtualCluster{}) {
		return fmt.Errorf("%s: --from vcluster needs naming: VirtualCluster, which says which virtual cluster's objects they are", o.config)
	}
	file.Events = false // what happens is told on the standard output
	e, err := o.engine(file, "isthmus-adopt/"+version(), nil, observe.NewLogger(stderr, slog.LevelWarn, false), observe.NewMetrics(version()))
	if err != nil {
		return err
	}
	// Whoever answers now answers to the end.
	ctx = e.Local.Pin(e.Remote.Pin(ctx, e.Remote.Server()), e.Local.Server())
	flows, err := e.Idle(ctx)
	if err != nil {
		return err
	}
	var rows []adopt.Row
	for _, f := range flows {
		tell := func(row adopt.Row) { rows = append(rows, row) }
		if err = adopt.Run(ctx, adopt.Options{Flow: f, Former: former, Write: o.yes}, tell); err != nil {
			rows = append(rows, adopt.Row{Kind: f.Name(), Result: adopt.Failed, Why: observe.Redact(err, boundary.HoldsSecrets(f.Kind))})
		}
		if ctx.Err() != nil {
			break
		}
	}
	if err := o.report(stdout, rows); err != nil {
		return err
	}
	return verdict(ctx, rows)
}

// report prints the rows and how many there are of each result.
func (o *adoptOptions) report(out io.Writer, rows []adopt.Row) error {
	if o.output == "json" {
		encoder := json.NewEncoder(out)
		for _, row := range rows {
			if err := encoder.Encode(row); err != nil {
				return err
			}
		}
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if len(rows) > 0 {
		fmt.Fprintln(table, "KIND\tSOURCE\tTWIN\tRESULT\tWHY")
	}
	counts := map[adopt.Result]int{}
	for _, row := range rows {
		counts[row.Result]++
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", row.Kind, orDash(row.Source), orDash(row.Twin), row.Result, row.Why)
	}
	var summary []string
	for _, result := range []adopt.Result{adopt.Adopt, adopt.Adopted, adopt.Ours, adopt.Create, adopt.Left, adopt.Refused, adopt.Failed} {
		if counts[result] > 0 {
			summary = append(summary, fmt.Sprintf("%d %s", counts[result], result))
		}
	}
	if len(summary) == 0 {
		summary = []string{"nothing to do"}
	}
	fmt.Fprintln(table, strings.Join(summary, ", "))
	return table.Flush()
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// verdict is the error that the command ends with; nil: nothing was refused, and nothing failed.
func verdict(ctx context.Context, rows []adopt.Row) error {
	if ctx.Err() != nil {
		return errors.New("stopped before the end: run it again")
	}
	refused, failed := 0, 0
	for _, row := range rows {
		switch row.Result {
		case adopt.Refused:
			refused++
		case adopt.Failed:
			failed++
		}
	}
	if refused+failed > 0 {
		return fmt.Errorf("%d refused, %d failed: the report says why", refused, failed)
	}
	return nil
}
