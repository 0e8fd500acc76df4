//go:build linux

package packets

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"isthmus.dev/isthmus/test/podnet"
)

// What the endpoints of the Service web are on provider two, by the path to the pod on provider one. The pod on two is two's
// own; the controller of two's cluster adds it.
var (
	own     = []string{"IPv4 web-two 10.10.0.2", "IPv4 web-consumer 10.74.0.2", "IPv6 web-consumer fd74::2"}
	hairpin = append(slices.Clone(own), "IPv4 web-one 10.94.0.2", "IPv6 web-one fd94:0:0:90::2")
	direct  = append(slices.Clone(own), "IPv4 web-one 10.76.0.2", "IPv6 web-one fd76::2")
)

// The clusters' pod networks are one and the same, so a wrong translation leads to somebody, who says so.
func TestE4E5_PacketsTakeThePathThatIsSaid(t *testing.T) {
	w := newWorld(t)
	consumer := w.Member("consumer")

	t.Run("through the consumer, without the annotation", func(t *testing.T) {
		w.Eventually(func() error { return w.leads("two", hairpin...) })
		expect(t, w.askOne("two", "web-one"), "consumer-one", "consumer-two")
		expect(t, w.askOne("two", "web-consumer"), "consumer-two")
		expect(t, w.askOne("two", "web-two"))
		expect(t, w.askAll("one"), "consumer-one", "consumer-two")
	})

	annotate := func(value string) {
		consumer.Patch("services", shop, "web", "{metadata: {annotations: {isthmus.dev/use-direct-connections: "+value+"}}}")
	}
	t.Run("directly, with it", func(t *testing.T) {
		annotate("'true'")
		w.Eventually(func() error { return w.leads("two", direct...) })
		expect(t, w.askOne("two", "web-one"), "one-two")
		expect(t, w.askAll("two"), "one-two", "consumer-two")
		w.Eventually(func() error {
			if at := w.endpoints("one", "web")["IPv4 web-two"]; at.String() != "10.75.0.2" {
				return fmt.Errorf("two's pod is at %s for one", at)
			}
			return nil
		})
		expect(t, w.askOne("one", "web-two"), "one-two")
	})

	t.Run("the link goes down, and comes up", func(t *testing.T) {
		f := w.follow("two")
		w.cut(true)
		w.sayLink(false)
		began := time.Now()
		w.Eventually(func() error { return w.leads("two", hairpin...) })
		expect(t, w.askOne("two", "web-one"), "consumer-one", "consumer-two")
		t.Logf("answered through the consumer %s after the link's state changed", time.Since(began).Round(10*time.Millisecond))
		w.cut(false)
		w.sayLink(true)
		began = time.Now()
		w.Eventually(func() error { return w.leads("two", direct...) })
		t.Logf("direct again %s after the link's state changed", time.Since(began).Round(10*time.Millisecond))
		wrong, answers := f.end()
		if len(wrong) > 0 || answers == 0 {
			t.Errorf("%d answers; wrong ones: %q", answers, wrong)
		}
		expect(t, w.askOne("two", "web-one"), "one-two")
	})

	t.Run("the annotation goes", func(t *testing.T) {
		f := w.follow("two")
		annotate("null")
		w.Eventually(func() error { return w.leads("two", hairpin...) })
		if wrong, answers := f.end(); len(wrong) > 0 || answers == 0 {
			t.Errorf("%d answers; wrong ones: %q", answers, wrong)
		}
		expect(t, w.askOne("two", "web-one"), "consumer-one", "consumer-two")
	})

	t.Run("a thousand endpoints", func(t *testing.T) { thousand(t, w) })
}

// expect checks which links carried packets.
func expect(t *testing.T, have map[string]bool, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(have)); !slices.Equal(got, want) {
		t.Errorf("the links %q carried packets, expected %q", got, want)
	}
}

// thousand has a Service with a thousand endpoints, in slices of 100 as Kubernetes makes them, cross, and measures how long it
// takes until a pod's change is in the provider's slice. How long that is depends on the machine; it is reported.
func thousand(t *testing.T, w *world) {
	const total = 1000
	consumer := w.Member("consumer")
	name := func(i int) string { return fmt.Sprintf("many-%d", i) }
	address := func(i int) string { return fmt.Sprintf("10.71.%d.%d", 1+i/250, 1+i%250) }
	began := time.Now()
	var making sync.WaitGroup
	for worker := range 16 {
		making.Go(func() {
			for i := worker; i < total; i += 16 {
				w.runs(consumer, shop, name(i), "one", "many", address(i))
			}
		})
	}
	making.Wait()
	t.Logf("%d pods were made in %s", total, time.Since(began).Round(time.Millisecond))
	began = time.Now()
	consumer.Apply("{apiVersion: v1, kind: Service, metadata: {name: many, namespace: shop}, spec: {selector: {app: many}, ports: [{port: 80, targetPort: 8080}]}}")
	ready := func(want int) func() error {
		return func() error {
			if have := len(w.endpoints("two", "many")); have != want {
				return fmt.Errorf("%d endpoints are ready on two, expected %d", have, want)
			}
			return nil
		}
	}
	w.Eventually(ready(total))
	slicesThere := len(w.Member("two").List("endpointslices.discovery.k8s.io", theirs, "kubernetes.io/service-name=many"))
	t.Logf("%d endpoints in %d slices were on the provider after %s", total, slicesThere, time.Since(began).Round(time.Millisecond))
	if slicesThere < total/100 {
		t.Errorf("%d slices for %d endpoints", slicesThere, total)
	}
	var took []time.Duration
	for i := range 9 {
		began := time.Now()
		setReady(consumer, shop, name(i), address(i), false)
		w.Eventually(ready(total - 1 - i))
		took = append(took, time.Since(began).Round(time.Millisecond))
	}
	slices.Sort(took)
	t.Logf("from a pod's change to the provider's slice: %s median, %s at most", took[len(took)/2], took[len(took)-1])
}

// Whatever ends a test, nothing of its networks is left.
func TestNothingIsLeft(t *testing.T) {
	left, err := podnet.Left()
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
