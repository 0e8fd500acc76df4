//go:build unix

package controller

import (
	"errors"
	"fmt"
	"testing"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/test/harness"
)

// A deleted Crossing settles its twins as it says, and stays until that is done.
func TestD5_ACrossingIsRemoved(t *testing.T) {
	f, east := consenting(t, "west")
	west := f.Member("west")
	west.Cross(crossing("red", ", policy: All, selector: {matchLabels: {color: red}}, onRemoval: Orphan"))
	west.Cross(crossing("blue", ", policy: All, selector: {matchLabels: {color: blue}}"))
	p := west.Reflect()
	west.Offload("shop", "")
	for _, color := range []string{"red", "blue"} {
		west.Create(fmt.Sprintf("{apiVersion: example.io/v1, kind: Widget, metadata: {name: %[1]s, namespace: shop, labels: {color: %[1]s}}, spec: {size: 1}}", color))
	}
	f.Eventually(harness.All(func() error { return east.There(widgets, "shop-west", "red") }, func() error { return east.There(widgets, "shop-west", "blue") }))

	// One that is edited into what is refused has not been removed: what it carried stays, also over a restart.
	west.Patch(crossings, "", "blue", "{spec: {patches: [{path: 'spec[', type: rewriteName}]}}")
	f.Eventually(func() error {
		return condition(west.Get(crossings, "", "blue"), "Active", "False", "", "patches[0].path")
	})
	p.Stop()
	west.Reflect()
	west.Create("{apiVersion: example.io/v1, kind: Widget, metadata: {name: more, namespace: shop, labels: {color: red}}, spec: {size: 1}}")
	f.Eventually(func() error { return east.There(widgets, "shop-west", "more") })
	if err := east.There(widgets, "shop-west", "blue"); err != nil {
		t.Errorf("with a Crossing that is refused: %v", err)
	}

	for _, name := range []string{"red", "blue"} {
		west.Delete(crossings, "", name)
	}
	f.Eventually(harness.All(func() error { return west.Gone(crossings, "", "red") }, func() error { return west.Gone(crossings, "", "blue") }))
	if err := east.Gone(widgets, "shop-west", "blue"); err != nil {
		t.Error(err)
	}
	if orphan := east.Get(widgets, "shop-west", "red"); orphan == nil || orphan.GetLabels()[boundary.LabelOrigin] != "" {
		t.Errorf("the orphan is %v", orphan)
	}
}

// A NamespaceOffloading that is deleted takes its twins along, however many they are, and what the provider made for it; also
// when the provider is away meanwhile. One annotation releases it from a provider that never returns.
func TestD2_ANamespaceIsWithdrawn(t *testing.T) {
	f, east := consenting(t, "west")
	west := f.Member("west")
	west.Cross(crossing("widgets", ", policy: All"))
	west.Reflect()
	for _, namespace := range []string{"shop", "desk"} {
		west.Offload(namespace, "")
		for i := range 8 {
			west.Create(widget(namespace, fmt.Sprintf("w%d", i), "", "{size: 1}"))
		}
		f.Eventually(func() error { return counts(east, namespace+"-west", 8) })
	}
	east.Create(widget("desk-west", "foreign", "", "{size: 1}"))

	east.StopAPIServer(t)
	west.Delete(offloadings, "shop", "offloading")
	f.Eventually(func() error {
		return condition(west.Get(offloadings, "shop", "offloading"), "Ready", "False", "Withdrawing", "east")
	})
	west.Delete(widgets, "desk", "w0")
	west.Create(widget("desk", "new", "", "{size: 1}"))
	east.StartAPIServer(t)
	f.Eventually(harness.All(
		func() error { return west.Gone(offloadings, "shop", "offloading") },
		func() error { return east.Gone("namespaces", "", "shop-west") },
		func() error { return east.Gone(widgets, "desk-west", "w0") },
		func() error { return east.There(widgets, "desk-west", "new") },
	))
	if err := counts(east, "desk-west", 9); err != nil { // with the foreign one
		t.Error(err)
	}

	east.StopAPIServer(t)
	west.Delete(offloadings, "desk", "offloading")
	f.Eventually(func() error {
		return condition(west.Get(offloadings, "desk", "offloading"), "Ready", "False", "Withdrawing", v1alpha1.ReleaseAnnotation)
	})
	west.Patch(offloadings, "desk", "offloading", fmt.Sprintf("{metadata: {annotations: {%s: 'true'}}}", v1alpha1.ReleaseAnnotation))
	f.Eventually(func() error { return west.Gone(offloadings, "desk", "offloading") })
	if err := counts(west, "desk", 8); err != nil {
		t.Error(err)
	}
}

// The controller may die at any point: nothing is left behind, and nothing foreign is touched.
func TestD2_TheControllerDies(t *testing.T) {
	f, east := consenting(t, "west")
	west := f.Member("west")
	west.Cross(crossing("widgets", ", policy: All"))
	p := west.Reflect()
	west.Offload("shop", "")
	for i := range 20 {
		west.Create(widget("shop", fmt.Sprintf("w%d", i), "", "{size: 1}"))
		if i == 10 {
			p.Kill()
			p = west.Reflect()
		}
	}
	f.Eventually(func() error { return counts(east, "shop-west", 20) })
	p.Kill()
	west.Delete(widgets, "shop", "w0")
	west.Patch(widgets, "shop", "w1", "{spec: {size: 7}}")
	west.Delete(widgets, "shop", "w2")
	west.Create(widget("shop", "w2", "", "{size: 3}"))
	p = west.Reflect()
	f.Eventually(harness.All(
		func() error { return east.Gone(widgets, "shop-west", "w0") },
		func() error { return is(east.Get(widgets, "shop-west", "w1"), 7, "spec", "size") },
		func() error { return is(east.Get(widgets, "shop-west", "w2"), 3, "spec", "size") },
		func() error { return is(west.Get(crossings, "", "widgets"), 19, "status", "inStep") },
	))
	rests(t, f, "west", west, east)

	// Half-way through a withdrawal.
	west.Delete(offloadings, "shop", "offloading")
	p.Kill()
	west.Reflect()
	f.Eventually(harness.All(
		func() error { return west.Gone(offloadings, "shop", "offloading") },
		func() error { return east.Gone("namespaces", "", "shop-west") },
	))
	if err := counts(west, "shop", 19); err != nil {
		t.Error(err)
	}
}

// Two consumers of one provider have the same names for everything: neither sees or touches what is the other's.
func TestN4_TwoConsumersOfOneProvider(t *testing.T) {
	f, east := consenting(t, "west", "south")
	consumers := []*harness.Member{f.Member("west"), f.Member("south")}
	for i, m := range consumers {
		m.Cross(crossing("widgets", ", policy: All"))
		m.Reflect()
		m.Offload("shop", "")
		m.Offload("same", "namespaceMappingStrategy: EnforceSameName")
		m.Create(widget("shop", "one", "", fmt.Sprintf("{size: %d}", i)))
		m.Create(widget("same", "one", "", fmt.Sprintf("{size: %d}", i)))
		f.Eventually(func() error { return is(east.Get(widgets, "shop-"+m.Name(), "one"), i, "spec", "size") })
		if i == 0 {
			f.Eventually(func() error { return is(east.Get(widgets, "same", "one"), i, "spec", "size") })
		}
	}
	f.Eventually(func() error {
		o := consumers[1].Get(offloadings, "same", "offloading")
		return errors.Join(is(o, "AllFailed", "status", "phase"), condition(o, "Ready", "False", "", "east"))
	})
	if err := is(east.Get(widgets, "same", "one"), 0, "spec", "size"); err != nil {
		t.Error(err)
	}
	consumers[1].Delete(widgets, "shop", "one")
	consumers[1].Delete(widgets, "same", "one")
	f.Eventually(func() error { return east.Gone(widgets, "shop-south", "one") })
	for _, namespace := range []string{"shop-west", "same"} {
		if err := east.There(widgets, namespace, "one"); err != nil {
			t.Error(err)
		}
	}
	for i, m := range consumers {
		other := consumers[1-i]
		for _, namespace := range []string{"shop-" + other.Name(), v1alpha1.ConsumerNamespacePrefix + other.Name(), ""} {
			for _, verb := range []string{"get", "list", "watch", "create", "patch", "delete"} {
				if east.May(m.User(), verb, widgets, namespace) || east.May(m.User(), verb, "secrets", namespace) {
					t.Errorf("%s may %s in %q on the provider", m.Name(), verb, namespace)
				}
			}
		}
	}
}

// A RemoteCluster that is deleted takes along what is ours there, and what we remembered of it.
func TestD2_ARemoteLeaves(t *testing.T) {
	f, east := consenting(t, "west")
	west := f.Member("west")
	west.Cross(crossing("widgets", ", policy: All"))
	west.Reflect()
	west.Offload("shop", "")
	for i := range 8 {
		west.Create(widget("shop", fmt.Sprintf("w%d", i), "", "{size: 1}"))
	}
	f.Eventually(func() error { return counts(east, "shop-west", 8) })
	const ledger = "isthmus-controller-east"
	if err := west.There("configmaps", harness.IsthmusNamespace, ledger); err != nil {
		t.Error(err)
	}
	west.Delete(remotes, "", "east")
	f.Eventually(harness.All(
		func() error { return west.Gone(remotes, "", "east") },
		func() error { return east.Gone("namespaces", "", "shop-west") },
		func() error { return west.Gone("configmaps", harness.IsthmusNamespace, ledger) },
		func() error {
			return is(west.Get(offloadings, "shop", "offloading"), "NoClusterSelected", "status", "phase")
		},
		func() error {
			return condition(west.Get(crossings, "", "widgets"), "Active", "False", "NoRemoteSelected", "")
		},
	))
	if err := counts(west, "shop", 8); err != nil {
		t.Error(err)
	}
	// It may come back.
	west.Reach(east, "")
	f.Eventually(func() error { return counts(east, "shop-west", 8) })
}

// A namespace that the provider refuses holds up nothing: neither deletes elsewhere, over a restart, nor its own
// withdrawal, nor that of a Crossing.
func TestN4_ARefusedNamespaceHoldsUpNothing(t *testing.T) {
	f, east := consenting(t, "west")
	west := f.Member("west")
	east.Admit("west", "'*-west'", widgetAccess)
	west.Cross(crossing("widgets", ", policy: All"))
	west.Cross("{apiVersion: isthmus.dev/v1alpha1, kind: Crossing, metadata: {name: nodes}, spec: {resource: {version: v1, resource: nodes}}}")
	p := west.Reflect()
	west.Offload("shop", "")
	west.Offload("refused", "namespaceMappingStrategy: EnforceSameName")
	west.Create(widget("shop", "one", "", "{size: 1}"))
	west.Create(widget("shop", "two", "", "{size: 1}"))
	west.Create(widget("refused", "one", "", "{size: 1}"))
	f.Eventually(harness.All(
		func() error { return counts(east, "shop-west", 2) },
		func() error {
			return condition(west.Get(offloadings, "refused", "offloading"), "Ready", "False", "", "east")
		},
		func() error {
			return condition(west.Get(crossings, "", "nodes"), "Active", "False", "Invalid", "cluster-scoped")
		},
		func() error { return condition(west.Get(crossings, "", "widgets"), "Active", "True", "Crossing", "") },
	))
	p.Kill()
	west.Delete(widgets, "shop", "one")
	west.Reflect()
	f.Eventually(func() error { return counts(east, "shop-west", 1) })
	west.Delete(crossings, "", "nodes")
	west.Delete(offloadings, "refused", "offloading")
	f.Eventually(harness.All(
		func() error { return west.Gone(crossings, "", "nodes") },
		func() error { return west.Gone(offloadings, "refused", "offloading") },
	))
	west.Delete(crossings, "", "widgets")
	f.Eventually(harness.All(
		func() error { return west.Gone(crossings, "", "widgets") },
		func() error { return counts(east, "shop-west", 0) },
	))
	if err := counts(west, "shop", 1); err != nil {
		t.Error(err)
	}
}
