//go:build linux

package packets

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/test/harness"
	"isthmus.dev/isthmus/test/podnet"
)

// The offloaded namespace, and its counterpart on both providers.
const (
	shop   = "shop"
	theirs = "shop-consumer"
)

var clusters = []string{"consumer", "one", "two"}

// world are three clusters, a consumer and two providers, with their pods.
type world struct {
	*harness.Fleet
	t    *testing.T
	net  *podnet.Net
	pods map[string]*podnet.Pod // by cluster: one that asks; it belongs to no Service
}

// services is what the providers allow, and what crosses.
var services = []v1alpha1.AllowedResources{
	{Resources: []string{"services"}, Access: v1alpha1.AccessWrite},
	{Group: "isthmus.dev", Resources: []string{"shadowendpointslices"}, Access: v1alpha1.AccessWrite},
}

// newWorld makes the networks and the clusters, with Isthmus on each. On every cluster a pod is in the Service web, at the same
// address of its network, and another one, which asks, beside it.
func newWorld(t *testing.T) *world {
	t.Helper()
	plan := podnet.Triangle(clusters[0], clusters[1], clusters[2])
	w := &world{t: t, net: podnet.Start(t, plan), pods: map[string]*podnet.Pod{}}
	for _, cluster := range clusters {
		w.serve(cluster, "web-"+cluster, 2)
		w.pods[cluster] = w.serve(cluster, "other-"+cluster, 3)
	}
	w.Fleet = harness.NewFleet(t, clusters...)
	consumer := w.Member("consumer")
	consumer.UseEndpoints()
	for _, cluster := range clusters {
		links, err := plan.Manifests(cluster)
		if err != nil {
			t.Fatal(err)
		}
		w.Member(cluster).Apply(string(links))
	}
	for _, name := range clusters[1:] {
		provider := w.Member(name)
		provider.Consent(services...)
		provider.Receive()
		provider.Admit("consumer", "'*'", services...)
		consumer.Reach(provider, "")
	}
	consumer.Cross("{apiVersion: isthmus.dev/v1alpha1, kind: Crossing, metadata: {name: services}, spec: {resource: {version: v1, resource: services}, policy: DenyList}}")
	consumer.Reflect()
	consumer.Offload(shop, "")
	for _, cluster := range clusters {
		consumer.Apply(node(cluster))
	}
	consumer.Apply("{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}, spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}}")
	for cluster, seen := range map[string]string{"consumer": "10.10.0.2", "one": "10.71.0.2", "two": "10.72.0.2"} {
		w.runs(consumer, shop, "web-"+cluster, cluster, "web", seen)
	}
	// In IPv6 by hand: these clusters' Services are of IPv4.
	consumer.Apply(`{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: web-six, namespace: shop, labels: {kubernetes.io/service-name: web}}, addressType: IPv6,
		ports: [{port: 8080}], endpoints: [
			{addresses: ['fd10::2'], nodeName: consumer, hostname: web-consumer, conditions: {ready: true}},
			{addresses: ['fd71::2'], nodeName: one, hostname: web-one, conditions: {ready: true}},
			{addresses: ['fd72::2'], nodeName: two, hostname: web-two, conditions: {ready: true}}]}`)
	for _, name := range clusters[1:] { // as who offloads pods makes them there
		provider := w.Member(name)
		w.Eventually(func() error {
			if provider.Get("services", theirs, "web") == nil {
				return fmt.Errorf("the Service is not on %s", name)
			}
			return nil
		})
		provider.Apply(node(name))
		w.runs(provider, theirs, "web-"+name, name, "web", "10.10.0.2")
	}
	return w
}

// serve makes a pod's network.
func (w *world) serve(cluster, name string, host int) *podnet.Pod {
	w.t.Helper()
	pod, err := w.net.Pod(cluster, name, netip.MustParseAddr(fmt.Sprintf("10.10.0.%d", host)), netip.MustParseAddr(fmt.Sprintf("fd10::%d", host)))
	if err != nil {
		w.t.Fatal(err)
	}
	return pod
}

// node is a node for the pods of a cluster: its own, or the virtual one of another.
func node(cluster string) string {
	labels := "isthmus.dev/remote-cluster-id: " + cluster
	if cluster == "consumer" {
		labels = "kubernetes.io/hostname: consumer"
	}
	return fmt.Sprintf("{apiVersion: v1, kind: Node, metadata: {name: %s, labels: {%s}}}", cluster, labels)
}

// runs makes a pod that its node's kubelet says is ready. Its hostname comes with its endpoint, so it is known who is to
// answer there.
func (w *world) runs(m *harness.Member, namespace, name, node, app, address string) {
	w.t.Helper()
	var err error
	w.Eventually(func() error { // as soon as the namespace has its service account
		_, err = m.TryCreate(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %[1]s, namespace: %[2]s, labels: {app: %[4]s}}, spec: {nodeName: %[3]s, hostname: %[1]s, subdomain: %[4]s,
			automountServiceAccountToken: false, terminationGracePeriodSeconds: 0, containers: [{name: c, image: none}]}}`, name, namespace, node, app))
		return err
	})
	setReady(m, namespace, name, address, true)
}

func setReady(m *harness.Member, namespace, name, address string, ready bool) {
	status := map[bool]string{true: "'True'", false: "'False'"}[ready]
	m.SetStatus("pods", namespace, name, fmt.Sprintf("{phase: Running, podIP: %[1]s, podIPs: [{ip: %[1]s}], conditions: [{type: Ready, status: %[2]s}]}", address, status))
}

// endpoints returns those of a Service that are ready, on a provider: where each is, by family and hostname.
func (w *world) endpoints(provider, service string) map[string]netip.Addr {
	w.t.Helper()
	found := map[string]netip.Addr{}
	for _, u := range w.Member(provider).List("endpointslices.discovery.k8s.io", theirs, discoveryv1.LabelServiceName+"="+service) {
		slice := &discoveryv1.EndpointSlice{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, slice); err != nil {
			w.t.Fatal(err)
		}
		for _, e := range slice.Endpoints {
			if e.Hostname != nil && e.Conditions.Ready != nil && *e.Conditions.Ready {
				found[string(slice.AddressType)+" "+*e.Hostname] = netip.MustParseAddr(e.Addresses[0])
			}
		}
	}
	return found
}

// leads says that the Service web has other endpoints on a provider than expected, given as "family hostname address".
func (w *world) leads(provider string, want ...string) error {
	var have []string
	for who, at := range w.endpoints(provider, "web") {
		have = append(have, who+" "+at.String())
	}
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		return fmt.Errorf("on %s the endpoints are %q, expected %q", provider, have, want)
	}
	return nil
}

// ask dials an endpoint from a provider's pod, and says what is wrong with the answer: another pod's, or none.
func (w *world) ask(provider, who string, at netip.Addr) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	got, err := w.pods[provider].Ask(ctx, at)
	if err != nil {
		return fmt.Errorf("%s at %s: %w", who, at, err)
	}
	if want := who[strings.IndexByte(who, ' ')+1:]; got != want {
		return errWrong{fmt.Sprintf("%s answered at %s, where %s is expected", got, at, want)}
	}
	return nil
}

// errWrong: somebody else answered.
type errWrong struct{ string }

func (e errWrong) Error() string { return e.string }

// askAll dials all endpoints of web from a provider's pod, and returns which links carried packets.
func (w *world) askAll(provider string) map[string]bool {
	w.t.Helper()
	before := w.carried()
	for who, at := range w.endpoints(provider, "web") {
		if err := w.ask(provider, who, at); err != nil {
			w.t.Error(err)
		}
	}
	return moved(before, w.carried())
}

// askOne is askAll for one pod, in both families.
func (w *world) askOne(provider, hostname string) map[string]bool {
	w.t.Helper()
	before := w.carried()
	for who, at := range w.endpoints(provider, "web") {
		if !strings.HasSuffix(who, " "+hostname) {
			continue
		}
		if err := w.ask(provider, who, at); err != nil {
			w.t.Error(err)
		}
	}
	return moved(before, w.carried())
}

// carried returns how many packets each link carried, when they have stopped coming.
func (w *world) carried() (packets map[string]uint64) {
	w.t.Helper()
	for last := -1; ; time.Sleep(50 * time.Millisecond) {
		packets = map[string]uint64{}
		total := 0
		for _, to := range clusters {
			for _, from := range clusters {
				if from == to {
					continue
				}
				came, err := w.net.Came(to, from)
				if err != nil {
					w.t.Fatal(err)
				}
				packets[link(from, to)] += came
				total += int(came)
			}
		}
		if total == last {
			return packets
		}
		last = total
	}
}

func link(a, b string) string { return min(a, b) + "-" + max(a, b) }

func moved(before, after map[string]uint64) map[string]bool {
	links := map[string]bool{}
	for name, packets := range after {
		if packets != before[name] {
			links[name] = true
		}
	}
	return links
}

// sayLink says, on both providers, whether the link between them is up, as who runs the network does.
func (w *world) sayLink(up bool) {
	w.t.Helper()
	status := map[bool]string{true: "'True'", false: "'False'"}[up]
	for i, name := range clusters[1:] {
		w.Member(name).SetStatus("clusterlinks.v1alpha1.isthmus.dev", "", clusters[2-i], fmt.Sprintf(
			"{conditions: [{type: Connected, status: %s, reason: Tunnel, message: '', lastTransitionTime: '%s'}]}", status, time.Now().UTC().Format(time.RFC3339)))
	}
}

func (w *world) cut(lost bool) {
	w.t.Helper()
	if err := w.net.Cut("one", "two", lost); err != nil {
		w.t.Fatal(err)
	}
}

// follower dials whatever the endpoints of web are, all the time, from a pod of a provider.
type follower struct {
	stop    context.CancelFunc
	done    chan struct{}
	wrong   []string
	answers int
}

func (w *world) follow(provider string) *follower {
	ctx, stop := context.WithCancel(w.t.Context())
	f := &follower{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(f.done)
		for ctx.Err() == nil {
			for who, at := range w.endpoints(provider, "web") {
				err := w.ask(provider, who, at)
				if wrong := (errWrong{}); errors.As(err, &wrong) {
					f.wrong = append(f.wrong, wrong.Error())
				} else if err == nil {
					f.answers++
				}
			}
		}
	}()
	return f
}

// end stops it, and says who answered wrongly, and how many answers there were.
func (f *follower) end() (wrong []string, answers int) {
	f.stop()
	<-f.done
	return f.wrong, f.answers
}
