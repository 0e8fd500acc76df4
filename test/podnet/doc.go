// Package podnet makes the pod networks of several clusters on this machine, out of network namespaces: a gateway for each
// cluster, pods behind it that serve HTTP and say who they are, and links between gateways that translate prefixes, as
// ClusterLinks say. The clusters' own networks may overlap.
//
// Nothing of it is in the machine's own network namespace, and no namespace has a name, so the kernel removes all of it with
// the process at the latest, however that ends. It needs Linux and root, and neither ip nor nft.
package podnet

import (
	"errors"
	"net/netip"

	"isthmus.dev/isthmus/api/v1alpha1"
)

// ErrNotHere says that this machine, or whoever runs the process, can't make such networks.
var ErrNotHere = errors.New("no pod networks can be made here")

// Port is where pods serve HTTP.
const Port = 8080

// Plan says which networks there are.
type Plan struct {
	// Pods are the networks of the pods of each cluster.
	Pods map[string][]netip.Prefix
	// Links are the ClusterLinks of each cluster, by the other one's name. What they say is what the gateways do: a packet
	// goes over a link with its destination as the sender sees it, and with its source as the receiver sees it.
	Links map[string]map[string]v1alpha1.ClusterLinkSpec
}
