//go:build unix

package e2e

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/internal/controlplane"
	"isthmus.dev/isthmus/test/harness"
)

// probe measures how long new sources take to get their twins. Each is another object: the changes of one are paced.
type probe struct {
	e            *harness.Env
	resource, ns string
	manifest     string // with its name to be filled in
	n            int
}

func newProbe(e *harness.Env, resource, ns, kind string) *probe {
	return &probe{e: e, resource: resource, ns: ns, manifest: fmt.Sprintf("{%s, metadata: {name: %%s, namespace: %s}}", kind, ns)}
}

// once creates a source and returns how long that took to cross.
func (p *probe) once() time.Duration {
	p.e.T.Helper()
	p.n++
	name := fmt.Sprintf("probe-%03d", p.n)
	began := time.Now()
	p.e.Local.Create(fmt.Sprintf(p.manifest, name))
	for p.e.Remote.Get(p.resource, p.ns, name) == nil {
		if time.Since(began) > harness.Patience {
			p.e.T.Fatalf("%s did not cross", name)
		}
	}
	return time.Since(began)
}

// latencies are sorted.
type latencies []time.Duration

func (l latencies) at(share float64) time.Duration { return l[int(share*float64(len(l)-1)+0.5)] }

func (l latencies) String() string {
	return fmt.Sprintf("n=%d p50=%s p99=%s", len(l), l.at(0.5).Round(time.Millisecond), l.at(0.99).Round(time.Millisecond))
}

// measure probes in turns, so many times or for as long as a condition holds.
func measure(probes map[string]*probe, most int, holds func() bool) map[string]latencies {
	l := map[string]latencies{}
	for i := 0; i < most && holds(); i++ {
		for what, probe := range probes {
			l[what] = append(l[what], probe.once())
		}
	}
	for what := range l {
		slices.Sort(l[what])
	}
	return l
}

// unhindered checks that changes do not queue behind a backlog: one that waited for its turn there would take seconds.
// Its limits have floors, because two servers, Isthmus and others share the processors here, so passing does not show
// the contract's factor of two between the p99s. What that factor was is logged.
func unhindered(t *testing.T, what string, rest, busy latencies) {
	t.Helper()
	if len(busy) == 0 {
		t.Errorf("%s: there was no backlog: this proves nothing", what)
		return
	}
	t.Logf("%s: at rest %s, meanwhile %s, p99 is %.1f times", what, rest, busy, float64(busy.at(0.99))/float64(rest.at(0.99)))
	if limit := max(2*rest.at(0.5), 300*time.Millisecond); busy.at(0.5) > limit {
		t.Errorf("%s: the median is %s, at rest %s", what, busy.at(0.5), rest.at(0.5))
	}
	if limit := max(2*rest.at(0.99), time.Second); busy.at(0.99) > limit {
		t.Errorf("%s: p99 is %s, at rest %s", what, busy.at(0.99), rest.at(0.99))
	}
}

// backlogSize is how many objects are resynced; 3,000 in the contract, fewer by default for the sake of time.
func backlogSize() int {
	if n, err := strconv.Atoi(os.Getenv("ISTHMUS_TEST_BACKLOG")); err == nil {
		return n
	}
	return 500
}

func TestF9_ChangesWaitForNoBacklog(t *testing.T) {
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	a, b := e.Namespace("a"), e.Namespace("b")
	config := func(label string) string {
		return fmt.Sprintf("version: v1\nnamespaces: {%[1]s: %[1]s, %[2]s: %[2]s}\nevents_enabled: false\nsyncResources:\n"+
			"- {apiVersion: example.io/v1, kind: Widget, direction: toHost, extraLabels: {run: %[3]s}}\n"+
			"- {apiVersion: v1, kind: ConfigMap, direction: toHost}\n", a, b, label)
	}
	p := e.Start(config("one"))
	n := backlogSize()
	inParallel(n, func(i int) { e.Local.Create(widget(a, fmt.Sprintf("w%04d", i), "{size: 1}")) })
	const anyWidget, anyConfigMap = "apiVersion: example.io/v1, kind: Widget, spec: {size: 1}", "apiVersion: v1, kind: ConfigMap, data: {size: x}"
	probes := map[string]*probe{
		"the same namespace": newProbe(e, widgets, a, anyWidget),
		"another namespace":  newProbe(e, widgets, b, anyWidget),
		"another rule":       newProbe(e, "configmaps", a, anyConfigMap),
	}
	inStep := func() int {
		have, _ := strconv.Atoi(p.Metric(`isthmus_objects{direction="ToRemote",kind="Widget",state="in_step"}`))
		return have
	}
	e.Within(4*harness.Patience, func() error {
		if have := inStep(); have != n {
			return fmt.Errorf("%d in step", have)
		}
		return nil
	})
	rest := measure(probes, 25, func() bool { return true })

	// Every twin has to be written: the label changed.
	p.Stop()
	p = e.Start(config("two"))
	written := func() int {
		have, _, _ := strings.Cut(p.Metric(`isthmus_operations_total{direction="ToRemote",kind="Widget",operation="update",status="success"}`), ".")
		count, _ := strconv.Atoi(have)
		return count
	}
	busy := measure(probes, 1000, func() bool { return written() < n-20 })
	for what := range probes {
		unhindered(t, fmt.Sprintf("%s, while %d others resync", what, n), rest[what], busy[what])
	}

	// A backlog of new changes in one namespace: those of another one, and of another rule, do not wait for it.
	before := written()
	p.Pause()
	inParallel(n/2, func(i int) { e.Local.Patch(widgets, a, fmt.Sprintf("w%04d", i), "spec: {size: 2}") })
	p.Resume()
	delete(probes, "the same namespace")
	busy = measure(probes, 1000, func() bool { return written() < before+n/2-20 })
	for what := range probes {
		unhindered(t, fmt.Sprintf("%s, while %d others have changed", what, n/2), rest[what], busy[what])
	}
}

// TestF9_ResyncsDelayNoChange lets everything be looked at again while changes come, as after a changed schema: the
// resyncs find nothing to write.
func TestF9_ResyncsDelayNoChange(t *testing.T) {
	e := harness.NewOwn(t, controlplane.Options{})
	e.Both(harness.WidgetCRD("example.io"))
	ns, n := e.Namespace("a"), 2*backlogSize()
	p := e.Start(widgetRule(ns, "workers: 4"))
	inParallel(n, func(i int) { e.Local.Create(widget(ns, fmt.Sprintf("w%04d", i), "{size: 1}")) })
	e.Within(4*harness.Patience, func() error {
		if have := p.Metric(`isthmus_objects{direction="ToRemote",kind="Widget",state="in_step"}`); have != strconv.Itoa(n) {
			return fmt.Errorf("%s in step", have)
		}
		return nil
	})
	probes := map[string]*probe{"": newProbe(e, widgets, ns, "apiVersion: example.io/v1, kind: Widget, spec: {size: 1}")}
	rest, busy := latencies{}, latencies{}
	for round := range 6 {
		rest = append(rest, measure(probes, 25, func() bool { return true })[""]...)
		// A schema that says the same in other words: the flow looks at all objects again.
		e.Remote.PatchAs("test", types.JSONPatchType, "customresourcedefinitions.apiextensions.k8s.io", "", "widgets.example.io",
			fmt.Sprintf(`[{op: add, path: /spec/versions/0/schema/openAPIV3Schema/description, value: "round %d"}]`, round))
		e.Eventually(func() error {
			if seen := strings.Count(p.Log(), "A schema changed"); seen != round+1 {
				return fmt.Errorf("%d of %d changes of the schema seen", seen, round+1)
			}
			return nil
		})
		busy = append(busy, measure(probes, 25, func() bool { return true })[""]...)
	}
	slices.Sort(rest)
	slices.Sort(busy)
	unhindered(t, fmt.Sprintf("while %d others resync", n), rest, busy)
}
