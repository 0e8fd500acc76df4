package endpoints

import (
	"fmt"
	"net/netip"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// Reason is why an endpoint does not cross.
type Reason string

// The reasons.
const (
	// ReasonDestination: it lives on the destination already (E3). This is as it should be.
	ReasonDestination Reason = "LivesOnDestination"
	// ReasonContradiction: its node and its address say that it lives on different clusters.
	ReasonContradiction Reason = "ClusterContradiction"
	// ReasonNoLink: there is no link to the cluster that it would be reached by.
	ReasonNoLink Reason = "NoLink"
	// ReasonNoWay: the links there are have no network that leads to it.
	ReasonNoWay Reason = "NoWay"
	// ReasonOutside: an address is not in the networks of the cluster that it is said to be of (E6).
	ReasonOutside Reason = "AddressOutsideCIDRs"
	// ReasonInvalid: what it says is not what an EndpointSlice may hold.
	ReasonInvalid Reason = "InvalidEndpoint"
)

// Verdict is why an endpoint does not cross; the zero Verdict: it does.
type Verdict struct {
	Reason  Reason
	Message string
}

// Crosses reports whether it does.
func (v Verdict) Crosses() bool { return v.Reason == "" }

func refuse(reason Reason, format string, args ...any) Verdict {
	return Verdict{reason, fmt.Sprintf(format, args...)}
}

// parseAddresses parses the addresses of one endpoint: those that an EndpointSlice may hold, as the API server checks them.
func parseAddresses(family discoveryv1.AddressType, texts []string) ([]netip.Addr, Verdict) {
	if len(texts) == 0 {
		return nil, refuse(ReasonInvalid, "an endpoint without address")
	}
	out := make([]netip.Addr, len(texts))
	for i, text := range texts {
		a, err := netip.ParseAddr(text)
		if err != nil || a.Zone() != "" || a.Is4In6() || a.Is4() != (family == discoveryv1.AddressTypeIPv4) {
			return nil, refuse(ReasonInvalid, "%q is no %s address", text, family)
		}
		if !holdable(a) {
			return nil, refuse(ReasonInvalid, "%s is not the address of a pod", text)
		}
		out[i] = a
	}
	return out, Verdict{}
}

// holdable reports whether an EndpointSlice may hold an address.
func holdable(a netip.Addr) bool {
	return !a.IsUnspecified() && !a.IsLoopback() && !a.IsLinkLocalUnicast() && !a.IsLinkLocalMulticast()
}

// mapAll maps all addresses; ok is false, and which is the first that did not, when one has no counterpart.
func mapAll(addresses []netip.Addr, by func(netip.Addr) (netip.Addr, bool)) (mapped []string, which netip.Addr, ok bool) {
	mapped = make([]string, len(addresses))
	for i, a := range addresses {
		to, ok := by(a)
		if !ok || !holdable(to) {
			return nil, a, false
		}
		mapped[i] = to.String()
	}
	return mapped, netip.Addr{}, true
}
