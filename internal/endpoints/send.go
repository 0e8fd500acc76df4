package endpoints

import (
	"net/netip"

	discoveryv1 "k8s.io/api/discovery/v1"

	"isthmus.dev/isthmus/api/v1alpha1"
)

// SendInput is all that it depends on how an endpoint crosses to a destination.
type SendInput struct {
	// Self and Destination are the cluster IDs of this cluster and of the one that it crosses to.
	Self, Destination string
	// Links are this cluster's.
	Links *Links
	// Direct: endpoints on third clusters may be reached without this cluster (E4).
	Direct bool
	// AddressType is that of the slice; only IP addresses cross.
	AddressType discoveryv1.AddressType
	Endpoint    discoveryv1.Endpoint
	// NodeCluster is the cluster ID that its node is labelled with; empty: it has no node, or the node no such label.
	NodeCluster string
}

// Send returns an endpoint as it crosses, or why it does not (E2, E3, E4). It crosses with all its addresses or not at all.
func Send(in SendInput) (v1alpha1.ShadowEndpoint, Verdict) {
	none := v1alpha1.ShadowEndpoint{}
	addresses, verdict := parseAddresses(in.AddressType, in.Endpoint.Addresses)
	if !verdict.Crosses() {
		return none, verdict
	}
	home, verdict := in.livesOn(addresses)
	if !verdict.Crosses() {
		return none, verdict
	}
	out := carried(in.Endpoint)
	switch home {
	case in.Destination:
		return none, refuse(ReasonDestination, "it lives on %s", home)
	case in.Self:
		// Nothing leads to this cluster's own pods but their addresses.
		out.Origin = &v1alpha1.EndpointOrigin{ClusterID: home, Addresses: texts(addresses)}
		out.Via = &v1alpha1.EndpointVia{Addresses: texts(addresses)}
		return out, Verdict{}
	}
	link := in.Links.Get(home)
	if link == nil {
		return none, refuse(ReasonNoLink, "its node says that it lives on %s, and there is no usable ClusterLink %s that says what its addresses are there", home, home)
	}
	native, which, ok := mapAll(addresses, link.Native)
	if !ok {
		return none, refuse(ReasonContradiction, "its node says that it lives on %s, and %s is in no seenAs network of the podCIDRs of ClusterLink %s", home, which, home)
	}
	if in.Direct {
		out.Origin = &v1alpha1.EndpointOrigin{ClusterID: home, Addresses: native}
	}
	via, which, ok := mapAll(addresses, link.Transit)
	if ok {
		out.Via = &v1alpha1.EndpointVia{Addresses: via}
	}
	if out.Origin == nil && out.Via == nil {
		return none, refuse(ReasonNoWay, "it lives on %s, and no transit of ClusterLink %s leads to %s", home, home, which)
	}
	return out, Verdict{}
}

// livesOn returns the cluster on which an endpoint lives: what its node is labelled with, else the link that its addresses
// belong to, else this cluster.
func (in *SendInput) livesOn(addresses []netip.Addr) (string, Verdict) {
	home := in.NodeCluster
	for i, a := range addresses {
		owner, linked := in.Links.Owner(a)
		if !linked {
			if in.NodeCluster != "" {
				continue // a link to that cluster, if there is one, has to know the address
			}
			owner = in.Self
		}
		if home == "" {
			home = owner
		}
		switch {
		case owner == home:
		case in.NodeCluster != "":
			return "", refuse(ReasonContradiction, "its node says that it lives on %s, and ClusterLink %s that %s does", home, owner, describe(a, owner))
		default:
			return "", refuse(ReasonContradiction, "by the ClusterLinks %s, and %s", describe(addresses[0], home), describe(addresses[i], owner))
		}
	}
	return home, Verdict{}
}

func describe(a netip.Addr, cluster string) string { return a.String() + " lives on " + cluster }

// carried is what crosses of an endpoint beside its addresses. Nodes, and objects that it stands for, are the sender's own.
func carried(e discoveryv1.Endpoint) v1alpha1.ShadowEndpoint {
	e = *e.DeepCopy()
	return v1alpha1.ShadowEndpoint{Conditions: e.Conditions, Hostname: e.Hostname, Zone: e.Zone, Hints: zoneHints(e.Hints)}
}

// zoneHints keeps the hints for zones; nodes' names mean nothing on another cluster.
func zoneHints(h *discoveryv1.EndpointHints) *discoveryv1.EndpointHints {
	if h == nil || len(h.ForZones) == 0 {
		return nil
	}
	return &discoveryv1.EndpointHints{ForZones: h.ForZones}
}

func texts(addresses []netip.Addr) (out []string) {
	for _, a := range addresses {
		out = append(out, a.String())
	}
	return out
}
