//go:build unix

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/test/harness"
)

// Twins carry the finalizers that a rule names, and those alone; they leave the source when the twin is gone.
func TestD3_CarriedFinalizers(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	config := widgetRule(ns, "carryFinalizers: [example.io/carried, example.io/also]")
	p := e.Start(config)
	source := func(name, finalizers string) {
		t.Helper()
		e.Local.Create(strings.Replace(widget(ns, name, "{size: 1}"), "metadata: {", "metadata: {finalizers: ["+finalizers+"], ", 1))
	}
	source("one", "example.io/mine, example.io/carried")
	source("none", "")
	crossed(e, ns, "one", "none")
	if err := finalizersAre(e.Remote.Get(widgets, ns, "one"), "example.io/carried"); err != nil {
		t.Error(err)
	}
	for _, side := range []*harness.Side{e.Local, e.Remote} {
		if err := finalizersAre(side.Get(widgets, ns, "none")); err != nil {
			t.Error(err)
		}
	}
	p = restartsAtRest(e, p, config)

	// What others take off the twin is put back; others' own stay; what the source gets and loses follows.
	setFinalizer(e.Remote, ns, "one", "example.io/theirs")
	has := func(want ...string) {
		t.Helper()
		e.Eventually(func() error {
			have := e.Remote.Get(widgets, ns, "one").GetFinalizers()
			slices.Sort(have)
			if !slices.Equal(have, want) {
				return fmt.Errorf("the twin has finalizers %q, expected %q", have, want)
			}
			return nil
		})
	}
	has("example.io/carried", "example.io/theirs")
	e.Local.PatchAs("test", types.JSONPatchType, widgets, ns, "one", `[{op: add, path: /metadata/finalizers/-, value: example.io/also}]`)
	has("example.io/also", "example.io/carried", "example.io/theirs")
	e.Local.Patch(widgets, ns, "one", fmt.Sprintf("metadata: {finalizers: [example.io/mine, example.io/carried, %s]}", e.Finalizer()))
	has("example.io/carried", "example.io/theirs")
	restsSince(e, time.Now())

	// The twin's controller works on it, and takes its finalizer off; nobody puts it back then.
	e.Local.Delete(widgets, ns, "one")
	e.Eventually(func() error { return terminates(e.Remote, ns, "one") })
	setFinalizer(e.Remote, ns, "one", "example.io/theirs")
	e.Always(time.Second, func() error {
		if err := finalizersAre(e.Remote.Get(widgets, ns, "one"), "example.io/theirs"); err != nil {
			return err
		}
		return finalizersAre(e.Local.Get(widgets, ns, "one"), "example.io/mine", "example.io/carried", e.Finalizer())
	})
	setFinalizer(e.Remote, ns, "one", "")
	gone(e, ns, "one")
	e.Eventually(func() error { return finalizersAre(e.Local.Get(widgets, ns, "one"), "example.io/mine") })
	setFinalizer(e.Local, ns, "one", "")
	sourcesGone(e, ns, "one")

	// A rule that carries none any more takes them off its twins, and lets go of what it held.
	source("later", "example.io/carried")
	crossed(e, ns, "later")
	e.Eventually(func() error {
		return finalizersAre(e.Local.Get(widgets, ns, "later"), "example.io/carried", e.Finalizer())
	})
	p.Stop()
	e.StartWith(widgetRule(ns), harness.StartOptions{NoRBAC: true})
	e.Eventually(func() error { return finalizersAre(e.Remote.Get(widgets, ns, "later")) })
	e.Eventually(func() error { return finalizersAre(e.Local.Get(widgets, ns, "later"), "example.io/carried") })
}
