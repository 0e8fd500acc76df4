package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/plan"
)

// exitChanges is the exit code of a plan with changes, and exitError that of every error.
const (
	exitError   = 1
	exitChanges = 2
)

// exitCode is an error that says nothing and ends the process with this code.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// planOptions are the flags of isthmus plan.
type planOptions struct {
	rehearsalOptions
	output             string
	unchanged, skipped bool
	installation       string
}

func newPlanCommand() *cobra.Command {
	var o planOptions
	cmd := &cobra.Command{
		Use:   "plan --config FILE --cluster-id ID --remote-id ID | --controller --cluster-id ID | --installation NAMESPACE/NAME --cluster-id ID",
		Short: "Say what a run would do, object by object, and change nothing",
		Long: `Say what isthmus sync, or with --controller isthmus controller, would do if it started now, object by object, and change
nothing.

It lists both sides, decides as a run does, and asks the API servers for a dry run of each write, so that defaults,
admission, missing rights and refusals are part of the answer. It needs the rights that a run needs, and no others.
With --controller it reads Crossings, NamespaceOffloadings and RemoteClusters, reaches the remotes as these say, and
tells of one remote after the other. What a running isthmus remembers (what was observed live, what is retried) is not
known to it. With --installation it says what the Installation of that name would change on its cluster.

It ends with code 0 when nothing would be written, 2 when something would, 1 on an error, also when not everything could
be looked at.`,
		Example: `  isthmus plan --config sync.yaml --local-kubeconfig consumer.yaml --remote-kubeconfig provider.yaml \
    --cluster-id consumer --remote-id provider
  isthmus plan --controller --kubeconfig consumer.yaml --cluster-id consumer
  isthmus plan --installation apps/knative --kubeconfig hub.yaml --cluster-id hub`,
		Args: arguments(cobra.NoArgs),
		RunE: interruptible(func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			if err := o.check(cmd); err != nil {
				return usageError(cmd, err)
			}
			if o.installation != "" {
				return o.planInstallation(ctx, cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			return o.run(ctx, cmd.OutOrStdout(), cmd.ErrOrStderr())
		}),
	}
	o.flags(cmd)
	f := cmd.Flags()
	o.massDeletion(cmd)
	f.StringVar(&o.installation, "installation", "", "the Installation, NAMESPACE/NAME, whose changes are told; with --kubeconfig for its cluster, the hub")
	f.StringVarP(&o.output, "output", "o", "table", "table, json or yaml")
	f.BoolVar(&o.unchanged, "show-unchanged", false, "list what is in step too")
	f.BoolVar(&o.skipped, "show-skipped", false, "list what no rule takes too, and why")
	return cmd
}

func (o *planOptions) check(cmd *cobra.Command) error {
	if o.installation != "" {
		return o.checkInstallation(cmd)
	}
	if err := o.rehearsalOptions.check(cmd); err != nil {
		return err
	}
	return checkOutput(o.output, "table")
}

// checkOutput checks --output, whose readable form is called text.
func checkOutput(output, text string) error {
	if output != text && output != "json" && output != "yaml" {
		return fmt.Errorf("--output %q: expected %s, json or yaml", output, text)
	}
	return nil
}

func (o *planOptions) run(ctx context.Context, stdout, stderr io.Writer) error {
	r, err := o.rehearse(ctx, "isthmus-plan", stderr)
	if err != nil {
		return err
	}
	options := plan.Options{Unchanged: o.unchanged, Skipped: o.skipped}
	if o.controller {
		return o.tell(stdout, &allPlans{Remotes: plan.MakeAll(r.context, r.remotes, options, o.remote), Refused: r.refused})
	}
	p, err := plan.Make(r.context, r.remotes[0].Flows, options)
	if err != nil {
		return err
	}
	return o.tell(stdout, &allPlans{one: p})
}

// allPlans are the plans for all remotes.
type allPlans struct {
	one *plan.Plan // the only one, where a file says what crosses; nil: objects do

	// Changes: a run would write something.
	Changes bool              `json:"changes"`
	Remotes []plan.RemotePlan `json:"remotes"`
	// Refused says which objects are wrong as a whole, so that they carry nothing.
	Refused []string `json:"refused,omitempty"`
}

// tell prints plans, and returns what the process ends with.
func (o *planOptions) tell(stdout io.Writer, all *allPlans) error {
	var value any = all
	var errs []error
	if all.one != nil {
		value, all.Changes, errs = all.one, all.one.Changes, append(errs, all.one.Err())
	}
	for i := range all.Remotes {
		p := &all.Remotes[i]
		all.Changes, errs = all.Changes || p.Plan != nil && p.Changes, append(errs, p.Err())
	}
	var err error
	if o.output == "table" {
		err = all.print(stdout)
	} else {
		err = encode(stdout, o.output, value)
	}
	if err == nil {
		err = errors.Join(errs...)
	}
	if err == nil && all.Changes {
		err = exitCode(exitChanges)
	}
	return err
}

func (a *allPlans) print(out io.Writer) error {
	if a.one != nil {
		return printPlan(out, a.one)
	}
	for _, text := range a.Refused {
		fmt.Fprintln(out, "Refused: "+text)
	}
	if len(a.Remotes) == 0 {
		fmt.Fprintln(out, "there are no RemoteClusters")
	}
	for i, p := range a.Remotes {
		if i > 0 || len(a.Refused) > 0 {
			fmt.Fprintln(out)
		}
		if p.Plan == nil {
			fmt.Fprintf(out, "to %s: %s\n", p.Remote, p.Error)
			continue
		}
		fmt.Fprintf(out, "to %s:\n", p.Remote)
		if err := printPlan(out, p.Plan); err != nil {
			return err
		}
	}
	return nil
}

// encode prints a value as JSON or YAML.
func encode(out io.Writer, format string, value any) error {
	if format == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(value)
	}
	text, err := yaml.Marshal(value)
	if err == nil {
		_, err = out.Write(text)
	}
	return err
}

// printPlan prints a plan, a line an object.
func printPlan(out io.Writer, p *plan.Plan) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if len(p.Entries)+len(p.Waiting) > 0 {
		fmt.Fprintln(table, "DIRECTION\tKIND\tSOURCE\tTWIN\tPLAN\tDETAIL")
	}
	for _, e := range p.Entries {
		twin := "-"
		if e.Twin != nil {
			twin = e.Twin.FullName()
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", e.Direction, e.Kind, e.Source.FullName(), twin, planned(e), cmp.Or(detail(e), "-"))
	}
	for _, w := range p.Waiting {
		fmt.Fprintf(table, "%s\t%s\t-\t-\twait\t%s\n", w.Direction, w.Kind, w.Why)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, note := range p.Notes {
		fmt.Fprintln(out, "Note: "+note)
	}
	var summary []string
	for _, outcome := range plan.Outcomes {
		if n := p.Summary[outcome]; n > 0 {
			summary = append(summary, fmt.Sprintf("%d %s", n, outcome))
		}
	}
	summary = append(summary, waits(p)...)
	if len(summary) == 0 {
		summary = []string{"nothing crosses"}
	}
	_, err := fmt.Fprintln(out, strings.Join(summary, ", "))
	return err
}

// waits counts the kinds that wait, and those that could not be looked at.
func waits(p *plan.Plan) (texts []string) {
	waiting, unread := map[string]bool{}, map[string]bool{}
	for _, w := range p.Waiting {
		kinds := waiting
		if w.Unread {
			kinds = unread
		}
		kinds[string(w.Direction)+w.Kind] = true
	}
	if n := len(waiting); n > 0 {
		texts = append(texts, fmt.Sprintf("%d wait", n))
	}
	if n := len(unread); n > 0 {
		texts = append(texts, fmt.Sprintf("%d could not be looked at", n))
	}
	return texts
}

// planned names what becomes of an object in a word, or one a write.
func planned(e plan.Entry) string {
	if e.Outcome != plan.Change {
		return string(e.Outcome)
	}
	var actions []string
	for _, w := range e.Writes {
		if w.Refused == "" {
			actions = append(actions, w.Action)
		}
	}
	return strings.Join(actions, " + ")
}

// mostPaths is how many changed paths a line shows.
const mostPaths = 6

// detail tells what a word does not.
func detail(e plan.Entry) string {
	var texts []string
	for _, w := range e.Writes {
		switch {
		case w.Refused != "":
			texts = append(texts, w.Action+": "+w.Refused)
			continue
		case w.Action == string(boundary.Apply) && len(w.Changes) == 0:
			texts = append(texts, "ownership and stamp only")
		}
		var paths []string
		for _, c := range w.Changes {
			paths = append(paths, c.Path)
		}
		if more := len(paths) - mostPaths; more > 0 {
			paths = append(paths[:mostPaths], fmt.Sprintf("and %d more", more))
		}
		if len(paths) > 0 {
			texts = append(texts, strings.Join(paths, ", "))
		}
		if w.Why != "" && w.Action != string(boundary.Create) {
			texts = append(texts, w.Why)
		}
		if w.Untried != "" {
			texts = append(texts, "not tried, for "+w.Untried)
		}
	}
	texts = append(texts, e.Warnings...)
	if e.Why != "" {
		texts = append(texts, e.Why)
	}
	if len(e.With) > 0 {
		texts = append(texts, "it is "+strings.Join(e.With, "; "))
	}
	return strings.Join(texts, "; ")
}
