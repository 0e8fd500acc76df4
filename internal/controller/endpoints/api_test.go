//go:build unix

package endpoints

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"isthmus.dev/isthmus/api/v1alpha1"
)

// A ClusterLink that can't be is refused by the API server, with what was expected.
func TestF5_ClusterLinksThatAreRefused(t *testing.T) {
	s := newSide(t)
	link := func(name, spec string) *v1alpha1.ClusterLink {
		return parse[v1alpha1.ClusterLink](t, "{metadata: {name: %q}, spec: {%s}}", name, spec)
	}
	for name, test := range map[string]struct {
		link *v1alpha1.ClusterLink
		says string
	}{
		"a name with dots":                  {link("a.b", ""), "the name is a cluster ID"},
		"a name that is too long":           {link(strings.Repeat("a", 64), ""), "the name is a cluster ID"},
		"no CIDR":                           {link("x", "podCIDRs: [{native: 10.0.0.0}]"), "without host bits"},
		"text":                              {link("x", "podCIDRs: [{native: 10.0.0.0/16, seenAs: somewhere}]"), "without host bits"},
		"host bits":                         {link("x", "podCIDRs: [{native: 10.0.0.1/16}]"), "without host bits"},
		"host bits of IPv6":                 {link("x", "externalCIDRs: [{native: 'fd00::/64', seenAs: 'fd01::1/64'}]"), "without host bits"},
		"IPv4 in IPv6":                      {link("x", "podCIDRs: [{native: '::ffff:10.0.0.0/112'}]"), "without host bits"},
		"another prefix length":             {link("x", "podCIDRs: [{native: 10.0.0.0/16, seenAs: 10.71.0.0/17}]"), "family and the prefix length"},
		"another family":                    {link("x", "podCIDRs: [{native: 10.0.0.0/16, seenAs: 'fd00::/16'}]"), "family and the prefix length"},
		"one pod network twice":             {link("x", "podCIDRs: [{native: 10.0.0.0/16, seenAs: 10.71.0.0/16}, {native: 10.0.3.0/24, seenAs: 10.72.3.0/24}]"), "native networks overlap"},
		"one network seen twice":            {link("x", "podCIDRs: [{native: 10.0.0.0/16, seenAs: 10.71.0.0/16}], externalCIDRs: [{native: 10.2.0.0/16, seenAs: 10.71.0.0/16}]"), "seenAs networks overlap"},
		"the same by default":               {link("x", "podCIDRs: [{native: 10.0.0.0/16}], externalCIDRs: [{native: 10.2.0.0/16, seenAs: 10.0.0.0/16}]"), "seenAs networks overlap"},
		"transit of no CIDR":                {link("x", "podCIDRs: [{native: 10.0.0.0/16}], transit: [{from: 10.0.0.0/16, external: x}]"), "without host bits"},
		"transit of another prefix length":  {link("x", "podCIDRs: [{native: 10.0.0.0/16}], transit: [{from: 10.0.0.0/16, external: 10.90.0.0/17}]"), "family and the prefix length"},
		"transit from elsewhere":            {link("x", "podCIDRs: [{native: 10.0.0.0/16, seenAs: 10.71.0.0/16}], transit: [{from: 10.0.0.0/16, external: 10.90.0.0/16}]"), "part of what this cluster sees"},
		"transit to one network twice":      {link("x", "podCIDRs: [{native: 10.0.0.0/16}], transit: [{from: 10.0.0.0/24, external: 10.90.0.0/24}, {from: 10.0.1.0/24, external: 10.90.0.0/24}]"), "networks of transit overlap"},
		"transit of one network twice":      {link("x", "podCIDRs: [{native: 10.0.0.0/16}], transit: [{from: 10.0.0.0/24, external: 10.90.0.0/24}, {from: 10.0.0.0/24, external: 10.91.0.0/24}]"), "networks of transit overlap"},
		"a probe without port":              {link("x", "probe: {tcp: 10.0.0.1}"), "spec.probe.tcp"},
		"a probe by name":                   {link("x", "probe: {tcp: 'example.io:80'}"), "spec.probe.tcp"},
		"a probe of what is no address":     {link("x", "probe: {tcp: '10.0.0.300:80'}"), "an address and a port"},
		"a probe of what is no port":        {link("x", "probe: {tcp: '10.0.0.3:65536'}"), "an address and a port"},
		"a probe that never rests":          {link("x", "probe: {tcp: '10.0.0.1:80', periodSeconds: -1}"), "periodSeconds"},
		"direct connections of a third way": {link("x", "directConnections: Perhaps"), "Allow"},
	} {
		err := s.Create(t.Context(), test.link, client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v; expected …%s…", name, err, test.says)
		}
	}

	var most []string // as many as there may be, in the longest form
	for i := range 16 {
		most = append(most, fmt.Sprintf("{native: 'fd00:1111:2222:3333:4444:5555:6666:%x000/116', seenAs: 'fd00:1111:2222:3333:4444:5555:7777:%x000/116'}", i, i))
	}
	pods := strings.Join(most, ", ")
	for name, spec := range map[string]string{
		"nothing":      "",
		"one network":  "podCIDRs: [{native: 10.0.0.0/16}]",
		"all of it":    "podCIDRs: [{native: 10.0.0.0/16, seenAs: 10.71.0.0/16}, {native: 'fd00::/64'}], externalCIDRs: [{native: 10.90.0.0/16, seenAs: 10.91.0.0/16}], transit: [{from: 10.71.4.0/24, external: 10.92.4.0/24}], directConnections: Deny, probe: {tcp: '[fd00::1]:80'}",
		"all there is": "podCIDRs: [" + pods + "], externalCIDRs: [" + strings.ReplaceAll(pods, "fd00", "fd01") + "]",
	} {
		if err := s.Create(t.Context(), link("x", spec), client.DryRunAll); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A ShadowEndpointSlice that can't be is refused by the API server, and one as large as an EndpointSlice may be is not.
func TestF5_ShadowEndpointSlicesThatAreRefused(t *testing.T) {
	s := newSide(t)
	slice := func(spec string) *v1alpha1.ShadowEndpointSlice {
		return parse[v1alpha1.ShadowEndpointSlice](t, "{metadata: {name: x, namespace: default}, spec: {%s}}", spec)
	}
	for name, test := range map[string]struct{ spec, says string }{
		"names":                {"addressType: FQDN", "IPv4"},
		"no address type":      {"endpoints: []", "addressType"},
		"nowhere":              {"addressType: IPv4, endpoints: [{hostname: a}]", "origin, via or both"},
		"as many":              {"addressType: IPv4, endpoints: [{origin: {clusterID: a, addresses: [10.0.0.1]}, via: {addresses: [10.0.0.1, 10.0.0.2]}}]", "as many addresses"},
		"no addresses":         {"addressType: IPv4, endpoints: [{via: {addresses: []}}]", "at least 1"},
		"of no cluster":        {"addressType: IPv4, endpoints: [{origin: {clusterID: '', addresses: [10.0.0.1]}}]", "clusterID"},
		"of what is no ID":     {"addressType: IPv4, endpoints: [{origin: {clusterID: 'a.b', addresses: [10.0.0.1]}}]", "clusterID"},
		"addresses too long":   {"addressType: IPv4, endpoints: [{via: {addresses: [" + strings.Repeat("a", 46) + "]}}]", "45"},
		"a zone that is a lot": {"addressType: IPv4, endpoints: [{via: {addresses: [10.0.0.1]}, zone: " + strings.Repeat("a", 254) + "}]", "253"},
	} {
		err := s.Create(t.Context(), slice(test.spec), client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v; expected …%s…", name, err, test.says)
		}
	}
	var most []string
	for i := range 1000 {
		a := fmt.Sprintf("'fd00:1111:2222:3333:4444:5555:6666:%04x'", i)
		most = append(most, "{origin: {clusterID: a, addresses: ["+a+"]}, via: {addresses: ["+a+"]}, conditions: {ready: true, serving: true, terminating: false}, hostname: pod-1, zone: zone-1}")
	}
	full := slice("addressType: IPv6, ports: [{name: http, port: 80}, {name: any}], endpoints: [" + strings.Join(most, ", ") + "]")
	if err := s.Create(t.Context(), full, client.DryRunAll); err != nil {
		t.Errorf("1,000 endpoints: %v", err)
	}

	there := slice("addressType: IPv4")
	s.make(there)
	t.Cleanup(func() { _ = s.Delete(context.Background(), there) })
	there.Spec.AddressType = "IPv6"
	if err := s.Update(t.Context(), there, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "addressType is immutable") {
		t.Errorf("another address type: %v", err)
	}
}
