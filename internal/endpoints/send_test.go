package endpoints

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"

	"isthmus.dev/isthmus/api/v1alpha1"
)

// consumerLinks are those of a consumer, home, with the providers one (v4 and v6, with transit) and two (not remapped, no
// transit).
func consumerLinks(t testing.TB) *Links {
	t.Helper()
	return linksOf(t,
		named("one", v1alpha1.ClusterLinkSpec{
			PodCIDRs: []v1alpha1.CIDRMapping{{Native: "10.0.0.0/16", SeenAs: "10.71.0.0/16"}, {Native: "fd00:1::/64", SeenAs: "fd00:71::/64"}},
			Transit:  []v1alpha1.TransitMapping{{From: "10.71.0.0/17", External: "10.90.0.0/17"}},
		}),
		named("two", v1alpha1.ClusterLinkSpec{PodCIDRs: []v1alpha1.CIDRMapping{{Native: "10.2.0.0/16"}}}),
	)
}

type namedSpec struct {
	name string
	spec v1alpha1.ClusterLinkSpec
	down bool
}

func named(name string, spec v1alpha1.ClusterLinkSpec) namedSpec {
	return namedSpec{name: name, spec: spec}
}

func linksOf(t testing.TB, specs ...namedSpec) *Links {
	t.Helper()
	var all []*Link
	for _, s := range specs {
		l, err := ParseLink(s.name, s.spec)
		if err != nil {
			t.Fatal(err)
		}
		l.Up = !s.down
		all = append(all, l)
	}
	links, overlaps := NewLinks(all...)
	if len(overlaps) > 0 {
		t.Fatal(overlaps)
	}
	return links
}

func origin(id string, addresses ...string) *v1alpha1.EndpointOrigin {
	return &v1alpha1.EndpointOrigin{ClusterID: id, Addresses: addresses}
}

func via(addresses ...string) *v1alpha1.EndpointVia {
	return &v1alpha1.EndpointVia{Addresses: addresses}
}

func TestE2_HowEndpointsAreSent(t *testing.T) {
	links := consumerLinks(t)
	for name, test := range map[string]struct {
		node      string
		to        string
		direct    bool
		addresses []string
		want      v1alpha1.ShadowEndpoint
		reason    Reason
		says      string
	}{
		"a pod of the consumer":                     {addresses: []string{"10.0.0.5"}, want: v1alpha1.ShadowEndpoint{Origin: origin("home", "10.0.0.5"), Via: via("10.0.0.5")}},
		"E4: a pod of a third cluster":              {addresses: []string{"10.71.0.5"}, want: v1alpha1.ShadowEndpoint{Via: via("10.90.0.5")}},
		"E4: the same, direct":                      {addresses: []string{"10.71.0.5"}, direct: true, want: v1alpha1.ShadowEndpoint{Origin: origin("one", "10.0.0.5"), Via: via("10.90.0.5")}},
		"by its node's label":                       {addresses: []string{"10.71.0.5"}, node: "one", direct: true, want: v1alpha1.ShadowEndpoint{Origin: origin("one", "10.0.0.5"), Via: via("10.90.0.5")}},
		"a link without transit":                    {addresses: []string{"10.2.0.5"}, direct: true, to: "one", want: v1alpha1.ShadowEndpoint{Origin: origin("two", "10.2.0.5"), Via: via("10.2.0.5")}},
		"E8: several addresses":                     {addresses: []string{"10.71.0.5", "10.71.0.6"}, direct: true, want: v1alpha1.ShadowEndpoint{Origin: origin("one", "10.0.0.5", "10.0.0.6"), Via: via("10.90.0.5", "10.90.0.6")}},
		"E8: IPv6, without a way through":           {addresses: []string{"fd00:71::5"}, direct: true, want: v1alpha1.ShadowEndpoint{Origin: origin("one", "fd00:1::5")}},
		"E3: one of the destination":                {addresses: []string{"10.71.0.5"}, to: "one", direct: true, reason: ReasonDestination},
		"E3: the same by its node":                  {addresses: []string{"10.71.0.5"}, node: "one", to: "one", reason: ReasonDestination},
		"no way without direct":                     {addresses: []string{"fd00:71::5"}, reason: ReasonNoWay, says: "no transit of ClusterLink one leads to fd00:71::5"},
		"no way for one of its addresses":           {addresses: []string{"10.71.0.5", "10.71.200.1"}, reason: ReasonNoWay, says: "10.71.200.1"},
		"a node of a cluster without link":          {addresses: []string{"10.71.0.5"}, node: "one", to: "two", want: v1alpha1.ShadowEndpoint{Via: via("10.90.0.5")}},
		"a label without link":                      {addresses: []string{"10.99.0.5"}, node: "three", reason: ReasonNoLink, says: "no usable ClusterLink three"},
		"a label, and another link":                 {addresses: []string{"10.71.0.5"}, node: "two", to: "three", reason: ReasonContradiction, says: "ClusterLink one"},
		"a label of this cluster, and another link": {addresses: []string{"10.71.0.5"}, node: "home", reason: ReasonContradiction, says: "ClusterLink one"},
		"a label, and no link that knows it":        {addresses: []string{"10.99.0.5"}, node: "one", reason: ReasonContradiction, says: "10.99.0.5 is in no seenAs"},
		"two clusters by its addresses":             {addresses: []string{"10.0.0.5", "10.71.0.5"}, reason: ReasonContradiction, says: "10.0.0.5 lives on home"},
		"no address":                                {reason: ReasonInvalid},
		"no IP address":                             {addresses: []string{"example.io"}, reason: ReasonInvalid},
		"one of the other family":                   {addresses: []string{"10.71.0.5", "fd00:71::5"}, reason: ReasonInvalid},
	} {
		in := SendInput{Self: "home", Destination: test.to, Links: links, Direct: test.direct, AddressType: discoveryv1.AddressTypeIPv4,
			Endpoint: discoveryv1.Endpoint{Addresses: test.addresses}, NodeCluster: test.node}
		if test.to == "" {
			in.Destination = "two"
		}
		if len(test.addresses) > 0 && strings.Contains(test.addresses[0], ":") {
			in.AddressType = discoveryv1.AddressTypeIPv6
		}
		got, verdict := Send(in)
		if verdict.Reason != test.reason || !strings.Contains(verdict.Message, test.says) {
			t.Errorf("%s: %q: %s; expected %q: …%s…", name, verdict.Reason, verdict.Message, test.reason, test.says)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

// What the consumer alone knows what to do with stays there; the rest crosses.
func TestE3_WhatCrossesOfAnEndpoint(t *testing.T) {
	conditions := discoveryv1.EndpointConditions{Ready: ptr.To(false), Serving: ptr.To(true), Terminating: ptr.To(true)}
	hints := &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "z"}}, ForNodes: []discoveryv1.ForNode{{Name: "n"}}}
	sent, verdict := Send(SendInput{Self: "home", Destination: "one", AddressType: discoveryv1.AddressTypeIPv4, Endpoint: discoveryv1.Endpoint{
		Addresses: []string{"10.0.0.5"}, Conditions: conditions, Hostname: ptr.To("db-0"), Zone: ptr.To("z"), Hints: hints, NodeName: ptr.To("n"),
	}})
	if !verdict.Crosses() {
		t.Fatal(verdict)
	}
	want := v1alpha1.ShadowEndpoint{Origin: origin("home", "10.0.0.5"), Via: via("10.0.0.5"), Conditions: conditions,
		Hostname: ptr.To("db-0"), Zone: ptr.To("z"), Hints: &discoveryv1.EndpointHints{ForZones: hints.ForZones}}
	if diff := cmp.Diff(want, sent); diff != "" {
		t.Errorf("sent: (-want +got)\n%s", diff)
	}
	received, verdict := Receive(ReceiveInput{Consumer: "home", Links: linksOf(t, named("home", v1alpha1.ClusterLinkSpec{PodCIDRs: []v1alpha1.CIDRMapping{{Native: "10.0.0.0/16", SeenAs: "10.80.0.0/16"}}})),
		AddressType: discoveryv1.AddressTypeIPv4, Endpoint: sent})
	if !verdict.Crosses() {
		t.Fatal(verdict)
	}
	if diff := cmp.Diff(discoveryv1.Endpoint{Addresses: []string{"10.80.0.5"}, Conditions: conditions, Hostname: ptr.To("db-0"), Zone: ptr.To("z"), Hints: want.Hints}, received.Endpoint); diff != "" {
		t.Errorf("received: (-want +got)\n%s", diff)
	}
}

// Where an endpoint on a third cluster lives is told only if the Service asks for direct connections; of the consumer's own it
// always is.
func TestE4_OriginIsSentOnRequest(t *testing.T) {
	links := consumerLinks(t)
	for _, direct := range []bool{false, true} {
		for seen, home := range map[string]string{"10.71.0.5": "one", "10.0.0.5": "home"} {
			sent, verdict := Send(SendInput{Self: "home", Destination: "two", Links: links, Direct: direct, AddressType: discoveryv1.AddressTypeIPv4,
				Endpoint: discoveryv1.Endpoint{Addresses: []string{seen}}})
			if !verdict.Crosses() || sent.Via == nil {
				t.Fatalf("%s: %v, %+v", seen, verdict, sent)
			}
			if told := sent.Origin != nil; told != (direct || home == "home") || told && sent.Origin.ClusterID != home {
				t.Errorf("%s on %s, direct %v: origin %+v", seen, home, direct, sent.Origin)
			}
		}
	}
}
