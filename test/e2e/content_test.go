//go:build unix

package e2e

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"isthmus.dev/isthmus/test/harness"
)

// alike returns nil when all but metadata and status of two objects is the same.
func alike(source, twin *unstructured.Unstructured) error {
	if source == nil || twin == nil {
		return fmt.Errorf("source or twin is absent: %v, %v", source != nil, twin != nil)
	}
	content := func(o *unstructured.Unstructured) map[string]any {
		c := map[string]any{}
		for k, v := range o.Object {
			if k != "metadata" && k != "status" {
				c[k] = v
			}
		}
		return c
	}
	if !reflect.DeepEqual(content(source), content(twin)) {
		return fmt.Errorf("the twin of %s is %v, expected %v", source.GetName(), content(twin), content(source))
	}
	return nil
}

// O1: what is in a source arrives as it is, and is in step then: there is no write at a restart (F2).
func TestO1_AnyContentCrossesAsItIs(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	config := file(same(ns), widgetsOut, configMapsOut, secretsOut)
	p := e.Start(config)
	specs := map[string]string{
		"empty-spec":    "{}",
		"unicode":       `{data: "żółć ß 漢字 🚢 \u0000\u2028<&>\"\\ tail", args: ["", " ", "\t\n", "é"], limits: {"clé 🗝": 1, "a.b/c~d": "2"}}`,
		"empty-values":  `{args: [], tags: [], ports: [], limits: {}, data: "", note: null}`,
		"numbers":       `{size: 9007199254740993, replicas: -2147483648, amount: 0, limits: {a: 5, b: "1e3"}}`,
		"several-lines": "{data: \"#!/bin/sh\\n\\techo 'x'\\n\\n\"}",
	}
	for name, spec := range specs {
		e.Local.Create(widget(ns, name, spec))
	}
	meta := func(kind, name string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: %s\nmetadata: {name: %s, namespace: %s, annotations: {note: \"漢字 🚢\"}}\n", kind, name, ns)
	}
	e.Local.Create(fmt.Sprintf("apiVersion: example.io/v1\nkind: Widget\nmetadata: {name: no-spec, namespace: %s}\n", ns))
	e.Local.Create(meta("ConfigMap", "bare"))
	e.Local.Create(meta("ConfigMap", "full") + "data: {a.txt: \"漢字\\n\", empty: ''}\nbinaryData: {b.bin: AP/+gA==}\nimmutable: true\n")
	e.Local.Create(meta("Secret", "bare"))
	e.Local.Create(meta("Secret", "full") + "type: example.io/any\ndata: {b.bin: AP/+gA==, empty: ''}\nstringData: {text: \"漢字\"}\nimmutable: true\n")
	all := func() error {
		for resource, n := range map[string]int{widgets: len(specs) + 1, "configmaps": 2, "secrets": 2} {
			sources := e.Local.List(resource, ns, "")
			if len(sources) != n {
				return fmt.Errorf("there are %d %s, expected %d", len(sources), resource, n)
			}
			for _, source := range sources {
				twin := e.Remote.Get(resource, ns, source.GetName())
				if err := alike(&source, twin); err != nil {
					return err
				}
				if twin.GetAnnotations()["note"] != source.GetAnnotations()["note"] {
					return fmt.Errorf("annotations of %s are %v", source.GetName(), twin.GetAnnotations())
				}
			}
		}
		return nil
	}
	e.Eventually(all)
	e.Quiet(500 * time.Millisecond)
	p.Stop()
	e.Start(config)
	e.Quiet(time.Second)

	// What can't be changed in place is made anew, as it is on the source's side.
	uid := e.Remote.Get("configmaps", ns, "full").GetUID()
	e.Local.Delete("configmaps", ns, "full")
	e.Local.Create(meta("ConfigMap", "full") + "data: {other: content}\nimmutable: true\n")
	e.Eventually(all)
	if now := e.Remote.Get("configmaps", ns, "full").GetUID(); now == uid {
		t.Error("the twin of a source that was made anew has the old UID")
	}
	e.Local.Patch("configmaps", ns, "bare", "data: {now: filled}\nimmutable: true")
	e.Local.Patch("secrets", ns, "bare", "stringData: {now: filled}")
	e.Eventually(all)
}

// F6: an object that the other side finds too large is the object's own fault, and said on it.
func TestF6_LargeObjects(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	e.Start(file(same(ns), widgetsOut, configMapsOut, secretsOut))
	const mebibyte = 1 << 20 // as large as a ConfigMap or a Secret can be
	e.Local.Create(fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: large, namespace: %s}\ndata: {x: %q}\n", ns, strings.Repeat("x", mebibyte-1)))
	e.Local.Create(fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: large, namespace: %s}\nstringData: {x: %q}\n", ns, strings.Repeat("x", mebibyte-1)))

	// A source that just fits is too large with a stamp on it.
	sized := func(size int) string {
		return widget(ns, "large", fmt.Sprintf("{size: 1, data: %q}", strings.Repeat("x", size)))
	}
	size := 3 * mebibyte / 2
	for {
		_, err := e.Local.TryCreate(sized(size))
		if err == nil {
			break
		}
		if size -= 100; size < mebibyte {
			t.Fatalf("no size fits: %v", err)
		}
	}
	for _, resource := range []string{"configmaps", "secrets"} {
		e.Eventually(func() error { return alike(e.Local.Get(resource, ns, "large"), e.Remote.Get(resource, ns, "large")) })
	}
	e.Eventually(func() error { return e.Local.HasEvent(ns, "large", "Warning", "CreateFailed", "too large") })
	since := time.Now()
	e.Local.Create(widget(ns, "other", "{size: 1}"))
	e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "other"), 1, "spec", "size") })
	e.Always(2*time.Second, func() error { return absent(e.Remote.Get(widgets, ns, "large")) })
	tries := 0
	for _, w := range e.Writes(since) {
		if w.ObjectRef.Name == "large" {
			tries++
		}
	}
	if tries > 1 {
		t.Errorf("it was tried %d times in two seconds", tries)
	}
	e.Local.Patch(widgets, ns, "large", fmt.Sprintf("spec: {data: %q}", strings.Repeat("x", size-4096)))
	e.Eventually(func() error { return alike(e.Local.Get(widgets, ns, "large"), e.Remote.Get(widgets, ns, "large")) })
}
