//go:build unix

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/test/harness"
)

func TestO5_TheSourcesOwnStatusNeverCrosses(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	e.Start(rules(ns, widgetsWith("name: plain", "selector: {matchLabels: {returns: never}}"), widgetsWith("name: returning", "statusSync: true", "selector: {matchLabels: {returns: always}}")))
	for _, returns := range []string{"never", "always"} {
		e.Local.Create(fmt.Sprintf("{apiVersion: example.io/v1, kind: Widget, metadata: {name: %s, namespace: %s, labels: {returns: '%s'}}, spec: {size: 1}}", returns, ns, returns))
		e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, returns), 1, "spec", "size") })
		e.Local.SetStatus(widgets, ns, returns, "{from: source}")
	}
	e.Eventually(func() error { return is(e.Local.Get(widgets, ns, "always"), nil, "status") })
	for _, name := range []string{"never", "always"} {
		e.Local.Patch(widgets, ns, name, "spec: {size: 2}")
		e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, name), 2, "spec", "size") })
		if err := is(e.Remote.Get(widgets, ns, name), nil, "status"); err != nil {
			t.Errorf("on the twin, %v", err)
		}
	}
	if err := is(e.Local.Get(widgets, ns, "never"), "source", "status", "from"); err != nil {
		t.Errorf("without statusSync the source's status is its own: %v", err)
	}

	t.Run("an edit of a returned status is overwritten", func(t *testing.T) {
		e.Remote.SetStatus(widgets, ns, "always", "{ready: true, list: [1, 2], gone: {a: b}}")
		returned := func() error {
			if have, want := mustJSON(field(e.Local.Get(widgets, ns, "always"), "status")), `{"gone":{"a":"b"},"list":[1,2],"ready":true}`; have != want {
				return fmt.Errorf("status is %s, expected %s", have, want)
			}
			return nil
		}
		e.Eventually(returned)
		for _, edit := range []string{"{ready: false}", "{added: x}", "{gone: null}", "{list: [2, 1]}"} {
			e.Local.SetStatus(widgets, ns, "always", edit)
			e.Eventually(returned)
		}
		e.Local.PatchAs("other", types.JSONPatchType, widgets, ns, "always", "[{op: remove, path: /status}]", "status")
		e.Eventually(returned)
	})
	restsSince(e, time.Now())
}

func TestT1_StatusNeedsASubresource(t *testing.T) {
	t.Parallel()
	for _, side := range []string{"local", "remote"} {
		t.Run(side, func(t *testing.T) {
			t.Parallel()
			e := harness.New(t)
			group := ownGroup(e)
			resource := "widgets." + group
			bare, whole := e.Local, e.Remote
			if side == "remote" {
				bare, whole = whole, bare
			}
			bare.Apply(harness.WidgetCRDWithoutStatus(group))
			whole.Apply(harness.WidgetCRD(group))
			ns := e.Namespace("a")
			p := e.StartWith(rules(ns, "name: waiting, statusSync: true, apiVersion: "+group+"/v1, kind: Widget"), harness.StartOptions{NotReady: true})
			e.Eventually(func() error {
				return logged(p, "The flow waits", "rule waiting asks for statusSync", "no status subresource on the "+side+" cluster")
			})
			active := `isthmus_rule_active{direction="ToRemote",kind="Widget",rule="waiting"}`
			if v := p.Metric(active); v != "0" {
				t.Errorf("isthmus_rule_active is %q", v)
			}
			e.Local.Create(groupWidget(group, ns, "one", "{size: 1}"))
			e.Quiet(500 * time.Millisecond)
			if err := absent(e.Remote.Get(resource, ns, "one")); err != nil {
				t.Errorf("the rule runs: %v", err)
			}

			bare.Apply(harness.WidgetCRD(group))
			e.Within(15*time.Second, func() error { return is(e.Remote.Get(resource, ns, "one"), 1, "spec", "size") })
			e.Eventually(func() error { return trySetStatus(e.Remote, resource, ns, "one", `{"ready": true}`) })
			e.Eventually(func() error { return is(e.Local.Get(resource, ns, "one"), true, "status", "ready") })
			if v := p.Metric(active); v != "1" {
				t.Errorf("isthmus_rule_active is %q", v)
			}

			// And it stops when the subresource goes.
			bare.Apply(harness.WidgetCRDWithoutStatus(group))
			e.Within(15*time.Second, func() error {
				if v := p.Metric(active); v != "0" {
					return fmt.Errorf("isthmus_rule_active is %q", v)
				}
				return nil
			})
			if e.Remote.Get(resource, ns, "one") == nil {
				t.Errorf("the twin went")
			}
		})
	}
}

func TestT2_WholeInOneWrite(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	config := rules(ns, widgetsWith("statusSync: true"))
	p := e.Start(config)
	e.Local.Create(widget(ns, "one", "{size: 1}"))
	e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "one"), 1, "spec", "size") })
	status := func(want string) error {
		if have := mustJSON(field(e.Local.Get(widgets, ns, "one"), "status")); have != want {
			return fmt.Errorf("status is %s, expected %s", have, want)
		}
		return nil
	}
	replace := func(value, want string) {
		t.Helper()
		began := time.Now()
		e.Remote.PatchAs("controller", types.JSONPatchType, widgets, ns, "one", "[{op: add, path: /status, value: "+value+"}]", "status")
		e.Eventually(func() error { return status(want) })
		e.Quiet(300 * time.Millisecond)
		if writes := e.Writes(began); len(writes) != 1 {
			t.Errorf("%s took %v", value, writes)
		}
	}
	replace(`{phase: Up, a: {b: {c: 1, d: [x]}}, list: [{k: v}, {k: w}], ratio: 1.5, zero: 0, up: false, text: ""}`,
		`{"a":{"b":{"c":1,"d":["x"]}},"list":[{"k":"v"},{"k":"w"}],"phase":"Up","ratio":1.5,"text":"","up":false,"zero":0}`)
	replace(`{phase: Down, a: {b: {}}, list: [{k: w}]}`, `{"a":{"b":{}},"list":[{"k":"w"}],"phase":"Down"}`)
	replace(`{phase: Down}`, `{"phase":"Down"}`)
	t.Run("fields that somebody else wrote go", func(t *testing.T) {
		p.Stop()
		e.Local.PatchAs("someone", types.ApplyPatchType, widgets, ns, "one", "{apiVersion: example.io/v1, kind: Widget, status: {theirs: x, phase: Down}}", "status")
		p = e.Start(config)
		e.Eventually(func() error { return status(`{"phase":"Down"}`) })
	})
	p = restartsAtRest(e, p, config)

	t.Run("the twin without status", func(t *testing.T) {
		began := time.Now()
		e.Remote.PatchAs("controller", types.JSONPatchType, widgets, ns, "one", "[{op: remove, path: /status}]", "status")
		e.Eventually(func() error { return status("null") })
		e.Quiet(300 * time.Millisecond)
		if writes := e.Writes(began); len(writes) != 1 {
			t.Errorf("it took %v", writes)
		}
	})
	t.Run("the twin deleted", func(t *testing.T) {
		replace(`{phase: Up}`, `{"phase":"Up"}`)
		uid := e.Remote.Get(widgets, ns, "one").GetUID()
		e.Remote.Delete(widgets, ns, "one")
		e.Eventually(func() error { return status("null") })
		e.Eventually(func() error {
			if twin := e.Remote.Get(widgets, ns, "one"); twin == nil || twin.GetUID() == uid {
				return fmt.Errorf("the twin is not made anew")
			}
			return nil
		})
	})
	t.Run("a foreign object in the way", func(t *testing.T) {
		replace(`{phase: Up}`, `{"phase":"Up"}`)
		p.Stop()
		e.Remote.Delete(widgets, ns, "one")
		e.Remote.Create(widget(ns, "one", "{size: 7}"))
		e.Remote.SetStatus(widgets, ns, "one", "{phase: Foreign}")
		e.Start(config)
		e.Eventually(func() error { return status("null") })
	})
	t.Run("a twin that was released", func(t *testing.T) {
		e.Local.Create(widget(ns, "unsynced", "{size: 1}"))
		e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "unsynced"), 1, "spec", "size") })
		e.Remote.SetStatus(widgets, ns, "unsynced", "{phase: Up}")
		e.Eventually(func() error { return is(e.Local.Get(widgets, ns, "unsynced"), "Up", "status", "phase") })
		// Its stamp damaged, the twin is somebody else's from then on.
		e.Remote.Patch(widgets, ns, "unsynced", "metadata: {annotations: {isthmus.dev/writer: null}}")
		e.Eventually(func() error { return is(e.Local.Get(widgets, ns, "unsynced"), nil, "status") })
	})
}

// What the source's side makes of a status, by pruning and defaulting, is what it is: it is not written again and again.
func TestT2_StatusSchemasOfTheSourcesSide(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	group := ownGroup(e)
	resource := "widgets." + group
	free := "            x-kubernetes-preserve-unknown-fields: true\n"
	strict := `            default: {phase: Unknown}
            properties:
              phase: {type: string, default: Unknown}
              count: {type: integer}
              ratio: {type: number}
              any: {x-kubernetes-int-or-string: true}
              note: {type: string, nullable: true}
              conditions:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [type]
                items: {type: object, required: [type], properties: {type: {type: string}, status: {type: string, default: "True"}, observedGeneration: {type: integer}}}
              deep: {type: object, properties: {kept: {type: string}, filled: {type: object, default: {}, properties: {x: {type: integer, default: 3}}}}}
`
	crd := harness.WidgetCRD(group)
	if !strings.Contains(crd, free) {
		t.Fatal("the CRD of widgets has no free-form status")
	}
	e.Local.Apply(strings.Replace(crd, free, strict, 1))
	e.Remote.Apply(crd)
	ns := e.Namespace("a")
	config := rules(ns, "apiVersion: "+group+"/v1, kind: Widget, statusSync: true")
	p := e.Start(config)
	for name, c := range map[string]struct{ status, want string }{
		"pruned":    {"{phase: Up, dropped: 1, deep: {kept: k, dropped: [1]}}", `{"deep":{"filled":{"x":3},"kept":"k"},"phase":"Up"}`},
		"defaulted": {"{count: 2, conditions: [{type: Ready, dropped: x}, {type: Synced, status: 'False'}]}", `{"conditions":[{"status":"True","type":"Ready"},{"status":"False","type":"Synced"}],"count":2,"phase":"Unknown"}`},
		"numbers":   {"{phase: Up, ratio: 1, any: 5}", `{"any":5,"phase":"Up","ratio":1}`},
		"nulls":     {"{phase: null, note: null, count: null, deep: {filled: null}}", `{"deep":{"filled":{"x":3}},"note":null,"phase":"Unknown"}`},
		"only":      {"{dropped: 1}", `{"phase":"Unknown"}`},
		"empties":   {"{phase: Up, conditions: [], deep: {}}", `{"conditions":[],"deep":{"filled":{"x":3}},"phase":"Up"}`},
	} {
		e.Local.Create(groupWidget(group, ns, name, "{size: 1}"))
		e.Eventually(func() error { return is(e.Remote.Get(resource, ns, name), 1, "spec", "size") })
		began := time.Now()
		e.Remote.PatchAs("controller", types.JSONPatchType, resource, ns, name, "[{op: add, path: /status, value: "+c.status+"}]", "status")
		e.Eventually(func() error {
			if have := mustJSON(field(e.Local.Get(resource, ns, name), "status")); have != c.want {
				return fmt.Errorf("%s: status is %s, expected %s", name, have, c.want)
			}
			return nil
		})
		e.Quiet(500 * time.Millisecond)
		if writes := e.Writes(began); len(writes) > 1 {
			t.Errorf("%s took %v", name, writes)
		}
	}
	restartsAtRest(e, p, config)
}

// A status that the source's cluster refuses is shown on the source, holds nothing up, and is tried again when something
// changes.
func TestT2_ARefusedStatus(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	group := ownGroup(e)
	resource := "widgets." + group
	free := "            x-kubernetes-preserve-unknown-fields: true\n"
	e.Local.Apply(strings.Replace(harness.WidgetCRD(group), free, "            properties: {phase: {type: string, enum: [Up, Down]}, beat: {type: integer}}\n", 1))
	e.Remote.Apply(harness.WidgetCRD(group))
	ns := e.Namespace("a")
	p := e.Start(rules(ns, "apiVersion: "+group+"/v1, kind: Widget, statusSync: true"))
	e.Local.Create(groupWidget(group, ns, "one", "{size: 1}"))
	e.Eventually(func() error { return is(e.Remote.Get(resource, ns, "one"), 1, "spec", "size") })
	phase := func(want any) error { return is(e.Local.Get(resource, ns, "one"), want, "status", "phase") }
	e.Remote.SetStatus(resource, ns, "one", "{phase: Up}")
	e.Eventually(func() error { return phase("Up") })

	began := time.Now()
	e.Remote.SetStatus(resource, ns, "one", "{phase: Sideways}")
	e.Eventually(func() error {
		return e.Local.HasEvent(ns, "one", "Warning PatchFailed", `Unsupported value: "Sideways"`)
	})
	e.Eventually(func() error { // which is looked at every few seconds
		if v := p.Metric(`isthmus_objects{direction="ToRemote",kind="Widget",state="refused"}`); v != "1" {
			return fmt.Errorf("%q objects are refused", v)
		}
		return nil
	})
	e.Local.Patch(resource, ns, "one", "spec: {size: 2}")
	e.Eventually(func() error { return is(e.Remote.Get(resource, ns, "one"), 2, "spec", "size") })
	e.Remote.Patch(resource, ns, "one", "metadata: {labels: {touched: x}}")
	e.Remote.Patch(resource, ns, "one", "metadata: {labels: {touched: again}}")
	e.Local.Patch(resource, ns, "one", "spec: {size: 3}") // it has seen what came before
	e.Eventually(func() error { return is(e.Remote.Get(resource, ns, "one"), 3, "spec", "size") })
	refused := 0
	for _, r := range e.Writes(began) {
		if r.Side == "local" {
			refused++
		}
	}
	if refused > 2 { // at once, and after a first pause
		t.Errorf("the refused status was tried %d times", refused)
	}
	if err := phase("Up"); err != nil {
		t.Error(err)
	}

	e.Remote.SetStatus(resource, ns, "one", "{phase: Down}")
	e.Within(3*time.Second, func() error { return phase("Down") })
	e.Remote.SetStatus(resource, ns, "one", "{phase: Sideways}")
	e.Eventually(func() error { return logged(p, "Refused", "return-status") })
	e.Local.Apply(harness.WidgetCRD(group))
	e.Within(20*time.Second, func() error { return phase("Sideways") })
}

// trySetStatus sets a status through the subresource, which may not be served yet.
func trySetStatus(side *harness.Side, resource, namespace, name, status string) error {
	_, err := side.Client(resource, namespace).Patch(context.Background(), name, types.MergePatchType,
		[]byte(`{"status": `+status+`}`), metav1.PatchOptions{FieldManager: "controller"}, "status")
	return err
}
