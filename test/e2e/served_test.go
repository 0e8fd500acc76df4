//go:build unix

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"isthmus.dev/isthmus/test/harness"
)

const crds = "customresourcedefinitions.apiextensions.k8s.io"

// widgetOf is a widget of a group and version.
func widgetOf(apiVersion, namespace, name, spec string) string {
	return fmt.Sprintf("apiVersion: %s\nkind: Widget\nmetadata: {name: %q, namespace: %q}\nspec: %s\n", apiVersion, name, namespace, spec)
}

// rule of widgets of a group and version.
func ruleFor(name, apiVersion string) string {
	return fmt.Sprintf("name: %s\napiVersion: %s\nkind: Widget\ndirection: toHost\nstatusSync: true\n", name, apiVersion)
}

// versionedCRD is a CRD of widgets with versions that differ in nothing but their names, without a conversion webhook.
// The first is stored; all are served but those marked "-v1".
func versionedCRD(group string, versions ...string) string {
	text := fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.%s}
spec:
  group: %s
  scope: Namespaced
  names: {kind: Widget, listKind: WidgetList, plural: widgets, singular: widget}
  versions:
`, group, group)
	for i, version := range versions {
		name, hidden := strings.CutPrefix(version, "-")
		text += fmt.Sprintf(`  - name: %s
    served: %t
    storage: %t
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {size: {type: integer}, color: {type: string}}}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
`, name, !hidden, i == 0)
	}
	return text
}

// active returns nil when the metric says whether a rule's flow runs.
func active(p *harness.Isthmus, rule string, want string) error {
	sample := fmt.Sprintf(`isthmus_rule_active{direction="ToRemote",kind="Widget",rule=%q}`, rule)
	if have := p.Metric(sample); have != want {
		return fmt.Errorf("%s is %q, expected %s", sample, have, want)
	}
	return nil
}

// deleteCRD deletes a CRD and waits until it is gone.
func deleteCRD(e *harness.Env, side *harness.Side, group string) {
	e.T.Helper()
	side.Delete(crds, "", "widgets."+group)
	e.Eventually(func() error { return absent(side.Get(crds, "", "widgets."+group)) })
}

func TestS7_AKindThatIsNotServedYet(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	here, there := e.ID+".here-first.io", e.ID+".there-first.io"
	p := e.Start(file(same(ns), ruleFor("served", "example.io/v1"), ruleFor("here", here+"/v1"), ruleFor("there", there+"/v1")))
	waits := func(rule, group string) {
		t.Helper()
		e.Eventually(func() error { return active(p, rule, "0") })
		if code, body := p.Ready(); code != 200 || !strings.Contains(body, "waiting: Widget") || !strings.Contains(body, group) {
			t.Errorf("readyz does not tell that %s waits: %d %s", rule, code, body)
		}
		if !strings.Contains(p.Log(), "The flow waits") || !strings.Contains(p.Log(), group+"/v1: not served") {
			t.Errorf("the log does not tell that %s waits", rule)
		}
	}
	starts := func(rule, group string) {
		t.Helper()
		e.Within(10*time.Second, func() error { return is(e.Remote.Get("widgets."+group, ns, "one"), 1, "spec", "size") })
		e.Remote.SetStatus("widgets."+group, ns, "one", "{ready: true}")
		e.Eventually(func() error { return is(e.Local.Get("widgets."+group, ns, "one"), true, "status", "ready") })
		e.Eventually(func() error { return active(p, rule, "1") })
	}
	// Neither side serves the two; the third is not kept by them.
	waits("here", here)
	waits("there", there)
	e.Local.Create(widget(ns, "one", "{size: 1}"))
	starts("served", "example.io")

	e.Local.Apply(harness.WidgetCRD(here))
	e.Local.Create(widgetOf(here+"/v1", ns, "one", "{size: 1}"))
	e.Remote.Apply(harness.WidgetCRD(there))
	e.Quiet(time.Second)
	waits("here", here)
	waits("there", there)

	e.Remote.Apply(harness.WidgetCRD(here))
	starts("here", here)
	waits("there", there)
	e.Local.Apply(harness.WidgetCRD(there))
	e.Local.Create(widgetOf(there+"/v1", ns, "one", "{size: 1}"))
	starts("there", there)
	e.Eventually(func() error {
		if code, body := p.Ready(); code != 200 || strings.Contains(body, "waiting") {
			return fmt.Errorf("readyz: %d %s", code, body)
		}
		return nil
	})
}

func TestS7_TheCRDGoesOnTheSourcesSide(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	ns := e.Namespace("a")
	few, many := e.ID+".few.io", e.ID+".many.io"
	e.Both(harness.WidgetCRD(few) + "---\n" + harness.WidgetCRD(many))
	p := e.Start(file(same(ns), ruleFor("few", few+"/v1"), ruleFor("many", many+"/v1")))
	counts := map[string]int{few: 2, many: 6}
	var twins []*unstructured.Unstructured
	for group, n := range counts {
		for i := range n {
			e.Local.Create(widgetOf(group+"/v1", ns, fmt.Sprint("n", i), "{size: 1}"))
		}
		for i := range n {
			e.Eventually(func() error { return is(e.Remote.Get("widgets."+group, ns, fmt.Sprint("n", i)), 1, "spec", "size") })
			twins = append(twins, e.Remote.Get("widgets."+group, ns, fmt.Sprint("n", i)))
		}
	}
	deleteCRD(e, e.Local, few)
	deleteCRD(e, e.Local, many)
	e.Eventually(func() error { return active(p, "few", "0") })
	e.Eventually(func() error { return active(p, "many", "0") })
	stay := func(span time.Duration, group string) {
		t.Helper()
		e.Always(span, func() error {
			for _, twin := range twins {
				if strings.HasPrefix(twin.GetAPIVersion(), group) {
					if err := untouched(e.Remote, "widgets."+group, twin); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	stay(2*time.Second, few)
	stay(0, many)

	// Its return makes absences believable: few go, and for many somebody is asked.
	e.Local.Apply(harness.WidgetCRD(few) + "---\n" + harness.WidgetCRD(many))
	e.Eventually(func() error { return active(p, "few", "1") })
	e.Eventually(func() error { return present(e.Remote, "widgets."+few, ns) })
	e.Eventually(func() error {
		if !strings.Contains(p.Log(), "6 of 6 twins") {
			return fmt.Errorf("the log does not tell that deletes are paused")
		}
		return nil
	})
	stay(time.Second, many)
	for group := range counts {
		e.Local.Create(widgetOf(group+"/v1", ns, "new", "{size: 2}"))
		e.Eventually(func() error { return is(e.Remote.Get("widgets."+group, ns, "new"), 2, "spec", "size") })
	}
	stay(0, many)
}

func TestS7_TheCRDGoesOnTheTwinsSide(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	ns := e.Namespace("a")
	group := e.ID + ".twins.io"
	resource := "widgets." + group
	e.Both(harness.WidgetCRD(group))
	p := e.Start(file(same(ns), ruleFor("rule", group+"/v1")))
	const many = 6
	for i := range many {
		e.Local.Create(widgetOf(group+"/v1", ns, fmt.Sprint("n", i), "{size: 1}"))
	}
	crossed := func() error {
		for i := range many {
			if err := is(e.Remote.Get(resource, ns, fmt.Sprint("n", i)), 1, "spec", "size"); err != nil {
				return err
			}
		}
		return nil
	}
	e.Eventually(crossed)
	e.Remote.SetStatus(resource, ns, "n0", "{ready: true}")
	e.Eventually(func() error { return is(e.Local.Get(resource, ns, "n0"), true, "status", "ready") })
	deleteCRD(e, e.Remote, group)
	e.Eventually(func() error { return active(p, "rule", "0") })
	e.Always(time.Second, func() error {
		if have := len(e.Local.List(resource, ns, "")); have != many {
			return fmt.Errorf("there are %d sources left of %d", have, many)
		}
		return nil
	})
	e.Remote.Apply(harness.WidgetCRD(group))
	e.Within(10*time.Second, crossed)
	e.Eventually(func() error { return is(e.Local.Get(resource, ns, "n0"), nil, "status", "ready") })
}

func TestS7_OtherServedVersions(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	ns := e.Namespace("a")
	group := e.ID + ".versions.io"
	old, stored := "widgets.v1beta1."+group, "widgets.v1."+group
	e.Both(versionedCRD(group, "v1", "v1beta1"))
	for _, version := range []string{"v1", "v1beta1"} { // the rule's; sources are written in the other one
		t.Run("rule of "+version, func(t *testing.T) {
			written, other := stored, "v1beta1"
			if version == "v1" {
				written = old
			} else {
				other = "v1"
			}
			name := "for-" + version
			p := e.Start(file(same(ns), ruleFor("rule", group+"/"+version)))
			defer p.Stop()
			e.Local.Create(widgetOf(group+"/"+other, ns, name, "{size: 1, color: red}"))
			e.Eventually(func() error { return is(e.Remote.Get(written, ns, name), 1, "spec", "size") })
			e.Local.Patch(written, ns, name, "spec: {size: 2, color: null}")
			e.Eventually(func() error { return is(e.Remote.Get(written, ns, name), 2, "spec", "size") })
			if err := is(e.Remote.Get(stored, ns, name), nil, "spec", "color"); err != nil {
				t.Error(err)
			}
			e.Remote.Patch(written, ns, name, "spec: {size: 9}") // put back, whatever version it came through
			e.Eventually(func() error { return is(e.Remote.Get(written, ns, name), 2, "spec", "size") })
			e.Remote.SetStatus(written, ns, name, "{ready: true}")
			e.Eventually(func() error { return is(e.Local.Get(written, ns, name), true, "status", "ready") })
			e.Local.Delete(written, ns, name)
			e.Eventually(func() error { return absent(e.Remote.Get(stored, ns, name)) })
		})
	}
}

func TestS7_AVersionThatIsNotServed(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	ns := e.Namespace("a")
	group := e.ID + ".later.io"
	stored := "widgets.v1." + group
	e.Both(versionedCRD(group, "v1", "-v1beta1"))
	e.Local.Create(widgetOf(group+"/v1", ns, "one", "{size: 1}"))
	p := e.Start(file(same(ns), ruleFor("rule", group+"/v1beta1")))
	e.Eventually(func() error { return active(p, "rule", "0") })
	e.Quiet(500 * time.Millisecond)
	e.Remote.Apply(versionedCRD(group, "v1", "v1beta1"))
	e.Quiet(time.Second)
	if !strings.Contains(p.Log(), group+"/v1beta1: not served") {
		t.Error("the log does not tell what is waited for")
	}
	e.Local.Apply(versionedCRD(group, "v1", "v1beta1"))
	e.Within(10*time.Second, func() error { return is(e.Remote.Get(stored, ns, "one"), 1, "spec", "size") })

	// It is withdrawn on either side while the flow runs, and comes back.
	for name, side := range map[string]*harness.Side{"local": e.Local, "remote": e.Remote} {
		t.Run("withdrawn on the "+name+" side", func(t *testing.T) {
			twin := e.Remote.Get(stored, ns, "one")
			side.Apply(versionedCRD(group, "v1", "-v1beta1"))
			e.Eventually(func() error { return active(p, "rule", "0") })
			e.Always(time.Second, func() error { return untouched(e.Remote, stored, twin) })
			size := field(twin, "spec", "size").(int64) + 1
			e.Local.Patch(stored, ns, "one", fmt.Sprintf("spec: {size: %d}", size))
			side.Apply(versionedCRD(group, "v1", "v1beta1"))
			e.Within(10*time.Second, func() error { return is(e.Remote.Get(stored, ns, "one"), size, "spec", "size") })
			if uid := e.Remote.Get(stored, ns, "one").GetUID(); uid != twin.GetUID() {
				t.Errorf("the twin was replaced: UID %s, before %s", uid, twin.GetUID())
			}
		})
	}
}
