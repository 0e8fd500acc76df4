package endpoints

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"isthmus.dev/isthmus/api/v1alpha1"
)

// providerLinks are those of a provider: to the consumer, home, and to another provider, one. Links named are down, or denied.
func providerLinks(t testing.TB, without, down, deny string) *Links {
	t.Helper()
	var specs []namedSpec
	for _, s := range []namedSpec{
		named("home", v1alpha1.ClusterLinkSpec{
			PodCIDRs:      []v1alpha1.CIDRMapping{{Native: "10.0.0.0/16", SeenAs: "10.80.0.0/16"}, {Native: "fd00::/64", SeenAs: "fd00:80::/64"}},
			ExternalCIDRs: []v1alpha1.CIDRMapping{{Native: "10.90.0.0/16", SeenAs: "10.81.0.0/16"}},
		}),
		named("one", v1alpha1.ClusterLinkSpec{PodCIDRs: []v1alpha1.CIDRMapping{{Native: "10.0.0.0/16", SeenAs: "10.82.0.0/16"}, {Native: "10.3.0.0/16", SeenAs: "10.83.0.0/16"}}}),
	} {
		s.down = strings.Contains(down, s.name)
		if strings.Contains(deny, s.name) {
			s.spec.DirectConnections = v1alpha1.DirectConnectionsDeny
		}
		if !strings.Contains(without, s.name) {
			specs = append(specs, s)
		}
	}
	return linksOf(t, specs...)
}

func TestE5_WhichPathIsTaken(t *testing.T) {
	both := v1alpha1.ShadowEndpoint{Origin: origin("one", "10.0.0.5"), Via: via("10.90.0.5")}
	own := v1alpha1.ShadowEndpoint{Origin: origin("home", "10.0.0.5"), Via: via("10.0.0.5")}
	for name, test := range map[string]struct {
		endpoint            v1alpha1.ShadowEndpoint
		without, down, deny string
		want                []string
		path                Path
		notReady            bool
		reason              Reason
		says                string
	}{
		"direct":                                {endpoint: both, want: []string{"10.82.0.5"}, path: PathDirect},
		"E5: down, so through the consumer":     {endpoint: both, down: "one", want: []string{"10.81.0.5"}, path: PathVia},
		"E5: denied, so through the consumer":   {endpoint: both, deny: "one", want: []string{"10.81.0.5"}, path: PathVia},
		"E5: no link, so through the consumer":  {endpoint: both, without: "one", want: []string{"10.81.0.5"}, path: PathVia},
		"E4: the origin is not said":            {endpoint: v1alpha1.ShadowEndpoint{Via: via("10.90.0.5")}, want: []string{"10.81.0.5"}, path: PathVia},
		"a pod of the consumer":                 {endpoint: own, want: []string{"10.80.0.5"}, path: PathDirect},
		"a pod of the consumer, denied":         {endpoint: own, deny: "home", want: []string{"10.80.0.5"}, path: PathVia},
		"E7: both down":                         {endpoint: both, down: "one home", want: []string{"10.81.0.5"}, path: PathVia, notReady: true},
		"E7: a pod of the consumer, down":       {endpoint: own, down: "home", want: []string{"10.80.0.5"}, path: PathVia, notReady: true},
		"E7: down, and no way around":           {endpoint: v1alpha1.ShadowEndpoint{Origin: origin("one", "10.0.0.5")}, down: "one", want: []string{"10.82.0.5"}, path: PathDirect, notReady: true},
		"E7: down, and no link to the consumer": {endpoint: both, without: "home", down: "one", want: []string{"10.82.0.5"}, path: PathDirect, notReady: true},
		"no link at all":                        {endpoint: both, without: "home one", reason: ReasonNoLink, says: "ClusterLink home"},
		"no link, and no way around":            {endpoint: v1alpha1.ShadowEndpoint{Origin: origin("two", "10.0.0.5")}, reason: ReasonNoLink, says: "ClusterLink two"},
		"E6: an origin elsewhere":               {endpoint: v1alpha1.ShadowEndpoint{Origin: origin("one", "10.9.0.5"), Via: via("10.90.0.5")}, reason: ReasonOutside, says: "10.9.0.5 is said to be of cluster one"},
		"E6: the same while the link is down":   {endpoint: v1alpha1.ShadowEndpoint{Origin: origin("one", "10.9.0.5"), Via: via("10.90.0.5")}, down: "one", reason: ReasonOutside},
		"E5: the same while it is denied":       {endpoint: v1alpha1.ShadowEndpoint{Origin: origin("one", "10.9.0.5"), Via: via("10.90.0.5")}, deny: "one", want: []string{"10.81.0.5"}, path: PathVia},
		"E6: an external address as origin":     {endpoint: v1alpha1.ShadowEndpoint{Origin: origin("home", "10.90.0.5"), Via: via("10.90.0.5")}, reason: ReasonOutside},
		"E6: a way elsewhere":                   {endpoint: v1alpha1.ShadowEndpoint{Via: via("10.71.0.5")}, reason: ReasonOutside, says: "10.71.0.5 is said to be of cluster home"},
		"E6: one of several addresses":          {endpoint: v1alpha1.ShadowEndpoint{Origin: origin("one", "10.0.0.5", "10.9.0.5")}, reason: ReasonOutside},
		"E8: several addresses, several CIDRs":  {endpoint: v1alpha1.ShadowEndpoint{Origin: origin("one", "10.0.0.5", "10.3.0.5", "10.0.0.5")}, want: []string{"10.82.0.5", "10.83.0.5"}, path: PathDirect},
		"E8: as many as differ":                 {endpoint: v1alpha1.ShadowEndpoint{Origin: origin("one", "10.0.0.5"), Via: via("10.90.0.5", "10.90.0.6")}, reason: ReasonInvalid},
		"E8: nothing":                           {reason: ReasonInvalid},
		"E8: the machine itself":                {endpoint: v1alpha1.ShadowEndpoint{Via: via("127.0.0.1")}, reason: ReasonInvalid},
		"E8: the other family":                  {endpoint: v1alpha1.ShadowEndpoint{Via: via("fd00::5")}, reason: ReasonInvalid},
		"E8: a hostname that is none":           {endpoint: v1alpha1.ShadowEndpoint{Origin: origin("one", "10.0.0.5"), Hostname: ptr.To("a.b")}, reason: ReasonInvalid},
		"E8: a zone that is none": {endpoint: v1alpha1.ShadowEndpoint{Origin: origin("one", "10.0.0.5"), Hints: &discoveryv1.EndpointHints{
			ForZones: []discoveryv1.ForZone{{Name: "a b"}}}}, reason: ReasonInvalid},
	} {
		got, verdict := Receive(ReceiveInput{Consumer: "home", Links: providerLinks(t, test.without, test.down, test.deny), AddressType: discoveryv1.AddressTypeIPv4, Endpoint: test.endpoint})
		if verdict.Reason != test.reason || !strings.Contains(verdict.Message, test.says) {
			t.Errorf("%s: %q: %s; expected %q: …%s…", name, verdict.Reason, verdict.Message, test.reason, test.says)
			continue
		}
		if got.Path != test.path || verdict.Crosses() && got.Up == test.notReady {
			t.Errorf("%s: by %q, up %v; expected %q, up %v", name, got.Path, got.Up, test.path, !test.notReady)
		}
		if diff := cmp.Diff(test.want, got.Endpoint.Addresses); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
		if c := got.Endpoint.Conditions; test.notReady && (ptr.Deref(c.Ready, true) || ptr.Deref(c.Serving, true)) || !test.notReady && (c.Ready != nil || c.Serving != nil) {
			t.Errorf("%s: conditions %v", name, c)
		}
	}
}

// Whatever a consumer says, what a provider's slices hold is in the networks that its own links give, each address once, and
// what it is told to be is what the sender's cluster has there.
func TestE6_OnlyWhatLinksGive(t *testing.T) {
	links := providerLinks(t, "", "", "")
	text := rapid.OneOf(
		rapid.Map(addressIn(links.Get("home").externals[0].from), textOf), rapid.Map(addressIn(links.Get("one").pods[0].from), textOf),
		rapid.Map(addressIn(links.Get("home").pods[1].from), textOf), rapid.String(), rapid.SampledFrom([]string{"", "::", "0.0.0.0", "::ffff:10.0.0.1", "fe80::1%eth0", "010.0.0.1"}),
	)
	rapid.Check(t, func(t *rapid.T) {
		e := v1alpha1.ShadowEndpoint{}
		if rapid.Bool().Draw(t, "origin") {
			e.Origin = origin(rapid.SampledFrom([]string{"home", "one", "two", ""}).Draw(t, "cluster"), rapid.SliceOfN(text, 0, 3).Draw(t, "addresses")...)
		}
		if rapid.Bool().Draw(t, "via") {
			e.Via = via(rapid.SliceOfN(text, 0, 3).Draw(t, "ways")...)
		}
		family := rapid.SampledFrom([]discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6, discoveryv1.AddressTypeFQDN}).Draw(t, "family")
		got, verdict := Receive(ReceiveInput{Consumer: "home", Links: links, AddressType: family, Endpoint: e})
		if !verdict.Crosses() {
			if len(got.Endpoint.Addresses) > 0 {
				t.Fatalf("refused, and yet %v", got.Endpoint.Addresses)
			}
			return
		}
		if len(got.Endpoint.Addresses) == 0 {
			t.Fatal("an endpoint without addresses")
		}
		known := map[string]bool{}
		for _, text := range got.Endpoint.Addresses {
			given := false
			for _, link := range links.all {
				for _, m := range append(link.pods[:len(link.pods):len(link.pods)], link.externals...) {
					given = given || m.to.Contains(addr(text))
				}
			}
			if !given || known[text] {
				t.Fatalf("%s is in no network of a link, or there twice: %v", text, got.Endpoint.Addresses)
			}
			known[text] = true
		}
	})
}

func textOf(a netip.Addr) string { return a.String() }

// A pod is reached at what this cluster sees that very pod as, by whichever path: sender and receiver agree.
func TestE2_SentAndReceivedIsTheSamePod(t *testing.T) {
	consumer, provider := linksOf(t, named("one", v1alpha1.ClusterLinkSpec{
		PodCIDRs: []v1alpha1.CIDRMapping{{Native: "10.0.0.0/16", SeenAs: "10.71.0.0/16"}}, Transit: []v1alpha1.TransitMapping{{From: "10.71.0.0/16", External: "10.90.0.0/16"}},
	})), providerLinks(t, "", "", "")
	rapid.Check(t, func(t *rapid.T) {
		native := addressIn(consumer.Get("one").pods[0].from).Draw(t, "native")
		seenAtHome, _ := consumer.Get("one").Seen(native)
		direct := rapid.Bool().Draw(t, "direct")
		sent, verdict := Send(SendInput{Self: "home", Destination: "two", Links: consumer, Direct: direct, AddressType: discoveryv1.AddressTypeIPv4,
			Endpoint: discoveryv1.Endpoint{Addresses: []string{seenAtHome.String()}}})
		if !verdict.Crosses() {
			t.Fatal(verdict)
		}
		got, verdict := Receive(ReceiveInput{Consumer: "home", Links: provider, AddressType: discoveryv1.AddressTypeIPv4, Endpoint: sent})
		if !verdict.Crosses() {
			t.Fatal(verdict)
		}
		want, path := Rebase(native, provider.Get("one").pods[0].to), PathDirect
		if !direct {
			want, path = Rebase(native, provider.Get("home").externals[0].to), PathVia
		}
		if got.Path != path || got.Endpoint.Addresses[0] != want.String() {
			t.Fatalf("%s, seen as %s, is reached at %v by %s; expected %s by %s", native, seenAtHome, got.Endpoint.Addresses, got.Path, want, path)
		}
	})
}

// Nothing that a consumer writes makes the provider panic, or gives it what an EndpointSlice may not hold.
func FuzzReceive(f *testing.F) {
	f.Add("10.0.0.5", "10.90.0.5", "one", "host", "IPv4", true)
	f.Add("fd00::5", "", "home", "", "IPv6", false)
	f.Add("::ffff:10.0.0.5", "fe80::1%eth0", "", "a.b", "FQDN", true)
	links := providerLinks(f, "", "", "")
	f.Fuzz(func(t *testing.T, native, way, cluster, hostname, family string, several bool) {
		e := v1alpha1.ShadowEndpoint{Origin: origin(cluster, native), Via: via(way), Hostname: &hostname}
		if several {
			e.Origin.Addresses = append(e.Origin.Addresses, way)
		}
		got, verdict := Receive(ReceiveInput{Consumer: "home", Links: links, AddressType: discoveryv1.AddressType(family), Endpoint: e})
		if verdict.Crosses() == (len(got.Endpoint.Addresses) == 0) {
			t.Fatalf("%v, and %v", verdict, got.Endpoint.Addresses)
		}
		for _, text := range got.Endpoint.Addresses {
			if !holdable(addr(text)) {
				t.Fatalf("%s can't be in an EndpointSlice", text)
			}
		}
	})
}

// Nothing in a ClusterLink makes anyone panic.
func FuzzParseLink(f *testing.F) {
	f.Add("10.0.0.0/16", "10.71.0.0/16", "10.71.0.0/24", "10.90.0.0/24", "10.0.3.4")
	f.Add("::/0", "::/0", "", "", "::1")
	f.Add("0.0.0.0/0", "0.0.0.0/0", "10.0.0.0/8", "11.0.0.0/8", "255.255.255.255")
	f.Fuzz(func(t *testing.T, native, seen, from, external, address string) {
		l, err := ParseLink("far", v1alpha1.ClusterLinkSpec{PodCIDRs: []v1alpha1.CIDRMapping{{Native: native, SeenAs: seen}}, Transit: []v1alpha1.TransitMapping{{From: from, External: external}}})
		if err != nil {
			l, err = ParseLink("far", v1alpha1.ClusterLinkSpec{PodCIDRs: []v1alpha1.CIDRMapping{{Native: native, SeenAs: seen}}})
		}
		a, invalid := parseAddresses(discoveryv1.AddressTypeIPv4, []string{address})
		if err != nil || !invalid.Crosses() {
			return
		}
		if s, ok := l.Seen(a[0]); ok {
			if back, ok := l.Native(s); !ok || back != a[0] {
				t.Fatalf("%s is seen as %s, and that is %s, %v", a[0], s, back, ok)
			}
			l.Transit(s)
		}
	})
}

// A chosen path that is down makes an endpoint neither ready nor serving, whatever the consumer says, and leaves the rest as it is.
func TestE7_DownIsNeitherReadyNorServing(outer *testing.T) {
	rapid.Check(outer, func(t *rapid.T) {
		condition := rapid.Ptr(rapid.Bool(), true)
		said := discoveryv1.EndpointConditions{Ready: condition.Draw(t, "ready"), Serving: condition.Draw(t, "serving"), Terminating: condition.Draw(t, "terminating")}
		e := v1alpha1.ShadowEndpoint{Origin: origin("one", "10.0.0.5"), Via: via("10.90.0.5"), Conditions: said}
		down := rapid.SampledFrom([]string{"", "one", "home", "one home"}).Draw(t, "down")
		got, verdict := Receive(ReceiveInput{Consumer: "home", Links: providerLinks(outer, "", down, ""), AddressType: discoveryv1.AddressTypeIPv4, Endpoint: e})
		want := said
		if down == "one home" {
			want.Ready, want.Serving = ptr.To(false), ptr.To(false)
		}
		if diff := cmp.Diff(want, got.Endpoint.Conditions); diff != "" || !verdict.Crosses() {
			t.Fatalf("with %q down: %v (-want +got)\n%s", down, verdict, diff)
		}
		if !cmp.Equal(e.Conditions, said) {
			t.Fatal("what was received was changed")
		}
	})
}
