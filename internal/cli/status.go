package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"isthmus.dev/isthmus/internal/controller"
	"isthmus.dev/isthmus/internal/controller/installation"
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

It asks the process itself, at the address of --listen of isthmus sync or isthmus controller, or of listen in the
configuration of a vCluster plugin (:8082). A controller tells of each of its remotes, and of each Installation with what
is there of it. It ends with code 0 when all is
in step, 2 when something is not, 1 on an error, as when nothing answers.`,
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
			s.print(&printer{&text, terminal && os.Getenv("NO_COLOR") == ""})
		default:
			if err := encode(&text, o.output, s.served()); err != nil {
				return err
			}
		}
		if !o.watch {
			_, err := out.Write(text.Bytes())
			if err == nil && !s.inStep() {
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

// answer is what a process serves as its status.
type answer struct {
	// one is that of an engine; nil: it is a controller's, in all.
	one *engine.Status
	all *controller.Status
}

// served returns what was served.
func (a answer) served() any {
	if a.all != nil {
		return a.all
	}
	return a.one
}

// engines returns how each engine stands.
func (a answer) engines() []engine.Status {
	if a.all != nil {
		return a.all.Remotes
	}
	return []engine.Status{*a.one}
}

// fetchStatus asks a process how it stands.
func fetchStatus(ctx context.Context, address string) (a answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(address, "/")+"/status", nil)
	if err != nil {
		return a, fmt.Errorf("--address %q: %w", address, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return a, fmt.Errorf("no isthmus answers at %s: name the address of its --listen with --address: %w", address, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return a, fmt.Errorf("%s answers %s: expected an isthmus that serves /status", address, response.Status)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return a, fmt.Errorf("%s does not answer to the end: %w", address, err)
	}
	var kind struct {
		Version     string   `json:"version"`
		Controllers []string `json:"controllers"` // which only a controller has
	}
	if err := json.Unmarshal(body, &kind); err != nil || kind.Version != engine.StatusVersion {
		return a, fmt.Errorf("%s serves a status of version %q: expected %s, that of this isthmus (%v)", address, kind.Version, engine.StatusVersion, err)
	}
	if kind.Controllers != nil {
		a.all = &controller.Status{}
		err = json.Unmarshal(body, a.all)
	} else {
		a.one = &engine.Status{}
		err = json.Unmarshal(body, a.one)
	}
	if err != nil {
		return answer{}, fmt.Errorf("%s serves a status that can't be read: %w", address, err)
	}
	return a, nil
}

// inStep reports whether nothing is left to do, and nothing is in the way.
func (a answer) inStep() bool {
	if a.all != nil && (!a.all.Ready || len(a.all.Refused) > 0) {
		return false
	}
	if a.all != nil && slices.ContainsFunc(a.all.Installations, func(s installation.Standing) bool { return !s.Ready }) {
		return false
	}
	return !slices.ContainsFunc(a.engines(), func(s engine.Status) bool { return !inStep(s) })
}

func inStep(s engine.Status) bool {
	return s.Ready && s.Config.Refused == "" && !slices.ContainsFunc(s.Rules, func(r engine.RuleStatus) bool {
		return !r.Active || slices.ContainsFunc(slices.Collect(maps.Keys(r.Objects)), func(state string) bool {
			return state != stateInStep && r.Objects[state] > 0
		})
	})
}

const stateInStep = "in_step"

// essence is what of a status makes a difference: not the time, and not how long things take.
func essence(a answer, err error) string {
	if err != nil {
		return err.Error()
	}
	var parts []any
	if a.all != nil {
		all := *a.all
		all.Time, all.Remotes = time.Time{}, nil
		parts = append(parts, all)
	}
	for _, s := range a.engines() {
		s.Time = time.Time{}
		s.Rules = slices.Clone(s.Rules)
		for i := range s.Rules {
			s.Rules[i].Latency = nil
		}
		parts = append(parts, s)
	}
	text, _ := json.Marshal(parts) // structs of plain values
	return string(text)
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
