//go:build unix

package controller

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"isthmus.dev/isthmus/test/harness"
)

// What Liqo keeps: its module, the file of NamespaceMaps' definition, and where a consumer's map for a provider is.
const (
	liqoModule   = "github.com/liqotech/liqo@v1.0.1"
	liqoMapsFile = "deployments/liqo/charts/liqo-crds/crds/offloading.liqo.io_namespacemaps.yaml"
	liqoMapsCRD  = "namespacemaps.offloading.liqo.io"
	liqoMaps     = "namespacemaps.v1beta1.offloading.liqo.io"
	liqoTenant   = "liqo-tenant-east"
)

// liqoConsumer plays the controllers of Liqo on a consumer, west, that is peered with east.
type liqoConsumer struct{ west, east *harness.Member }

// peer makes the map of an empty peering, as Liqo does for a virtual node. With it comes the copy of the provider's own
// map, which says what that one offloads to here, as where two clusters are each the other's consumer.
func (l liqoConsumer) peer() {
	l.west.Apply("{apiVersion: v1, kind: Namespace, metadata: {name: " + liqoTenant + "}}")
	l.west.Create(`{apiVersion: offloading.liqo.io/v1beta1, kind: NamespaceMap, metadata: {name: east, namespace: ` + liqoTenant + `, labels: {
		liqo.io/remote-cluster-id: east, liqo.io/remoteID: east, liqo.io/replication: "true"}}}`)
	l.west.Create(`{apiVersion: offloading.liqo.io/v1beta1, kind: NamespaceMap, metadata: {name: west, namespace: ` + liqoTenant + `, labels: {
		liqo.io/remote-cluster-id: east, liqo.io/remoteID: west, liqo.io/originID: east, liqo.io/replication: "false", liqo.io/replicated: "true"}},
		spec: {desiredMapping: {shop: theirs}}}`)
	l.west.SetStatus(liqoMaps, liqoTenant, "west", "{currentMapping: {shop: {remoteNamespace: theirs, phase: Accepted}}}")
}

// ask asks for a counterpart, as a NamespaceOffloading of Liqo does; an empty one takes it back.
func (l liqoConsumer) ask(local, remote string) {
	l.west.Patch(liqoMaps, liqoTenant, "east", fmt.Sprintf("{spec: {desiredMapping: {%s: %s}}}", local, orNull(remote)))
}

// become says what became of a namespace; an empty phase: it is gone.
func (l liqoConsumer) become(local, remote, phase string) {
	mapping := "null"
	if phase != "" {
		mapping = fmt.Sprintf("{remoteNamespace: %s, phase: %s}", remote, phase)
	}
	l.west.SetStatus(liqoMaps, liqoTenant, "east", fmt.Sprintf("{currentMapping: {%s: %s}}", local, mapping))
}

// make makes a namespace on the provider, as Liqo does there.
func (l liqoConsumer) make(local, remote string) {
	l.east.Apply(fmt.Sprintf(`{apiVersion: v1, kind: Namespace, metadata: {name: %s, labels: {liqo.io/remote-cluster-id: west},
		annotations: {liqo.io/managed-by-namespace-map: liqo-tenant-west/east, liqo.io/original-name: %s}}}`, remote, local))
}

func orNull(text string) string {
	if text == "" {
		return "null"
	}
	return text
}

// widgetsIn makes n widgets.
func widgetsIn(m *harness.Member, namespace string, n int) {
	for i := range n {
		m.Create(widget(namespace, fmt.Sprintf("w%d", i), "", "{size: 1}"))
	}
}

// count says that there is another number of widgets than expected.
func count(m *harness.Member, namespace string, want int) error {
	if got := len(m.List(widgets, namespace, "")); got != want {
		return fmt.Errorf("%d widgets are in %s on %s, expected %d", got, namespace, m.Name(), want)
	}
	return nil
}

// stays checks that the Isthmus of a consumer writes nothing on a member while something is done, and for a while after.
func stays(t *testing.T, consumer string, m *harness.Member, do func()) {
	t.Helper()
	began := time.Now()
	do()
	time.Sleep(2 * time.Second)
	for _, r := range m.Writes(consumer, began) {
		t.Errorf("a write to what was to stay as it is: %s", r)
	}
}

// Liqo's own objects say which namespaces have counterparts, and Liqo makes these.
func TestD_LiqoSaysWhichNamespacesCross(t *testing.T) {
	f := harness.NewFleet(t, "west", "east")
	west, east := f.Member("west"), f.Member("east")
	liqo := liqoConsumer{west, east}
	for _, m := range []*harness.Member{west, east} {
		m.Apply(harness.WidgetCRD("example.io"))
	}
	west.UseLiqo()
	west.Cross(crossing("widgets", ", policy: DenyList"))
	east.Trust(west)
	west.Reach(east, "")
	p := west.Reflect("--namespace-source", "liqo")
	says := func(text string) error {
		if code, body := p.Ready(); code != 200 || !strings.Contains(body, text) {
			return fmt.Errorf("readyz: %d %s; expected 200 with %q", code, body, text)
		}
		return nil
	}
	west.Apply("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}")
	west.Offload("desk", selectedName+"desk")
	widgetsIn(west, "shop", 8)
	west.Create(widget("desk", "plain", "", "{size: 1}"))

	// Liqo is installed later.
	f.Eventually(func() error { return says("serves no NamespaceMaps of Liqo") })
	west.Apply(harness.ModuleFile(t, liqoModule, liqoMapsFile))
	f.Eventually(func() error {
		_, err := west.TryCreate("{apiVersion: offloading.liqo.io/v1beta1, kind: NamespaceMap, metadata: {name: probe, namespace: default}}")
		return err
	})
	liqo.peer()
	f.Eventually(func() error {
		if says("Liqo") == nil {
			return fmt.Errorf("still not ready: %v", says("ok"))
		}
		return nil
	})
	stays(t, "west", east, func() {
		liqo.ask("shop", "till")
		liqo.make("shop", "till")
		liqo.become("shop", "till", "CreationLoopBackOff")
	})
	if err := count(east, "till", 0); err != nil {
		t.Error(err)
	}
	liqo.become("shop", "till", "Accepted")
	f.Eventually(func() error { return count(east, "till", 8) })
	f.Eventually(func() error { return is(west.Get(crossings, "", "widgets"), 8, "status", "inStep") })
	f.Eventually(func() error {
		if err := is(west.Get(offloadings, "desk", "offloading"), "AllFailed", "status", "phase"); err != nil {
			return err
		}
		return condition(west.Get(offloadings, "desk", "offloading"), "Ready", "False", "Ignored", "--namespace-source=liqo")
	})
	if east.Get("namespaces", "", "desk") != nil || east.Get("namespaces", "", "theirs") != nil {
		t.Error("a namespace was made that Liqo did not make")
	}
	rests(t, f, "west", west, east)

	t.Run("a pair that is not ready is left as it is", func(t *testing.T) {
		stays(t, "west", east, func() {
			liqo.become("shop", "till", "CreationLoopBackOff")
			time.Sleep(time.Second) // until that is known
			west.Patch(widgets, "shop", "w0", "{spec: {size: 2}}")
			west.Delete(widgets, "shop", "w1")
			west.Create(widget("shop", "late", "", "{size: 1}"))
		})
		if err := count(east, "till", 8); err != nil {
			t.Error(err)
		}
		liqo.become("shop", "till", "Accepted")
		f.Eventually(harness.All(
			func() error { return is(east.Get(widgets, "till", "w0"), 2, "spec", "size") },
			func() error { return east.Gone(widgets, "till", "w1") },
			func() error { return east.There(widgets, "till", "late") },
		))
	})

	t.Run("the definition of NamespaceMaps goes, and takes them along", func(t *testing.T) {
		stays(t, "west", east, func() {
			west.Delete("customresourcedefinitions.apiextensions.k8s.io", "", liqoMapsCRD)
			f.Eventually(func() error { return says("Liqo") })
		})
		if err := count(east, "till", 8); err != nil {
			t.Error(err)
		}
		west.Create(widget("shop", "later", "", "{size: 1}"))
		west.Apply(harness.ModuleFile(t, liqoModule, liqoMapsFile))
		f.Eventually(func() error {
			_, err := west.TryCreate("{apiVersion: offloading.liqo.io/v1beta1, kind: NamespaceMap, metadata: {name: probe, namespace: default}}")
			return err
		})
		// More twins than the guard lets go for a map that nobody was seen to take back.
		time.Sleep(2 * time.Second)
		if err := count(east, "till", 8); err != nil {
			t.Error(err)
		}
		liqo.peer()
		liqo.ask("shop", "till")
		liqo.become("shop", "till", "Accepted")
		f.Eventually(func() error { return east.There(widgets, "till", "later") })
	})

	// More than half of the twins, and more than four: the guard would hold what nobody was seen to take back.
	t.Run("a namespace is taken back", func(t *testing.T) {
		liqo.ask("shop", "")
		f.Eventually(func() error { return count(east, "till", 0) })
		liqo.become("shop", "till", "")
		if east.Get("namespaces", "", "till") == nil {
			t.Error("a namespace that Liqo made was deleted")
		}
		if err := count(west, "shop", 9); err != nil {
			t.Error(err)
		}
		rests(t, f, "west", west, east)
	})

	t.Run("one is taken back at once", func(t *testing.T) {
		liqo.ask("shop", "till")
		liqo.become("shop", "till", "Accepted")
		f.Eventually(func() error { return count(east, "till", 9) })
		west.Delete(liqoMaps, liqoTenant, "east")
		f.Eventually(func() error { return count(east, "till", 0) })
	})

	t.Run("one is taken back while nobody looks", func(t *testing.T) {
		west.Delete(liqoMaps, liqoTenant, "west")
		liqo.peer()
		liqo.ask("shop", "till")
		liqo.become("shop", "till", "Accepted")
		f.Eventually(func() error { return count(east, "till", 9) })
		p.Stop()
		liqo.ask("shop", "")
		liqo.become("shop", "till", "Terminating")
		west.Reflect("--namespace-source", "liqo")
		f.Eventually(func() error { return count(east, "till", 0) })
	})
}
