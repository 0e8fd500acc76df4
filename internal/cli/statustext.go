package cli

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/controller"
	"isthmus.dev/isthmus/internal/controller/installation"
	"isthmus.dev/isthmus/internal/engine"
	"isthmus.dev/isthmus/internal/leader"
)

// printer writes a status for people.
type printer struct {
	out   io.Writer
	color bool
}

func (p *printer) paint(code, text string) string {
	if !p.color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (p *printer) good(text string) string { return p.paint("32", text) }
func (p *printer) bad(text string) string  { return p.paint("31", text) }
func (p *printer) warn(text string) string { return p.paint("33", text) }

func (p *printer) line(format string, args ...any) { fmt.Fprintf(p.out, format+"\n", args...) }

func (a answer) print(p *printer) {
	if a.all == nil {
		p.engine(*a.one)
		return
	}
	p.controller(*a.all)
	for _, s := range a.all.Remotes {
		p.line("\nto %s: %s", s.RemoteID, p.state(s.Ready, s.Reason))
		p.clusters(s, s.Clusters[min(1, len(s.Clusters)):]) // the first one is the local one
		p.carried(s)
	}
	for _, s := range a.all.Installations {
		p.installation(s)
	}
}

// installation prints how an Installation stands, and what is there of it, a line a kind.
func (p *printer) installation(s installation.Standing) {
	where := "this cluster"
	if s.Profile != "" {
		where = "ClusterProfile " + s.Profile
	}
	state := p.good("ready")
	if !s.Ready {
		state = p.bad("not ready: " + s.Reason)
		if s.Message != "" {
			state += ": " + s.Message
		}
	}
	p.line("\nInstallation %s: %s in namespace %s of %s, %d objects: %s", s.Installation, s.Component, s.Namespace, where, len(s.Inventory), state)
	p.objects("", s.Inventory)
	p.objects("left over: ", s.Leftovers)
}

// objects prints the names of objects by kind.
func (p *printer) objects(prefix string, entries []v1alpha1.InventoryEntry) {
	byKind := map[string][]string{}
	for _, e := range entries {
		name := e.Name
		if e.Namespace != "" {
			name = e.Namespace + "/" + e.Name
		}
		kind := schema.GroupKind{Group: e.Group, Kind: e.Kind}.String()
		byKind[kind] = append(byKind[kind], name)
	}
	for _, kind := range slices.Sorted(maps.Keys(byKind)) {
		p.line("  %s%s: %s", prefix, kind, strings.Join(byKind[kind], ", "))
	}
}

// controller prints what holds for all remotes.
func (p *printer) controller(s controller.Status) {
	name := "controller"
	if s.ClusterID != "" {
		name = s.ClusterID
	}
	p.line("%s, instance %s, %s, isthmus %s: %s", name, s.Instance, strings.Join(s.Controllers, " and "), s.Isthmus, p.state(s.Ready, s.Reason))
	p.election(s.Election)
	for _, crossing := range slices.Sorted(maps.Keys(s.Refused)) {
		p.line("%s", p.bad(fmt.Sprintf("Crossing %s is refused: %s", crossing, s.Refused[crossing])))
	}
	switch {
	case len(s.Remotes) > 0:
		p.clusters(s.Remotes[0], s.Remotes[0].Clusters[:min(1, len(s.Remotes[0].Clusters))])
	case s.Ready && slices.Contains(s.Controllers, controller.Reflection) && (s.Election == nil || s.Election.Leading):
		p.line("there are no RemoteClusters")
	}
}

func (p *printer) state(ready bool, reason string) string {
	switch {
	case !ready:
		return p.bad("not ready: " + reason)
	case reason != "":
		return p.warn(reason)
	}
	return p.good("ready")
}

func (p *printer) election(l *leader.State) {
	switch {
	case l == nil:
	case l.Leading:
		p.line("leader: %s", l.Identity)
	default:
		p.line("%s", p.warn(fmt.Sprintf("standby: %s; %s holds the lease", l.Identity, cmp.Or(l.Holder, "nobody"))))
	}
}

// engine prints how what runs between two clusters stands.
func (p *printer) engine(s engine.Status) {
	names := ""
	if s.ClusterID != "" { // a plugin whose configuration can't be run has no names
		names = fmt.Sprintf("%s to %s, instance %s, ", s.ClusterID, s.RemoteID, s.Instance)
	}
	p.line("%sisthmus %s: %s", names, s.Isthmus, p.state(s.Ready, s.Reason))
	p.election(s.Election)
	p.clusters(s, s.Clusters)
	p.carried(s)
}

// clusters prints how some of an engine's clusters are reached.
func (p *printer) clusters(s engine.Status, some []engine.ClusterStatus) {
	for _, c := range some {
		reached := p.good("reached")
		if !c.Reached {
			reached = p.bad("not reached: " + c.Error)
		}
		if !c.Since.IsZero() {
			reached += ", for " + since(s, c.Since)
		}
		p.line("%s cluster %s: %s", c.Name, c.Server, reached)
	}
}

// since tells how long ago something was when the status was made.
func since(s engine.Status, t time.Time) string { return duration.HumanDuration(s.Time.Sub(t)) }

// carried prints what is carried between an engine's clusters.
func (p *printer) carried(s engine.Status) {
	if s.Config.Hash != "" {
		p.line("configuration %s, read %s ago", s.Config.Hash, since(s, s.Config.Since))
	}
	if s.Config.Refused != "" {
		p.line("%s", p.bad("the file as it is now is refused: "+s.Config.Refused))
	}
	p.rules(s)
}

// rules prints how the rules stand, in a table, and below it what is worth telling of them.
func (p *printer) rules(s engine.Status) {
	if len(s.Rules) == 0 {
		return
	}
	p.line("")
	states := statesOf(s)
	table := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "RULE\tKIND\tDIRECTION\tSTATE\t%s\tOLDEST\tP50\tP99\n", strings.ToUpper(strings.Join(states, "\t")))
	for _, r := range s.Rules {
		oldest, p50, p99, runs := "-", "-", "-", "active"
		if r.Reason != "" {
			runs = "waiting"
		}
		if r.Oldest != nil {
			oldest = since(s, r.Oldest.Since)
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
		if held := r.Paused; held != nil {
			p.line("%s", p.warn(fmt.Sprintf("%s: deletes are paused: %d of %d twins of its kind would go for a reason that was only inferred; if the sources are really gone, let them: %s", r.Name, held.Deletes, held.Twins, held.Allow)))
		}
		for _, text := range r.Unseen {
			if line := r.Kind + ": " + text; !told[line] {
				told[line] = true
				p.line("%s", p.warn(line))
			}
		}
		if r.Reason != "" {
			p.line("%s", p.warn(fmt.Sprintf("%s waits: %s", r.Name, r.Reason)))
		}
		if len(r.Undeclared) > 0 {
			p.line("%s", p.warn(fmt.Sprintf("%s: these fields do not cross: %s", r.Name, strings.Join(r.Undeclared, ", "))))
		}
		if r.Oldest != nil {
			p.line("%s: %s has waited longest, for %s", r.Name, r.Oldest.Object, since(s, r.Oldest.Since))
		}
		if e := r.LastError; e != nil {
			p.line("%s: last error, %s ago, %s: %s", r.Name, since(s, e.At), e.Object, e.Message)
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
