//go:build unix

package controller

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/test/harness"
)

// Annotated widgets of an offloaded namespace are reflected, by the provider's consent, and others are not. Status returns in
// the source's generations, and the spec is the consumer's.
func TestS3O4T3_ReflectionWithConsent(t *testing.T) {
	f, east := consenting(t, "west")
	west := f.Member("west")
	west.Cross(crossing("widgets", ""))
	west.Reflect()
	west.Offload("shop", "")

	west.Create(widget("shop", "annotated", allow, "{size: 1}"))
	west.Create(widget("shop", "liqo", "liqo.io/allow-reflection: 'true'", "{size: 1}"))
	west.Create(widget("shop", "other", "", "{size: 1}"))
	f.Eventually(harness.All(
		func() error { return east.There(widgets, "shop-west", "annotated") },
		func() error { return east.There(widgets, "shop-west", "liqo") },
	))

	west.Patch(widgets, "shop", "annotated", "{spec: {size: 2}}")
	f.Eventually(func() error { return is(east.Get(widgets, "shop-west", "annotated"), 2, "spec", "size") })
	twin := east.Get(widgets, "shop-west", "annotated")
	east.SetStatus(widgets, "shop-west", "annotated", fmt.Sprintf("{phase: Ready, observedGeneration: %d}", twin.GetGeneration()))
	f.Eventually(func() error {
		source := west.Get(widgets, "shop", "annotated")
		return errors.Join(is(source, "Ready", "status", "phase"), is(source, source.GetGeneration(), "status", "observedGeneration"))
	})
	east.Patch(widgets, "shop-west", "annotated", "{spec: {size: 9}}")
	f.Eventually(func() error { return is(east.Get(widgets, "shop-west", "annotated"), 2, "spec", "size") })

	f.Eventually(harness.All(
		func() error { return condition(west.Get(remotes, "", "east"), "Reachable", "True", "", "") },
		func() error { return condition(west.Get(remotes, "", "east"), "KindsServed", "True", "", "") },
		func() error { return is(west.Get(remotes, "", "east"), "Provider", "status", "consent") },
		func() error { return condition(west.Get(crossings, "", "widgets"), "Active", "True", "", "") },
		func() error { return condition(west.Get(crossings, "", "widgets"), "Served", "True", "", "") },
		func() error { return condition(west.Get(crossings, "", "widgets"), "Permitted", "True", "", "") },
		func() error { return is(west.Get(crossings, "", "widgets"), 2, "status", "inStep") },
		func() error { return is(west.Get(offloadings, "shop", "offloading"), "Ready", "status", "phase") },
	))
	rests(t, f, "west", west, east)

	west.Patch(widgets, "shop", "annotated", "{metadata: {annotations: {isthmus.dev/allow-reflection: null}}}")
	f.Eventually(func() error { return east.Gone(widgets, "shop-west", "annotated") })
	if err := east.Gone(widgets, "shop-west", "other"); err != nil {
		t.Error(err)
	}
}

// Where the provider serves no NamespaceRequests, the consumer makes the namespaces.
func TestN4_NamespacesWithoutConsent(t *testing.T) {
	f, west, east := unconsenting(t, crossing("widgets", ", policy: DenyList"))
	process := west.Reflect()
	west.Offload("shop", selectedName+"till")
	east.Apply("{apiVersion: v1, kind: Namespace, metadata: {name: taken}}")
	west.Offload("desk", selectedName+"taken")

	west.Create(widget("shop", "plain", "", "{size: 1}"))
	west.Create(widget("shop", "skipped", skip, "{size: 1}"))
	f.Eventually(func() error { return east.There(widgets, "till", "plain") })
	if err := east.Gone(widgets, "till", "skipped"); err != nil {
		t.Error(err)
	}
	f.Eventually(harness.All(
		func() error { return is(west.Get(crossings, "", "widgets"), 1, "status", "inStep") },
		func() error { return is(west.Get(offloadings, "shop", "offloading"), "Ready", "status", "phase") },
		func() error { return is(west.Get(remotes, "", "east"), "Consumer", "status", "consent") },
		func() error { return condition(west.Get(remotes, "", "east"), "Reachable", "True", "", "") },
		func() error { return condition(west.Get(crossings, "", "widgets"), "Permitted", "True", "", "") },
		func() error { return condition(west.Get(offloadings, "desk", "offloading"), "Ready", "True", "", "") },
	))
	rests(t, f, "west", west, east)

	// One more is looked at alone; many take one watch, for RBAC allows that.
	before := len(process.Log())
	for i := range 10 {
		name := fmt.Sprintf("more-%d", i)
		west.Offload(name, selectedName+name+"-there")
		west.Create(widget(name, "plain", "", "{size: 1}"))
		f.Eventually(func() error { return east.There(widgets, name+"-there", "plain") })
	}
	decided := func(source string) bool {
		return strings.Contains(process.Log()[before:], "msg=Decided") && strings.Contains(process.Log()[before:], "source="+source+" place=")
	}
	if !decided("more-9/plain") || decided("shop/plain") {
		t.Errorf("decided about more-9/plain: %t, and about shop/plain, of which nothing changed: %t", decided("more-9/plain"), decided("shop/plain"))
	}
	f.Eventually(func() error {
		if n := east.Watching("west", "namespaces"); n != 1 {
			return fmt.Errorf("%d watches of namespaces, expected 1", n)
		}
		return nil
	})

	west.Patch(widgets, "shop", "skipped", "{metadata: {annotations: {isthmus.dev/skip-reflection: null}}}")
	west.Patch(widgets, "shop", "plain", "{metadata: {annotations: {isthmus.dev/skip-reflection: 'true'}}}")
	f.Eventually(harness.All(
		func() error { return east.There(widgets, "till", "skipped") },
		func() error { return east.Gone(widgets, "till", "plain") },
	))
}

// Two clusters offload to each other, under names that both choose: nothing bounces.
func TestS4_BidirectionalPeering(t *testing.T) {
	const each = 200
	f := harness.NewFleet(t, "west", "east")
	west, east := f.Member("west"), f.Member("east")
	for _, m := range []*harness.Member{west, east} {
		m.Apply(harness.WidgetCRD("example.io"))
		m.Consent(widgetAccess)
		m.Cross(crossing("widgets", ", policy: DenyList, workers: 8"))
	}
	east.Admit("west", "'*'", widgetAccess)
	west.Admit("east", "'*'", widgetAccess)
	west.Reach(east, "")
	east.Reach(west, "")
	for _, m := range []*harness.Member{west, east} {
		m.Reflect()
		m.Offload("shop", selectedName+"from-"+m.Name())
		for i := range each {
			m.Create(widget("shop", fmt.Sprintf("w%d", i), "", fmt.Sprintf("{size: %d}", i)))
		}
	}
	f.Within(4*time.Minute, harness.All(
		func() error { return counts(west, "from-east", each) }, func() error { return counts(east, "from-west", each) },
		func() error { return is(west.Get(crossings, "", "widgets"), each, "status", "inStep") },
		func() error { return is(east.Get(crossings, "", "widgets"), each, "status", "inStep") },
		func() error { return condition(west.Get(crossings, "", "widgets"), "Permitted", "True", "", "") }, // asked now and then
		func() error { return condition(east.Get(crossings, "", "widgets"), "Permitted", "True", "", "") },
	))
	rests(t, f, "west", west, east)
	rests(t, f, "east", west, east)
	for _, m := range []*harness.Member{west, east} {
		if err := counts(m, "shop", each); err != nil {
			t.Error(err)
		}
		if total := len(m.List(widgets, "", "")); total != 2*each {
			t.Errorf("%d widgets are on %s, expected %d", total, m.Name(), 2*each)
		}
	}
}

func counts(m *harness.Member, namespace string, want int) error {
	if got := len(m.List(widgets, namespace, "")); got != want {
		return fmt.Errorf("%d widgets in %s on %s, expected %d", got, namespace, m.Name(), want)
	}
	return nil
}

// A kind that the provider does not serve yet waits and says so; one more kind starts without touching what runs.
func TestS7_KindsThatComeLater(t *testing.T) {
	f := harness.NewFleet(t, "west", "east")
	west, east := f.Member("west"), f.Member("east")
	both := []v1alpha1.AllowedResources{widgetAccess, {Group: "late.example.io", Resources: []string{"widgets"}, Access: v1alpha1.AccessWrite}}
	west.Apply(harness.WidgetCRD("example.io"))
	west.Apply(harness.WidgetCRD("late.example.io"))
	east.Consent(both...)
	east.Admit("west", "'*'", both...)
	west.Reach(east, "")
	west.Cross(crossing("widgets", ", policy: All"))
	west.Reflect()
	west.Offload("shop", selectedName+"shop-east")
	west.Create(widget("shop", "one", "", "{size: 1}"))
	f.Eventually(harness.All(
		func() error {
			return condition(west.Get(crossings, "", "widgets"), "Served", "False", "NotServed", "east")
		},
		func() error { return condition(west.Get(crossings, "", "widgets"), "Active", "False", "", "") },
		func() error { return condition(west.Get(remotes, "", "east"), "KindsServed", "False", "", "widgets") },
	))
	east.Apply(harness.WidgetCRD("example.io"))
	f.Eventually(harness.All(
		func() error { return east.There(widgets, "shop-east", "one") },
		func() error { return condition(west.Get(crossings, "", "widgets"), "Active", "True", "", "") },
	))
	before := east.Get(widgets, "shop-east", "one")

	began := time.Now()
	east.Apply(harness.WidgetCRD("late.example.io"))
	west.Cross(strings.ReplaceAll(crossing("late", ", policy: All"), "group: example.io", "group: late.example.io"))
	west.Create(strings.ReplaceAll(widget("shop", "two", "", "{size: 1}"), "example.io/v1", "late.example.io/v1"))
	f.Eventually(func() error { return east.There("widgets.late.example.io", "shop-east", "two") })
	if after := east.Get(widgets, "shop-east", "one"); after.GetUID() != before.GetUID() || after.GetResourceVersion() != before.GetResourceVersion() {
		t.Error("the twin of the kind that ran before was touched")
	}
	for _, r := range east.Listings("west", began) {
		if strings.Contains(r.RequestURI, "/apis/example.io/") {
			t.Errorf("the kind that ran before was listed or watched anew: %s", r)
		}
	}
}

// A kind crosses although the sides store it in other versions, and whichever served version it is written in.
func TestS7_OtherVersionsOnEachSide(t *testing.T) {
	f := harness.NewFleet(t, "west", "east")
	west, east := f.Member("west"), f.Member("east")
	definition := func(storage string) string {
		text := "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: widgets.example.io}, spec: {group: example.io, scope: Namespaced, names: {kind: Widget, plural: widgets}, versions: ["
		for _, version := range []string{"v1", "v2"} {
			text += fmt.Sprintf("{name: %s, served: true, storage: %t, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}, status: {type: object, properties: {phase: {type: string}}}}}}}, ", version, version == storage)
		}
		return text + "]}}"
	}
	west.Apply(definition("v1"))
	east.Apply(definition("v2"))
	east.Consent(widgetAccess)
	east.Admit("west", "'*'", widgetAccess)
	west.Reach(east, "")
	west.Cross(crossing("widgets", ", policy: All"))
	west.Reflect()
	west.Offload("shop", "")
	west.Create(strings.ReplaceAll(widget("shop", "one", "", "{size: 1}"), "example.io/v1", "example.io/v2"))
	f.Eventually(func() error { return is(east.Get("widgets.v2.example.io", "shop-west", "one"), 1, "spec", "size") })
	east.SetStatus("widgets.v2.example.io", "shop-west", "one", "{phase: Ready}")
	f.Eventually(func() error { return is(west.Get("widgets.v2.example.io", "shop", "one"), "Ready", "status", "phase") })
	west.Patch("widgets.v2.example.io", "shop", "one", "{spec: {size: 2}}")
	f.Eventually(func() error { return is(east.Get(widgets, "shop-west", "one"), 2, "spec", "size") })
	rests(t, f, "west", west, east)
}
