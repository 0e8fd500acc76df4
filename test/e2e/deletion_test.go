//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/internal/controlplane"
	"isthmus.dev/isthmus/test/harness"
)

// makeWidgets creates widgets with these names and waits for their twins.
func makeWidgets(e *harness.Env, ns string, names ...string) {
	e.T.Helper()
	for _, name := range names {
		e.Local.Create(widget(ns, name, "{size: 1}"))
	}
	crossed(e, ns, names...)
}

// crossed waits for the twins of widgets.
func crossed(e *harness.Env, ns string, names ...string) {
	e.T.Helper()
	e.Eventually(func() error {
		for _, name := range names {
			if e.Remote.Get(widgets, ns, name) == nil {
				return fmt.Errorf("%s has no twin", name)
			}
		}
		return nil
	})
}

// gone waits until there is no widget of these names on the remote side.
func gone(e *harness.Env, ns string, names ...string) {
	e.T.Helper()
	e.Eventually(func() error {
		for _, name := range names {
			if err := absent(e.Remote.Get(widgets, ns, name)); err != nil {
				return err
			}
		}
		return nil
	})
}

// stays checks for a while that twins are the same ones and not terminating.
func stays(e *harness.Env, span time.Duration, ns string, uids map[string]types.UID) {
	e.T.Helper()
	e.Always(span, func() error {
		for name, uid := range uids {
			if twin := e.Remote.Get(widgets, ns, name); twin == nil || twin.GetUID() != uid || twin.GetDeletionTimestamp() != nil {
				return fmt.Errorf("the twin %s does not stay: %v", name, twin)
			}
		}
		return nil
	})
}

// uidsOf returns the UIDs of all widgets on the remote side, by name.
func uidsOf(e *harness.Env, ns string) map[string]types.UID {
	e.T.Helper()
	uids := map[string]types.UID{}
	for _, twin := range e.Remote.List(widgets, ns, "") {
		uids[twin.GetName()] = twin.GetUID()
	}
	return uids
}

// numbered returns n names.
func numbered(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("w%02d", i))
	}
	return names
}

// setFinalizer sets, or with an empty name removes, the only finalizer of an object.
func setFinalizer(side *harness.Side, ns, name, finalizer string) {
	if finalizer != "" {
		finalizer = "[" + finalizer + "]"
	} else {
		finalizer = "null"
	}
	side.Patch(widgets, ns, name, "metadata: {finalizers: "+finalizer+"}")
}

func TestD1_DeletesAreBoundAndHonourTheTwinsFinalizers(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	e.Start(widgetRule(ns))
	makeWidgets(e, ns, "one")
	setFinalizer(e.Remote, ns, "one", "example.io/held")

	began := time.Now()
	e.Local.Delete(widgets, ns, "one")
	e.Eventually(func() error {
		if twin := e.Remote.Get(widgets, ns, "one"); twin.GetDeletionTimestamp() == nil {
			return fmt.Errorf("the twin is not terminating")
		}
		return nil
	})
	e.Always(1500*time.Millisecond, func() error {
		if twin := e.Remote.Get(widgets, ns, "one"); twin == nil || len(twin.GetFinalizers()) != 1 {
			return fmt.Errorf("the twin's finalizer was not honoured: %v", twin)
		}
		return nil
	})
	setFinalizer(e.Remote, ns, "one", "")
	gone(e, ns, "one")

	writes := e.Writes(began)
	if len(writes) != 1 || writes[0].Verb != "delete" {
		t.Fatalf("expected a single delete, got %v", writes)
	}
	var options struct {
		PropagationPolicy string
		Preconditions     struct{ UID, ResourceVersion string }
	}
	if err := json.Unmarshal(writes[0].RequestObject, &options); err != nil {
		t.Fatal(err)
	}
	if options.PropagationPolicy != "Background" || options.Preconditions.UID == "" || options.Preconditions.ResourceVersion == "" {
		t.Errorf("the delete's options are %s", writes[0].RequestObject)
	}
}

// TestD2_SettledAlike goes through what may happen to a source, once while Isthmus looks and once while it is down.
func TestD2_SettledAlike(t *testing.T) {
	t.Parallel()
	for _, down := range []bool{false, true} {
		t.Run(map[bool]string{false: "live", true: "while down"}[down], func(t *testing.T) {
			e := harness.New(t)
			e.Both(harness.WidgetCRD("example.io"))
			ns := e.Namespace("a")
			config := widgetRule(ns, "hostOwnedFields: [spec.replicas]", "selector: {matchExpressions: [{key: private, operator: DoesNotExist}]}")
			p := e.Start(config)
			makeWidgets(e, ns, "deleted", "deselected", "terminating", "again", "stands")
			e.Remote.PatchAs("other", types.MergePatchType, widgets, ns, "again", "spec: {replicas: 7}")
			for _, name := range []string{"again", "terminating"} {
				e.Remote.SetStatus(widgets, ns, name, "{ready: true}")
				e.Eventually(func() error { return is(e.Local.Get(widgets, ns, name), true, "status", "ready") })
			}
			setFinalizer(e.Remote, ns, "again", "example.io/held")
			setFinalizer(e.Local, ns, "terminating", "example.io/held")
			before := uidsOf(e, ns)

			if down {
				p.Kill()
			}
			e.Local.Delete(widgets, ns, "deleted")
			e.Local.Patch(widgets, ns, "deselected", `metadata: {labels: {private: "yes"}}`)
			e.Local.Delete(widgets, ns, "terminating")
			e.Local.Delete(widgets, ns, "again")
			e.Local.Create(widget(ns, "again", "{size: 2}"))
			if down {
				e.Start(config)
			}

			gone(e, ns, "deleted", "deselected", "terminating")
			if source := e.Local.Get(widgets, ns, "terminating"); source == nil {
				t.Error("the terminating source lost its finalizer")
			}
			e.Eventually(func() error {
				if twin := e.Remote.Get(widgets, ns, "again"); twin.GetDeletionTimestamp() == nil {
					return fmt.Errorf("the twin of the source before is not terminating")
				}
				return nil
			})
			inherits := func() error {
				if status := field(e.Local.Get(widgets, ns, "again"), "status"); status != nil {
					return fmt.Errorf("the new source inherited a status: %v", status)
				}
				return nil
			}
			e.Always(700*time.Millisecond, func() error {
				if twin := e.Remote.Get(widgets, ns, "again"); twin == nil || twin.GetUID() != before["again"] {
					return fmt.Errorf("the twin's finalizer was not awaited")
				}
				return inherits()
			})
			setFinalizer(e.Remote, ns, "again", "")
			e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "again"), 2, "spec", "size") })
			twin := e.Remote.Get(widgets, ns, "again")
			if twin.GetUID() == before["again"] || field(twin, "spec", "replicas") != nil || field(twin, "status") != nil {
				t.Errorf("the new twin inherited something: %v", twin.Object)
			}
			if err := inherits(); err != nil {
				t.Error(err)
			}
			stays(e, 300*time.Millisecond, ns, map[string]types.UID{"stands": before["stands"]})
			setFinalizer(e.Local, ns, "terminating", "")
		})
	}
}

// While a side is down, Isthmus runs; what happens meanwhile is settled when the side is back, without a restart.
func TestD2_WhileASideIsDown(t *testing.T) {
	t.Parallel()
	e := harness.NewOwn(t, controlplane.Options{})
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	p := e.Start(widgetRule(ns))
	makeWidgets(e, ns, numbered(8)...)
	before := uidsOf(e, ns)

	if err := e.Remote.Kill(controlplane.APIServer); err != nil {
		t.Fatal(err)
	}
	for _, name := range numbered(8)[:6] { // observed live: the guard does not hold them
		e.Local.Delete(widgets, ns, name)
	}
	e.Local.Delete(widgets, ns, "w06")
	e.Local.Create(widget(ns, "w06", "{size: 6}"))
	e.Eventually(func() error {
		if code, body := p.Ready(); code != 503 || !strings.Contains(body, "remote cluster") {
			return fmt.Errorf("readyz does not name the remote cluster: %d %s", code, body)
		}
		return nil
	})
	if err := e.Remote.Restart(t.Context(), controlplane.APIServer); err != nil {
		t.Fatal(err)
	}
	gone(e, ns, numbered(8)[:6]...)
	e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "w06"), 6, "spec", "size") })
	if e.Remote.Get(widgets, ns, "w06").GetUID() == before["w06"] {
		t.Error("the twin of the source before was taken for the new one's")
	}
	stays(e, 300*time.Millisecond, ns, map[string]types.UID{"w07": before["w07"]})

	// The source's cluster can't be read: its twins are kept, live and after a restart.
	if err := e.Local.Kill(controlplane.APIServer); err != nil {
		t.Fatal(err)
	}
	kept := map[string]types.UID{"w07": before["w07"], "w06": e.Remote.Get(widgets, ns, "w06").GetUID()}
	stays(e, 2*time.Second, ns, kept)
	p.Kill()
	p = e.StartWith(widgetRule(ns), harness.StartOptions{NoRBAC: true, NotReady: true})
	stays(e, 2*time.Second, ns, kept)
	if code, body := p.Ready(); code != 503 || !strings.Contains(body, "local cluster") {
		t.Errorf("readyz does not name the local cluster: %d %s", code, body)
	}
	if err := e.Local.Restart(t.Context(), controlplane.APIServer); err != nil {
		t.Fatal(err)
	}
	p.WaitReady()
	e.Local.Delete(widgets, ns, "w06")
	gone(e, ns, "w06")
}

// Another cluster answers where one of the two was: nothing is written there, nothing is deleted, and it is said.
func TestF7_AnotherClusterBehindTheAddress(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"local", "remote"} {
		t.Run(role, func(t *testing.T) {
			e := harness.NewOwn(t, controlplane.Options{})
			e.Both(harness.WidgetCRD("example.io"))
			ns := e.Namespace("a")
			config := widgetRule(ns)
			options := harness.StartOptions{LocalKubeconfig: e.CopyKubeconfig(e.Local), RemoteKubeconfig: e.CopyKubeconfig(e.Remote)}
			p := e.StartWith(config, options)
			makeWidgets(e, ns, "one", "two", "three")
			before := uidsOf(e, ns)

			replaced := map[string]*harness.Side{"local": e.Local, "remote": e.Remote}[role]
			e.Replace(replaced)
			began := time.Now()
			replaced.Apply(harness.WidgetCRD("example.io"))
			replaced.Apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: " + ns + "}\n")
			e.GrantRBAC(e.WriteConfig(config))
			e.Eventually(func() error {
				if code, body := p.Ready(); code != 503 || !strings.Contains(body, "the "+role+" cluster") || !strings.Contains(body, "kube-system") {
					return fmt.Errorf("readyz does not say that the cluster is another one: %d %s", code, body)
				}
				return nil
			})
			if value := p.Metric(`isthmus_rule_active{direction="ToRemote",kind="Widget",rule="Widget-toHost"}`); value != "0" {
				t.Errorf("the rule is active: %q", value)
			}
			if role == "remote" {
				e.Local.Create(widget(ns, "four", "{size: 4}"))
			} else {
				e.Local.Create(widget(ns, "one", "{size: 4}"))
			}
			e.Always(3*time.Second, func() error {
				if writes := e.Writes(began); len(writes) > 0 {
					return fmt.Errorf("written: %v", writes)
				}
				return nil
			})

			p.Kill()
			options.NotReady = true
			p = e.StartWith(config, options)
			if role == "remote" {
				if code := p.Wait(); code != 1 || logged(p, "remote cluster (UID of kube-system)", "delete the ledger") != nil {
					t.Errorf("started against another remote cluster: exit code %d, %s", code, p.Log())
				}
				return
			}
			// A new local cluster has no ledger that could tell. What its predecessor left is foreign to it.
			p.WaitReady()
			e.Eventually(func() error { return e.Local.HasEvent(ns, "one", "Warning", "was not created by this Isthmus") })
			stays(e, time.Second, ns, before)
		})
	}
}
