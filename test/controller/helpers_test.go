//go:build unix

package controller

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/test/harness"
)

const (
	widgets      = "widgets.example.io"
	crossings    = "crossings.v1alpha1.isthmus.dev"
	offloadings  = "namespaceoffloadings.v1alpha1.isthmus.dev"
	remotes      = "remoteclusters.v1alpha1.isthmus.dev"
	allow        = "isthmus.dev/allow-reflection: 'true'"
	skip         = "isthmus.dev/skip-reflection: 'true'"
	selectedName = "namespaceMappingStrategy: SelectedName, remoteNamespaceName: "
)

// widgetAccess are the kinds that providers allow.
var widgetAccess = v1alpha1.AllowedResources{Group: "example.io", Resources: []string{"widgets"}, Access: v1alpha1.AccessWrite}

// crossing is a Crossing of widgets.
func crossing(name, more string) string {
	return fmt.Sprintf("{apiVersion: isthmus.dev/v1alpha1, kind: Crossing, metadata: {name: %s}, spec: {resource: {group: example.io, version: v1, resource: widgets}%s}}", name, more)
}

func widget(namespace, name, annotations, spec string) string {
	return fmt.Sprintf("{apiVersion: example.io/v1, kind: Widget, metadata: {name: %s, namespace: %s, annotations: {%s}}, spec: %s}", name, namespace, annotations, spec)
}

// consenting returns a fleet of consumers and one provider, east, which gives them namespaces on request; all know widgets.
func consenting(t *testing.T, consumers ...string) (f *harness.Fleet, east *harness.Member) {
	t.Helper()
	f = harness.NewFleet(t, append(consumers, "east")...)
	east = f.Member("east")
	east.Apply(harness.WidgetCRD("example.io"))
	east.Consent(widgetAccess)
	for _, name := range consumers {
		f.Member(name).Apply(harness.WidgetCRD("example.io"))
		east.Admit(name, "'*'", widgetAccess)
		f.Member(name).Reach(east, "")
	}
	return f, east
}

// unconsenting returns a consumer, west, and a provider, east, that serves no NamespaceRequests, so that west makes the
// namespaces there; both know widgets, which west has a Crossing for.
func unconsenting(t *testing.T, crossing string) (f *harness.Fleet, west, east *harness.Member) {
	t.Helper()
	f = harness.NewFleet(t, "west", "east")
	west, east = f.Member("west"), f.Member("east")
	west.Apply(harness.WidgetCRD("example.io"))
	east.Apply(harness.WidgetCRD("example.io"))
	east.Delete("customresourcedefinitions.apiextensions.k8s.io", "", "namespacerequests.isthmus.dev")
	west.Cross(crossing)
	east.Trust(west)
	west.Reach(east, "")
	return f, west, east
}

// is says that a field of an object has another value than expected; nil means that it should not be there.
func is(obj *unstructured.Unstructured, want any, path ...string) error {
	if obj == nil {
		return errors.New("the object is missing")
	}
	got, _, err := unstructured.NestedFieldNoCopy(obj.Object, path...)
	if err != nil {
		return err
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		return fmt.Errorf("%s of %s %s/%s is %v, expected %v", strings.Join(path, "."), obj.GetKind(), obj.GetNamespace(), obj.GetName(), got, want)
	}
	return nil
}

// condition says that a condition has another status or reason than expected, or lacks a text; an empty expectation is none.
func condition(obj *unstructured.Unstructured, kind, status, reason, says string) error {
	if obj == nil {
		return errors.New("the object is missing")
	}
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, c := range conditions {
		c := c.(map[string]any)
		if c["type"] != kind {
			continue
		}
		if c["status"] != status || reason != "" && c["reason"] != reason || !strings.Contains(fmt.Sprint(c["message"]), says) {
			return fmt.Errorf("%s of %s %s is %v, %v: %v; expected %s, %s: …%s…", kind, obj.GetKind(), obj.GetName(), c["status"], c["reason"], c["message"], status, reason, says)
		}
		if c["observedGeneration"] != obj.GetGeneration() {
			return fmt.Errorf("%s of %s %s is of generation %v, expected %d", kind, obj.GetKind(), obj.GetName(), c["observedGeneration"], obj.GetGeneration())
		}
		return nil
	}
	return fmt.Errorf("%s %s has no condition %s: %v", obj.GetKind(), obj.GetName(), kind, conditions)
}

// rests checks that the Isthmus of a consumer comes to rest, and then writes nothing on some clusters for a while: neither to
// what crosses, nor to what says how it stands.
func rests(t *testing.T, f *harness.Fleet, consumer string, members ...*harness.Member) {
	t.Helper()
	writes := func(since time.Time) (all []harness.Request) {
		for _, m := range members {
			all = append(all, m.AllWrites(consumer, since)...)
		}
		return all
	}
	f.Eventually(func() error {
		if last := writes(time.Now().Add(-2 * time.Second)); len(last) > 0 {
			return fmt.Errorf("it does not come to rest: %v", last)
		}
		return nil
	})
	began := time.Now()
	time.Sleep(2 * time.Second)
	for _, r := range writes(began) {
		t.Errorf("a write at rest: %s", r)
	}
}
