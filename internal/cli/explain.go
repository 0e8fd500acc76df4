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
	"time"

	"github.com/spf13/cobra"

	"isthmus.dev/isthmus/internal/plan"
)

// explainOptions are the flags of isthmus explain.
type explainOptions struct {
	rehearsalOptions
	output, in string
	twin       bool
}

func newExplainCommand() *cobra.Command {
	var o explainOptions
	cmd := &cobra.Command{
		Use:   "explain (KIND/NAME | KIND NAME) -n NAMESPACE (--config FILE --remote-id ID | --controller) --cluster-id ID",
		Short: "Tell why an object crosses, or does not, and whom its fields belong to",
		Long: `Tell why an object crosses, or does not: which rule takes it and what each check says, both names, the references
before and after, whom each field of the twin belongs to, generations and status on both sides, what a run would do
now, and what it waits for. With --controller it tells so of one remote after the other.

KIND is a kind, a resource or its short name of the rules, in any case, also with its group: widget, widgets,
Widget.example.io.
An object that no source has the name of is looked for among the twins. Nothing is changed. What a running isthmus
remembers (fights with other writers, what was refused) is told by its Events on the source, the last warning of each
reason; to see them, you need the right to list events, which isthmus itself does without.`,
		Example: `  isthmus explain widget/one -n team-a --config sync.yaml --local-kubeconfig consumer.yaml \
    --remote-kubeconfig provider.yaml --cluster-id consumer --remote-id provider
  isthmus explain widget/one -n team-a --controller --kubeconfig consumer.yaml --cluster-id consumer`,
		Args: arguments(cobra.RangeArgs(1, 2)),
		RunE: interruptible(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			query, err := o.check(cmd, args)
			if err != nil {
				return usageError(cmd, err)
			}
			return o.run(ctx, query, cmd.OutOrStdout(), cmd.ErrOrStderr())
		}),
	}
	o.flags(cmd)
	f := cmd.Flags()
	f.StringVarP(&o.in, "in", "n", "", "namespace of the object; empty: the only one that has an object of this name")
	f.BoolVar(&o.twin, "twin", false, "KIND/NAME is a twin, not a source")
	f.StringVarP(&o.output, "output", "o", "text", "text, json or yaml")
	o.completeObjects(cmd)
	return cmd
}

// check finds what is wrong with the flags, and reads KIND/NAME or KIND NAME.
func (o *explainOptions) check(cmd *cobra.Command, args []string) (plan.Query, error) {
	if err := o.rehearsalOptions.check(cmd); err != nil {
		return plan.Query{}, err
	}
	object := strings.Join(args, "/")
	kind, name, ok := strings.Cut(object, "/")
	if !ok || kind == "" || name == "" || strings.Contains(name, "/") {
		return plan.Query{}, fmt.Errorf("%q: expected KIND/NAME or KIND NAME, like widget/one", strings.Join(args, " "))
	}
	return plan.Query{Kind: kind, Namespace: o.in, Name: name, Twin: o.twin}, checkOutput(o.output, "text")
}

func (o *explainOptions) run(ctx context.Context, query plan.Query, stdout, stderr io.Writer) error {
	r, err := o.rehearse(ctx, "isthmus-explain", stderr)
	if err != nil {
		return err
	}
	if o.controller {
		return o.explainAll(r, query, stdout)
	}
	all, err := plan.Explain(r.context, r.remotes[0].Flows, query)
	if err != nil {
		return err
	}
	if o.output == "text" {
		err = printExplanations(stdout, all)
	} else {
		err = encode(stdout, o.output, all)
	}
	if err == nil {
		err = plan.Unread(all)
	}
	return err
}

// explainAll explains an object remote by remote.
func (o *explainOptions) explainAll(r *rehearsal, query plan.Query, stdout io.Writer) error {
	all, err := plan.ExplainAll(r.context, r.remotes, query, o.remote)
	if err != nil {
		return err
	}
	var errs []error
	for i := range all {
		errs = append(errs, all[i].Err())
	}
	if o.output != "text" {
		return cmp.Or(encode(stdout, o.output, all), errors.Join(errs...))
	}
	for i, one := range all {
		if i > 0 {
			fmt.Fprintln(stdout)
		}
		if one.Error != "" {
			fmt.Fprintf(stdout, "to %s: %s\n", one.Remote, one.Error)
			continue
		}
		fmt.Fprintf(stdout, "to %s:\n", one.Remote)
		if err := printExplanations(stdout, one.Explanations); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

func printExplanations(out io.Writer, all []plan.Explanation) error {
	for i, e := range all {
		if i > 0 {
			fmt.Fprintln(out)
		}
		if err := printExplanation(out, e); err != nil {
			return err
		}
	}
	return nil
}

// printExplanation prints an explanation in sections.
func printExplanation(out io.Writer, e plan.Explanation) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(format string, args ...any) { fmt.Fprintf(table, format+"\n", args...) }
	line("%s %s, %s", e.Kind, e.Source.FullName(), e.Direction)
	line("Source:\t%s", stateText(&e.Source))
	rule, twin := cmp.Or(e.Rule, "none takes it"), stateText(e.Twin)
	if e.Unread {
		rule, twin = "can't be told", "can't be told"
	}
	line("Twin:\t%s", twin)
	if e.Twin != nil {
		for _, mark := range e.Twin.Whose {
			line("\tit is %s", mark)
		}
	}
	line("Rule:\t%s", rule)
	for _, rule := range e.Rules {
		verdict := "does not take it"
		if rule.Takes {
			verdict = "would take it"
		}
		line("  %s:\t%s", rule.Rule, verdict)
		for _, check := range rule.Checks {
			line("    %s\t%s", check.Check, passed(check))
		}
	}
	if e.Untranslatable != "" {
		line("References:\tcan't be translated: %s", e.Untranslatable)
	} else if len(e.References) > 0 {
		line("References:")
		for _, ref := range e.References {
			dangling := ""
			if ref.Dangling {
				dangling = ", which is not there"
			}
			line("  %s\t%s → %s%s", ref.Path, ref.From, ref.To, dangling)
		}
	}
	if len(e.Fields) > 0 {
		line("Fields of the twin:")
		for _, field := range e.Fields {
			line("  %s\t%s", field.Path, field.Owner)
		}
	}
	if len(e.LeftOut) > 0 {
		line("Left out:\t%s, which the other side does not declare", strings.Join(e.LeftOut, ", "))
	}
	for _, side := range []*plan.State{&e.Source, e.Twin} {
		if side != nil && side.Status != nil {
			status, err := json.Marshal(side.Status)
			if err != nil {
				return err
			}
			line("Status, %s:\t%s", side.Side, status)
		}
	}
	for _, entry := range e.Plan {
		at := ""
		if entry.Twin != nil && (e.Twin == nil || entry.Twin.FullName() != e.Twin.FullName()) {
			at = " at " + entry.Twin.FullName()
		}
		text := planned(entry) + at
		if more := detail(entry); more != "" {
			text += ": " + more
		}
		line("A run would:\t%s", text)
	}
	if len(e.Reasons) > 0 {
		line("Because:\t%s", strings.Join(e.Reasons, "; "))
	}
	line("Waits for:\t%s", cmp.Or(e.WaitsFor, "nothing"))
	for _, told := range e.Told {
		line("Was told:\t%s, %s: %s", told.Last.UTC().Format(time.RFC3339), told.Reason, told.Message)
	}
	if e.Untold != "" {
		line("Was told:\tnot known: %s", e.Untold)
	}
	return table.Flush()
}

func passed(c plan.Check) string {
	word := "yes"
	if !c.Passed {
		word = "no"
	}
	if c.Why != "" {
		word += ": " + c.Why
	}
	return word
}

func stateText(s *plan.State) string {
	if s == nil {
		return "has no place"
	}
	text := fmt.Sprintf("%s on the %s cluster", s.FullName(), s.Side)
	if !s.Found {
		return text + ", which is not there"
	}
	text += fmt.Sprintf(", UID %s, generation %d", s.UID, s.Generation)
	if s.Content != 0 {
		text += fmt.Sprintf(", with the content of the source's generation %d", s.Content)
	}
	if s.Deleting {
		text += ", being deleted"
	}
	return text
}
