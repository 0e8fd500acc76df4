//go:build unix

package e2e

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/test/harness"
)

// X3, S1: Secrets and ConfigMaps that only a custom resource names: the Event has the rules that carry them, and nobody
// looked at either kind before those were there.
func TestX3_PluginTellsWhichRuleCarriesASecret(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	group := ownGroup(e)
	e.Both(harness.WidgetCRDWith(group, "secretName: {type: string}", "settings: {x-kubernetes-preserve-unknown-fields: true}", "issuer: {type: string}"))
	own := "widgets." + group
	ns := e.Namespace("shop")
	o := virtualCluster(e)
	config := fmt.Sprintf(`version: v1
syncResources:
- apiVersion: %s/v1
  kind: Widget
  direction: toHost
  patches:
  - {path: spec.secretName, type: rewriteName}
  - {path: "spec.settings[*].configMapRef", type: rewriteRef}
  - {path: spec.issuer, type: rewriteName}
`, group)
	o.File = e.PluginFile(config)
	host := func(name string) string {
		return boundary.VirtualCluster{Name: o.Name, HostNamespace: o.Namespace}.HostName(ns, name)
	}
	create := func(name, secret string) {
		e.Local.Create(fmt.Sprintf("{apiVersion: %s/v1, kind: Widget, metadata: {name: %s, namespace: %s}, spec: {secretName: %s, settings: [{configMapRef: {name: settings}}], issuer: ca}}", group, name, ns, secret))
		e.Eventually(func() error {
			twin := e.Remote.Get(own, o.Namespace, host(name))
			return all(at(twin, host(secret), "spec", "secretName"), at(twin, host("settings"), "spec", "settings", 0, "configMapRef", "name"), at(twin, host("ca"), "spec", "issuer"))
		})
	}
	began := time.Now()
	p := e.StartPlugin(o)
	e.Local.Create(fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: token, namespace: %s}, stringData: {token: marked-value}}", ns))
	e.Local.Create(configMapWith(ns, "settings", ""))
	create("one", "token")
	told := []string{
		"Warning PatchFailed", "refers to what no rule carries, and vCluster itself only where a pod uses it",
		fmt.Sprintf("spec.secretName refers to Secret %s/token, which becomes Secret %s/%s", ns, o.Namespace, host("token")),
		fmt.Sprintf("spec.settings[0].configMapRef refers to ConfigMap %s/settings", ns), `vcluster.loft.sh/force-sync: "true"`,
	}
	e.Eventually(func() error { return e.Local.HasEvent(ns, "one", told...) })
	for _, r := range e.Requests(began) {
		if r.ObjectRef == nil {
			continue
		}
		if kind := r.ObjectRef.Resource; (kind == "secrets" || kind == "configmaps") && r.ObjectRef.Namespace != "isthmus-system" {
			t.Errorf("no rule names the kind, and it asked for %s", r)
		}
	}
	var rules []string
	for _, line := range e.Local.Events(ns, "one") {
		if strings.Contains(line, "spec.issuer") {
			t.Errorf("a field whose name tells nothing is reported: %s", line)
		}
		rules = append(rules, regexp.MustCompile(`\{apiVersion: v1, kind: \w+, direction: toHost\}`).FindAllString(line, -1)...)
	}
	slices.Sort(rules)
	if rules = slices.Compact(rules); len(rules) != 2 {
		t.Fatalf("the rules in the Events: %q", e.Local.Events(ns, "one"))
	}
	p.End()

	// As told, for this tenant's namespace alone: tests share clusters.
	for _, rule := range rules {
		config += "- " + strings.TrimSuffix(rule, "}") + ", selector: {matchNamespaces: [" + ns + "]}}\n"
	}
	o.File = e.PluginFile(config)
	p = e.StartPlugin(o)
	e.Eventually(func() error { return secretHas(e.Remote, o.Namespace, host("token"), "token", "marked-value") })
	e.Eventually(func() error {
		return is(e.Remote.Get("configmaps", o.Namespace, host("settings")), "value", "data", "key")
	})
	create("two", "token")
	create("three", "missing")
	e.Eventually(func() error {
		return absentEvent(e, ns, "three", fmt.Sprintf("spec.secretName refers to Secret %s/missing", ns))
	})
	for _, line := range append(e.Local.Events(ns, "two"), e.Local.Events(ns, "three")...) {
		if strings.Contains(line, "no rule carries") || strings.Contains(line, "settings") {
			t.Errorf("told of what crosses: %s", line)
		}
	}
	p.End()
}
