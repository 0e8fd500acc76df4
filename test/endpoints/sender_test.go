//go:build unix

package endpoints

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"isthmus.dev/isthmus/test/harness"
)

// The addresses of the tests: all clusters' pods are in 10.0.0.0/16 natively. West sees north's as 10.71 and east's as 10.72,
// and leads to what it sees as 10.71 by 10.61. East sees west's pods as 10.81, what west's external network holds as 10.91,
// and north's pods, over its own link, as 10.82.
const (
	northSeenByWest = "podCIDRs: [{native: 10.0.0.0/16, seenAs: 10.71.0.0/16}], transit: [{from: 10.71.0.0/16, external: 10.61.0.0/16}]"
	eastSeenByWest  = "podCIDRs: [{native: 10.0.0.0/16, seenAs: 10.72.0.0/16}], externalCIDRs: [{native: 10.61.0.0/16, seenAs: 10.92.0.0/16}]"
	westSeenByEast  = "podCIDRs: [{native: 10.0.0.0/16, seenAs: 10.81.0.0/16}, {native: 'fd00:1::/64', seenAs: 'fd00:81::/64'}], externalCIDRs: [{native: 10.61.0.0/16, seenAs: 10.91.0.0/16}]"
	northSeenByEast = "podCIDRs: [{native: 10.0.0.0/16, seenAs: 10.82.0.0/16}]"
)

// peers returns two clusters that offload to each other, by consent, with endpoints: west with opt-in, east with everything.
func peers(t *testing.T) (f *harness.Fleet, west, east *harness.Member, p *harness.Isthmus) {
	t.Helper()
	f = harness.NewFleet(t, "west", "east")
	west, east = f.Member("west"), f.Member("east")
	for _, m := range []*harness.Member{west, east} {
		m.UseEndpoints()
		m.Consent(access...)
	}
	east.Admit("west", "'*'", access...)
	west.Admit("east", "'*'", access...)
	west.Reach(east, "")
	east.Reach(west, "")
	west.Cross(crossServices("AllowList"))
	east.Cross(crossServices("All"))
	for name, labels := range map[string]string{"own": "", "on-north": "isthmus.dev/remote-cluster-id: north", "on-east": "liqo.io/remote-cluster-id: east"} {
		west.Apply(node(name, labels))
	}
	west.Apply(link("east", eastSeenByWest))
	east.Apply(link("west", westSeenByEast))
	east.Apply(link("north", northSeenByEast))
	p = west.Reflect()
	east.Reflect()
	west.Offload("shop", "")
	east.Offload("desk", "")
	return f, west, east, p
}

// Endpoints cross with their Service and no further, whatever becomes of either, of nodes and of links, also while nothing of
// ours runs; and nothing goes back to where it came from.
func TestE1E2E3E4E8_EndpointsCrossWithTheirService(t *testing.T) {
	f, west, east, p := peers(t)
	const home = "shop-west"

	// A link to north is not there yet. What lives on east is left out; nodes that are unknown, and none, say nothing.
	west.Create(service("shop", "web", allow))
	west.Create(slice("shop", "web-1", "web", "{addresses: [10.0.0.5], nodeName: own, zone: a, conditions: {ready: false, serving: true, terminating: true}}",
		"{addresses: [10.0.0.6], nodeName: nowhere}", "{addresses: [10.72.0.9], nodeName: on-east}", "{addresses: [10.72.0.10]}",
		"{addresses: [10.71.0.7], nodeName: on-north}", "{addresses: [10.71.1.1, 10.71.1.2], nodeName: on-north, hostname: pair}"))
	west.Create(strings.Replace(slice("shop", "web-6", "web", "{addresses: ['fd00:1::5'], nodeName: own}"), "IPv4", "IPv6", 1))
	west.Create(service("shop", "other", ""))
	west.Create(slice("shop", "other-1", "other", "{addresses: [10.0.0.77]}"))
	f.Eventually(harness.All(
		func() error { return reaches(east, home, "web", "10.81.0.5", "10.81.0.6", "fd00:81::5") },
		func() error { return west.HasEvent("shop", "web", "10.71.0.7", "no usable ClusterLink north") },
	))

	// The link comes: through west, as nobody asked for more, and nothing is said of where they live (E4).
	west.Apply(link("north", northSeenByWest))
	through := []string{"10.81.0.5", "10.81.0.6", "10.91.0.7", "10.91.1.1+10.91.1.2", "fd00:81::5"}
	f.Eventually(func() error { return reaches(east, home, "web", through...) })
	if err := same(origins(west, "shop", "web-1", "east"), "west 10.0.0.5", "west 10.0.0.6"); err != nil {
		t.Error(err)
	}
	first := sent(west, "shop", "web-1", "east").Spec.Endpoints[0]
	if *first.Zone != "a" || *first.Conditions.Ready || !*first.Conditions.Serving || !*first.Conditions.Terminating {
		t.Errorf("what was said of an endpoint was lost: %+v", first)
	}

	// The annotation comes and goes.
	west.Patch(services, "shop", "web", "{metadata: {annotations: {liqo.io/use-direct-connections: 'true'}}}")
	f.Eventually(func() error {
		return reaches(east, home, "web", "10.81.0.5", "10.81.0.6", "10.82.0.7", "10.82.1.1+10.82.1.2", "fd00:81::5")
	})
	if err := same(origins(west, "shop", "web-1", "east"), "north 10.0.0.7", "north 10.0.1.1+10.0.1.2", "west 10.0.0.5", "west 10.0.0.6"); err != nil {
		t.Error(err)
	}
	west.Patch(services, "shop", "web", "{metadata: {annotations: {isthmus.dev/use-direct-connections: maybe, liqo.io/use-direct-connections: null}}}")
	f.Eventually(harness.All(
		func() error { return reaches(east, home, "web", through...) },
		func() error { return west.HasEvent("shop", "web", "use-direct-connections", "maybe") },
	))
	west.Patch(services, "shop", "web", "{metadata: {annotations: {isthmus.dev/use-direct-connections: null}}}")

	// West comes to see north as something else, and so does an endpoint of it; one address is in two clusters.
	west.Patch(links, "", "north", "{spec: {podCIDRs: [{native: 10.0.0.0/16, seenAs: 10.73.0.0/16}], transit: [{from: 10.73.0.0/16, external: 10.61.0.0/16}]}}")
	f.Eventually(harness.All(
		func() error { return reaches(east, home, "web", "10.81.0.5", "10.81.0.6", "fd00:81::5") },
		func() error { return west.HasEvent("shop", "web", "10.71.0.7", "in no seenAs network") },
	))
	west.Patch(slicesOf, "shop", "web-1", "{endpoints: [{addresses: [10.73.0.7], nodeName: on-north}, {addresses: [10.72.0.20], nodeName: on-north}]}")
	f.Eventually(harness.All(
		func() error { return reaches(east, home, "web", "10.91.0.7", "fd00:81::5") },
		func() error { return west.HasEvent("shop", "web", "10.72.0.20", "ClusterLink east") },
	))

	// A node says something else.
	west.Apply(node("on-north", "isthmus.dev/remote-cluster-id: east"))
	f.Eventually(func() error { return reaches(east, home, "web", "fd00:81::5") })
	west.Apply(node("on-north", "isthmus.dev/remote-cluster-id: north"))
	f.Eventually(func() error { return reaches(east, home, "web", "10.91.0.7", "fd00:81::5") })

	// A foreign Service of that name gets none, until it is gone.
	east.Create(service(home, "taken", ""))
	west.Create(slice("shop", "taken-1", "taken", "{addresses: [10.0.0.8]}"))
	west.Create(service("shop", "taken", allow))
	f.Eventually(func() error { return west.HasEvent("shop", "taken", "was not created by this Isthmus") })

	// What east received, and what it is a provider for, goes nowhere from there, though east carries everything; its own does.
	east.Offload(home, "namespaceMappingStrategy: SelectedName, remoteNamespaceName: back")
	east.Create(service("desk", "own", ""))
	east.Create(slice("desk", "own-1", "own", "{addresses: [10.0.0.30]}"))
	f.Eventually(func() error { return reaches(west, "desk-east", "own", "10.72.0.30") })
	if found := append(east.List(shadows, home, "isthmus.dev/destination"), west.List(shadows, "back", "")...); len(found) > 0 {
		t.Errorf("what was received was sent on: %s", text(found))
	}
	if found := west.List(shadows, "shop", "kubernetes.io/service-name in (other, taken)"); len(found) > 0 {
		t.Errorf("slices of Services that do not cross were made ready: %s", text(found))
	}
	east.Delete(services, home, "taken")
	f.Eventually(func() error { return reaches(east, home, "taken", "10.81.0.8") })

	// A slice's own annotation wins, if it can be read; one that moves to another Service leaves nothing.
	west.Create(slice("shop", "web-2", "web", "{addresses: [10.0.2.1]}"))
	west.Create(slice("shop", "web-3", "web", "{addresses: [10.0.3.1]}"))
	west.Create(slice("shop", "web-4", "web", "{addresses: [10.0.4.1]}"))
	f.Eventually(func() error {
		return reaches(east, home, "web", "10.81.2.1", "10.81.3.1", "10.81.4.1", "10.91.0.7", "fd00:81::5")
	})
	west.Patch(slicesOf, "shop", "web-2", "{metadata: {annotations: {isthmus.dev/skip-reflection: 'true'}}}")
	west.Patch(slicesOf, "shop", "web-3", "{metadata: {annotations: {isthmus.dev/allow-reflection: perhaps}}}")
	west.Patch(slicesOf, "shop", "web-4", "{metadata: {labels: {kubernetes.io/service-name: other}}}")
	f.Eventually(harness.All(
		func() error { return reaches(east, home, "web", "10.81.3.1", "10.91.0.7", "fd00:81::5") },
		func() error { return west.HasEvent("shop", "web-3", "perhaps") },
	))
	if code := ask(t, west, "plan"); code != 0 {
		t.Error("a plan at rest says that something would be written")
	}

	// The same while nothing of ours runs on west: its own garbage collector takes what was made of a slice that is gone.
	p.Kill()
	west.Patch(slicesOf, "shop", "web-2", "{metadata: {annotations: {isthmus.dev/skip-reflection: null}}}")
	west.Patch(slicesOf, "shop", "web-6", "{metadata: {labels: {kubernetes.io/service-name: other}}}")
	west.Delete(slicesOf, "shop", "web-3")
	west.Patch(services, "shop", "taken", "{metadata: {annotations: {isthmus.dev/allow-reflection: null}}}")
	f.Eventually(func() error { return west.Gone(shadows, "shop", "web-3.east") })
	p = west.Reflect()
	f.Eventually(harness.All(
		func() error { return reaches(east, home, "web", "10.81.2.1", "10.91.0.7") },
		func() error { return east.Gone(services, home, "taken") },
		func() error { return reaches(east, home, "taken") },
		func() error { return west.Gone(shadows, "shop", "taken-1.east") },
	))
	rests(t, f, west, east)
	if !strings.Contains(p.StatusText(), "ShadowEndpointSlice-ToRemote") {
		t.Error("the status does not tell of the rule of the endpoints")
	}

	// With the Crossing everything goes.
	west.Delete("crossings.v1alpha1.isthmus.dev", "", "services")
	f.Eventually(harness.All(
		func() error { return west.Gone("crossings.v1alpha1.isthmus.dev", "", "services") },
		func() error { return east.Gone(services, home, "web") },
		func() error { return same(reached(east, home, "web")) },
	))
	if left := east.List(shadows, home, ""); len(left) > 0 {
		t.Errorf("left on east: %s", text(left))
	}
}

// A Service crosses with its selector, so the provider's own controller adds the pods that it hosts: its slices and those that
// were received live side by side. Slices may be as large as the API takes them.
func TestE1E8_SelectorsAndLargeSlices(t *testing.T) {
	f, west, east, _ := peers(t)
	const home = "shop-west"
	east.Apply(node("own", ""))
	west.Create("{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop, annotations: {" + allow + "}}, spec: {clusterIP: None, selector: {app: web}, ports: [{port: 80}]}}")
	pod := func(m *harness.Member, namespace, name, ip string) {
		m.Create(fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: %s, labels: {app: web}}, spec: {nodeName: own, automountServiceAccountToken: false, containers: [{name: c, image: i}]}}", name, namespace))
		m.SetStatus("pods", namespace, name, fmt.Sprintf("{phase: Running, podIP: %[1]s, podIPs: [{ip: %[1]s}], conditions: [{type: Ready, status: 'True'}]}", ip))
	}
	f.Eventually(func() error { return east.There(services, home, "web") })
	pod(west, "shop", "here", "10.0.0.40")
	pod(east, home, "there", "10.0.0.50")
	hosted := func() (addresses []string) {
		for _, o := range east.List(slicesOf, home, "kubernetes.io/service-name=web,endpointslice.kubernetes.io/managed-by=endpointslice-controller.k8s.io") {
			addresses = append(addresses, text([]unstructured.Unstructured{o}))
		}
		return addresses
	}
	f.Eventually(harness.All(
		func() error { return reaches(east, home, "web", "10.81.0.40") },
		func() error {
			if own := strings.Join(hosted(), ""); !strings.Contains(own, "10.0.0.50") || strings.Contains(own, "10.81.0.40") {
				return fmt.Errorf("the provider's own slices are %s", own)
			}
			return nil
		},
	))
	if received := east.List(slicesOf, home, "endpointslice.kubernetes.io/managed-by=endpoints.isthmus.dev,service.kubernetes.io/headless"); len(received) != 1 {
		t.Errorf("%d received slices are marked as a headless Service's, expected 1", len(received))
	}

	many := make([]string, 1000)
	for i := range many {
		many[i] = fmt.Sprintf("{addresses: [10.0.%d.%d]}", 1+i/250, 1+i%250)
	}
	west.Create(service("shop", "big", allow))
	west.Create(slice("shop", "big-1", "big", many...))
	f.Eventually(func() error {
		got := reached(east, home, "big")
		if len(got) != len(many) || !slices.Contains(got, "10.81.4.250") {
			return fmt.Errorf("%d endpoints crossed, expected %d", len(got), len(many))
		}
		return nil
	})
	rests(t, f, west, east)
}

// ask runs a command that tells what west's Isthmus would do.
func ask(t *testing.T, m *harness.Member, command string) int {
	t.Helper()
	output, code := m.Ask(command)
	if code != 0 {
		t.Log(output)
	}
	return code
}

// rests waits until west's Isthmus writes nothing on some clusters for a while (F2).
func rests(t *testing.T, f *harness.Fleet, members ...*harness.Member) {
	t.Helper()
	f.Eventually(func() error {
		for _, m := range members {
			if last := m.AllWrites("west", time.Now().Add(-3*time.Second)); len(last) > 0 {
				return fmt.Errorf("it does not come to rest: %v", last)
			}
		}
		return nil
	})
}
