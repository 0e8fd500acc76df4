package boundary

import (
	"maps"
	"slices"
)

// PairChanges returns, in order, the namespaces of sources that have another counterpart under one naming than under the
// next, one where they had none, or none where they had one. ok is false where the namings differ in anything else, or
// one of them does not list its namespaces.
func PairChanges(before, next Naming) (changed []string, ok bool) {
	switch b := before.(type) {
	case SameName:
		if n, same := next.(SameName); same && b.Origin == n.Origin && (b.Kinds == nil) == (n.Kinds == nil) && maps.Equal(b.Kinds, n.Kinds) {
			return b.Pairs.changes(n.Pairs)
		}
	case Import:
		if n, same := next.(Import); same && (b.From == nil) == (n.From == nil) && slices.Equal(b.From, n.From) {
			return b.Pairs.changes(n.Pairs)
		}
	case VirtualClusterNaming:
		n, same := next.(VirtualClusterNaming)
		return nil, same && b.Cluster == n.Cluster && (b.Kinds == nil) == (n.Kinds == nil) && maps.Equal(b.Kinds, n.Kinds)
	}
	return nil, false
}

// changes returns the namespaces whose counterparts differ. ok is false where just one of both stands for all namespaces.
func (p NamespacePairs) changes(next NamespacePairs) (changed []string, ok bool) {
	if (p == nil) != (next == nil) {
		return nil, false
	}
	for local, remote := range p {
		if other, stays := next[local]; !stays || other != remote {
			changed = append(changed, local)
		}
	}
	for local := range next {
		if _, known := p[local]; !known {
			changed = append(changed, local)
		}
	}
	slices.Sort(changed)
	return changed, true
}
