//go:build unix

package controller

import (
	"testing"

	"isthmus.dev/isthmus/test/harness"
)

// Where the provider serves no NamespaceRequests, the consumer makes the namespaces.
func TestN4_NamespacesWithoutConsent(t *testing.T) {
	f := harness.NewFleet(t, "west", "east")
	west, east := f.Member("west"), f.Member("east")
	west.Apply(harness.WidgetCRD("example.io"))
	east.Apply(harness.WidgetCRD("example.io"))
	east.Delete("customresourcedefinitions.apiextensions.k8s.io", "", "namespacerequests.isthmus.dev")
	west.Cross(crossing("widgets", ", policy: DenyList"))
	east.Trust(west)
	west.Reach(east, "")
	west.Reflect()
	west.Offload("shop", selectedName+"till")
	east.Apply("{apiVersion: v1, kind: Namespace, metadata: {name: taken}}")
	west.Offload("desk", selectedName+"taken")

	west.Create(widget("shop", "plain", "", "{size: 1}"))
	west.Create(widget("shop", "skipped", skip, "{size: 1}"))
	f.Eventually(func() error { return there(east, widgets, "till", "plain") })
	if err := gone(east, widgets, "till", "skipped"); err != nil {
		t.Error(err)
	}
	f.Eventually(all(
		func() error { return is(west.Get(crossings, "", "widgets"), 1, "status", "inStep") },
		func() error { return is(west.Get(offloadings, "shop", "offloading"), "Ready", "status", "phase") },
		func() error { return is(west.Get(remotes, "", "east"), "Consumer", "status", "consent") },
		func() error { return condition(west.Get(remotes, "", "east"), "Reachable", "True", "", "") },
		func() error { return condition(west.Get(crossings, "", "widgets"), "Permitted", "True", "", "") },
		func() error { return condition(west.Get(offloadings, "desk", "offloading"), "Ready", "True", "", "") },
	))
	rests(t, "west", west, east)
	west.Patch(widgets, "shop", "skipped", "{metadata: {annotations: {isthmus.dev/skip-reflection: null}}}")
	west.Patch(widgets, "shop", "plain", "{metadata: {annotations: {isthmus.dev/skip-reflection: 'true'}}}")
	f.Eventually(all(
		func() error { return there(east, widgets, "till", "skipped") },
		func() error { return gone(east, widgets, "till", "plain") },
	))
}
