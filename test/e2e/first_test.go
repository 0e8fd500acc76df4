//go:build unix

package e2e

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"isthmus.dev/isthmus/test/harness"
)

const widgets = "widgets.example.io"

// widgetRule is a configuration with one rule for widgets in one namespace, and lines to add to the rule.
func widgetRule(namespace string, lines ...string) string {
	text := fmt.Sprintf(`version: v1
log_level: trace
namespaces: {%[1]s: %[1]s}
syncResources:
- apiVersion: example.io/v1
  kind: Widget
  direction: toHost
  statusSync: true
`, namespace)
	for _, line := range lines {
		text += "  " + line + "\n"
	}
	return text
}

func widget(namespace, name, spec string) string {
	return fmt.Sprintf("apiVersion: example.io/v1\nkind: Widget\nmetadata: {name: %q, namespace: %q}\nspec: %s\n", name, namespace, spec)
}

// field returns what is at a path of an object; nil when there is no object or no such field.
func field(obj *unstructured.Unstructured, path ...string) any {
	if obj == nil {
		return nil
	}
	v, _, _ := unstructured.NestedFieldNoCopy(obj.Object, path...)
	return v
}

// is returns nil when a field of an object has a value.
func is(obj *unstructured.Unstructured, want any, path ...string) error {
	if have := field(obj, path...); fmt.Sprint(have) != fmt.Sprint(want) {
		return fmt.Errorf("%v is %v, expected %v", path, have, want)
	}
	return nil
}

// absent returns nil when there is no object.
func absent(obj *unstructured.Unstructured) error {
	if obj != nil {
		return fmt.Errorf("%s %s/%s is there", obj.GetKind(), obj.GetNamespace(), obj.GetName())
	}
	return nil
}

func TestM1_SpecOutStatusBack(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	e.Start(widgetRule(ns))

	began := time.Now()
	e.Local.Create(widget(ns, "one", "{size: 3, ports: [{port: 80}, {port: 53, protocol: UDP}]}"))
	e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "one"), 3, "spec", "size") })
	e.Remote.SetStatus(widgets, ns, "one", "{ready: true}")
	e.Eventually(func() error { return is(e.Local.Get(widgets, ns, "one"), true, "status", "ready") })
	e.Local.Patch(widgets, ns, "one", "spec: {size: 4}")
	e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "one"), 4, "spec", "size") })
	e.Local.Delete(widgets, ns, "one")
	e.Eventually(func() error { return absent(e.Remote.Get(widgets, ns, "one")) })
	e.Quiet(time.Second)

	if writes := e.Writes(began); len(writes) != 4 {
		t.Errorf("expected a write for each of create, status, update and delete, got %v", writes)
	}
	var reads []harness.Request
	for _, r := range e.Reads(began) {
		if r.ObjectRef.Resource == "widgets" { // the CRD is read before a batch of deletes (F7), and when it may have changed
			reads = append(reads, r)
		}
	}
	if len(reads) > 0 {
		t.Errorf("expected no reads, got %v", reads)
	}
}
