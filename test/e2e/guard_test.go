//go:build unix

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/internal/controlplane"
	"isthmus.dev/isthmus/test/harness"
)

const ledgerNamespace = "isthmus-system"

// allowDeletes puts the annotation on the ledger that lets held deletes go on.
func allowDeletes(e *harness.Env, value string) {
	e.T.Helper()
	e.Local.Patch("configmaps", ledgerNamespace, "isthmus-"+e.ID, fmt.Sprintf("metadata: {annotations: {isthmus.dev/allow-mass-deletion: %q}}", value))
}

func TestF8_InferredMassDeletionPauses(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	config := widgetRule(ns)
	p := e.Start(config)
	makeWidgets(e, ns, numbered(11)...)

	p.Stop()
	for _, name := range numbered(11)[:6] {
		e.Local.Delete(widgets, ns, name)
	}
	before := uidsOf(e, ns)
	p = e.Start(config)
	e.Eventually(func() error { return logged(p, "Deletes are paused", "6 of 11 twins") })
	stays(e, 2*time.Second, ns, before)
	e.Eventually(func() error { // as the metric has it too
		if n := p.Metric(`isthmus_objects{direction="ToRemote",kind="Widget",state="paused"}`); n != "6" {
			return fmt.Errorf("%s objects are paused", n)
		}
		return nil
	})
	// The flow is not stopped: changes cross, and deletes that are seen live are not held.
	e.Local.Patch(widgets, ns, "w09", "spec: {size: 9}")
	e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "w09"), 9, "spec", "size") })
	e.Local.Delete(widgets, ns, "w10")
	gone(e, ns, "w10")
	// A restart does not forget.
	p.Stop()
	p = e.Start(config)
	e.Eventually(func() error { return logged(p, "Deletes are paused", "6 of 10 twins") })

	allowDeletes(e, "Another-rule")
	stays(e, 6*time.Second, ns, map[string]types.UID{"w00": before["w00"], "w05": before["w05"]})
	allowDeletes(e, "Widget-toHost")
	gone(e, ns, numbered(11)[:6]...)
	if err := logged(p, "Deletes go on", "6 of 10 twins"); err != nil {
		t.Error(err)
	}
	e.Eventually(func() error {
		if left := e.Local.Get("configmaps", ledgerNamespace, "isthmus-"+e.ID).GetAnnotations(); len(left) > 0 {
			return fmt.Errorf("the allowance was not taken off: %v", left)
		}
		return nil
	})
	stays(e, time.Second, ns, map[string]types.UID{"w06": before["w06"], "w09": before["w09"]})
}

// Neither four of four nor five of ten are too many, and more can be allowed for a run or for good.
func TestF8_WhatIsNotHeld(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		objects, goner int
		config         string
		flags          []string
	}{
		{name: "four of four", objects: 4, goner: 4},
		{name: "five of ten", objects: 10, goner: 5},
		{name: "allowed in the file", objects: 6, goner: 6, config: "massDeletion: Allow\n"},
		{name: "allowed by flag", objects: 6, goner: 6, flags: []string{"--allow-mass-deletion"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := harness.New(t)
			e.Both(harness.WidgetCRD("example.io"))
			ns := e.Namespace("a")
			p := e.Start(widgetRule(ns))
			makeWidgets(e, ns, numbered(c.objects)...)
			p.Stop()
			for _, name := range numbered(c.objects)[:c.goner] {
				e.Local.Delete(widgets, ns, name)
			}
			p = e.StartWith(c.config+widgetRule(ns), harness.StartOptions{Flags: c.flags})
			gone(e, ns, numbered(c.objects)[:c.goner]...)
			if logged(p, "Deletes are paused") == nil {
				t.Error("deletes were paused")
			}
		})
	}
}

// Sources that come back end the pause: under their old UID (here: selected again), or as new objects.
func TestF8_SourcesThatComeBackEndThePause(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	config := widgetRule(ns, "selector: {matchExpressions: [{key: private, operator: DoesNotExist}]}")
	p := e.Start(config)
	makeWidgets(e, ns, numbered(6)...)
	before := uidsOf(e, ns)
	p.Stop()
	for _, name := range numbered(6)[:5] {
		e.Local.Patch(widgets, ns, name, `metadata: {labels: {private: "yes"}}`)
	}
	e.Local.Delete(widgets, ns, "w05")
	p = e.Start(config)
	e.Eventually(func() error { return logged(p, "Deletes are paused", "6 of 6 twins") })

	// A new object in the place of one that is gone was seen to come: its twin is made anew, paused or not.
	e.Local.Create(widget(ns, "w05", "{size: 5}"))
	e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "w05"), 5, "spec", "size") })
	if e.Remote.Get(widgets, ns, "w05").GetUID() == before["w05"] {
		t.Error("a twin was given to another source")
	}
	delete(before, "w05")
	stays(e, 500*time.Millisecond, ns, before)
	for _, name := range numbered(6)[:3] {
		e.Local.Patch(widgets, ns, name, "metadata: {labels: {private: null}}")
	}
	gone(e, ns, "w03", "w04") // two of six are not too many
	delete(before, "w03")
	delete(before, "w04")
	stays(e, time.Second, ns, before)
}

// Deletes that were seen are carried out however many they are, also when the remote side is away meanwhile.
func TestF8_DeletesObservedLiveAreNeverHeld(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	proxy := e.Proxy(e.Remote)
	p := e.StartWith(widgetRule(ns), harness.StartOptions{RemoteKubeconfig: proxy.Kubeconfig})
	makeWidgets(e, ns, numbered(8)...)
	for _, name := range numbered(8)[:4] {
		e.Local.Delete(widgets, ns, name)
	}
	gone(e, ns, numbered(8)[:4]...)
	makeWidgets(e, ns, numbered(8)[:4]...)
	proxy.Cut()
	for _, name := range numbered(8) {
		e.Local.Delete(widgets, ns, name)
	}
	e.Eventually(func() error { return logged(p, "side=remote", "Watching failed") })
	proxy.Mend()
	gone(e, ns, numbered(8)...)
	if logged(p, "Deletes are paused") == nil {
		t.Error("deletes were paused")
	}
}

// A CRD that goes takes its objects with it, and no twin. When it returns, what is absent then counts as inferred.
func TestF7_CRDOfTheSourcesGoes(t *testing.T) {
	t.Parallel()
	e := harness.NewOwn(t, controlplane.Options{})
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	config := widgetRule(ns)
	p := e.Start(config)
	names := numbered(20)
	for _, name := range names {
		e.Local.Create(widget(ns, name, "{size: 1}"))
	}
	crossed(e, ns, names...)
	before := uidsOf(e, ns)
	held := names[:8] // so that the CRD, and these, stay terminating for a while
	for _, name := range held {
		setFinalizer(e.Local, ns, name, "example.io/held")
	}

	e.Local.Delete("customresourcedefinitions.apiextensions.k8s.io", "", "widgets.example.io")
	e.Eventually(func() error {
		if n := len(e.Local.List(widgets, ns, "")); n != len(held) {
			return fmt.Errorf("%d sources are left", n)
		}
		return nil
	})
	e.Eventually(func() error { return logged(p, "The flow waits", "the CRD of Widget is being deleted") })
	stays(e, time.Second, ns, before)
	// Also for one that starts in this moment.
	p.Kill()
	p = e.Start(config)
	e.Eventually(func() error { return logged(p, "The flow waits", "the CRD of Widget is being deleted") })
	for _, name := range held {
		setFinalizer(e.Local, ns, name, "")
	}
	e.Eventually(func() error { return logged(p, "The flow waits", "not served") })
	stays(e, time.Second, ns, before)

	e.Local.Apply(harness.WidgetCRD("example.io"))
	e.Eventually(func() error { return logged(p, "Deletes are paused", "20 of 20 twins") })
	e.Local.Create(widget(ns, "new", "{size: 2}"))
	crossed(e, ns, "new")
	stays(e, 500*time.Millisecond, ns, before)
	allowDeletes(e, "*")
	gone(e, ns, names...)
}

// One question to the CRD serves a whole batch of deletes.
func TestF7_OneReadOfTheCRDForABatch(t *testing.T) {
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	e.Start(widgetRule(ns))
	names := numbered(60)
	for _, name := range names {
		e.Local.Create(widget(ns, name, "{size: 1}"))
	}
	crossed(e, ns, names...)

	began := time.Now()
	e.Local.DeleteAll(widgets, ns)
	gone(e, ns, names...)
	var reads, deletes int
	var last time.Time
	e.Eventually(func() error { // until the log has the last one
		reads, deletes = 0, 0
		for _, r := range e.Requests(began) {
			switch {
			case r.Verb == "get" && r.Side == "local" && strings.HasSuffix(r.RequestURI, "/customresourcedefinitions/widgets.example.io"):
				reads++
			case r.Verb == "delete":
				deletes++
				last = r.RequestReceived
			}
		}
		if deletes != len(names) {
			return fmt.Errorf("expected %d deletes, got %d", len(names), deletes)
		}
		return nil
	})
	// The first question may come when one is seen alone. Those that are seen later share others, of which each waits
	// 100 ms at least: how many there are depends on the server's speed.
	if most := 2 + int(last.Sub(began)/(100*time.Millisecond)); reads < 1 || reads > min(most, len(names)/3) {
		t.Errorf("%d deletes took %d reads of the CRD in %s, expected %d at most", deletes, reads, last.Sub(began), min(most, len(names)/3))
	}
	t.Logf("%d deletes took %d reads of the CRD in %s", deletes, reads, last.Sub(began))
}
