package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"isthmus.dev/isthmus/internal/engine"
)

// watchEvery is how often --watch asks.
const watchEvery = time.Second

// statusOptions are the flags of isthmus status.
type statusOptions struct {
	address, output string
	watch           bool
}

func newStatusCommand() *cobra.Command {
	var o statusOptions
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say how a running isthmus stands: its rules, their objects, what waits and what went wrong last",
		Long: `Say how a running isthmus stands: its rules, their objects, what waits and what went wrong last.

It asks the process itself, at the address of isthmus sync --listen, or of listen in the configuration of a vCluster
plugin (:8082). It ends with code 0 when all is in step, 2 when
something is not, 1 on an error, as when nothing answers.`,
		Example: `  isthmus status
  isthmus status --address http://127.0.0.1:8081 --watch`,
		Args: arguments(cobra.NoArgs),
		RunE: interruptible(func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			if err := checkOutput(o.output, "table"); err != nil {
				return usageError(cmd, err)
			}
			return o.run(ctx, cmd.OutOrStdout())
		}),
	}
	f := cmd.Flags()
	f.StringVar(&o.address, "address", "http://127.0.0.1:8080", "where the process serves its status")
	f.StringVarP(&o.output, "output", "o", "table", "table, json or yaml")
	f.BoolVarP(&o.watch, "watch", "w", false, "go on: draw it anew on a terminal, print each change elsewhere")
	return cmd
}

func (o statusOptions) run(ctx context.Context, out io.Writer) error {
	terminal := isTerminal(out)
	last := ""
	for {
		s, err := fetchStatus(ctx, o.address)
		if err != nil && (!o.watch || ctx.Err() != nil) {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		var text bytes.Buffer
		switch {
		case err != nil:
			fmt.Fprintln(&text, err)
		case o.output == "table":
			printStatus(&text, s, terminal && os.Getenv("NO_COLOR") == "")
		default:
			if err := encode(&text, o.output, s); err != nil {
				return err
			}
		}
		if !o.watch {
			_, err := out.Write(text.Bytes())
			if err == nil && !inStep(s) {
				err = exitCode(exitChanges)
			}
			return err
		}
		if terminal {
			_, err = fmt.Fprintf(out, "\x1b[H\x1b[2J%s", &text)
		} else if now := essence(s, err); now != last {
			last = now
			_, err = fmt.Fprintf(out, "%s\n", &text)
		} else {
			err = nil
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(watchEvery):
		}
	}
}

// fetchStatus asks a process how it stands.
func fetchStatus(ctx context.Context, address string) (s engine.Status, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(address, "/")+"/status", nil)
	if err != nil {
		return s, fmt.Errorf("--address %q: %w", address, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return s, fmt.Errorf("no isthmus answers at %s: name the address of its --listen with --address: %w", address, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return s, fmt.Errorf("%s answers %s: expected an isthmus that serves /status", address, response.Status)
	}
	if err := json.NewDecoder(response.Body).Decode(&s); err != nil || s.Version != engine.StatusVersion {
		return s, fmt.Errorf("%s serves a status of version %q: expected %s, that of this isthmus (%v)", address, s.Version, engine.StatusVersion, err)
	}
	return s, nil
}

// inStep reports whether nothing is left to do, and nothing is in the way.
func inStep(s engine.Status) bool {
	return s.Ready && s.Config.Refused == "" && !slices.ContainsFunc(s.Rules, func(r engine.RuleStatus) bool {
		return !r.Active || slices.ContainsFunc(slices.Collect(maps.Keys(r.Objects)), func(state string) bool {
			return state != stateInStep && r.Objects[state] > 0
		})
	})
}

const stateInStep = "in_step"

// essence is what of a status makes a difference: not the time, and not how long things take.
func essence(s engine.Status, err error) string {
	if err != nil {
		return err.Error()
	}
	s.Time = time.Time{}
	s.Rules = slices.Clone(s.Rules)
	for i := range s.Rules {
		s.Rules[i].Latency = nil
	}
	text, _ := json.Marshal(s) // a struct of plain values
	return string(text)
}

// printStatus writes a status for people.
func printStatus(out io.Writer, s engine.Status, color bool) {
	paint := func(code, text string) string {
		if !color {
			return text
		}
		return "\x1b[" + code + "m" + text + "\x1b[0m"
	}
	good, bad, warn := func(t string) string { return paint("32", t) }, func(t string) string { return paint("31", t) }, func(t string) string { return paint("33", t) }
	ago := func(t time.Time) string { return duration.HumanDuration(s.Time.Sub(t)) }
	state := good("ready")
	switch {
	case !s.Ready:
		state = bad("not ready: " + s.Reason)
	case s.Reason != "":
		state = warn(s.Reason)
	}
	if s.ClusterID != "" { // a plugin whose configuration can't be run has no names
		fmt.Fprintf(out, "%s to %s, instance %s, ", s.ClusterID, s.RemoteID, s.Instance)
	}
	fmt.Fprintf(out, "isthmus %s: %s\n", s.Isthmus, state)
	if l := s.Election; l != nil {
		switch {
		case l.Leading:
			fmt.Fprintf(out, "leader: %s\n", l.Identity)
		default:
			fmt.Fprintln(out, warn(fmt.Sprintf("standby: %s; %s holds the lease", l.Identity, cmp.Or(l.Holder, "nobody"))))
		}
	}
	for _, c := range s.Clusters {
		reached := good("reached")
		if !c.Reached {
			reached = bad("not reached: " + c.Error)
		}
		if !c.Since.IsZero() {
			reached += ", for " + ago(c.Since)
		}
		fmt.Fprintf(out, "%s cluster %s: %s\n", c.Name, c.Server, reached)
	}
	if s.Config.Hash != "" {
		fmt.Fprintf(out, "configuration %s, read %s ago\n", s.Config.Hash, ago(s.Config.Since))
	}
	if s.Config.Refused != "" {
		fmt.Fprintln(out, bad("the file as it is now is refused: "+s.Config.Refused))
	}
	if len(s.Rules) == 0 {
		return
	}
	fmt.Fprintln(out)
	states := statesOf(s)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "RULE\tKIND\tDIRECTION\tSTATE\t%s\tOLDEST\tP50\tP99\n", strings.ToUpper(strings.Join(states, "\t")))
	for _, r := range s.Rules {
		oldest, p50, p99, runs := "-", "-", "-", "active"
		if r.Reason != "" {
			runs = "waiting"
		}
		if r.Oldest != nil {
			oldest = ago(r.Oldest.Since)
		}
		if r.Latency != nil {
			p50, p99 = seconds(r.Latency.P50), seconds(r.Latency.P99)
		}
		name := r.Name
		if name == "" {
			name = "(none)"
		}
		counts := make([]string, len(states))
		for i, state := range states {
			counts[i] = fmt.Sprint(r.Objects[state])
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", name, r.Kind, r.Direction, runs, strings.Join(counts, "\t"), oldest, p50, p99)
	}
	table.Flush()
	told := map[string]bool{}
	for _, r := range s.Rules {
		if p := r.Paused; p != nil {
			fmt.Fprintln(out, warn(fmt.Sprintf("%s: deletes are paused: %d of %d twins of its kind would go for a reason that was only inferred; if the sources are really gone, let them: %s", r.Name, p.Deletes, p.Twins, p.Allow)))
		}
		for _, text := range r.Unseen {
			if line := r.Kind + ": " + text; !told[line] {
				told[line] = true
				fmt.Fprintln(out, warn(line))
			}
		}
		if r.Reason != "" {
			fmt.Fprintln(out, warn(fmt.Sprintf("%s waits: %s", r.Name, r.Reason)))
		}
		if len(r.Undeclared) > 0 {
			fmt.Fprintln(out, warn(fmt.Sprintf("%s: these fields do not cross: %s", r.Name, strings.Join(r.Undeclared, ", "))))
		}
		if r.Oldest != nil {
			fmt.Fprintf(out, "%s: %s has waited longest, for %s\n", r.Name, r.Oldest.Object, ago(r.Oldest.Since))
		}
		if e := r.LastError; e != nil {
			fmt.Fprintf(out, "%s: last error, %s ago, %s: %s\n", r.Name, ago(e.At), e.Object, e.Message)
		}
	}
}

// statesOf returns the states that objects are in, what is in step first.
func statesOf(s engine.Status) []string {
	found := map[string]bool{}
	for _, r := range s.Rules {
		for state := range r.Objects {
			found[state] = true
		}
	}
	delete(found, stateInStep)
	return append([]string{stateInStep}, slices.Sorted(maps.Keys(found))...)
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond).String()
}

// isTerminal reports whether a writer is a terminal.
func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
