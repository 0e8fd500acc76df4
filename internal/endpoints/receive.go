package endpoints

import (
	"net/netip"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"isthmus.dev/isthmus/api/v1alpha1"
)

// Path is how an endpoint is reached.
type Path string

// The paths.
const (
	// PathDirect is over this cluster's own link to the cluster that the endpoint lives on.
	PathDirect Path = "direct"
	// PathVia is through the consumer.
	PathVia Path = "via"
)

// ReceiveInput is all that it depends on what a received endpoint becomes.
type ReceiveInput struct {
	// Consumer is the cluster ID of the consumer that the namespace belongs to (N4).
	Consumer string
	// Links are this cluster's.
	Links       *Links
	AddressType discoveryv1.AddressType
	Endpoint    v1alpha1.ShadowEndpoint
}

// Received is an endpoint in addresses of this cluster, and the path that was chosen for it.
type Received struct {
	Endpoint discoveryv1.Endpoint
	Path     Path
	// Up: the path is. The endpoint is neither ready nor serving where it is not (E7).
	Up bool
}

// way is one of the ways to an endpoint.
type way struct {
	addresses []string
	up        bool
}

// Receive returns what an endpoint becomes on this cluster, or why it becomes nothing (E5, E6, E7): by its own link to the
// cluster that the endpoint lives on, if that may be used and is up; else through the consumer; else by its own link all the
// same, not ready.
func Receive(in ReceiveInput) (Received, Verdict) {
	if verdict := check(in.Endpoint); !verdict.Crosses() {
		return Received{}, verdict
	}
	direct, noDirect := in.direct()
	if noDirect.Reason == ReasonOutside || noDirect.Reason == ReasonInvalid {
		return Received{}, noDirect
	}
	if noDirect.Crosses() && direct.up {
		return in.by(PathDirect, direct), Verdict{}
	}
	via, noVia := in.via()
	switch {
	case noVia.Crosses():
		return in.by(PathVia, via), Verdict{}
	case noDirect.Crosses():
		return in.by(PathDirect, direct), Verdict{}
	case in.Endpoint.Via == nil:
		return Received{}, noDirect
	}
	return Received{}, noVia
}

// direct is the way over the own link to the cluster that the endpoint lives on.
func (in *ReceiveInput) direct() (way, Verdict) {
	origin := in.Endpoint.Origin
	if origin == nil {
		return way{}, refuse(ReasonNoLink, "the consumer does not say where it lives")
	}
	link := in.Links.Get(origin.ClusterID)
	if link == nil {
		return way{}, refuse(ReasonNoLink, "there is no usable ClusterLink %s", origin.ClusterID)
	}
	if !link.Direct {
		return way{}, refuse(ReasonNoLink, "ClusterLink %s denies direct connections", origin.ClusterID)
	}
	return in.over(link, origin.Addresses, link.Seen)
}

// via is the way through the consumer.
func (in *ReceiveInput) via() (way, Verdict) {
	via := in.Endpoint.Via
	if via == nil {
		return way{}, refuse(ReasonNoWay, "the consumer does not say how it is reached through it")
	}
	link := in.Links.Get(in.Consumer)
	if link == nil {
		return way{}, refuse(ReasonNoLink, "there is no usable ClusterLink %s to the consumer", in.Consumer)
	}
	return in.over(link, via.Addresses, link.SeenExternal)
}

// over maps addresses over a link (E6). Within one endpoint each address counts once.
func (in *ReceiveInput) over(link *Link, addresses []string, by func(netip.Addr) (netip.Addr, bool)) (way, Verdict) {
	parsed, verdict := parseAddresses(in.AddressType, addresses)
	if !verdict.Crosses() {
		return way{}, verdict
	}
	mapped, which, ok := mapAll(parsed, by)
	if !ok {
		return way{}, refuse(ReasonOutside, "%s is said to be of cluster %s, and is in no network that ClusterLink %s gives it", which, link.ClusterID, link.ClusterID)
	}
	seen := sets.New[string]()
	mapped = slices.DeleteFunc(mapped, func(a string) bool {
		defer seen.Insert(a)
		return seen.Has(a)
	})
	return way{mapped, link.Up}, Verdict{}
}

// by makes the endpoint.
func (in *ReceiveInput) by(path Path, w way) Received {
	e := in.Endpoint.DeepCopy()
	out := Received{Path: path, Up: w.up, Endpoint: discoveryv1.Endpoint{
		Addresses: w.addresses, Conditions: e.Conditions, Hostname: e.Hostname, Zone: e.Zone, Hints: zoneHints(e.Hints),
	}}
	if !w.up {
		out.Endpoint.Conditions.Ready, out.Endpoint.Conditions.Serving = ptr.To(false), ptr.To(false)
	}
	return out
}

// check refuses what the API server would refuse the whole slice for.
func check(e v1alpha1.ShadowEndpoint) Verdict {
	if e.Origin == nil && e.Via == nil {
		return refuse(ReasonInvalid, "an endpoint with neither origin nor via")
	}
	if e.Origin != nil && e.Via != nil && len(e.Origin.Addresses) != len(e.Via.Addresses) {
		return refuse(ReasonInvalid, "%d addresses of origin and %d of via; expected as many", len(e.Origin.Addresses), len(e.Via.Addresses))
	}
	if e.Hostname != nil && len(validation.IsDNS1123Label(*e.Hostname)) > 0 {
		return refuse(ReasonInvalid, "hostname %q: expected a DNS label", *e.Hostname)
	}
	hints := zoneHints(e.Hints)
	if hints == nil {
		return Verdict{}
	}
	zones := sets.New[string]()
	for _, z := range hints.ForZones {
		if zones.Has(z.Name) || len(zones) == mostZones || len(validation.IsValidLabelValue(z.Name)) > 0 {
			return refuse(ReasonInvalid, "hints for zone %q: expected at most %d zones, each once, whose names are label values", z.Name, mostZones)
		}
		zones.Insert(z.Name)
	}
	return Verdict{}
}

// mostZones is how many zones an endpoint may have hints for (discovery.k8s.io/v1).
const mostZones = 8
