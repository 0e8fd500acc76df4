//go:build unix

package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/test/harness"
)

// otherThan returns nil when there is an object under another UID.
func otherThan(obj *unstructured.Unstructured, uid types.UID) error {
	if obj == nil || obj.GetUID() == uid {
		return fmt.Errorf("expected an object of another UID than %s, got %v", uid, obj)
	}
	return nil
}

func TestD4_RecreatedWhenReallyGone(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	config := rules(ns, widgetsWith("statusSync: true"))
	p := e.Start(config)
	twin := func(name string) *unstructured.Unstructured { return e.Remote.Get(widgets, ns, name) }
	crossed := func(name string) types.UID {
		e.Local.Create(widget(ns, name, "{size: 1}"))
		e.Eventually(func() error { return is(twin(name), 1, "spec", "size") })
		return twin(name).GetUID()
	}

	t.Run("at once", func(t *testing.T) {
		uid := crossed("one")
		began := time.Now()
		e.Remote.Delete(widgets, ns, "one")
		e.Within(5*time.Second, func() error { return otherThan(twin("one"), uid) })
		e.Quiet(300 * time.Millisecond)
		if writes := e.Writes(began); len(writes) != 1 {
			t.Errorf("expected one write, got %v", writes)
		}
	})
	t.Run("after its finalizer", func(t *testing.T) {
		uid := crossed("two")
		e.Remote.Patch(widgets, ns, "two", "metadata: {finalizers: [example.io/holds]}")
		e.Remote.Delete(widgets, ns, "two")
		began := time.Now()
		e.Local.Patch(widgets, ns, "two", "spec: {size: 2}") // nor does a change reach the one that goes
		e.Quiet(700 * time.Millisecond)
		for _, r := range e.Writes(began) {
			if r.Code() != http.StatusConflict { // one that did not know yet that it goes is bound to what it was
				t.Errorf("expected no write, got %s", r)
			}
		}
		// Its last words are still returned.
		e.Remote.SetStatus(widgets, ns, "two", "{phase: Leaving}")
		e.Eventually(func() error { return is(e.Local.Get(widgets, ns, "two"), "Leaving", "status", "phase") })
		p.Stop() // a restart waits as well
		p = e.Start(config)
		e.Quiet(500 * time.Millisecond)
		e.Remote.Patch(widgets, ns, "two", "metadata: {finalizers: null}")
		e.Within(5*time.Second, func() error { return otherThan(twin("two"), uid) })
		if err := is(twin("two"), 2, "spec", "size"); err != nil {
			t.Error(err)
		}
		e.Eventually(func() error { return is(e.Local.Get(widgets, ns, "two"), nil, "status") })
	})
	t.Run("deleted while down", func(t *testing.T) {
		uid := crossed("three")
		p.Stop()
		e.Remote.Delete(widgets, ns, "three")
		p = e.Start(config)
		e.Within(5*time.Second, func() error { return otherThan(twin("three"), uid) })
	})
}

func TestD4_HoldStaysDeleted(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	config := rules(ns, widgetsWith("onTwinDeleted: Hold", "statusSync: true", "selector: {matchLabels: {app: a}}"))
	p := e.Start(config)
	create := func(name string) {
		e.Local.Create(fmt.Sprintf("{apiVersion: example.io/v1, kind: Widget, metadata: {name: %s, namespace: %s, labels: {app: a}}, spec: {size: 1}}", name, ns))
		e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, name), 1, "spec", "size") })
	}
	held := func(names ...string) {
		t.Helper()
		e.Always(700*time.Millisecond, func() error {
			for _, name := range names {
				if err := absent(e.Remote.Get(widgets, ns, name)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for _, name := range []string{"live", "down", "reselected"} {
		create(name)
	}
	e.Remote.SetStatus(widgets, ns, "live", "{phase: Done}")
	e.Eventually(func() error { return is(e.Local.Get(widgets, ns, "live"), "Done", "status", "phase") })

	e.Remote.Delete(widgets, ns, "live")
	e.Eventually(func() error { return is(e.Local.Get(widgets, ns, "live"), nil, "status") }) // T2
	e.Local.Patch(widgets, ns, "live", "spec: {size: 2}")
	held("live")
	p.Stop()
	e.Remote.Delete(widgets, ns, "down")
	began := time.Now()
	p = e.Start(config)
	held("live", "down")
	restsSince(e, began)
	p.Kill()
	p = e.Start(config)
	held("live", "down")

	t.Run("a new source crosses", func(t *testing.T) {
		for _, name := range []string{"live", "down"} {
			e.Local.Delete(widgets, ns, name)
			create(name)
		}
	})
	t.Run("one that is selected anew crosses", func(t *testing.T) {
		e.Local.Patch(widgets, ns, "reselected", "metadata: {labels: {app: b}}")
		e.Eventually(func() error { return absent(e.Remote.Get(widgets, ns, "reselected")) })
		e.Local.Patch(widgets, ns, "reselected", "metadata: {labels: {app: a}}")
		e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "reselected"), 1, "spec", "size") })
	})
	t.Run("one that was never made is no deleted one", func(t *testing.T) {
		e.Remote.Apply(fmt.Sprintf("apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: none, namespace: %s}\nspec: {hard: {count/widgets.example.io: 0}}\n", ns))
		e.Remote.SetStatus("resourcequotas", ns, "none", `{hard: {count/widgets.example.io: "0"}, used: {count/widgets.example.io: "0"}}`)
		e.Eventually(func() error { // until the quota is in force
			_, err := e.Remote.TryCreate(widget(ns, "probe", "{size: 1}"))
			e.Remote.Delete(widgets, ns, "probe")
			if err == nil {
				return fmt.Errorf("the quota is not in force")
			}
			return nil
		})
		e.Local.Create(fmt.Sprintf("{apiVersion: example.io/v1, kind: Widget, metadata: {name: late, namespace: %s, labels: {app: a}}, spec: {size: 1}}", ns))
		e.Eventually(func() error { return e.Local.HasEvent(ns, "late", "Warning", "quota") })
		p.Stop()
		e.Remote.Delete("resourcequotas", ns, "none")
		e.Start(config)
		e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "late"), 1, "spec", "size") })
	})
}
