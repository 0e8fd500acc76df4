//go:build unix

package e2e

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"isthmus.dev/isthmus/test/harness"
)

// file is a configuration with pairs of namespaces ("{a: b}") and rules, each in YAML's flow form or as indented lines
// under "- ".
func file(pairs string, rules ...string) string {
	text := "version: v1\nlog_level: trace\nnamespaces: " + pairs + "\nsyncResources:\n"
	for _, rule := range rules {
		text += "- " + strings.ReplaceAll(strings.TrimSpace(rule), "\n", "\n  ") + "\n"
	}
	return text
}

// same pairs namespaces with those of their own names.
func same(namespaces ...string) string {
	pairs := make([]string, len(namespaces))
	for i, ns := range namespaces {
		pairs[i] = ns + ": " + ns
	}
	return "{" + strings.Join(pairs, ", ") + "}"
}

const (
	widgetsOut    = "apiVersion: example.io/v1\nkind: Widget\ndirection: toHost\n"
	configMapsOut = "apiVersion: v1\nkind: ConfigMap\ndirection: toHost\n"
	secretsOut    = "apiVersion: v1\nkind: Secret\ndirection: toHost\n"
)

// widgetWith is a widget of size 1 with metadata in YAML's flow form, without braces: "labels: {a: b}".
func widgetWith(namespace, name, metadata string) string {
	return fmt.Sprintf("apiVersion: example.io/v1\nkind: Widget\nmetadata: {name: %q, namespace: %q, %s}\nspec: {size: 1}\n", name, namespace, metadata)
}

func configMapWith(namespace, name, metadata string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %q, namespace: %q, %s}\ndata: {key: value}\n", name, namespace, metadata)
}

func secretIn(namespace, name string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %q, namespace: %q}\nstringData: {key: value}\n", name, namespace)
}

// present returns nil when all objects of these names are in a namespace of a side, and only those.
func present(side *harness.Side, resource, namespace string, names ...string) error {
	var have []string
	for _, obj := range side.List(resource, namespace, "") {
		have = append(have, obj.GetName())
	}
	slices.Sort(have)
	slices.Sort(names)
	if !slices.Equal(have, names) {
		return fmt.Errorf("%s in %s on %s are %q, expected %q", resource, namespace, side.Name(), have, names)
	}
	return nil
}

func TestS1_OnlyKindsThatRulesName(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	config := file(same(ns), widgetsOut)

	t.Run("RBAC names no other kind", func(t *testing.T) {
		for _, side := range []string{"local", "remote"} {
			if have := e.RBAC(e.WriteConfig(config), side); strings.Contains(have, "secrets") || strings.Contains(have, `"*"`) || strings.Contains(have, "'*'") {
				t.Errorf("roles on the %s side for widgets name more:\n%s", side, have)
			}
			none := e.RBAC(e.WriteConfig(file(same(ns))+"  []\n"), side)
			for _, kind := range []string{"widgets", "secrets", "events", "customresourcedefinitions", "*"} {
				if strings.Contains(none, kind) {
					t.Errorf("roles on the %s side without rules name %s:\n%s", side, kind, none)
				}
			}
		}
	})

	e.Local.Create(configMapWith(ns, "config", ""))
	e.Local.Create(secretIn(ns, "secret"))
	e.Local.Create(widgetWith(ns, "idle", ""))
	p := e.Start(file(same(ns)) + "  []\n")
	e.Quiet(time.Second)
	p.Stop()
	for _, r := range e.Requests(time.Time{}) {
		if strings.Contains(r.RequestURI, "example.io") {
			t.Errorf("without rules: %s", r)
		}
	}

	p = e.Start(config)
	e.Eventually(func() error { return present(e.Remote, widgets, ns, "idle") })
	p.Stop() // watches are in the audit log when they end
	lists, watches := 0, 0
	for _, r := range e.Requests(time.Time{}) { // what kinds they are for, the audit checks after each test
		if r.ObjectRef != nil && r.ObjectRef.Resource == "widgets" {
			switch r.Verb {
			case "list":
				lists++
			case "watch":
				watches++
			}
		}
	}
	if lists+watches < 2 {
		t.Errorf("the audit log should have a list or watch of widgets on both sides, it has %d and %d", lists, watches)
	}
	for _, side := range []string{"configmaps", "secrets"} {
		if err := present(e.Remote, side, ns); err != nil {
			t.Error(err)
		}
	}
}

func TestS2_Selectors(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	a, b, c, unpaired := e.Namespace("a"), e.Namespace("b"), e.Namespace("b-not"), e.Namespace("d")
	label := func(ns, name, labels string) {
		e.Local.Create(widgetWith(ns, name, "labels: {"+labels+"}"))
		e.Local.Create(configMapWith(ns, name, "labels: {"+labels+"}"))
	}
	label(a, "none", "")
	label(a, "share", "share: 'yes'")
	label(a, "other", "share: 'no'")
	label(a, "both", "share: 'yes', tier: web")
	label(a, "web", "tier: web, zone: x")
	label(a, "old", "tier: web, zone: x, old: ''")
	label(a, "db", "tier: db, zone: z")
	for _, ns := range []string{a, b, c, unpaired} {
		e.Local.Create(secretIn(ns, "secret"))
	}
	p := e.Start(file(same(a, b, c),
		widgetsOut+"selector: {matchLabels: {share: 'yes', tier: web}}",
		configMapsOut+`selector:
  matchExpressions:
  - {key: tier, operator: In, values: [web, db]}
  - {key: zone, operator: NotIn, values: [z]}
  - {key: zone, operator: Exists}
  - {key: old, operator: DoesNotExist}`,
		secretsOut+fmt.Sprintf("selector: {matchNamespaces: ['%s-[ab]*', '*-d'], excludeNamespaces: ['*-b-?ot']}", e.ID)))
	e.Eventually(func() error { return present(e.Remote, widgets, a, "both") })
	e.Eventually(func() error { return present(e.Remote, "configmaps", a, "web") })
	e.Eventually(func() error { return present(e.Remote, "secrets", a, "secret") })
	e.Eventually(func() error { return present(e.Remote, "secrets", b, "secret") })
	label(a, "late", "share: 'yes', tier: web, zone: v")
	e.Eventually(func() error { return present(e.Remote, widgets, a, "both", "late") })
	e.Eventually(func() error { return present(e.Remote, "configmaps", a, "late", "web") })
	for _, ns := range []string{c, unpaired} {
		if err := present(e.Remote, "secrets", ns); err != nil {
			t.Error(err)
		}
	}

	p.Stop()
	asked := map[string]bool{}
	for _, r := range e.Requests(time.Time{}) {
		if r.Side != "local" || r.Verb != "list" && r.Verb != "watch" || r.ObjectRef.Resource == "customresourcedefinitions" {
			continue
		}
		address, err := url.Parse(r.RequestURI)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{
			"widgets": "share=yes,tier=web", "configmaps": "!old,tier in (db,web),zone notin (z),zone",
		}[r.ObjectRef.Resource]
		if have := address.Query().Get("labelSelector"); have != want || r.ObjectRef.Namespace == "" {
			t.Errorf("%s is filtered by labels %q in namespace %q, expected %q in one", r, have, r.ObjectRef.Namespace, want)
		}
		asked[r.ObjectRef.Resource+" "+r.ObjectRef.Namespace] = true
	}
	for _, want := range []string{"widgets " + a, "configmaps " + a, "secrets " + a, "secrets " + b} {
		if !asked[want] {
			t.Errorf("expected a list or watch of %s, there are %v", want, asked)
		}
	}
	for _, never := range []string{"secrets " + c, "secrets " + unpaired, "widgets " + unpaired} {
		if asked[never] {
			t.Errorf("there is a list or watch of %s", never)
		}
	}
}

// The policies are tried on two kinds at once: widgets need to be allowed, configmaps may be skipped.
func TestS3_Policies(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	config := file(same(ns), widgetsOut+"policy: AllowList", configMapsOut+"policy: DenyList")
	p := e.Start(config)
	cases := []struct {
		name, annotations   string
		allowList, denyList bool
		reason              string
	}{
		{name: "none", denyList: true},
		{name: "allowed", annotations: "isthmus.dev/allow-reflection: 'true'", allowList: true, denyList: true},
		{name: "allowed-liqo", annotations: "liqo.io/allow-reflection: 'true'", allowList: true, denyList: true},
		{name: "allowed-twice", annotations: "liqo.io/allow-reflection: 'true', isthmus.dev/allow-reflection: 'true'", allowList: true, denyList: true},
		{name: "not-allowed", annotations: "isthmus.dev/allow-reflection: 'false'", denyList: true},
		{name: "skipped", annotations: "isthmus.dev/skip-reflection: 'true'"},
		{name: "skipped-liqo", annotations: "liqo.io/skip-reflection: 'true'"},
		{name: "not-skipped", annotations: "isthmus.dev/skip-reflection: 'false'", denyList: true},
		{name: "yes", annotations: "isthmus.dev/allow-reflection: 'yes'", reason: `"yes"`},
		{name: "capital", annotations: "isthmus.dev/allow-reflection: 'True'", reason: `"True"`},
		{name: "empty", annotations: "liqo.io/allow-reflection: ''", reason: `""`},
		{name: "one", annotations: "liqo.io/skip-reflection: '1'", reason: `"1"`},
		{name: "both", annotations: "isthmus.dev/allow-reflection: 'true', isthmus.dev/skip-reflection: 'true'", reason: "both set"},
		{name: "both-false", annotations: "isthmus.dev/allow-reflection: 'true', liqo.io/skip-reflection: 'false'", reason: "both set"},
		{name: "contradiction", annotations: "isthmus.dev/allow-reflection: 'true', liqo.io/allow-reflection: 'false'", reason: "contradict"},
	}
	var allowed, notDenied []string
	for _, c := range cases {
		e.Local.Create(widgetWith(ns, c.name, "annotations: {"+c.annotations+"}"))
		e.Local.Create(configMapWith(ns, c.name, "annotations: {"+c.annotations+"}"))
		if c.allowList {
			allowed = append(allowed, c.name)
		}
		if c.denyList {
			notDenied = append(notDenied, c.name)
		}
	}
	check := func() error {
		if err := present(e.Remote, widgets, ns, allowed...); err != nil {
			return err
		}
		return present(e.Remote, "configmaps", ns, notDenied...)
	}
	e.Eventually(check)
	for _, c := range cases {
		if c.reason != "" {
			e.Eventually(func() error { return e.Local.HasEvent(ns, c.name, "Warning", "SyncFailed", c.reason) })
		}
	}
	e.Always(time.Second, check)

	annotate := func(resource, name, annotations string) {
		e.Local.Patch(resource, ns, name, "metadata: {annotations: {"+annotations+"}}")
	}
	t.Run("errors leave the twin as it is", func(t *testing.T) {
		before := e.Remote.Get(widgets, ns, "allowed")
		annotate(widgets, "allowed", "isthmus.dev/allow-reflection: maybe")
		e.Eventually(func() error { return e.Local.HasEvent(ns, "allowed", "Warning", "SyncFailed", `"maybe"`) })
		e.Local.Patch(widgets, ns, "allowed", "spec: {size: 7}")
		annotate("configmaps", "none", "isthmus.dev/skip-reflection: 'true', isthmus.dev/allow-reflection: 'true'")
		e.Eventually(func() error { return e.Local.HasEvent(ns, "none", "Warning", "SyncFailed", "both set") })
		e.Local.Patch("configmaps", ns, "none", "data: {key: changed}")
		e.Quiet(time.Second)
		after := e.Remote.Get(widgets, ns, "allowed")
		if after == nil || after.GetResourceVersion() != before.GetResourceVersion() {
			t.Errorf("the twin was touched: %v", after)
		}
		if err := is(e.Remote.Get("configmaps", ns, "none"), "value", "data", "key"); err != nil {
			t.Error(err)
		}
		annotate(widgets, "allowed", "isthmus.dev/allow-reflection: 'true'")
		annotate("configmaps", "none", "isthmus.dev/skip-reflection: null, isthmus.dev/allow-reflection: null")
		e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "allowed"), 7, "spec", "size") })
		e.Eventually(func() error { return is(e.Remote.Get("configmaps", ns, "none"), "changed", "data", "key") })
	})
	t.Run("changes, live and while Isthmus is down", func(t *testing.T) {
		change := func(name, allow, skip string) {
			annotate(widgets, name, "isthmus.dev/allow-reflection: "+allow)
			annotate("configmaps", name, "isthmus.dev/skip-reflection: "+skip)
		}
		change("none", "'true'", "'true'")
		e.Eventually(func() error { return present(e.Remote, widgets, ns, append(allowed, "none")...) })
		e.Eventually(func() error { return absent(e.Remote.Get("configmaps", ns, "none")) })
		change("none", "null", "null")
		e.Eventually(check)
		p.Stop()
		change("none", "'true'", "'true'")
		annotate(widgets, "allowed", "isthmus.dev/allow-reflection: 'false'")
		p = e.Start(config)
		e.Eventually(func() error {
			want := append(slices.DeleteFunc(slices.Clone(allowed), func(n string) bool { return n == "allowed" }), "none")
			return present(e.Remote, widgets, ns, want...)
		})
		e.Eventually(func() error { return absent(e.Remote.Get("configmaps", ns, "none")) })
	})
}
