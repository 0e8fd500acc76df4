//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"text/tabwriter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus.dev/isthmus/test/podnet"
)

var (
	slicesKind = schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}
	services   = schema.GroupVersionResource{Version: "v1", Resource: "services"}
)

// direct is the fourth scene: a Service has an endpoint on a third cluster, edge, of which there is only the network.
type direct struct {
	net *podnet.Net
	// pod is one of the provider, which asks; nil: no packets are sent, for noPackets.
	pod       *podnet.Pod
	noPackets error
	rows      []row
}

// row is what was seen at one step.
type row struct{ when, address, packets string }

// startDirect brings up the fourth scene, on the clusters of the third one.
func (w *world) startDirect(ctx context.Context) error {
	w.say("\nThe same two clusters, and a third one, edge: a Service has a pod on each, and all pods' networks are 10.10.0.0/16.\n")
	plan := podnet.Triangle("consumer", "edge", "provider")
	w.direct = &direct{}
	if err := w.direct.connect(plan); err != nil {
		return err
	}
	if w.direct.pod == nil {
		w.say("No packets are sent: %v.", w.direct.noPackets)
	} else {
		w.say("Network namespaces are the three pod networks; a pod of the provider asks who answers at the Service's endpoints.")
	}
	for _, s := range []*side{w.consumer, w.provider} {
		links, err := plan.Manifests(s.Name())
		if err != nil {
			return err
		}
		if err := s.Apply(ctx, links); err != nil {
			return err
		}
	}
	return w.consumer.Apply(ctx, file("direct.yaml"))
}

// connect makes the networks, where that can be done.
func (d *direct) connect(plan podnet.Plan) (err error) {
	if d.net, err = podnet.New(plan); errors.Is(err, podnet.ErrNotHere) {
		d.noPackets = err
		return nil
	}
	if err != nil {
		return err
	}
	at := netip.MustParseAddr("10.10.0.2") // on each cluster, so a wrong translation leads to somebody
	for _, pod := range []struct{ cluster, name string }{{"consumer", "on-consumer"}, {"edge", "on-edge"}} {
		if _, err := d.net.Pod(pod.cluster, pod.name, at); err != nil {
			return err
		}
	}
	d.pod, err = d.net.Pod("provider", "on-provider", at)
	return err
}

// reaches returns nil when the endpoint on edge is at an address on the provider, and, where packets are sent, the right pods
// answer, over the link to another cluster.
func (w *world) reaches(ctx context.Context, when, address, over string) error {
	endpoints, err := w.endpoints(ctx)
	if err != nil {
		return err
	}
	if endpoints["on-edge"] != address || endpoints["on-consumer"] != "10.74.0.2" {
		return fmt.Errorf("on the provider the endpoints are %v, expected on-edge at %s and on-consumer at 10.74.0.2", endpoints, address)
	}
	r := row{when, address, "-"}
	if w.direct.pod != nil {
		if r.packets, err = w.direct.ask(ctx, address, over); err != nil {
			return err
		}
	}
	w.direct.rows = append(w.direct.rows, r)
	return nil
}

// endpoints returns where the Service's endpoints are on the provider, by hostname.
func (w *world) endpoints(ctx context.Context) (map[string]string, error) {
	list, err := w.peering.provider.objects(slicesKind).List(ctx, metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=web"})
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, slice := range list.Items {
		endpoints, _, _ := unstructured.NestedSlice(slice.Object, "endpoints")
		for _, e := range endpoints {
			e := e.(map[string]any)
			hostname, _, _ := unstructured.NestedString(e, "hostname")
			if addresses, _, _ := unstructured.NestedStringSlice(e, "addresses"); len(addresses) > 0 {
				found[hostname] = addresses[0]
			}
		}
	}
	return found, nil
}

// ask asks who is at the address of the endpoint on edge, and tells how many packets came over either link.
func (d *direct) ask(ctx context.Context, address, over string) (packets string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	before, err := d.came()
	if err != nil {
		return "", err
	}
	who, err := d.pod.Ask(ctx, netip.MustParseAddr(address))
	if err != nil {
		return "", err
	}
	after, err := d.came()
	if err != nil {
		return "", err
	}
	if who != "on-edge" || after[over] == before[over] {
		return "", fmt.Errorf("%s answered at %s; packets over the links: %v before, %v after; expected some from %s", who, address, before, after, over)
	}
	return fmt.Sprintf("%d from consumer, %d from edge", after["consumer"]-before["consumer"], after["edge"]-before["edge"]), nil
}

// came returns how many packets came to the provider, by cluster.
func (d *direct) came() (map[string]uint64, error) {
	came := map[string]uint64{}
	for _, from := range []string{"consumer", "edge"} {
		packets, err := d.net.Came("provider", from)
		if err != nil {
			return nil, err
		}
		came[from] = packets
	}
	return came, nil
}

// printDirect prints what was seen.
func (w *world) printDirect(context.Context) {
	table := tabwriter.NewWriter(w.out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "  THE POD ON EDGE\tIS AT, FOR THE PROVIDER\tPACKETS THAT CAME TO THE PROVIDER")
	for _, r := range w.direct.rows {
		_, _ = fmt.Fprintf(table, "  %s\t%s\t%s\n", r.when, r.address, r.packets)
	}
	_ = table.Flush()
	w.say("")
}

// directSteps are the fourth scene.
var directSteps = []step{
	{
		title: "The Service crosses with its endpoints; the pod on edge is reached through the consumer",
		check: func(ctx context.Context, w *world) error {
			return w.reaches(ctx, "without the annotation", "10.94.0.2", "consumer")
		},
	},
	{
		title: "Annotated with isthmus.dev/use-direct-connections, over the provider's own link to edge",
		do: func(ctx context.Context, w *world) error {
			return w.peering.consumer.patch(ctx, services, "web", `metadata: {annotations: {isthmus.dev/use-direct-connections: "true"}}`)
		},
		check: func(ctx context.Context, w *world) error { return w.reaches(ctx, "with it", "10.76.0.2", "edge") },
	},
	{
		title: "That link is down: through the consumer again",
		do:    func(ctx context.Context, w *world) error { return w.sayLink(ctx, "False") },
		check: func(ctx context.Context, w *world) error {
			return w.reaches(ctx, "the link is down", "10.94.0.2", "consumer")
		},
	},
	{
		title: "It is up: direct again",
		do:    func(ctx context.Context, w *world) error { return w.sayLink(ctx, "True") },
		check: func(ctx context.Context, w *world) error {
			return w.reaches(ctx, "it is up again", "10.76.0.2", "edge")
		},
	},
}

// sayLink says whether the provider's link to edge is up, as who runs the network does; packets are lost while it is not.
func (w *world) sayLink(ctx context.Context, up string) error {
	if w.direct.pod != nil {
		if err := w.direct.net.Cut("edge", "provider", up != "True"); err != nil {
			return err
		}
	}
	return w.provider.in("").patch(ctx, isthmusKind("clusterlinks"), "edge", fmt.Sprintf(
		"status: {conditions: [{type: Connected, status: %q, reason: Tunnel, message: '', lastTransitionTime: %q}]}", up, time.Now().UTC().Format(time.RFC3339)), "status")
}
