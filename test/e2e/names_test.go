//go:build unix

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"isthmus.dev/isthmus/internal/controlplane"
	"isthmus.dev/isthmus/test/harness"
)

func TestN1_LongNames(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	long := strings.Repeat("n", 250) + ".9z" // as long as a name can be
	p := e.Start(file(same(ns), widgetsOut+"statusSync: true"))
	e.Local.Create(widget(ns, long, "{size: 1}"))
	e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, long), 1, "spec", "size") })
	e.Remote.SetStatus(widgets, ns, long, "{ready: true}")
	e.Eventually(func() error { return is(e.Local.Get(widgets, ns, long), true, "status", "ready") })
	e.Eventually(func() error { return e.Local.HasEvent(ns, long, "Normal", "Created") })
	p.Stop()
	e.Local.Delete(widgets, ns, long)
	e.Start(file(same(ns), widgetsOut+"statusSync: true"))
	e.Eventually(func() error { return absent(e.Remote.Get(widgets, ns, long)) })
}

// Two local namespaces share a counterpart, so two sources of one name meet in one place.
func TestN1_TwoSourcesInOnePlace(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	a, b, shared := e.Namespace("a"), e.Namespace("b"), e.Namespace("shared")
	config := file(fmt.Sprintf("{%s: %s, %s: %s}", a, shared, b, shared), widgetsOut+"statusSync: true")
	p := e.Start(config)
	refused := func(ns, name, first string) {
		t.Helper()
		e.Eventually(func() error {
			return e.Local.HasEvent(ns, name, "Warning", "CreateFailed", shared+"/"+name, "twin of "+first+"/"+name)
		})
	}
	size := func(name string) any { return field(e.Remote.Get(widgets, shared, name), "spec", "size") }
	holds := func(name string, want int64) error {
		return is(e.Remote.Get(widgets, shared, name), want, "spec", "size")
	}

	e.Local.Create(widget(a, "one", "{size: 1}"))
	e.Eventually(func() error { return holds("one", 1) })
	uid := e.Remote.Get(widgets, shared, "one").GetUID()
	e.Local.Create(widget(b, "one", "{size: 2}"))
	refused(b, "one", a)
	// The first keeps it, also over a restart, and its status goes to it alone.
	p.Stop()
	p = e.Start(config)
	refused(b, "one", a)
	e.Local.Patch(widgets, b, "one", "spec: {size: 20}")
	e.Local.Patch(widgets, a, "one", "spec: {size: 10}")
	e.Eventually(func() error { return holds("one", 10) })
	e.Remote.SetStatus(widgets, shared, "one", "{ready: true}")
	e.Eventually(func() error { return is(e.Local.Get(widgets, a, "one"), true, "status", "ready") })
	e.Quiet(500 * time.Millisecond)
	if have := e.Remote.Get(widgets, shared, "one"); have == nil || have.GetUID() != uid {
		t.Errorf("the first twin did not stay: %v", have)
	}
	if err := is(e.Local.Get(widgets, b, "one"), nil, "status", "ready"); err != nil {
		t.Errorf("the refused source got a status of another's twin: %v", err)
	}
	e.Local.Delete(widgets, a, "one") // the place is free
	e.Eventually(func() error { return holds("one", 20) })
	e.Local.Create(widget(a, "one", "{size: 3}"))
	refused(a, "one", b)
	// So it is when the place comes free while Isthmus is down.
	p.Stop()
	e.Local.Delete(widgets, b, "one")
	p = e.Start(config)
	e.Eventually(func() error { return holds("one", 3) })

	t.Run("at the same moment", func(t *testing.T) {
		const many = 10
		p.Pause()
		name := func(i int) string { return fmt.Sprintf("race-%d", i) }
		for i := range many {
			e.Local.Create(widget(a, name(i), "{size: 1}"))
			e.Local.Create(widget(b, name(i), "{size: 2}"))
		}
		p.Resume()
		for i := range many {
			e.Eventually(func() error { return is(e.Remote.Get(widgets, shared, name(i)), name(i), "metadata", "name") })
			first, second, other := a, b, int64(2)
			if size(name(i)) == int64(2) {
				first, second, other = b, a, 1
			}
			refused(second, name(i), first)
			e.Local.Delete(widgets, first, name(i))
			e.Eventually(func() error { return holds(name(i), other) })
		}
	})
}

// The way back can't be parsed from these names: namespaces and names are alike, and paired crosswise.
func TestN2_TheWayBackIsInTheStamp(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	a, b := e.Namespace("a-x-b"), e.Namespace("b-x-a")
	config := file(fmt.Sprintf("{%s: %s, %s: %s}", a, b, b, a), widgetsOut+"statusSync: true")
	p := e.Start(config)
	e.Local.Create(widget(a, "a-x-b", "{size: 1}"))
	e.Local.Create(widget(b, "a-x-b", "{size: 2}"))
	e.Local.Create(widget(a, "b-x-a.a", "{size: 3}"))
	check := func(status string) {
		t.Helper()
		for _, c := range []struct {
			local, remote, name string
			size                int64
		}{{a, b, "a-x-b", 1}, {b, a, "a-x-b", 2}, {a, b, "b-x-a.a", 3}} {
			e.Eventually(func() error { return is(e.Remote.Get(widgets, c.remote, c.name), c.size, "spec", "size") })
			value := fmt.Sprintf("%s-%d", status, c.size)
			e.Remote.SetStatus(widgets, c.remote, c.name, "{value: "+value+"}")
			e.Eventually(func() error { return is(e.Local.Get(widgets, c.local, c.name), value, "status", "value") })
		}
	}
	check("live")
	p.Stop()
	e.Start(config)
	check("restarted")
	e.Local.Delete(widgets, b, "a-x-b")
	e.Eventually(func() error { return present(e.Remote, widgets, a) })
	e.Quiet(300 * time.Millisecond)
	if err := present(e.Remote, widgets, b, "a-x-b", "b-x-a.a"); err != nil {
		t.Error(err)
	}
}

// N3 SameName: the counterpart gives the namespace, or it is the namespace of the same name.
func TestN3_SameName(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	a, b := e.Namespace("a"), e.Namespace("b")
	e.Start(fmt.Sprintf("version: v1\nlog_level: trace\nsyncResources:\n- {apiVersion: example.io/v1, kind: Widget, direction: toHost, selector: {matchNamespaces: [%s]}}\n", a))
	other := e.Beside()
	other.Start(file(fmt.Sprintf("{%s: %s}", b, a), widgetsOut))
	e.Local.Create(widget(a, "one", "{size: 1}"))
	e.Local.Create(widget(b, "two", "{size: 2}"))
	e.Eventually(func() error { return is(e.Remote.Get(widgets, a, "one"), 1, "spec", "size") })
	e.Eventually(func() error { return is(e.Remote.Get(widgets, a, "two"), 2, "spec", "size") })
	if err := present(e.Remote, widgets, b); err != nil {
		t.Error(err)
	}
}

func TestN4_NamespacesOnTheOtherSide(t *testing.T) {
	t.Parallel()
	e := harness.NewOwn(t, controlplane.Options{})
	// It is what ends terminating namespaces.
	if err := e.Remote.StartComponent(t.Context(), controlplane.ControllerManager); err != nil {
		t.Fatal(err)
	}
	e.Both(harness.WidgetCRD("example.io"))
	for _, ns := range []string{"a", "b", "c"} {
		e.Local.Apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: " + ns + "}\n")
		if ns != "b" {
			e.Local.Create(widget(ns, "one", "{size: 1}"))
		}
	}
	creating := func(pairs string) string { return "createNamespaces: true\n" + file(pairs, widgetsOut) }
	crossed := func(ns string) error { return is(e.Remote.Get(widgets, ns, "one"), 1, "spec", "size") }
	namespace := "apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n"

	p := e.Start(creating("{a: made, b: unused}"))
	t.Run("a created one says whose it is", func(t *testing.T) {
		e.Eventually(func() error { return crossed("made") })
		made := e.Remote.Get("namespaces", "", "made")
		if err := is(made, e.ID, "metadata", "labels", "isthmus.dev/origin"); err != nil {
			t.Error(err)
		}
		if err := is(made, e.ID+"/"+e.ID+"/"+string(e.Local.UID()), "metadata", "annotations", "isthmus.dev/writer"); err != nil {
			t.Error(err)
		}
		if err := absent(e.Remote.Get("namespaces", "", "unused")); err != nil {
			t.Errorf("nothing crosses into it: %v", err)
		}
	})

	second := e.Beside()
	t.Run("a second origin is refused", func(t *testing.T) {
		e.Local.Create(widget("c", "two", "{size: 2}"))
		q := second.Start(creating("{c: made}"))
		e.Eventually(func() error {
			return e.Local.HasEvent("c", "two", "Warning", "CreateFailed", "namespace made", "was created for cluster "+e.ID)
		})
		q.Stop()
		q = second.Start(file("{c: made}", widgetsOut)) // one that would not create it neither
		second.Quiet(time.Second)
		if err := absent(e.Remote.Get(widgets, "made", "two")); err != nil {
			t.Error(err)
		}
		q.Stop()
		if writes := second.Writes(time.Time{}); len(writes) > 0 {
			t.Errorf("the second origin wrote: %v", writes)
		}
	})

	t.Run("a terminating one is waited for and made again", func(t *testing.T) {
		e.Remote.Create("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: holds, namespace: made, finalizers: [example.io/hold]}\n")
		e.Remote.Delete("namespaces", "", "made")
		e.Eventually(func() error { return absent(e.Remote.Get(widgets, "made", "one")) })
		since := time.Now()
		e.Always(3*time.Second, func() error { return absent(e.Remote.Get(widgets, "made", "one")) })
		if writes := e.Writes(since.Add(500 * time.Millisecond)); len(writes) > 1 {
			t.Errorf("a terminating namespace is written to again and again: %v", writes)
		}
		e.Remote.Patch("configmaps", "made", "holds", "metadata: {finalizers: null}")
		e.Eventually(func() error {
			made := e.Remote.Get("namespaces", "", "made")
			if made == nil || made.GetDeletionTimestamp() == nil {
				return nil
			}
			return fmt.Errorf("the namespace is terminating")
		})
		e.Within(5*time.Second, func() error { return crossed("made") })
	})

	t.Run("the second origin gets it when it is free", func(t *testing.T) {
		p.Stop()
		e.Remote.Delete("namespaces", "", "made")
		e.Eventually(func() error { return absent(e.Remote.Get("namespaces", "", "made")) })
		second.Start(creating("{c: made}"))
		e.Eventually(func() error { return is(e.Remote.Get(widgets, "made", "two"), 2, "spec", "size") })
		e.Start(creating("{a: made, b: unused}"))
		e.Eventually(func() error {
			return e.Local.HasEvent("a", "one", "Warning", "CreateFailed", "was created for cluster "+second.ID)
		})
	})

	t.Run("a missing one that is not created is waited for", func(t *testing.T) {
		third := e.Beside()
		config := file("{a: later}", widgetsOut)
		e.Local.Apply(third.RBAC(third.WriteConfig(config), "local"))
		for _, object := range strings.Split(third.RBAC(third.WriteConfig(config), "remote"), "---\n") {
			if !strings.Contains(object, "namespace: later") {
				e.Remote.Apply(object)
			}
		}
		grant := func() {
			e.Remote.Apply(fmt.Sprintf(namespace, "later"))
			third.GrantRBAC(third.WriteConfig(config))
		}
		third.StartWith(config, harness.StartOptions{NoRBAC: true, NotReady: true})
		third.Quiet(8 * time.Second) // so long that tries of its own have become rare
		grant()                      // its Role can only come after it
		e.Within(5*time.Second, func() error { return crossed("later") })
		// It is terminated, comes back, and so do the twins.
		e.Remote.Delete("namespaces", "", "later")
		e.Eventually(func() error { return absent(e.Remote.Get("namespaces", "", "later")) })
		third.Quiet(2 * time.Second)
		grant()
		e.Within(5*time.Second, func() error { return crossed("later") })
	})
}
