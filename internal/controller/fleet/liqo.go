package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// NamespaceMap is what matters of a NamespaceMap of Liqo: the namespaces that are offloaded to one remote.
type NamespaceMap struct {
	// Name is its namespace and name; Cluster the cluster ID of the remote.
	Name, Cluster string
	// Going: it is being deleted, and with it all that it maps.
	Going bool
	// Desired are the counterparts that Liqo was asked for, by local namespace; Current is what became of them.
	Desired map[string]string
	Current map[string]Mapping
}

// Mapping is how a local namespace is mapped.
type Mapping struct{ Remote, Phase string }

// MappingAccepted is the phase of a mapping whose remote namespace is there, and Liqo's.
const MappingAccepted = "Accepted"

// Mapped is all that decides what NamespaceMaps come to.
type Mapped struct {
	Maps []NamespaceMap
	// Deleted are the clusters whose NamespaceMap was seen to be deleted.
	Deleted map[string]bool
	Remotes []Remote
	// Before are the pairs that were in force until now; nil: none are known. Drained reports whether none of the twins of a
	// pair is left; it is asked about those that were withdrawn before.
	Before  []Pair
	Drained func(Pair) bool
}

// Pairs works out the pairs, sorted, and says of mappings why there is none for them. A pair is ready while its phase is
// Accepted, and otherwise unready, so that nothing that is there is touched. It is withdrawn when Liqo was asked to take it
// back: when it is not desired any more, or its map was seen to go; and stays so until its twins are gone. A pair that
// nobody was seen to take back, and is not there, is left out.
func (m Mapped) Pairs() (pairs []Pair, refused []string) {
	type key struct{ cluster, name string }
	byCluster, leaving := map[string]*NamespaceMap{}, map[string]bool{}
	for _, remote := range m.Remotes {
		leaving[remote.Name] = remote.Leaving
	}
	sorted := slices.SortedFunc(slices.Values(m.Maps), func(a, b NamespaceMap) int { return cmp.Compare(a.Name, b.Name) })
	for i := range sorted {
		one := &sorted[i]
		switch first := byCluster[one.Cluster]; {
		case first == nil || first.Going && !one.Going:
			byCluster[one.Cluster] = one
		case !one.Going:
			refused = append(refused, fmt.Sprintf("NamespaceMap %s is for cluster %s, as %s is: Liqo has one a cluster, so it is left out", one.Name, one.Cluster, first.Name))
		}
	}
	before, all := map[key]Pair{}, map[key]Pair{}
	for _, pair := range m.Before {
		before[key{pair.Cluster, pair.Local}] = pair
	}
	for cluster, one := range byCluster {
		for name, pair := range one.pairs() {
			pair.Withdrawn = pair.Withdrawn || leaving[cluster]
			pair.Unready = pair.Unready && !pair.Withdrawn
			all[key{cluster, name}] = pair
		}
	}
	for at, pair := range before {
		if _, there := all[at]; there {
			continue
		}
		if _, known := leaving[at.cluster]; !known {
			continue // there is no RemoteCluster that it would be withdrawn from
		}
		switch {
		case pair.Withdrawn && m.Drained(pair):
		case pair.Withdrawn, byCluster[at.cluster] != nil, m.Deleted[at.cluster]:
			pair.Withdrawn, pair.Unready = true, false
			all[at] = pair
		}
	}
	// Of two namespaces with one counterpart, which Liqo does not rule out, the one that had it keeps it (N1).
	order := slices.SortedFunc(maps.Keys(all), func(a, b key) int {
		rank := func(k key) int {
			if pair, had := before[k]; had && pair.Remote == all[k].Remote {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.cluster, b.cluster), cmp.Compare(rank(a), rank(b)), cmp.Compare(a.name, b.name))
	})
	taken := map[key]string{}
	for _, at := range order {
		pair := all[at]
		place := key{pair.Cluster, pair.Remote}
		switch first, is := taken[place]; {
		case is:
			refused = append(refused, fmt.Sprintf("namespace %s is mapped to %s on %s, which is the counterpart of %s already", pair.Local, pair.Remote, pair.Cluster, first))
			continue
		case strings.HasPrefix(pair.Remote, "kube-"):
			refused = append(refused, fmt.Sprintf("namespace %s is mapped to %s on %s, and namespaces that start with kube- belong to that cluster itself", pair.Local, pair.Remote, pair.Cluster))
			continue
		}
		taken[place] = pair.Local
		pairs = append(pairs, pair)
	}
	slices.SortFunc(pairs, func(a, b Pair) int { return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Local, b.Local)) })
	return pairs, refused
}

// pairs returns what one map says by itself, by local namespace.
func (n *NamespaceMap) pairs() map[string]Pair {
	all := map[string]Pair{}
	for local, current := range n.Current {
		desired, wanted := n.Desired[local]
		all[local] = Pair{
			Local: local, Remote: current.Remote, Cluster: n.Cluster, Withdrawn: n.Going || !wanted,
			Unready: current.Phase != MappingAccepted || current.Remote != desired,
		}
	}
	for local, remote := range n.Desired {
		if _, known := n.Current[local]; !known && !n.Going {
			all[local] = Pair{Local: local, Remote: remote, Cluster: n.Cluster, Unready: true}
		}
	}
	return all
}

// Frozen returns pairs that are not to be touched, because it can't be told what became of them. Those of remotes that leave
// are withdrawn all the same.
func Frozen(pairs []Pair, remotes []Remote) []Pair {
	frozen := slices.Clone(pairs)
	for i := range frozen {
		p := &frozen[i]
		p.Withdrawn = p.Withdrawn || slices.ContainsFunc(remotes, func(r Remote) bool { return r.Leaving && r.Name == p.Cluster })
		p.Unready = !p.Withdrawn
	}
	return frozen
}
