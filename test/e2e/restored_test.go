//go:build unix

package e2e

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/internal/controlplane"
	"isthmus.dev/isthmus/test/harness"
)

// The sources' cluster is put back to an earlier state, with earlier resource versions, while Isthmus runs and while it
// is down: what is absent since is inferred, and held when it is too much; what changed is changed back; what came back
// crosses again.
func TestD2F7F8_TheSourcesClusterIsRestored(t *testing.T) {
	t.Parallel()
	for _, down := range []bool{false, true} {
		t.Run(map[bool]string{false: "live", true: "while down"}[down], func(t *testing.T) {
			e := harness.NewOwn(t, controlplane.Options{})
			e.Both(harness.WidgetCRD("example.io"))
			ns := e.Namespace("a")
			config := widgetRule(ns)
			p := e.Start(config)
			names := numbered(12)
			makeWidgets(e, ns, names[:4]...)
			e.Remote.Create(widget(ns, "foreign", "{size: 7}"))
			snapshot, err := e.Local.Snapshot(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			p.WaitReady()
			for range 100 { // so that resource versions go far back
				e.Local.Patch(widgets, ns, "w03", fmt.Sprintf("metadata: {annotations: {at: %q}}", time.Now()))
			}
			makeWidgets(e, ns, names[4:]...)
			e.Local.Patch(widgets, ns, "w00", "spec: {size: 9}")
			e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "w00"), 9, "spec", "size") })
			e.Local.Delete(widgets, ns, "w01")
			gone(e, ns, "w01")
			before := uidsOf(e, ns)

			if down {
				p.Kill()
			}
			if err := e.Local.Restore(t.Context(), snapshot); err != nil {
				t.Fatal(err)
			}
			if down {
				p = e.Start(config)
			}
			e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "w00"), 1, "spec", "size") })
			crossed(e, ns, "w01")
			e.Eventually(func() error { return logged(p, "Deletes are paused", "8 of ") })
			kept := map[string]types.UID{"foreign": before["foreign"], "w00": before["w00"], "w02": before["w02"]}
			for _, name := range names[4:] {
				kept[name] = before[name]
			}
			stays(e, 2*time.Second, ns, kept)
			// Whatever comes next is seen.
			e.Local.Patch(widgets, ns, "w02", "spec: {size: 5}")
			e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "w02"), 5, "spec", "size") })
			e.Local.Create(widget(ns, "w04", "{size: 4}"))
			e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "w04"), 4, "spec", "size") })
			if e.Remote.Get(widgets, ns, "w04").GetUID() == before["w04"] {
				t.Error("the twin of a source that is no more was taken for another's")
			}
			e.Local.Delete(widgets, ns, "w03")
			gone(e, ns, "w03")
			allowDeletes(e, "*")
			gone(e, ns, names[5:]...)
			stays(e, 500*time.Millisecond, ns, map[string]types.UID{"foreign": before["foreign"], "w00": before["w00"], "w02": before["w02"]})
			restartsAtRest(e, p, config)
		})
	}
}

// The twins' cluster is put back: what it lost is created again, what it had before is brought up to date, and what had
// been deleted goes again.
func TestD2D4_TheTwinsClusterIsRestored(t *testing.T) {
	t.Parallel()
	e := harness.NewOwn(t, controlplane.Options{})
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	config := widgetRule(ns)
	p := e.Start(config)
	names := numbered(8)
	makeWidgets(e, ns, names[:4]...)
	snapshot, err := e.Remote.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.WaitReady()
	for i := range 100 {
		e.Remote.Patch(widgets, ns, "w03", fmt.Sprintf("metadata: {annotations: {at: '%d'}}", i))
	}
	makeWidgets(e, ns, names[4:]...)
	e.Local.Patch(widgets, ns, "w00", "spec: {size: 9}")
	e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "w00"), 9, "spec", "size") })
	e.Local.Delete(widgets, ns, "w01")
	gone(e, ns, "w01")
	if err := e.Remote.Restore(t.Context(), snapshot); err != nil {
		t.Fatal(err)
	}
	crossed(e, ns, names[4:]...)
	e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "w00"), 9, "spec", "size") })
	gone(e, ns, "w01")
	e.Local.Patch(widgets, ns, "w02", "spec: {size: 5}")
	e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "w02"), 5, "spec", "size") })
	restartsAtRest(e, p, config)
}
