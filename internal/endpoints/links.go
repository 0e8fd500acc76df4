package endpoints

import (
	"fmt"
	"net/netip"
)

// Links are the links that one cluster uses, by the cluster ID at their other end. The zero value and nil are none.
type Links struct {
	byID map[string]*Link
	all  []*Link
}

// Overlap says that a link can't be used beside one that was there before.
type Overlap struct {
	// Link is the one that is not used, With the one before it.
	Link, With string
	// Message says which networks overlap.
	Message string
}

// NewLinks returns the links that can be used together: of two whose networks overlap, the first. Hand them in in the order
// in which they came to be.
func NewLinks(links ...*Link) (*Links, []Overlap) {
	l := &Links{byID: make(map[string]*Link, len(links))}
	var overlaps []Overlap
next:
	for _, link := range links {
		for _, before := range l.all {
			if message := link.overlaps(before); message != "" {
				overlaps = append(overlaps, Overlap{link.ClusterID, before.ClusterID, message})
				continue next
			}
		}
		l.all = append(l.all, link)
		l.byID[link.ClusterID] = link
	}
	return l, overlaps
}

// overlaps says which networks of this cluster two links both claim; empty: none.
func (l *Link) overlaps(other *Link) string {
	claims := func(what string, mine, others []mapping) string {
		for _, a := range mine {
			for _, b := range others {
				if a.to.Overlaps(b.to) {
					return fmt.Sprintf("%s %s overlaps with %s of ClusterLink %s: this cluster could not tell whose an address is", what, a.to, b.to, other.ClusterID)
				}
			}
		}
		return ""
	}
	join := func(l *Link) []mapping { return append(l.pods[:len(l.pods):len(l.pods)], l.externals...) }
	if message := claims("seenAs", join(l), join(other)); message != "" {
		return message
	}
	return claims("transit to", l.transit, other.transit)
}

// Get returns the link to a cluster; nil: there is none.
func (l *Links) Get(clusterID string) *Link {
	if l == nil {
		return nil
	}
	return l.byID[clusterID]
}

// Owner returns the cluster on which the pod lives that this cluster sees at an address; ok is false when no link leads there.
func (l *Links) Owner(seen netip.Addr) (clusterID string, ok bool) {
	if l == nil {
		return "", false
	}
	for _, link := range l.all {
		if _, ok := link.Native(seen); ok {
			return link.ClusterID, true
		}
	}
	return "", false
}
