//go:build unix

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/controlplane"
	"isthmus.dev/isthmus/test/harness"
)

const foreground = "deletionPolicy: Foreground"

// finalizersAre returns nil when an object has these finalizers.
func finalizersAre(obj *unstructured.Unstructured, want ...string) error {
	if obj == nil {
		return fmt.Errorf("it is gone, expected finalizers %q", want)
	}
	if have := obj.GetFinalizers(); !slices.Equal(have, want) {
		return fmt.Errorf("%s has finalizers %q, expected %q", obj.GetName(), have, want)
	}
	return nil
}

// held waits until the sources of these names have our finalizer and no other.
func held(e *harness.Env, ns string, names ...string) {
	e.T.Helper()
	e.Eventually(func() error {
		for _, name := range names {
			if err := finalizersAre(e.Local.Get(widgets, ns, name), e.Finalizer()); err != nil {
				return err
			}
		}
		return nil
	})
}

// free waits until the sources of these names stand without any finalizer.
func free(e *harness.Env, ns string, names ...string) {
	e.T.Helper()
	e.Eventually(func() error {
		for _, name := range names {
			source := e.Local.Get(widgets, ns, name)
			if err := finalizersAre(source); err != nil {
				return err
			}
			if source.GetDeletionTimestamp() != nil {
				return fmt.Errorf("%s is terminating", name)
			}
		}
		return nil
	})
}

// sourcesGone waits until there are no sources of these names.
func sourcesGone(e *harness.Env, ns string, names ...string) {
	e.T.Helper()
	e.Eventually(func() error {
		for _, name := range names {
			if err := absent(e.Local.Get(widgets, ns, name)); err != nil {
				return err
			}
		}
		return nil
	})
}

// waits checks for a while that a source is terminating and held, and that its twin is there.
func waits(e *harness.Env, span time.Duration, ns, name string) {
	e.T.Helper()
	e.Always(span, func() error {
		source := e.Local.Get(widgets, ns, name)
		if source == nil || source.GetDeletionTimestamp() == nil || !slices.Contains(source.GetFinalizers(), e.Finalizer()) {
			return fmt.Errorf("the source does not wait for its twin: %v", source)
		}
		return nil
	})
}

func terminates(side *harness.Side, ns, name string) error {
	if obj := side.Get(widgets, ns, name); obj == nil || obj.GetDeletionTimestamp() == nil {
		return fmt.Errorf("%s is not terminating on %s", name, side.Name())
	}
	return nil
}

// A deleted source stays until its twin is gone, and shows its status until then. It is held before it has a twin.
func TestD3_ForegroundHoldsTheSource(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	p := e.Start(widgetRule(ns, foreground))
	began := time.Now()
	makeWidgets(e, ns, "one", "two")
	held(e, ns, "one", "two")
	first := map[string]string{}
	for _, w := range e.Writes(began) {
		if first[w.ObjectRef.Name] == "" {
			first[w.ObjectRef.Name] = w.Side
		}
	}
	if first["one"] != "local" || first["two"] != "local" {
		t.Errorf("a twin was made before its source was held: %v", e.Writes(began))
	}
	e.Quiet(time.Second)
	p = restartsAtRest(e, p, widgetRule(ns, foreground))

	setFinalizer(e.Remote, ns, "one", "example.io/held")
	e.Local.Delete(widgets, ns, "one")
	e.Eventually(func() error { return terminates(e.Remote, ns, "one") })
	e.Remote.SetStatus(widgets, ns, "one", "{ready: false, count: 3}")
	e.Eventually(func() error { return is(e.Local.Get(widgets, ns, "one"), 3, "status", "count") })
	waits(e, time.Second, ns, "one")
	p.Kill() // in between, and once more while nobody looks
	setFinalizer(e.Remote, ns, "one", "")
	waits(e, 300*time.Millisecond, ns, "one")
	e.Local.Delete(widgets, ns, "two")
	waits(e, 300*time.Millisecond, ns, "two")
	e.Start(widgetRule(ns, foreground))
	sourcesGone(e, ns, "one", "two")
	gone(e, ns, "one", "two")

	// What was held may come back.
	makeWidgets(e, ns, "one")
	held(e, ns, "one")
}

// A remote cluster that can't be reached is named on the source, which waits; an annotation lets it go, and the twin
// follows when the cluster is back. The same holds for an Isthmus that starts meanwhile.
func TestD3_UnreachableRemote(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		t.Run(map[bool]string{false: "live", true: "after a restart"}[restart], func(t *testing.T) {
			e := harness.New(t)
			e.Both(harness.WidgetCRD("example.io"))
			ns := e.Namespace("a")
			proxy := e.Proxy(e.Remote)
			options := harness.StartOptions{RemoteKubeconfig: proxy.Kubeconfig}
			p := e.StartWith(widgetRule(ns, foreground), options)
			makeWidgets(e, ns, "standing", "waiting", "released", "dying")
			setFinalizer(e.Remote, ns, "dying", "example.io/held")
			e.Local.Delete(widgets, ns, "dying")
			e.Eventually(func() error { return terminates(e.Remote, ns, "dying") })

			proxy.Cut()
			e.Local.Delete(widgets, ns, "waiting")
			e.Local.Delete(widgets, ns, "released")
			if restart {
				p.Kill()
				options.NotReady, options.NoRBAC = true, true
				p = e.StartWith(widgetRule(ns, foreground), options)
			}
			for _, name := range []string{"waiting", "released", "dying"} {
				e.Eventually(func() error {
					return e.Local.HasEvent(ns, name, "Warning DeleteFailed", "the remote cluster can't be reached (Refused)", boundary.AnnotationRelease)
				})
			}
			e.Local.Patch(widgets, ns, "released", `metadata: {annotations: {isthmus.dev/release: "true"}}`)
			e.Local.Patch(widgets, ns, "dying", `metadata: {annotations: {isthmus.dev/release: "true"}}`)
			sourcesGone(e, ns, "released", "dying")
			waits(e, 500*time.Millisecond, ns, "waiting")
			if e.Remote.Get(widgets, ns, "released") == nil {
				t.Error("the twin went")
			}

			proxy.Mend()
			p.WaitReady()
			gone(e, ns, "waiting", "released")
			sourcesGone(e, ns, "waiting")
			held(e, ns, "standing")
			setFinalizer(e.Remote, ns, "dying", "")
			gone(e, ns, "dying")
		})
	}
}

// While the flow can't run for another reason, that is told too, and the annotation works all the same.
func TestD3_ReleasedWhileTheFlowWaits(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	group := e.ID + ".waits.io"
	resource := "widgets." + group
	e.Both(harness.WidgetCRD(group))
	ns := e.Namespace("a")
	p := e.Start(file(same(ns), ruleFor("rule", group+"/v1")+foreground+"\n"))
	for _, name := range []string{"one", "two"} {
		e.Local.Create(widgetOf(group+"/v1", ns, name, "{size: 1}"))
		e.Eventually(func() error { return finalizersAre(e.Local.Get(resource, ns, name), e.Finalizer()) })
		e.Eventually(func() error { return is(e.Remote.Get(resource, ns, name), 1, "spec", "size") })
	}
	deleteCRD(e, e.Remote, group)
	e.Eventually(func() error { return active(p, "rule", "0") })
	e.Local.Delete(resource, ns, "one")
	e.Eventually(func() error { return e.Local.HasEvent(ns, "one", "Warning DeleteFailed", "not served") })
	e.Local.Patch(resource, ns, "one", `metadata: {annotations: {isthmus.dev/release: "true"}}`)
	e.Eventually(func() error { return absent(e.Local.Get(resource, ns, "one")) })
	e.Local.Delete(resource, ns, "two")
	e.Remote.Apply(harness.WidgetCRD(group)) // its twin went with the CRD
	e.Eventually(func() error { return absent(e.Local.Get(resource, ns, "two")) })
}

// A source's CRD that is deleted takes its objects along, whatever held them, and their twins stay.
func TestD3_TheSourcesCRDGoes(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	group := e.ID + ".going.io"
	resource := "widgets." + group
	e.Both(harness.WidgetCRD(group))
	ns := e.Namespace("a")
	p := e.Start(file(same(ns), ruleFor("rule", group+"/v1")+foreground+"\ncarryFinalizers: [example.io/carried]\n"))
	for i := range 3 {
		manifest := widgetOf(group+"/v1", ns, fmt.Sprint("n", i), "{size: 1}")
		if i == 2 {
			manifest = strings.Replace(manifest, "metadata: {", "metadata: {finalizers: [example.io/carried], ", 1)
		}
		e.Local.Create(manifest)
	}
	e.Eventually(func() error {
		for i := range 3 {
			if err := is(e.Remote.Get(resource, ns, fmt.Sprint("n", i)), 1, "spec", "size"); err != nil {
				return err
			}
		}
		return nil
	})
	before := map[string]string{}
	for _, twin := range e.Remote.List(resource, ns, "") {
		before[twin.GetName()] = string(twin.GetUID())
	}
	deleteCRD(e, e.Local, group)
	e.Eventually(func() error { return active(p, "rule", "0") })
	e.Always(time.Second, func() error {
		for name, uid := range before {
			if twin := e.Remote.Get(resource, ns, name); twin == nil || string(twin.GetUID()) != uid || twin.GetDeletionTimestamp() != nil {
				return fmt.Errorf("the twin %s does not stay: %v", name, twin)
			}
		}
		return nil
	})
}

// A source's namespace that is deleted goes once the twins of its sources are gone.
func TestD3_TheSourcesNamespaceGoes(t *testing.T) {
	t.Parallel()
	e := harness.NewOwn(t, controlplane.Options{With: []controlplane.Component{controlplane.ControllerManager}})
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	e.Start(widgetRule(ns, foreground))
	makeWidgets(e, ns, "one", "two")
	setFinalizer(e.Remote, ns, "one", "example.io/held")
	e.Local.Delete("namespaces", "", ns)
	gone(e, ns, "two")
	sourcesGone(e, ns, "two")
	waits(e, 500*time.Millisecond, ns, "one")
	setFinalizer(e.Remote, ns, "one", "")
	e.Eventually(func() error { return absent(e.Local.Get("namespaces", "", ns)) })
	gone(e, ns, "one")
}

// What is not held any more loses the finalizer, whether its rule changed, or it is not selected any more: while Isthmus
// runs, and while it is down. What is held by nobody is not watched for either, in the end.
func TestD3_NoLongerHeld(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	rule := func(lines ...string) string {
		return widgetRule(ns, append(lines, "selector: {matchLabels: {share: \"yes\"}}")...)
	}
	shared := func(name, finalizers string) {
		t.Helper()
		e.Local.Create(strings.Replace(widget(ns, name, "{size: 1}"), "metadata: {", "metadata: {labels: {share: \"yes\"}, finalizers: ["+finalizers+"], ", 1))
	}
	deselect := func(name string) { e.Local.Patch(widgets, ns, name, `metadata: {labels: {share: "no"}}`) }
	p := e.Start(rule(foreground, "carryFinalizers: [example.io/carried]"))
	for _, name := range append(numbered(8), "stands", "down", "released") {
		shared(name, "")
	}
	crossed(e, ns, append(numbered(8), "stands", "down", "released")...)
	held(e, ns, "stands", "down", "released")

	// Live, of most twins at once: that was observed, and so the guard does not hold it.
	setFinalizer(e.Remote, ns, "w00", "example.io/held")
	for _, name := range numbered(8) {
		deselect(name)
	}
	gone(e, ns, numbered(8)[1:]...)
	free(e, ns, numbered(8)[1:]...)
	held(e, ns, "w00")
	setFinalizer(e.Remote, ns, "w00", "")
	free(e, ns, "w00")
	deselect("w00") // what is free is left alone
	e.Local.Patch(widgets, ns, "released", `metadata: {annotations: {isthmus.dev/release: "true"}}`)
	free(e, ns, "released")
	e.Local.Patch(widgets, ns, "released", `metadata: {annotations: {isthmus.dev/release: "false"}}`)
	held(e, ns, "released")

	// While down; and what came with our finalizer from elsewhere, as out of a backup.
	p.Kill()
	deselect("down")
	shared("restored", "example.io/mine, "+e.Finalizer())
	deselect("restored")
	p = e.Start(rule(foreground))
	gone(e, ns, "down")
	free(e, ns, "down")
	e.Eventually(func() error { return finalizersAre(e.Local.Get(widgets, ns, "restored"), "example.io/mine") })
	setFinalizer(e.Local, ns, "restored", "")
	before := uidsOf(e, ns)

	// The rule holds no more; what it does not select any more is found all the same.
	p.Stop()
	deselect("released")
	p = e.StartWith(rule(), harness.StartOptions{NoRBAC: true}) // RBAC outlives what it is for
	gone(e, ns, "released")
	free(e, ns, "stands", "released")
	ledgerForgets(e, "heldIn")
	delete(before, "released")
	stays(e, 300*time.Millisecond, ns, before)
	p.Stop()
	e.Start(rule())
	e.Local.Delete(widgets, ns, "stands")
	sourcesGone(e, ns, "stands")
	gone(e, ns, "stands")
}

// A removed rule lets go of its sources when it has wound down its twins; also when it was the only one, and when it
// held sources in namespaces that no rule uses any more.
func TestD3_RemovedRules(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, policy string
		alone        bool
	}{{"delete", "Delete", false}, {"orphan the last", "Orphan", true}, {"delete the last", "Delete", true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := harness.New(t)
			e.Both(harness.WidgetCRD("example.io"))
			ns, other := e.Namespace("a"), e.Namespace("b")
			head := fmt.Sprintf("version: v1\nlog_level: trace\nnamespaces: {%[1]s: %[1]s, %[2]s: %[2]s}\nsyncResources:\n", ns, other)
			entry := func(name, ns string, more string) string {
				return fmt.Sprintf("- {name: %s, apiVersion: example.io/v1, kind: Widget, direction: toHost, selector: {matchNamespaces: [%s]}%s}\n", name, ns, more)
			}
			goes := entry("goes", ns, ", deletionPolicy: Foreground, carryFinalizers: [example.io/carried], onRemoval: "+c.policy)
			rest := entry("stays", other, "")
			if c.alone {
				rest = "- {name: others, apiVersion: v1, kind: ConfigMap, direction: toHost}\n"
			}
			p := e.Start(head + goes + rest)
			makeWidgets(e, ns, numbered(6)...)
			held(e, ns, numbered(6)...)
			e.Local.Create(strings.Replace(widget(ns, "dying", "{size: 1}"), "metadata: {", "metadata: {finalizers: [example.io/carried], ", 1))
			crossed(e, ns, "dying")
			p.Kill()
			e.Local.Delete(widgets, ns, "dying")

			p = e.StartWith(head+rest, harness.StartOptions{NoRBAC: true})
			free(e, ns, numbered(6)...)
			if c.policy == "Delete" {
				e.Eventually(func() error { return terminates(e.Remote, ns, "dying") })
				setFinalizer(e.Remote, ns, "dying", "")
				gone(e, ns, append(numbered(6), "dying")...)
			}
			sourcesGone(e, ns, "dying")
			ledgerForgets(e, `"goes"`)
			for _, name := range numbered(6) {
				if twin := e.Remote.Get(widgets, ns, name); (twin == nil) != (c.policy == "Delete") {
					t.Errorf("%s with onRemoval %s: %v", name, c.policy, twin)
				}
			}
			p.Stop()
		})
	}
}

// Nothing holds a source whose place is not its twin's: a foreign object in the way, another source's twin, no twin yet.
func TestD3_WithoutATwin(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns, second := e.Namespace("a"), e.Namespace("b")
	config := strings.Replace(widgetRule(ns, foreground, "carryFinalizers: [example.io/carried]"), "namespaces: {", "namespaces: {"+second+": "+ns+", ", 1)
	p := e.Start(config)
	foreign := e.Remote.Create(widget(ns, "foreign", "{size: 9}"))
	withCarried := func(ns, name string) {
		t.Helper()
		e.Local.Create(strings.Replace(widget(ns, name, "{size: 1}"), "metadata: {", "metadata: {finalizers: [example.io/carried], ", 1))
	}
	withCarried(ns, "foreign")
	e.Eventually(func() error { return e.Local.HasEvent(ns, "foreign", "was not created by this Isthmus") })
	makeWidgets(e, ns, "first")
	withCarried(second, "first")
	e.Eventually(func() error { return e.Local.HasEvent(second, "first", "which came first") })
	p.Pause() // it sees this one in its last state alone
	withCarried(ns, "short")
	e.Local.Delete(widgets, ns, "short")
	p.Resume()
	e.Local.Delete(widgets, ns, "foreign")
	e.Local.Delete(widgets, second, "first")
	sourcesGone(e, ns, "foreign", "short")
	sourcesGone(e, second, "first")
	if err := untouched(e.Remote, widgets, foreign); err != nil {
		t.Error(err)
	}
	held(e, ns, "first")

	// A twin that its owner released is nobody's; and one whose source came again is that source's no more.
	e.Remote.Patch(widgets, ns, "first", `metadata: {labels: {isthmus.dev/origin: null}}`)
	e.Local.Delete(widgets, ns, "first")
	sourcesGone(e, ns, "first")
	if e.Remote.Get(widgets, ns, "first") == nil {
		t.Error("a twin that was released is gone")
	}
}

// Two Isthmuses that serve one cluster hold a source each with a finalizer of its own, and take off no other.
func TestD3_TwoWriters(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns, far := e.Namespace("a"), e.Namespace("b")
	p := e.Start(widgetRule(ns, foreground))
	other := e.For(t)
	q := other.Start(pairRule(ns, far, foreground))
	e.Local.Create(widget(ns, "one", "{size: 1}"))
	for _, place := range []string{ns, far} {
		crossed(e, place, "one")
		setFinalizer(e.Remote, place, "one", "example.io/held")
	}
	e.Eventually(func() error {
		have := e.Local.Get(widgets, ns, "one").GetFinalizers()
		if len(have) != 2 || !slices.Contains(have, e.Finalizer()) || !slices.Contains(have, other.Finalizer()) {
			return fmt.Errorf("finalizers %q", have)
		}
		return nil
	})
	e.Local.Delete(widgets, ns, "one")
	for _, place := range []string{ns, far} {
		e.Eventually(func() error { return terminates(e.Remote, place, "one") })
	}
	setFinalizer(e.Remote, ns, "one", "")
	e.Eventually(func() error { return finalizersAre(e.Local.Get(widgets, ns, "one"), other.Finalizer()) })
	setFinalizer(e.Remote, far, "one", "")
	sourcesGone(e, ns, "one")
	p.Stop()
	q.Stop()
}
