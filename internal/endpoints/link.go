package endpoints

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus.dev/isthmus/api/v1alpha1"
)

// Link is a ClusterLink, parsed: how one cluster reaches the pods of another.
type Link struct {
	// ClusterID names the other cluster.
	ClusterID string
	// Direct: pods of the other cluster may be reached over it on behalf of a consumer.
	Direct bool
	// Up: packets go through.
	Up bool

	pods, externals, transit []mapping
	// through leads to single pods, instead of transit; nil: transit does.
	through map[netip.Addr]netip.Addr
}

// mapping is a network, and one of the same size that stands for it.
type mapping struct{ from, to netip.Prefix }

// ParseLink parses a ClusterLink's spec; the link is taken to be up. An error names the field, and says what was expected.
// What the API server refuses is refused here too: links may come from elsewhere.
func ParseLink(name string, spec v1alpha1.ClusterLinkSpec) (*Link, error) {
	l := &Link{ClusterID: name, Direct: spec.DirectConnections != v1alpha1.DirectConnectionsDeny, Up: true}
	var errs []error
	parse := func(field, from, to, fromName, toName string) mapping {
		m, err := parseMapping(field, from, to, fromName, toName)
		errs = append(errs, err)
		return m
	}
	for i, c := range spec.PodCIDRs {
		l.pods = append(l.pods, parse(fmt.Sprintf("spec.podCIDRs[%d]", i), c.Native, orElse(c.SeenAs, c.Native), "native", "seenAs"))
	}
	for i, c := range spec.ExternalCIDRs {
		l.externals = append(l.externals, parse(fmt.Sprintf("spec.externalCIDRs[%d]", i), c.Native, orElse(c.SeenAs, c.Native), "native", "seenAs"))
	}
	for i, c := range spec.Transit {
		l.transit = append(l.transit, parse(fmt.Sprintf("spec.transit[%d]", i), c.From, c.External, "from", "external"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("ClusterLink %s: %w", name, err)
	}
	if err := l.check(); err != nil {
		return nil, fmt.Errorf("ClusterLink %s: %w", name, err)
	}
	return l, nil
}

// FromClusterLink parses a ClusterLink, with whether it is up: it is, unless its condition Connected says otherwise.
func FromClusterLink(object *v1alpha1.ClusterLink) (*Link, error) {
	l, err := ParseLink(object.Name, object.Spec)
	if err == nil {
		l.Up = Connected(object)
	}
	return l, err
}

// Found is a link that something else than a ClusterLink says.
type Found struct {
	// Link is the ClusterLink that would say it, with the condition Connected.
	Link v1alpha1.ClusterLink
	// Through has, instead of the link's transit, the address in this cluster's external network that leads to each that it sees.
	Through map[netip.Addr]netip.Addr
}

// SetConnected says whether the link is up, and who says so.
func (f *Found) SetConnected(up bool, who string) {
	status := metav1.ConditionFalse
	if up {
		status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&f.Link.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionConnected, Status: status, Reason: who})
}

// Parse is FromClusterLink for a link that was found.
func (f *Found) Parse() (*Link, error) {
	l, err := FromClusterLink(&f.Link)
	if err == nil {
		l.through = f.Through
	}
	return l, err
}

// Connected reports whether a ClusterLink is up (E5: one without the condition is).
func Connected(object *v1alpha1.ClusterLink) bool {
	return !meta.IsStatusConditionFalse(object.Status.Conditions, v1alpha1.ConditionConnected)
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

func parseMapping(field, from, to, fromName, toName string) (m mapping, err error) {
	if m.from, err = parseCIDR(field+"."+fromName, from); err != nil {
		return m, err
	}
	if m.to, err = parseCIDR(field+"."+toName, to); err != nil {
		return m, err
	}
	if m.from.Bits() != m.to.Bits() || m.from.Addr().Is4() != m.to.Addr().Is4() {
		return m, fmt.Errorf("%s: %s %s must have the family and the prefix length of %s %s", field, toName, to, fromName, from)
	}
	return m, nil
}

func parseCIDR(field, text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil || p != p.Masked() || p.Addr().Is4In6() {
		return p, fmt.Errorf("%s %q: expected a CIDR without host bits, as 10.0.0.0/16 or fd00:1::/64", field, text)
	}
	return p, nil
}

// check finds what makes an address of the link ambiguous.
func (l *Link) check() error {
	theirs, ours := append(l.pods[:len(l.pods):len(l.pods)], l.externals...), l.transit
	for _, c := range []struct {
		what string
		all  []netip.Prefix
	}{
		{"native networks of podCIDRs and externalCIDRs", sides(theirs, false)},
		{"seenAs networks of podCIDRs and externalCIDRs", sides(theirs, true)},
		{"from networks of transit", sides(ours, false)},
		{"external networks of transit", sides(ours, true)},
	} {
		for i, a := range c.all {
			for _, b := range c.all[:i] {
				if a.Overlaps(b) {
					return fmt.Errorf("the %s overlap: %s and %s; expected each address in one of them", c.what, b, a)
				}
			}
		}
	}
	for i, t := range l.transit {
		within := func(p mapping) bool { return p.to.Bits() <= t.from.Bits() && p.to.Contains(t.from.Addr()) }
		if !slices.ContainsFunc(l.pods, within) {
			return fmt.Errorf("spec.transit[%d].from %s: expected a part of what this cluster sees the other one's pods as, of a seenAs in podCIDRs", i, t.from)
		}
	}
	return nil
}

func sides(all []mapping, to bool) (out []netip.Prefix) {
	for _, m := range all {
		if to {
			out = append(out, m.to)
		} else {
			out = append(out, m.from)
		}
	}
	return out
}

// Seen returns what this cluster sees a pod address of the other cluster as; ok is false when it is in none of its networks.
func (l *Link) Seen(native netip.Addr) (seen netip.Addr, ok bool) { return translate(l.pods, native) }

// Native returns which pod address of the other cluster this cluster sees as something; ok is false when it is none.
func (l *Link) Native(seen netip.Addr) (native netip.Addr, ok bool) {
	for _, m := range l.pods {
		if m.to.Contains(seen) {
			return Rebase(seen, m.from), true
		}
	}
	return netip.Addr{}, false
}

// SeenExternal returns what this cluster sees an address as that the other cluster itself reaches: one of its external
// networks, or of its pods.
func (l *Link) SeenExternal(external netip.Addr) (seen netip.Addr, ok bool) {
	if seen, ok = translate(l.externals, external); ok {
		return seen, true
	}
	return l.Seen(external)
}

// Transit returns the address in this cluster's external network that leads to what it sees a pod of the other cluster as.
// A link without transit is one of networks that are not remapped: what this cluster sees leads there.
func (l *Link) Transit(seen netip.Addr) (external netip.Addr, ok bool) {
	if l.through != nil {
		external, ok = l.through[seen]
		return external, ok
	}
	if len(l.transit) == 0 {
		_, ok = l.Native(seen)
		return seen, ok
	}
	return translate(l.transit, seen)
}

func translate(mappings []mapping, a netip.Addr) (netip.Addr, bool) {
	for _, m := range mappings {
		if m.from.Contains(a) {
			return Rebase(a, m.to), true
		}
	}
	return netip.Addr{}, false
}

// Rebase returns an address in another network: that network's prefix, with the host part of the address. Both must be of
// one family. Bits of the network beyond its prefix do not count: 10.1.0.1 in 40.32.0.0/10 is 40.1.0.1.
func Rebase(a netip.Addr, network netip.Prefix) netip.Addr {
	host, into := a.AsSlice(), network.Masked().Addr().AsSlice()
	for i := range into {
		mask := byte(0xff >> min(max(network.Bits()-8*i, 0), 8)) // the host part of this byte
		into[i] |= host[i] & mask
	}
	out, _ := netip.AddrFromSlice(into)
	return out
}
