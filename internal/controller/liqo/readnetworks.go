package liqo

import (
	"fmt"
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/endpoints"
)

// connectionUp is the status.value of a Connection through which packets go; others are Connecting and Error.
const connectionUp = "Connected"

// readConfiguration reads how a cluster's networks are seen (apis/networking/v1beta1 of github.com/liqotech/liqo v1.0.1):
// spec.remote.cidr has them as that cluster does, status.remote.cidr as this one does, in the same order; settled is false as
// long as the status has none. An error names the field.
func readConfiguration(u *unstructured.Unstructured) (found endpoints.Found, settled bool, err error) {
	spec := &found.Link.Spec
	if spec.PodCIDRs, err = readCIDRs(u, "pod"); err != nil {
		return found, false, err
	}
	if spec.ExternalCIDRs, err = readCIDRs(u, "external"); err != nil {
		return found, false, err
	}
	return found, len(spec.PodCIDRs) > 0, nil
}

func readCIDRs(u *unstructured.Unstructured, which string) (mappings []v1alpha1.CIDRMapping, err error) {
	native, err := prefixes(u, "spec", "remote", "cidr", which)
	if err != nil {
		return nil, err
	}
	seenAs, err := prefixes(u, "status", "remote", "cidr", which)
	if err != nil {
		return nil, err
	}
	for i := range min(len(native), len(seenAs)) { // Liqo may remap the first of several alone
		mappings = append(mappings, v1alpha1.CIDRMapping{Native: native[i].String(), SeenAs: seenAs[i].String()})
	}
	return mappings, nil
}

// prefixes reads a list of CIDRs. Liqo takes those with host bits for the networks that they are in.
func prefixes(u *unstructured.Unstructured, path ...string) (all []netip.Prefix, err error) {
	texts, _, err := unstructured.NestedStringSlice(u.Object, path...)
	if err != nil {
		return nil, err
	}
	for i, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%s[%d] %q: expected a CIDR", strings.Join(path, "."), i, text)
		}
		all = append(all, p.Masked())
	}
	return all, nil
}

// connected returns the clusters to which a Connection is up. Without any there is no tunnel.
func connected(connections []*unstructured.Unstructured) map[string]bool {
	up := map[string]bool{}
	for _, u := range connections {
		if value, _, _ := unstructured.NestedString(u.Object, "status", "value"); value == connectionUp {
			up[u.GetLabels()[labelRemoteCluster]] = true
		}
	}
	return up
}

// addresses returns which addresses of this cluster's external network lead to what it sees: an IP's status.ip to its spec.ip.
func addresses(ips []*unstructured.Unstructured) map[netip.Addr]netip.Addr {
	through := map[netip.Addr]netip.Addr{}
	for _, u := range ips {
		text, _, _ := unstructured.NestedString(u.Object, "spec", "ip")
		local, err := netip.ParseAddr(text)
		if err != nil {
			continue // the definition lets none through
		}
		text, _, _ = unstructured.NestedString(u.Object, "status", "ip")
		if external, err := netip.ParseAddr(text); err == nil { // Liqo has got to it
			through[local] = external
		}
	}
	return through
}
