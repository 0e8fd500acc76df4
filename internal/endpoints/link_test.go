package endpoints

import (
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"isthmus.dev/isthmus/api/v1alpha1"
)

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

// The worked example of Liqo's remapping, and the edges of prefixes.
func TestE2_HostPartInAnotherNetwork(t *testing.T) {
	for _, test := range []struct{ address, network, want string }{
		{"10.1.0.1", "40.32.0.0/10", "40.1.0.1"},
		{"10.0.3.7", "10.71.0.0/16", "10.71.3.7"},
		{"10.0.255.255", "10.71.0.0/16", "10.71.255.255"},
		{"10.0.3.7", "192.168.9.128/25", "192.168.9.135"},
		{"10.0.3.7", "192.168.9.1/32", "192.168.9.1"},
		{"10.0.3.7", "0.0.0.0/0", "10.0.3.7"},
		{"fd00:1::a:b", "fd00:2::/64", "fd00:2::a:b"},
		{"fd00:1::ff", "fd00:2::1230/124", "fd00:2::123f"},
	} {
		if got := Rebase(addr(test.address), netip.MustParsePrefix(test.network)); got != addr(test.want) {
			t.Errorf("%s in %s is %s, expected %s", test.address, test.network, got, test.want)
		}
	}
}

func TestF5_LinksThatAreRefused(t *testing.T) {
	pods := func(pairs ...string) (out []v1alpha1.CIDRMapping) {
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, v1alpha1.CIDRMapping{Native: pairs[i], SeenAs: pairs[i+1]})
		}
		return out
	}
	for name, test := range map[string]struct {
		spec v1alpha1.ClusterLinkSpec
		says string
	}{
		"no CIDR":           {v1alpha1.ClusterLinkSpec{PodCIDRs: pods("10.0.0.0", "")}, `spec.podCIDRs[0].native "10.0.0.0"`},
		"host bits":         {v1alpha1.ClusterLinkSpec{PodCIDRs: pods("10.0.0.0/16", "10.71.0.1/16")}, `spec.podCIDRs[0].seenAs "10.71.0.1/16"`},
		"IPv4 in IPv6":      {v1alpha1.ClusterLinkSpec{PodCIDRs: pods("::ffff:10.0.0.0/112", "")}, "without host bits"},
		"another length":    {v1alpha1.ClusterLinkSpec{ExternalCIDRs: pods("10.0.0.0/16", "10.71.0.0/17")}, "spec.externalCIDRs[0]: seenAs"},
		"another family":    {v1alpha1.ClusterLinkSpec{PodCIDRs: pods("10.0.0.0/16", "fd00::/16")}, "family"},
		"one native twice":  {v1alpha1.ClusterLinkSpec{PodCIDRs: pods("10.0.0.0/16", "10.71.0.0/16"), ExternalCIDRs: pods("10.0.0.0/24", "10.72.0.0/24")}, "native networks"},
		"one seenAs twice":  {v1alpha1.ClusterLinkSpec{PodCIDRs: pods("10.0.0.0/16", "10.71.0.0/16", "10.1.0.0/16", "10.71.0.0/16")}, "seenAs networks"},
		"transit elsewhere": {v1alpha1.ClusterLinkSpec{PodCIDRs: pods("10.0.0.0/16", "10.71.0.0/16"), Transit: []v1alpha1.TransitMapping{{From: "10.0.0.0/16", External: "10.90.0.0/16"}}}, "spec.transit[0].from"},
		"one transit twice": {v1alpha1.ClusterLinkSpec{PodCIDRs: pods("10.0.0.0/16", "10.71.0.0/16"), Transit: []v1alpha1.TransitMapping{
			{From: "10.71.0.0/24", External: "10.90.0.0/24"}, {From: "10.71.1.0/24", External: "10.90.0.0/24"}}}, "external networks"},
	} {
		if _, err := ParseLink("far", test.spec); err == nil || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), "ClusterLink far") {
			t.Errorf("%s: %v; expected …%s…", name, err, test.says)
		}
	}
}

// network draws a network of a family.
func network(v6 bool) *rapid.Generator[netip.Prefix] {
	return rapid.Custom(func(t *rapid.T) netip.Prefix {
		size := 4
		if v6 {
			size = 16
		}
		bytes := rapid.SliceOfN(rapid.Byte(), size, size).Draw(t, "bytes")
		a, _ := netip.AddrFromSlice(bytes)
		return netip.PrefixFrom(a, rapid.IntRange(1, 8*size).Draw(t, "bits")).Masked()
	})
}

// addressIn draws an address of a network, its first and last too.
func addressIn(p netip.Prefix) *rapid.Generator[netip.Addr] {
	return rapid.Custom(func(t *rapid.T) netip.Addr {
		size := p.Addr().BitLen() / 8
		bytes := rapid.OneOf(rapid.SliceOfN(rapid.Byte(), size, size), rapid.Just(make([]byte, size)), rapid.Just([]byte(strings.Repeat("\xff", size)))).Draw(t, "host")
		host, _ := netip.AddrFromSlice(bytes)
		return Rebase(host, p)
	})
}

// link draws a link with several networks, and what its mappings are.
func link(id string) *rapid.Generator[*Link] {
	return rapid.Custom(func(t *rapid.T) *Link {
		spec := v1alpha1.ClusterLinkSpec{}
		for range rapid.IntRange(1, 5).Draw(t, "networks") {
			native := network(rapid.Bool().Draw(t, "v6")).Draw(t, "native")
			seen := netip.PrefixFrom(network(native.Addr().Is6()).Draw(t, "seen").Addr(), native.Bits()).Masked()
			c := v1alpha1.CIDRMapping{Native: native.String(), SeenAs: seen.String()}
			tried := spec
			if rapid.Bool().Draw(t, "external") {
				tried.ExternalCIDRs = append(tried.ExternalCIDRs[:len(tried.ExternalCIDRs):len(tried.ExternalCIDRs)], c)
			} else {
				tried.PodCIDRs = append(tried.PodCIDRs[:len(tried.PodCIDRs):len(tried.PodCIDRs)], c)
			}
			if _, err := ParseLink(id, tried); err == nil {
				spec = tried
			}
		}
		l, err := ParseLink(id, spec)
		if err != nil {
			t.Skip("networks that an address can't be in")
		}
		return l
	})
}

// What is seen leads back to what it is natively; the host part is kept; and no two addresses are seen as one.
func TestE2_MappingIsOneToOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := link("far").Draw(t, "link")
		all := append(l.pods[:len(l.pods):len(l.pods)], l.externals...)
		if len(all) == 0 {
			t.Skip("no networks")
		}
		from := map[netip.Addr]netip.Addr{}
		for range 8 {
			i := rapid.IntRange(0, len(all)-1).Draw(t, "network")
			m, native := all[i], addressIn(all[i].from).Draw(t, "native")
			seen, ok := l.SeenExternal(native)
			if !ok || !m.to.Contains(seen) {
				t.Fatalf("%s is seen as %s, %v; expected one of %s", native, seen, ok, m.to)
			}
			if Rebase(seen, m.from) != native {
				t.Fatalf("%s, seen as %s, lost its host part", native, seen)
			}
			if before, ok := from[seen]; ok && before != native {
				t.Fatalf("%s and %s are both seen as %s", before, native, seen)
			}
			from[seen] = native
			if i >= len(l.pods) {
				if _, ok := l.Seen(native); ok {
					t.Fatalf("%s of an external network is taken for a pod's", native)
				}
				continue
			}
			if back, ok := l.Native(seen); !ok || back != native {
				t.Fatalf("%s is seen as %s, which is %s, %v natively", native, seen, back, ok)
			}
		}
	})
}

// An address beyond the edges of all networks is in none.
func TestE6_EdgesOfNetworks(t *testing.T) {
	l, err := ParseLink("far", v1alpha1.ClusterLinkSpec{PodCIDRs: []v1alpha1.CIDRMapping{
		{Native: "10.0.0.0/23", SeenAs: "10.71.0.0/23"}, {Native: "10.0.4.0/24"}, {Native: "fd00:1::/120", SeenAs: "fd00:2::/120"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for native, want := range map[string]string{
		"10.0.0.0": "10.71.0.0", "10.0.1.255": "10.71.1.255", "10.0.4.9": "10.0.4.9", "fd00:1::": "fd00:2::", "fd00:1::ff": "fd00:2::ff",
		"9.255.255.255": "", "10.0.2.0": "", "10.0.3.255": "", "10.0.5.0": "", "fd00:1::100": "", "fd00:0:ffff::": "", "::ffff:10.0.0.1": "",
	} {
		seen, ok := l.Seen(addr(native))
		if ok != (want != "") || ok && seen != addr(want) {
			t.Errorf("%s is seen as %s, %v; expected %q", native, seen, ok, want)
		}
	}
}

// Of two links that claim one network, the first is used, and the other one says which it was.
func TestE5_OverlapsAmongLinks(t *testing.T) {
	parse := func(id, native, seen, external string) *Link {
		spec := v1alpha1.ClusterLinkSpec{PodCIDRs: []v1alpha1.CIDRMapping{{Native: native, SeenAs: seen}}}
		if external != "" {
			spec.Transit = []v1alpha1.TransitMapping{{From: seen, External: external}}
		}
		l, err := ParseLink(id, spec)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	links, overlaps := NewLinks(
		parse("a", "10.0.0.0/16", "10.71.0.0/16", "10.90.0.0/16"), // what it is natively may be the same everywhere
		parse("b", "10.0.0.0/16", "10.72.0.0/16", "10.91.0.0/16"),
		parse("c", "10.3.0.0/24", "10.71.5.0/24", ""),
		parse("d", "10.3.0.0/24", "10.73.0.0/24", "10.91.7.0/24"),
		parse("e", "10.3.0.0/24", "10.73.0.0/24", ""), // only overlaps with one that is not used
	)
	if len(overlaps) != 2 || overlaps[0].Link != "c" || overlaps[0].With != "a" || overlaps[1].Link != "d" || overlaps[1].With != "b" {
		t.Errorf("overlaps: %v", overlaps)
	}
	if !strings.Contains(overlaps[0].Message, "10.71.5.0/24") || !strings.Contains(overlaps[0].Message, "10.71.0.0/16") || !strings.Contains(overlaps[1].Message, "transit") {
		t.Errorf("overlaps do not say which networks: %v", overlaps)
	}
	for seen, want := range map[string]string{"10.71.5.1": "a", "10.72.0.1": "b", "10.73.0.1": "e", "10.0.0.1": ""} {
		if owner, ok := links.Owner(addr(seen)); owner != want || ok != (want != "") {
			t.Errorf("%s is taken for one of %q, expected %q", seen, owner, want)
		}
	}
	if links.Get("c") != nil || links.Get("e") == nil {
		t.Error("the wrong link is used")
	}
}
