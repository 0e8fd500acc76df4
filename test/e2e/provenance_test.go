//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"isthmus.dev/isthmus/test/harness"
)

// untouched returns nil when an object is exactly as it was, down to its resourceVersion.
func untouched(side *harness.Side, resource string, before *unstructured.Unstructured) error {
	now := side.Get(resource, before.GetNamespace(), before.GetName())
	switch {
	case now == nil:
		return fmt.Errorf("%s is gone", before.GetName())
	case now.GetUID() != before.GetUID() || now.GetResourceVersion() != before.GetResourceVersion():
		return fmt.Errorf("%s was touched: %v", before.GetName(), now)
	}
	return nil
}

func TestP1_TheWholeStampComesWithTheCreate(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	e.Start(file(same(ns), "name: my-rule\n"+widgetsOut))
	source := e.Local.Create(widget(ns, "one", "{size: 1}"))
	e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "one"), 1, "spec", "size") })

	writes := e.Writes(time.Time{})
	if len(writes) != 1 || writes[0].Code() != 201 {
		t.Fatalf("expected one write, a create: %v", writes)
	}
	var sent unstructured.Unstructured
	if err := json.Unmarshal(writes[0].RequestObject, &sent.Object); err != nil {
		t.Fatal(err)
	}
	for _, obj := range []*unstructured.Unstructured{&sent, e.Remote.Get(widgets, ns, "one")} {
		annotations := obj.GetAnnotations()
		want := map[string]string{
			"isthmus.dev/writer": e.ID + "/" + e.ID + "/" + string(e.Local.UID()), "isthmus.dev/rule": "my-rule",
			"isthmus.dev/source": ns + "/one", "isthmus.dev/source-uid": string(source.GetUID()), "isthmus.dev/source-generation": "1",
			"isthmus.dev/twin": ns + "/one", "isthmus.dev/applied": annotations["isthmus.dev/applied"],
		}
		for key, value := range want {
			if annotations[key] != value || value == "" {
				t.Errorf("%s is %q, expected %q", key, annotations[key], value)
			}
		}
		if have := obj.GetLabels()["isthmus.dev/origin"]; have != e.ID {
			t.Errorf("origin is %q, expected %q", have, e.ID)
		}
	}
}

func TestP2_KeysThatDoNotCross(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	e.Start(file(same(ns), widgetsOut,
		configMapsOut+"dropKeys: [team, example.io/*]\nkeepKeys: [meta.helm.sh/*, argocd.argoproj.io/tracking-id, deployment.kubernetes.io/revision]"))
	never := []string{"isthmus.dev/allow-reflection", "isthmus.dev/any", "vcluster.loft.sh/force-sync", "kupe.cloud/tenant",
		"offloading.liqo.io/any", "liqo.io/allow-reflection", "kubectl.kubernetes.io/last-applied-configuration"}
	byDefault := []string{"argocd.argoproj.io/refresh", "argocd.argoproj.io/tracking-id", "meta.helm.sh/release-name",
		"meta.helm.sh/release-namespace", "kapp.k14s.io/app", "applyset.kubernetes.io/part-of", "deployment.kubernetes.io/revision"}
	crossing := []string{"team", "example.io/a", "app.kubernetes.io/name", "argocd.argoproj.io/sync-wave", "liqo.io/other", "myisthmus.dev/x"}
	var all []string
	for _, key := range slices.Concat(never, byDefault, crossing) {
		all = append(all, key+": 'true'")
	}
	keys := "{" + strings.Join(all, ", ") + "}"
	e.Local.Create(widgetWith(ns, "one", "labels: "+keys+", annotations: "+keys))
	e.Local.Create(configMapWith(ns, "one", "labels: "+keys+", annotations: "+keys))
	crossed := func(resource string, want []string) {
		t.Helper()
		e.Eventually(func() error { return is(e.Remote.Get(resource, ns, "one"), "one", "metadata", "name") })
		twin := e.Remote.Get(resource, ns, "one")
		for field, have := range map[string]map[string]string{"labels": twin.GetLabels(), "annotations": twin.GetAnnotations()} {
			var keys []string
			for key := range have {
				if _, stamp := stampAnnotations[key]; !stamp && key != "isthmus.dev/origin" {
					keys = append(keys, key)
				}
			}
			slices.Sort(keys)
			slices.Sort(want)
			if !slices.Equal(keys, want) {
				t.Errorf("%s of %s that crossed are %q, expected %q", field, resource, keys, want)
			}
		}
	}
	crossed(widgets, crossing)
	crossed("configmaps", []string{"app.kubernetes.io/name", "argocd.argoproj.io/sync-wave", "liqo.io/other", "myisthmus.dev/x",
		"meta.helm.sh/release-name", "meta.helm.sh/release-namespace", "argocd.argoproj.io/tracking-id", "deployment.kubernetes.io/revision"})

	out, code := harness.Run(t, "validate", e.WriteConfig(file(same(ns), widgetsOut+"keepKeys: [kupe.cloud/tenant]")))
	if code == 0 || !strings.Contains(out, "kupe.cloud/") {
		t.Errorf("keepKeys with a key that never crosses is accepted: %d %s", code, out)
	}
}

// unstamped is the patch that takes the whole stamp off.
func unstamped() string {
	patch := "metadata: {labels: {isthmus.dev/origin: null}, annotations: {"
	for key := range stampAnnotations {
		patch += key + ": null, "
	}
	return patch + "}}"
}

// What Isthmus hears of the twins' side comes two seconds late, while its writes arrive at once: so it decides on what
// has been true.
func TestP3_AForeignObjectInARace(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	proxy := e.Proxy(e.Remote)
	e.StartWith(file(same(ns), widgetsOut+"statusSync: true\nworkers: 20"), harness.StartOptions{RemoteKubeconfig: proxy.Kubeconfig}) // none waits for another
	replace := func(name string) *unstructured.Unstructured {
		e.Remote.Delete(widgets, ns, name)
		return e.Remote.Create(widget(ns, name, "{size: 99}"))
	}
	unstamp := func(name string) *unstructured.Unstructured { return e.Remote.Patch(widgets, ns, name, unstamped()) }
	unlabel := func(name string) *unstructured.Unstructured {
		return e.Remote.Patch(widgets, ns, name, "metadata: {labels: {isthmus.dev/origin: null}}")
	}
	change := func(name string) { e.Local.Patch(widgets, ns, name, "spec: {size: 2}") }
	remove := func(name string) { e.Local.Delete(widgets, ns, name) }
	deselect := func(name string) { e.Local.Patch(widgets, ns, name, "metadata: {labels: {kupe.cloud/managed-by: x}}") }
	cases := []struct {
		name   string
		there  func(name string) *unstructured.Unstructured // what others do to the twin
		here   func(name string)                            // what happens to the source then
		blocks bool
	}{
		{"replaced-changed", replace, change, true}, {"replaced-removed", replace, remove, false}, {"replaced-deselected", replace, deselect, false},
		{"unstamped-changed", unstamp, change, true}, {"unstamped-removed", unstamp, remove, false},
		{"unlabelled-changed", unlabel, change, true}, {"unlabelled-removed", unlabel, remove, false},
	}
	for _, c := range cases {
		e.Local.Create(widget(ns, c.name, "{size: 1}"))
	}
	for _, c := range cases {
		e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, c.name), 1, "spec", "size") })
	}
	e.Eventually(func() error { // and Isthmus knows
		if writes := e.Writes(time.Time{}); len(writes) != len(cases) {
			return fmt.Errorf("there are %d writes", len(writes))
		}
		return nil
	})
	e.Quiet(300 * time.Millisecond)

	proxy.Delay(2 * time.Second)
	since := time.Now()
	foreign := []*unstructured.Unstructured{e.Remote.Create(widget(ns, "created", "{size: 99}"))}
	e.Local.Create(widget(ns, "created", "{size: 1}")) // one that was there before our create
	for _, c := range cases {
		foreign = append(foreign, c.there(c.name))
		c.here(c.name)
	}
	// Without a refused write there was no race.
	for _, name := range []string{"created", "replaced-changed", "replaced-removed", "unstamped-changed", "unstamped-removed", "unlabelled-changed", "unlabelled-removed"} {
		e.Eventually(func() error {
			for _, w := range e.Writes(since) {
				if w.ObjectRef.Name == name && w.Side == "remote" && w.Code() == 409 {
					return nil
				}
			}
			return fmt.Errorf("no write to %s was refused: %v", name, e.Writes(since))
		})
	}
	for _, c := range cases {
		if c.blocks {
			e.Eventually(func() error {
				return e.Local.HasEvent(ns, c.name, "Warning", "CreateFailed", "was not created by this Isthmus")
			})
		}
	}
	e.Always(2*time.Second, func() error {
		for _, before := range foreign {
			if err := untouched(e.Remote, widgets, before); err != nil {
				return err
			}
		}
		return nil
	})
}

func TestP4_AForeignObjectInTheWay(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	const long = 253
	longName := strings.Repeat("n", long)
	before := []*unstructured.Unstructured{
		e.Remote.Create(widget(ns, "one", "{size: 99}")), e.Remote.Create(widget(ns, longName, "{size: 99}")),
		e.Remote.Create(configMapWith(ns, "one", "")),
	}
	p := e.Start(file(same(ns), widgetsOut+"statusSync: true", configMapsOut))
	e.Local.Create(widget(ns, "one", "{size: 1}"))
	e.Local.Create(widget(ns, longName, "{size: 1}"))
	e.Local.Create(configMapWith(ns, "one", ""))
	blocked := func(name, kind string) error {
		return e.Local.HasEvent(ns, name, "Warning", "CreateFailed", kind+" "+ns+"/"+name, "was not created by this Isthmus")
	}
	e.Eventually(func() error { return blocked("one", "Widget") })
	e.Eventually(func() error { return blocked("one", "ConfigMap") })
	e.Eventually(func() error { return blocked(longName, "Widget") })
	e.Eventually(func() error {
		if have := p.Metric(`isthmus_objects{direction="ToRemote",kind="Widget",state="foreign"}`); have != "2" {
			return fmt.Errorf("the metric of foreign objects says %q, expected 2", have)
		}
		return nil
	})
	if !strings.Contains(p.Log(), "was not created by this Isthmus") {
		t.Error("the log does not tell of it")
	}

	since := time.Now()
	for _, obj := range before[:2] { // its owner works with it; that is no reason to ask or write
		e.Remote.Patch(widgets, ns, obj.GetName(), "spec: {size: 98}")
	}
	e.Quiet(2 * time.Second)
	if reads := e.Reads(since); len(reads) > 0 {
		t.Errorf("the foreign object is polled: %v", reads)
	}
	for _, name := range []string{"one", longName} {
		if err := is(e.Remote.Get(widgets, ns, name), 98, "spec", "size"); err != nil {
			t.Error(err)
		}
		e.Remote.Delete(widgets, ns, name)
	}
	e.Remote.Delete("configmaps", ns, "one")
	e.Within(5*time.Second, func() error { return is(e.Remote.Get(widgets, ns, "one"), 1, "spec", "size") })
	e.Within(5*time.Second, func() error { return is(e.Remote.Get(widgets, ns, longName), 1, "spec", "size") })
	e.Within(5*time.Second, func() error {
		return is(e.Remote.Get("configmaps", ns, "one"), e.ID, "metadata", "labels", "isthmus.dev/origin")
	})
}

// Two Isthmuses of one cluster select one source: to each, the other's twin is a foreign object.
func TestP4_ATwinOfAnotherIsthmus(t *testing.T) {
	t.Parallel()
	first := harness.New(t)
	first.Both(harness.WidgetCRD("example.io"))
	ns := first.Namespace("a")
	config := file(same(ns), widgetsOut)
	p := first.Start(config)
	first.Local.Create(widget(ns, "one", "{size: 1}"))
	first.Eventually(func() error { return is(first.Remote.Get(widgets, ns, "one"), 1, "spec", "size") })
	second := first.Beside()
	second.StartWith(config, harness.StartOptions{Flags: []string{"--cluster-id", first.ID}})
	second.Eventually(func() error {
		return second.Local.HasEvent(ns, "one", "Warning", "CreateFailed", "was not created by this Isthmus")
	})
	first.Local.Patch(widgets, ns, "one", "spec: {size: 2}")
	first.Eventually(func() error { return is(first.Remote.Get(widgets, ns, "one"), 2, "spec", "size") })
	p.Stop()
	second.Quiet(time.Second)
	second.Remote.Delete(widgets, ns, "one")
	second.Within(5*time.Second, func() error {
		return is(second.Remote.Get(widgets, ns, "one"), first.ID+"/"+second.ID+"/"+string(first.Local.UID()), "metadata", "annotations", "isthmus.dev/writer")
	})
	if err := is(second.Remote.Get(widgets, ns, "one"), 2, "spec", "size"); err != nil {
		t.Error(err)
	}
}

func TestP5_AnAlteredStampMakesATwinForeign(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	p := e.Start(file(same(ns), widgetsOut+"statusSync: true"))
	var patches []string
	for field, keys := range map[string]map[string]string{"labels": stampLabels, "annotations": stampAnnotations} {
		for key, other := range keys {
			for _, value := range []string{"null", "''", "x", "'" + other + "'"} { // removed, emptied, damaged, altered
				patches = append(patches, "metadata: {"+field+": {"+key+": "+value+"}}")
			}
		}
	}
	patches = append(patches, unstamped())
	name := func(i int) string { return fmt.Sprintf("n%d", i) }
	for i := range patches {
		e.Local.Create(widget(ns, name(i), "{size: 1}"))
	}
	for i := range patches {
		e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, name(i)), 1, "spec", "size") })
	}
	var before []*unstructured.Unstructured
	for i, patch := range patches {
		before = append(before, e.Remote.Patch(widgets, ns, name(i), patch))
	}
	check := func(span time.Duration) {
		t.Helper()
		e.Always(span, func() error {
			for i, obj := range before {
				if err := untouched(e.Remote, widgets, obj); err != nil {
					return fmt.Errorf("after the change %s: %w", patches[i], err)
				}
			}
			return nil
		})
	}
	check(500 * time.Millisecond)
	for i := range patches { // a change of the source reaches it no more
		e.Local.Patch(widgets, ns, name(i), "spec: {size: 2}")
	}
	for i := range patches {
		e.Eventually(func() error {
			if err := e.Local.HasEvent(ns, name(i), "Warning", "CreateFailed", "was not created by this Isthmus"); err != nil {
				return fmt.Errorf("after the change %s: %w", patches[i], err)
			}
			return nil
		})
	}
	check(500 * time.Millisecond)
	p.Stop()
	p = e.Start(file(same(ns), widgetsOut+"statusSync: true"))
	for i := range patches {
		if i%2 == 0 {
			e.Local.Delete(widgets, ns, name(i))
		}
	}
	check(2 * time.Second)
	p.Stop() // and its deletion neither, live or later
	for i := range patches {
		e.Local.Delete(widgets, ns, name(i))
	}
	e.Start(file(same(ns), widgetsOut+"statusSync: true"))
	check(time.Second)
}

func TestP6_MetadataThatNeverCrosses(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	e.Start(file(same(ns), widgetsOut))
	owner := e.Local.Create(configMapWith(ns, "owner", ""))
	source := e.Local.Create(fmt.Sprintf(`apiVersion: example.io/v1
kind: Widget
metadata:
  generateName: made-
  namespace: %s
  finalizers: [example.io/hold]
  annotations: {kubectl.kubernetes.io/last-applied-configuration: '{}', note: hello}
  ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: owner, uid: %s, controller: true}]
spec: {size: 1}
`, ns, owner.GetUID()))
	name := source.GetName()
	e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, name), 1, "spec", "size") })
	twin := e.Remote.Get(widgets, ns, name)
	for _, f := range []string{"finalizers", "ownerReferences", "generateName"} {
		if have := field(twin, "metadata", f); have != nil {
			t.Errorf("%s crossed: %v", f, have)
		}
	}
	annotations := twin.GetAnnotations()
	if _, crossed := annotations["kubectl.kubernetes.io/last-applied-configuration"]; crossed || annotations["note"] != "hello" {
		t.Errorf("annotations of the twin are %v", annotations)
	}
	for _, entry := range twin.GetManagedFields() {
		if entry.Manager != "isthmus" {
			t.Errorf("the twin has a field manager %s", entry.Manager)
		}
	}
	e.Local.Delete(widgets, ns, name) // the source stays, terminating; its twin does not wait for it
	e.Eventually(func() error { return absent(e.Remote.Get(widgets, ns, name)) })
	e.Local.Patch(widgets, ns, name, "metadata: {finalizers: null}")
	e.Eventually(func() error { return absent(e.Local.Get(widgets, ns, name)) })
}
