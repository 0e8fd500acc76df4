//go:build unix

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"isthmus.dev/isthmus/test/harness"
)

// groupWidget is a widget of another group.
func groupWidget(group, namespace, name, spec string) string {
	return strings.Replace(widget(namespace, name, spec), "example.io", group, 1)
}

// eventsWith counts the Events on an object that contain a text.
func eventsWith(side *harness.Side, namespace, name, text string) (n int) {
	for _, line := range side.Events(namespace, name) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

const leftOut = "not declared by the other side's schema, so left out: "

func TestO7_UndeclaredFieldsAreLeftOutAndReported(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	group := ownGroup(e)
	resource := "widgets." + group
	fresh := []string{
		"fresh: {type: string}",
		"nested: {type: object, properties: {known: {type: string}, deep: {type: integer}}}",
		"items: {type: array, items: {type: object, properties: {name: {type: string}, more: {type: array, items: {type: object, properties: {name: {type: string}, x: {type: integer}}}}}}}",
	}
	e.Local.Apply(harness.WidgetCRDWith(group, fresh...))
	e.Remote.Apply(harness.WidgetCRDWith(group,
		"nested: {type: object, properties: {known: {type: string}}}",
		"items: {type: array, items: {type: object, properties: {name: {type: string}, more: {type: array, items: {type: object, properties: {name: {type: string}}}}}}}"))
	ns := e.Namespace("a")
	config := rules(ns, "apiVersion: "+group+"/v1, kind: Widget, statusSync: true")
	p := e.Start(config)
	full := "{size: 1, fresh: f, nested: {known: k, deep: 2}, items: [{name: a, more: [{name: b, x: 1}, {name: c, x: 2}]}, {name: d}]}"
	e.Local.Create(groupWidget(group, ns, "full", full))
	e.Local.Create(groupWidget(group, ns, "plain", "{size: 1}"))
	paths := leftOut + "spec.fresh, spec.items[*].more[*].x, spec.nested.deep"

	e.Eventually(func() error { return is(e.Remote.Get(resource, ns, "full"), 1, "spec", "size") })
	want := `{"color":"red","items":[{"more":[{"name":"b"},{"name":"c"}],"name":"a"},{"name":"d"}],"nested":{"known":"k"},"size":1}`
	if have := mustJSON(field(e.Remote.Get(resource, ns, "full"), "spec")); have != want {
		t.Errorf("the twin's spec is %s, expected %s", have, want)
	}
	e.Eventually(func() error { return e.Local.HasEvent(ns, "full", "Warning", paths) })
	e.Eventually(func() error { return logged(p, "WARN", "Widget-toHost", paths) })

	// Told once, not with every change; and told anew when it is something else.
	for i := range 5 {
		e.Local.Patch(resource, ns, "full", fmt.Sprintf("spec: {size: %d}", i+2))
		e.Eventually(func() error { return is(e.Remote.Get(resource, ns, "full"), i+2, "spec", "size") })
	}
	e.Local.Patch(resource, ns, "plain", "spec: {fresh: f}") // which changes nothing of what crosses
	e.Eventually(func() error { return e.Local.HasEvent(ns, "plain", "Warning", leftOut+"spec.fresh") })
	restsSince(e, time.Now())
	if n := eventsWith(e.Local, ns, "full", leftOut); n != 1 {
		t.Errorf("told %d times: %q", n, e.Local.Events(ns, "full"))
	}
	if n := timesLogged(p, "WARN", paths); n != 1 {
		t.Errorf("logged %d times", n)
	}
	p = restartsAtRest(e, p, config)

	// The schema learns the fields: they cross by themselves.
	e.Remote.Apply(harness.WidgetCRDWith(group, fresh...))
	e.Within(20*time.Second, func() error { return follows(e, resource, ns, "full") })
	e.Within(20*time.Second, func() error { return follows(e, resource, ns, "plain") })
	for _, event := range append(e.Local.Events(ns, "full"), e.Local.Events(ns, "plain")...) {
		if strings.HasPrefix(event, "Warning") && !strings.Contains(event, leftOut) {
			t.Errorf("the server's way to a new schema was shown as a fault: %s", event)
		}
	}
	restsSince(e, time.Now())

	// And it forgets one: the field is left out again.
	e.Remote.Apply(harness.WidgetCRDWith(group, fresh[1:]...))
	e.Eventually(func() error { return e.Local.HasEvent(ns, "plain", leftOut+"spec.fresh") })
	e.Local.Patch(resource, ns, "full", "spec: {size: 20}")
	e.Eventually(func() error { return is(e.Remote.Get(resource, ns, "full"), 20, "spec", "size") })
	restartsAtRest(e, p, config)
}

func TestO7_AnotherTypeIsShownAndRetried(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	group := ownGroup(e)
	resource := "widgets." + group
	e.Local.Apply(harness.WidgetCRDWith(group, "level: {type: string}", "grade: {type: string}"))
	e.Remote.Apply(harness.WidgetCRDWith(group, "level: {type: integer}", "grade: {type: string, enum: [good, better]}"))
	ns := e.Namespace("a")
	p := e.Start(rules(ns, "apiVersion: "+group+"/v1, kind: Widget"))
	e.Local.Create(groupWidget(group, ns, "typed", "{size: 1, level: high}"))
	e.Local.Create(groupWidget(group, ns, "invalid", "{size: 1, grade: bad}"))
	e.Local.Create(groupWidget(group, ns, "source", "{size: 1, level: high}"))
	e.Eventually(func() error {
		return e.Local.HasEvent(ns, "typed", "Warning CreateFailed", "expected numeric (int or float), got string")
	})
	e.Eventually(func() error {
		return e.Local.HasEvent(ns, "invalid", "Warning CreateFailed", `Unsupported value: "bad"`)
	})
	e.Eventually(func() error { return e.Local.HasEvent(ns, "source", "Warning CreateFailed") })
	if n := timesLogged(p, "Refused", ns+"/typed"); n != 1 {
		t.Errorf("logged %d times", n)
	}

	// A change of the source is tried at once.
	e.Local.Patch(resource, ns, "source", "spec: {level: null}")
	e.Within(3*time.Second, func() error { return is(e.Remote.Get(resource, ns, "source"), 1, "spec", "size") })
	// So is one of the schema. (The server takes a moment to use it.)
	e.Remote.Apply(harness.WidgetCRDWith(group, "level: {type: string}", "grade: {type: string}"))
	for _, name := range []string{"typed", "invalid"} {
		e.Within(15*time.Second, func() error { return follows(e, resource, ns, name) })
	}

	t.Run("a fault of an update", func(t *testing.T) {
		e.Remote.Apply(harness.WidgetCRDWith(group, "level: {type: string, maxLength: 4}", "grade: {type: string}"))
		e.Eventually(func() error { // until the server uses it
			_, err := e.Remote.TryCreate(groupWidget(group, ns, "probe", "{level: too-long}"))
			e.Remote.Delete(resource, ns, "probe")
			if err == nil {
				return fmt.Errorf("the schema is not in force")
			}
			return nil
		})
		e.Local.Patch(resource, ns, "typed", "spec: {level: too-long, size: 2}")
		e.Eventually(func() error { return e.Local.HasEvent(ns, "typed", "Warning UpdateFailed", "may not be more than 4") })
		if err := is(e.Remote.Get(resource, ns, "typed"), "high", "spec", "level"); err != nil {
			t.Errorf("the twin does not stay as it was: %v", err)
		}
		e.Local.Patch(resource, ns, "typed", "spec: {level: low}")
		e.Eventually(func() error { return follows(e, resource, ns, "typed") })
	})
}

// Nothing else waits for an object that is refused, and retries are few.
func TestO7_RetriesAreFew(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	group := ownGroup(e)
	e.Local.Apply(harness.WidgetCRDWith(group, "level: {type: string}"))
	e.Remote.Apply(harness.WidgetCRDWith(group, "level: {type: integer}"))
	ns := e.Namespace("a")
	e.Start(rules(ns, "apiVersion: "+group+"/v1, kind: Widget"))
	began := time.Now()
	for i := range 5 {
		e.Local.Create(groupWidget(group, ns, fmt.Sprintf("bad-%d", i), "{size: 1, level: high}"))
		e.Local.Create(groupWidget(group, ns, fmt.Sprintf("good-%d", i), "{size: 1}"))
	}
	for i := range 5 {
		e.Eventually(func() error { return e.Local.HasEvent(ns, fmt.Sprintf("bad-%d", i), "Warning") })
		e.Eventually(func() error { return follows(e, "widgets."+group, ns, fmt.Sprintf("good-%d", i)) })
	}
	e.Always(3*time.Second, func() error {
		refused := 0
		for _, r := range e.Writes(began) {
			if r.Code() >= 400 {
				refused++
			}
		}
		// The first retry comes after five seconds, which a busy machine may need for what is above.
		if most := 5 * (1 + int(time.Since(began)/(5*time.Second))); refused > most {
			return fmt.Errorf("%d tries of 5 refused objects in %s, expected at most %d", refused, time.Since(began), most)
		}
		return nil
	})
	if events := e.Local.Events(ns, "bad-0"); slices.ContainsFunc(events, func(line string) bool { return !strings.HasPrefix(line, "Warning CreateFailed") }) || len(events) != 1 {
		t.Errorf("expected one Event, got %q", events)
	}
}

// What can't cross is told of the rule before anything crosses, without any object, and once; until both sides agree.
func TestO7_SchemasAreComparedBeforeAnythingCrosses(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	group := ownGroup(e)
	e.Local.Apply(harness.WidgetCRDWith(group, "fresh: {type: string}", "mine: {type: string}", "level: {type: string}"))
	e.Remote.Apply(harness.WidgetCRDWith(group, "level: {type: integer}"))
	ns := e.Namespace("a")
	config := rules(ns, "apiVersion: "+group+"/v1, kind: Widget, hostOwnedFields: [spec.mine]",
		"apiVersion: v1, kind: ConfigMap, selector: {matchLabels: {of: test}}")
	p := e.Start(config)
	const fields = "spec.fresh, spec.level (string here, integer there)"
	told := func(n int) {
		t.Helper()
		e.Eventually(func() error {
			if have := timesLogged(p, "WARN", "Fields that the twins' side does not declare do not cross", "Widget-toHost", fields); have != n {
				return fmt.Errorf("told %d times, expected %d", have, n)
			}
			return nil
		})
	}
	told(1)
	text, code := e.Ask("plan", e.WriteConfig(config))
	if code != 0 {
		t.Errorf("plan: code %d", code)
	}
	says(t, text, "rule Widget-toHost", "do not cross: "+fields)
	if code, body := p.Ready(); code != 200 || body != "ok\ndoes not cross: Widget-toHost: "+fields+"\n" {
		t.Errorf("/readyz: %d %q", code, body)
	}
	undeclared := func(kind string) string {
		return p.Metric(fmt.Sprintf(`isthmus_rule_undeclared_fields{direction="ToRemote",kind="%[1]s",rule="%[1]s-toHost"}`, kind))
	}
	if undeclared("Widget") != "2" || undeclared("ConfigMap") != "0" {
		t.Errorf("the metric says %q and %q", undeclared("Widget"), undeclared("ConfigMap"))
	}
	for i := range 3 { // objects change nothing about it
		e.Local.Create(groupWidget(group, ns, fmt.Sprintf("w%d", i), "{size: 1, fresh: f}"))
		e.Eventually(func() error { return is(e.Remote.Get("widgets."+group, ns, fmt.Sprintf("w%d", i)), 1, "spec", "size") })
	}
	told(1)

	// The other side catches up, and falls behind again.
	e.Remote.Apply(harness.WidgetCRDWith(group, "fresh: {type: string}", "level: {type: string}"))
	e.Eventually(func() error { return logged(p, "All fields of the kind cross now", "Widget-toHost") })
	if _, body := p.Ready(); body != "ok\n" || undeclared("Widget") != "0" {
		t.Errorf("/readyz: %q, the metric: %s", body, undeclared("Widget"))
	}
	e.Remote.Apply(harness.WidgetCRDWith(group, "level: {type: integer}"))
	told(2)
}
