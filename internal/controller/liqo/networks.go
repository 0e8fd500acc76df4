package liqo

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/endpoints"
)

// The kinds by which Liqo says how clusters' networks are linked; their versions are found by discovery.
var (
	KindConfigurations = schema.GroupResource{Group: "networking.liqo.io", Resource: "configurations"}
	KindConnections    = schema.GroupResource{Group: "networking.liqo.io", Resource: "connections"}
	KindIPs            = schema.GroupResource{Group: "ipam.liqo.io", Resource: "ips"}
)

// Networks keeps what Liqo says of the networks of other clusters: for each a Configuration with its CIDRs and how this cluster
// sees them, Connections with whether packets go through, and IPs with the address in this cluster's external network that
// leads to one that it sees.
type Networks struct {
	configurations, connections, ips Objects
}

// NewNetworks returns Networks that knows nothing before Run; changed is called, without locks, after each change.
func NewNetworks(local *cluster.Cluster, log *slog.Logger, changed func()) *Networks {
	objects := func(kind schema.GroupResource, what string) Objects {
		return Objects{
			local: local, kind: kind, what: what, log: log, changed: changed, why: "Liqo's " + what + " are not read yet",
			lost: "with --liqo-networks they say how other clusters are reached, beside ClusterLinks",
		}
	}
	return &Networks{objects(KindConfigurations, "Configurations"), objects(KindConnections, "Connections"), objects(KindIPs, "IPs")}
}

// Run follows the objects until ctx ends. Liqo may be installed later.
func (n *Networks) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, o := range []*Objects{&n.configurations, &n.connections, &n.ips} {
		running.Go(func() { o.Run(ctx) })
	}
	running.Wait()
}

// Links returns the links that Liqo made, and what is wrong with those that are left out. why says why they are not known;
// empty: they are. Where Liqo is not installed there are none.
func (n *Networks) Links() (links []endpoints.Found, faults []error, why string) {
	configurations, whyConfigurations := n.configurations.all()
	connections, whyConnections := n.connections.all()
	ips, whyIPs := n.ips.all()
	if why = cmp.Or(whyConfigurations, whyConnections, whyIPs); why != "" {
		return nil, nil, why
	}
	links, faults = ReadLinks(configurations, connections, ips)
	return links, faults, ""
}

// all returns the objects, and why they are not known; those of a kind that is not served are none.
func (o *Objects) all() (found []*unstructured.Unstructured, why string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.why != "" && !o.absent {
		return nil, o.why
	}
	o.each(func(u *unstructured.Unstructured) { found = append(found, u) })
	return found, ""
}

// ReadLinks reads the links out of Liqo's objects. One whose CIDRs are not settled yet is none; faults are those that make no
// sense.
func ReadLinks(configurations, connections, ips []*unstructured.Unstructured) (links []endpoints.Found, faults []error) {
	up, through := connected(connections), addresses(ips)
	seen := map[string]string{}
	for _, u := range configurations {
		name := fmt.Sprintf("Configuration %s/%s of Liqo", u.GetNamespace(), u.GetName())
		id := u.GetLabels()[labelRemoteCluster]
		switch before := seen[id]; {
		case id == "":
			faults = append(faults, fmt.Errorf("%s: label %s: expected the ID of the remote cluster", name, labelRemoteCluster))
			continue
		case before != "":
			faults = append(faults, fmt.Errorf("%s is about cluster %s, as is %s, which is used", name, id, before))
			continue
		}
		found, settled, err := readConfiguration(u)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", name, err))
			continue
		}
		if !settled {
			continue
		}
		seen[id] = name
		found.Link.Name, found.Link.CreationTimestamp = id, u.GetCreationTimestamp()
		found.SetConnected(up[id], "Liqo")
		found.Through = map[netip.Addr]netip.Addr{}
		for _, pods := range found.Link.Spec.PodCIDRs {
			for local, external := range through {
				if netip.MustParsePrefix(pods.SeenAs).Contains(local) {
					found.Through[local] = external
				}
			}
		}
		links = append(links, found)
	}
	return links, faults
}
