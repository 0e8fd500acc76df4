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

// One namespace on two providers: status comes from the one that is named, and from none where none is; also when the second
// one appears for a namespace that had one.
func TestT5_TwoProviders(t *testing.T) {
	f := harness.NewFleet(t, "west", "east", "north")
	west, east, north := f.Member("west"), f.Member("east"), f.Member("north")
	west.Apply(harness.WidgetCRD("example.io"))
	west.Apply(harness.WidgetCRD("named.example.io"))
	allowed := []v1alpha1.AllowedResources{widgetAccess, {Group: "named.example.io", Resources: []string{"widgets"}, Access: v1alpha1.AccessWrite}}
	for _, m := range []*harness.Member{east, north} {
		m.Apply(harness.WidgetCRD("example.io"))
		m.Apply(harness.WidgetCRD("named.example.io"))
		m.Consent(allowed...)
		m.Admit("west", "'*'", allowed...)
	}
	const named = "widgets.named.example.io"
	west.Reach(east, "zone: a")
	west.Reach(north, "zone: b")
	west.Cross(crossing("widgets", ", policy: All"))
	west.Cross(strings.ReplaceAll(crossing("named", ", policy: All, status: {from: north}"), "group: example.io", "group: named.example.io"))
	west.Reflect()
	west.Offload("shop", "clusterSelector: {matchLabels: {zone: a}}")
	west.Create(widget("shop", "one", "", "{size: 1}"))
	west.Create(strings.ReplaceAll(widget("shop", "one", "", "{size: 1}"), "example.io/v1", "named.example.io/v1"))
	f.Eventually(harness.All(func() error { return east.There(widgets, "shop-west", "one") }, func() error { return east.There(named, "shop-west", "one") }))
	east.SetStatus(widgets, "shop-west", "one", "{phase: East}")
	east.SetStatus(named, "shop-west", "one", "{phase: East}")
	f.Eventually(func() error { return is(west.Get(widgets, "shop", "one"), "East", "status", "phase") })

	west.Patch(offloadings, "shop", "offloading", "{spec: {clusterSelector: null}}")
	f.Eventually(harness.All(func() error { return north.There(widgets, "shop-west", "one") }, func() error { return north.There(named, "shop-west", "one") }))
	north.SetStatus(widgets, "shop-west", "one", "{phase: North}")
	north.SetStatus(named, "shop-west", "one", "{phase: North}")
	f.Eventually(harness.All(
		func() error { return is(west.Get(widgets, "shop", "one"), nil, "status", "phase") },
		func() error { return is(west.Get(named, "shop", "one"), "North", "status", "phase") },
	))
	f.Eventually(func() error { return west.HasEvent("shop", "one", "statusFrom") })
	out, code := west.Ask("plan") // which knows of both twins, whichever remote it tells about
	says(t, out, code, 0, "to east:", "to north:")
	out, code = west.Ask("plan", "--remote", "north")
	says(t, out, code, 0, "to north:")

	// A remote that is deselected loses its twins.
	west.Patch(remotes, "", "north", "{metadata: {labels: {zone: c}}}")
	west.Patch(offloadings, "shop", "offloading", "{spec: {clusterSelector: {matchLabels: {zone: a}}}}")
	f.Eventually(harness.All(
		func() error { return north.Gone(widgets, "shop-west", "one") },
		func() error { return is(west.Get(widgets, "shop", "one"), "East", "status", "phase") },
	))
}

// A tenant that may write in its namespace gets nothing beyond it: neither by status, stamps, references, annotations nor
// names, and no value of its Secrets is told anywhere.
func TestS4F4_AHostileTenant(t *testing.T) {
	const marked = "c2VjcmV0LW1hcmtlci0zMTQxNQ==" // secret-marker-31415
	f := harness.NewFleet(t, "west", "east")
	west, east := f.Member("west"), f.Member("east")
	allowed := []v1alpha1.AllowedResources{widgetAccess, {Resources: []string{"secrets"}, Access: v1alpha1.AccessWrite}}
	for _, m := range []*harness.Member{west, east} {
		m.Apply(harness.WidgetCRDWith("example.io", "secretName: {type: string}"))
	}
	east.Consent(allowed...)
	east.Admit("west", "'*-west'", allowed...)
	west.Reach(east, "")
	west.Cross(crossing("widgets", ", policy: All, patches: [{path: spec.secretName, type: rewriteName}]"))
	west.Cross("{apiVersion: isthmus.dev/v1alpha1, kind: Crossing, metadata: {name: secrets}, spec: {resource: {version: v1, resource: secrets}}}")
	west.Cross(crossing("back", ", policy: All, direction: FromRemote"))
	p := west.Reflect("--log-level", "trace")
	west.Offload("shop", "")
	west.Offload("other", "")
	west.Create("{apiVersion: v1, kind: Secret, metadata: {name: mine, namespace: shop, annotations: {" + allow + "}}, data: {key: " + marked + "}}")
	west.Create("{apiVersion: v1, kind: Secret, metadata: {name: broken, namespace: shop, annotations: {isthmus.dev/allow-reflection: maybe, isthmus.dev/skip-reflection: 'true'}}, data: {key: " + marked + "}}")
	f.Eventually(harness.All(func() error { return east.There("secrets", "shop-west", "mine") }, func() error { return east.There("namespaces", "", "other-west") }))

	// Forged stamps bar an object from crossing, and do not make it anybody's twin.
	west.Create(widget("shop", "forged", "isthmus.dev/writer: east/controller/x, isthmus.dev/source: other/forged, isthmus.dev/twin: other/forged", "{size: 1}"))
	// Names and annotations that aim elsewhere.
	west.Create(widget("shop", "aimed", "isthmus.dev/target-namespace: isthmus-system, isthmus.dev/target-name: taken", "{size: 1, secretName: ../../isthmus-system/east}"))
	west.Create(widget("shop", "plain", "", "{size: 1}"))
	west.SetStatus(widgets, "shop", "plain", "{phase: Forged}")
	f.Eventually(harness.All(
		func() error { return east.There(widgets, "shop-west", "plain") },
		func() error { return east.There(widgets, "shop-west", "aimed") },
		func() error { return is(west.Get(widgets, "shop", "plain"), nil, "status", "phase") },
	))
	if err := is(east.Get(widgets, "shop-west", "plain"), nil, "status", "phase"); err != nil {
		t.Error(err)
	}
	// A writer on the provider's side aims at other namespaces of the consumer.
	east.Create(widget("shop-west", "back", "isthmus.dev/target-namespace: other, isthmus.dev/target-name: stolen", "{size: 1}"))
	f.Eventually(func() error { return west.There(widgets, "shop", "back") })
	rests(t, f, "west", west, east)
	for _, err := range []error{
		east.Gone(widgets, "shop-west", "forged"), west.Gone(widgets, "other", "stolen"), west.Gone(widgets, "other", "back"),
		east.Gone(widgets, "isthmus-system", "taken"), east.Gone("secrets", "shop-west", "broken"),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	for _, text := range []string{p.Log(), p.Metrics(), p.StatusText()} {
		if strings.Contains(text, marked) || strings.Contains(text, "secret-marker-31415") {
			t.Error("the value of a Secret was told")
		}
	}
	for _, m := range []*harness.Member{west, east} {
		for _, kind := range []string{"events", crossings, offloadings, remotes} {
			for _, o := range m.List(kind, "", "") {
				if text := fmt.Sprint(o.Object); strings.Contains(text, marked) || strings.Contains(text, "secret-marker-31415") {
					t.Errorf("the value of a Secret is in %s %s on %s", o.GetKind(), o.GetName(), m.Name())
				}
			}
		}
	}
}

// Credentials are rotated while traffic runs, and one remote hangs: the other goes on, and nothing is lost.
func TestF1_RotationBesideAHangingRemote(t *testing.T) {
	f := harness.NewFleet(t, "west", "east", "north")
	west, east, north := f.Member("west"), f.Member("east"), f.Member("north")
	west.Apply(harness.WidgetCRD("example.io"))
	for _, m := range []*harness.Member{east, north} {
		m.Apply(harness.WidgetCRD("example.io"))
		m.Consent(widgetAccess)
		m.Admit("west", "'*'", widgetAccess)
		west.Reach(m, "")
	}
	west.Cross(crossing("widgets", ", policy: All, status: {from: east}"))
	west.Reflect()
	west.Offload("shop", "")
	west.Create(widget("shop", "w0", "", "{size: 0}"))
	f.Eventually(harness.All(func() error { return east.There(widgets, "shop-west", "w0") }, func() error { return north.There(widgets, "shop-west", "w0") }))

	north.PauseAPIServer(t)
	for i := 1; i <= 30; i++ {
		west.Create(widget("shop", fmt.Sprintf("w%d", i), "", fmt.Sprintf("{size: %d}", i)))
		if i == 10 {
			// A token in the place of a certificate, and another server name's worth of kubeconfig.
			west.SetAccess(east, east.TokenKubeconfig("west"))
			east.Patch("consumers.v1alpha1.isthmus.dev", "", "west", "{spec: {subject: {kind: ServiceAccount, name: west, namespace: isthmus-system}}}")
		}
		time.Sleep(50 * time.Millisecond)
	}
	f.Eventually(func() error { return counts(east, "shop-west", 31) })
	f.Eventually(func() error { return condition(west.Get(remotes, "", "north"), "Reachable", "False", "Timeout", "") })
	if err := condition(west.Get(remotes, "", "east"), "Reachable", "True", "", ""); err != nil {
		t.Error(err)
	}
	north.ResumeAPIServer(t)
	f.Eventually(harness.All(
		func() error { return counts(north, "shop-west", 31) },
		func() error { return condition(west.Get(remotes, "", "north"), "Reachable", "True", "", "") },
	))
	west.SetAccess(east, east.BrokenKubeconfig("west"))
	f.Eventually(func() error {
		return condition(west.Get(remotes, "", "east"), "Reachable", "False", "Unauthorized", "")
	})
	west.SetAccess(east, east.TokenKubeconfig("west"))
	west.Create(widget("shop", "last", "", "{size: 1}"))
	f.Eventually(func() error {
		return errors.Join(east.There(widgets, "shop-west", "last"), condition(west.Get(remotes, "", "east"), "Reachable", "True", "", ""))
	})
}
