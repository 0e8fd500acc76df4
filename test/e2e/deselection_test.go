//go:build unix

package e2e

import (
	"fmt"
	"testing"
	"time"

	"isthmus.dev/isthmus/test/harness"
)

func ruleOf(e *harness.Env, ns, name string) (rule, uid string) {
	twin := e.Remote.Get(widgets, ns, name)
	if twin == nil {
		return "", ""
	}
	return twin.GetAnnotations()["isthmus.dev/rule"], string(twin.GetUID())
}

func TestS5_DeselectionRemovesTheTwin(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	a, b := e.Namespace("a"), e.Namespace("b")
	config := func(more string) string {
		return file(same(a, b), widgetsOut+"statusSync: true\npolicy: DenyList\nselector: {matchLabels: {share: 'yes'}"+more+"}")
	}
	p := e.Start(config(""))
	cases := map[string]string{ // name → what ends its selection
		"label-removed": "metadata: {labels: {share: null}}",
		"label-changed": "metadata: {labels: {share: 'no'}}",
		"policy":        "metadata: {annotations: {isthmus.dev/skip-reflection: 'true'}}",
	}
	selected := "metadata: {labels: {share: 'yes'}, annotations: {isthmus.dev/skip-reflection: null}}"
	crossed := func(name string) {
		t.Helper()
		e.Eventually(func() error { return is(e.Remote.Get(widgets, a, name), 1, "spec", "size") })
		e.Remote.SetStatus(widgets, a, name, "{ready: true}")
		e.Eventually(func() error { return is(e.Local.Get(widgets, a, name), true, "status", "ready") })
	}
	gone := func(name string) {
		t.Helper()
		e.Eventually(func() error { return absent(e.Remote.Get(widgets, a, name)) })
		e.Eventually(func() error { return is(e.Local.Get(widgets, a, name), nil, "status", "ready") })
	}
	for name := range cases {
		e.Local.Create(widgetWith(a, name, "labels: {share: 'yes'}"))
	}
	e.Local.Create(widgetWith(a, "stays", "labels: {share: 'yes'}"))
	e.Local.Create(widgetWith(b, "namespace", "labels: {share: 'yes'}"))
	for name, patch := range cases {
		t.Run(name, func(t *testing.T) {
			crossed(name)
			e.Local.Patch(widgets, a, name, patch)
			gone(name)
			e.Local.Patch(widgets, a, name, selected)
			crossed(name)
		})
	}
	e.Eventually(func() error { return present(e.Remote, widgets, b, "namespace") })
	p.Stop()
	for name, patch := range cases {
		e.Local.Patch(widgets, a, name, patch)
	}
	e.Start(config(", excludeNamespaces: ['*-b']"))
	t.Run("while Isthmus is down", func(t *testing.T) {
		for name := range cases {
			gone(name)
		}
	})
	t.Run("namespace filter", func(t *testing.T) {
		e.Eventually(func() error { return present(e.Remote, widgets, b) })
	})
	if err := present(e.Remote, widgets, a, "stays"); err != nil {
		t.Error(err)
	}
}

func TestS5_SeveralRules(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	config := file(same(ns),
		"name: blue\n"+widgetsOut+"selector: {matchLabels: {blue: 'yes'}}\nextraLabels: {from: blue}",
		"name: green\n"+widgetsOut+"selector: {matchLabels: {green: 'yes'}}\nextraLabels: {from: green}")
	p := e.Start(config)
	label := func(name, labels string) { e.Local.Patch(widgets, ns, name, "metadata: {labels: {"+labels+"}}") }
	ruleIs := func(name, rule, uid string) error {
		haveRule, haveUID := ruleOf(e, ns, name)
		if haveRule != rule || haveUID != uid {
			return fmt.Errorf("the twin of %s has rule %q and UID %s, expected %q and %s", name, haveRule, haveUID, rule, uid)
		}
		return is(e.Remote.Get(widgets, ns, name), rule, "metadata", "labels", "from")
	}

	// Selected by both at once, and so by none.
	e.Local.Create(widgetWith(ns, "both", "labels: {blue: 'yes', green: 'yes'}"))
	e.Eventually(func() error { return e.Local.HasEvent(ns, "both", "Warning", "SyncFailed", "blue, green") })
	// Taken by one, and kept by it when the other selects it too.
	e.Local.Create(widgetWith(ns, "kept", "labels: {green: 'yes'}"))
	e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "kept"), "green", "metadata", "labels", "from") })
	_, uid := ruleOf(e, ns, "kept")
	label("kept", "blue: 'yes'")
	e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "kept"), "yes", "metadata", "labels", "blue") })
	if err := ruleIs("kept", "green", uid); err != nil {
		t.Error(err)
	}
	if err := present(e.Remote, widgets, ns, "kept"); err != nil {
		t.Error(err)
	}

	// It moves, and is stamped anew in place; live, and while Isthmus is down.
	label("kept", "green: null")
	e.Eventually(func() error { return ruleIs("kept", "blue", uid) })
	p.Stop()
	label("kept", "green: 'yes', blue: null")
	p = e.Start(config)
	e.Eventually(func() error { return ruleIs("kept", "green", uid) })
	label("kept", "blue: 'yes'")
	p.Stop() // the stamp decides over a restart too
	p = e.Start(config)
	e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "kept"), "yes", "metadata", "labels", "blue") })
	e.Quiet(500 * time.Millisecond)
	if err := ruleIs("kept", "green", uid); err != nil {
		t.Error(err)
	}

	// The contradiction ends.
	label("both", "green: null")
	e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "both"), "blue", "metadata", "labels", "from") })
	label("both", "blue: null")
	e.Eventually(func() error { return present(e.Remote, widgets, ns, "kept") })
	p.Stop()
}
