package podnet

import (
	"fmt"
	"net/netip"
	"slices"

	"isthmus.dev/isthmus/api/v1alpha1"
)

// translation replaces a prefix by another one of the same length, and keeps the rest of an address.
type translation struct{ from, to netip.Prefix }

// move applies t to an address that is in from.
func (t translation) move(a netip.Addr) netip.Addr {
	old, bytes := a.AsSlice(), t.to.Masked().Addr().AsSlice()
	for bit := t.to.Bits(); bit < 8*len(old); bit++ {
		bytes[bit/8] |= old[bit/8] & (0x80 >> (bit % 8))
	}
	moved, _ := netip.AddrFromSlice(bytes)
	return moved
}

// part applies t to a prefix that is within from.
func (t translation) part(p netip.Prefix) netip.Prefix {
	return netip.PrefixFrom(t.move(p.Addr()), p.Bits())
}

// end is what a cluster's gateway does at its end of a link.
type end struct {
	routes []netip.Prefix // what leads over the link
	in     []translation  // of the destinations of packets that come from it
	out    []translation  // of the sources of packets that go over it
}

// endOf works out what the gateway of a cluster does at the end of its link to another one.
func (p Plan) endOf(cluster, other string) (e end, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the link of %s to %s: %v", cluster, other, r)
		}
	}()
	ours, theirs := p.Links[cluster][other], p.Links[other][cluster]
	for _, seen := range slices.Concat(ours.PodCIDRs, ours.ExternalCIDRs) {
		e.routes = append(e.routes, seenAs(seen).to)
	}
	for _, pods := range theirs.PodCIDRs { // our pods, and what they are for the others
		e.out = append(e.out, seenAs(pods))
		e.in = append(e.in, reverse(seenAs(pods)))
	}
	for third, link := range p.Links[cluster] { // third clusters' pods, which are reached through us
		for _, transit := range link.Transit {
			from, external := netip.MustParsePrefix(transit.From), netip.MustParsePrefix(transit.External)
			for _, network := range theirs.ExternalCIDRs {
				if seen := seenAs(network); third != other && seen.from.Overlaps(external) {
					t := translation{from: from, to: seen.part(external)}
					e.out = append(e.out, t)
					e.in = append(e.in, reverse(t))
				}
			}
		}
	}
	return e, nil
}

// seenAs is what one side of a link does to addresses of the other one.
func seenAs(m v1alpha1.CIDRMapping) translation {
	native := netip.MustParsePrefix(m.Native)
	if m.SeenAs == "" {
		return translation{native, native}
	}
	return translation{native, netip.MustParsePrefix(m.SeenAs)}
}

func reverse(t translation) translation { return translation{from: t.to, to: t.from} }
