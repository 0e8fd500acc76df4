//go:build unix

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/test/harness"
)

// pairRule is widgetRule for one local namespace and its counterpart.
func pairRule(local, remote string, lines ...string) string {
	return strings.Replace(widgetRule(local, lines...), fmt.Sprintf("{%[1]s: %[1]s}", local), fmt.Sprintf("{%s: %s}", local, remote), 1)
}

// ledgerText returns what the ledger of a test holds.
func ledgerText(e *harness.Env) string {
	e.T.Helper()
	text, _ := field(e.Local.Get("configmaps", ledgerNamespace, "isthmus-"+e.ID), "data", "ledger").(string)
	return text
}

// ledgerForgets waits until the ledger does not hold a text any more.
func ledgerForgets(e *harness.Env, text string) {
	e.T.Helper()
	e.Eventually(func() error {
		if have := ledgerText(e); strings.Contains(have, text) {
			return fmt.Errorf("the ledger still holds %s: %s", text, have)
		}
		return nil
	})
}

// A rule that was removed while Isthmus was down is wound down as onRemoval says, whether or not another rule of the
// kind is left, and forgotten.
func TestD5_RemovedRules(t *testing.T) {
	t.Parallel()
	entry := func(name, policy string) string {
		return fmt.Sprintf("- {name: %[1]s, apiVersion: example.io/v1, kind: Widget, direction: toHost, selector: {matchLabels: {of: %[1]s}}, onRemoval: %[2]s}\n", name, policy)
	}
	for _, c := range []struct {
		name, policy string
		alone        bool
	}{{"delete", "Delete", false}, {"orphan", "Orphan", false}, {"delete the last", "Delete", true}, {"orphan the last", "Orphan", true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := harness.New(t)
			e.Both(harness.WidgetCRD("example.io"))
			ns := e.Namespace("a")
			head := fmt.Sprintf("version: v1\nlog_level: trace\nnamespaces: {%[1]s: %[1]s}\nsyncResources:\n", ns)
			rest := entry("stays", "Delete")
			if c.alone {
				rest = "- {name: others, apiVersion: v1, kind: ConfigMap, direction: toHost}\n"
			}
			p := e.Start(head + entry("goes", c.policy) + rest)
			for i, name := range numbered(7) { // more than the guard would let go by inference
				rule := "goes"
				if i == 6 && !c.alone {
					rule = "stays"
				}
				e.Local.Create(strings.Replace(widget(ns, name, "{size: 3}"), "metadata: {", "metadata: {labels: {of: "+rule+"}, ", 1))
			}
			crossed(e, ns, numbered(7)...)
			before := uidsOf(e, ns)

			p.Stop()
			p = e.StartWith(head+rest, harness.StartOptions{NoRBAC: true}) // RBAC outlives the rule
			if c.policy == "Delete" {
				gone(e, ns, numbered(6)...)
			} else {
				e.Eventually(func() error {
					for _, name := range numbered(6) {
						twin := e.Remote.Get(widgets, ns, name)
						for key := range twin.GetAnnotations() {
							if strings.HasPrefix(key, "isthmus.dev/") {
								return fmt.Errorf("%s still carries %s", name, key)
							}
						}
						if len(twin.GetManagedFields()) > 0 || twin.GetLabels()["isthmus.dev/origin"] != "" || twin.GetUID() != before[name] {
							return fmt.Errorf("%s was not let go: %v", name, twin.Object["metadata"])
						}
						if err := is(twin, 3, "spec", "size"); err != nil {
							return err
						}
					}
					return nil
				})
			}
			if !c.alone {
				stays(e, 300*time.Millisecond, ns, map[string]types.UID{"w06": before["w06"]})
			}
			ledgerForgets(e, `"goes"`)
			if c.policy == "Orphan" { // what was let go is foreign to a rule that comes later
				p.Stop()
				began := time.Now()
				e.Start(head + entry("goes", c.policy) + rest)
				e.Eventually(func() error { return e.Local.HasEvent(ns, "w00", "Warning", "was not created by this Isthmus") })
				for _, w := range e.Writes(began) {
					if w.Code() < 300 {
						t.Errorf("written: %s", w)
					}
				}
			}
		})
	}
}

func TestD5_RenamedRuleRestampsInPlace(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	p := e.Start(widgetRule(ns, "name: before"))
	makeWidgets(e, ns, numbered(6)...)
	before := uidsOf(e, ns)
	p.Stop()
	began := time.Now()
	e.Start(widgetRule(ns, "name: after"))
	e.Eventually(func() error {
		for _, twin := range e.Remote.List(widgets, ns, "") {
			if rule := twin.GetAnnotations()["isthmus.dev/rule"]; rule != "after" {
				return fmt.Errorf("%s is of rule %s", twin.GetName(), rule)
			}
		}
		return nil
	})
	stays(e, 300*time.Millisecond, ns, before)
	ledgerForgets(e, `"before"`)
	if writes := e.Writes(began); len(writes) != 6 {
		t.Errorf("%d writes for 6 twins: %v", len(writes), writes)
	}
}

// A namespace pair that changed while Isthmus was down: twins go from the old counterpart as if unselected, and the
// guard counts them, also while the new ones are made.
func TestD2_ChangedNamespacePair(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	a, b := e.Namespace("a"), e.Namespace("b")
	p := e.Start(pairRule(a, a))
	makeWidgets(e, a, numbered(6)...)
	before := uidsOf(e, a)
	p.Stop()
	p = e.Start(pairRule(a, b))
	e.Eventually(func() error { return logged(p, "Deletes are paused", "6 of 6 twins") })
	crossed(e, b, numbered(6)...)
	stays(e, 6*time.Second, a, before)
	allowDeletes(e, "*")
	gone(e, a, numbered(6)...)
	ledgerForgets(e, `"`+a+`"`)
	if n := len(uidsOf(e, b)); n != 6 {
		t.Errorf("%d twins in the new counterpart", n)
	}
	// And back, for one object at a time too few for the guard.
	for _, name := range numbered(6)[:4] {
		e.Local.Delete(widgets, a, name)
	}
	gone(e, b, numbered(6)[:4]...)
	p.Stop()
	e.Start(pairRule(a, a))
	crossed(e, a, "w04", "w05")
	gone(e, b, "w04", "w05")
	ledgerForgets(e, `"`+b+`"`)
}

// Without RBAC for the old counterpart everything else works, and it is said; with it again, the twins go.
func TestD2_ChangedNamespacePairWithoutRBAC(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	a, b := e.Namespace("a"), e.Namespace("b")
	p := e.Start(pairRule(a, a))
	makeWidgets(e, a, "one", "two")
	before := uidsOf(e, a)
	p.Stop()
	binding := e.Remote.Get("rolebindings.rbac.authorization.k8s.io", a, "isthmus-"+e.ID+"-remote")
	e.Remote.Delete("rolebindings.rbac.authorization.k8s.io", a, binding.GetName())
	p = e.Start(pairRule(a, b)) // it is ready
	e.Eventually(func() error { return logged(p, "level=WARN", "Twins may be left", a) })
	crossed(e, b, "one", "two")
	e.Local.Delete(widgets, a, "two")
	gone(e, b, "two")
	stays(e, 500*time.Millisecond, a, before)
	if !strings.Contains(ledgerText(e), `"`+a+`"`) {
		t.Error("the old counterpart was forgotten although nobody could look there")
	}
	delete(binding.Object["metadata"].(map[string]any), "resourceVersion")
	delete(binding.Object["metadata"].(map[string]any), "uid")
	if _, err := e.Remote.CreateObject(binding); err != nil {
		t.Fatal(err)
	}
	gone(e, a, "one", "two")
	ledgerForgets(e, `"`+a+`"`)
}
