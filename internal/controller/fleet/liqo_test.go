package fleet

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// liqoMap is a NamespaceMap for east. Entries read "local=remote" (asked for), "local=remote Phase" (asked for, and become) and
// "local!remote Phase" (not asked for any more).
func liqoMap(entries ...string) NamespaceMap {
	m := NamespaceMap{Name: "tenant/east", Cluster: "east", Desired: map[string]string{}, Current: map[string]Mapping{}}
	for _, entry := range entries {
		names, phase, _ := strings.Cut(entry, " ")
		local, remote, wanted := strings.Cut(names, "=")
		if wanted {
			m.Desired[local] = remote
		} else {
			local, remote, _ = strings.Cut(names, "!")
		}
		if phase != "" {
			m.Current[local] = Mapping{remote, phase}
		}
	}
	return m
}

func going(m NamespaceMap) NamespaceMap {
	m.Going = true
	return m
}

func TestD_WhatNamespaceMapsComeTo(t *testing.T) {
	east := Remote{Name: "east"}
	ready := Pair{Local: "shop", Remote: "till", Cluster: "east"}
	unready := Pair{Local: "shop", Remote: "till", Cluster: "east", Unready: true}
	withdrawn := Pair{Local: "shop", Remote: "till", Cluster: "east", Withdrawn: true}
	for name, test := range map[string]struct {
		maps    []NamespaceMap
		deleted map[string]bool
		remotes []Remote // nil: east
		before  []Pair
		left    bool // twins of what was withdrawn are left
		want    []Pair
		refused string
	}{
		"accepted":                         {maps: []NamespaceMap{liqoMap("shop=till Accepted")}, want: []Pair{ready}},
		"asked for, not there yet":         {maps: []NamespaceMap{liqoMap("shop=till")}, want: []Pair{unready}},
		"can't be made":                    {maps: []NamespaceMap{liqoMap("shop=till CreationLoopBackOff")}, want: []Pair{unready}},
		"left Accepted":                    {maps: []NamespaceMap{liqoMap("shop=till CreationLoopBackOff")}, before: []Pair{ready}, want: []Pair{unready}},
		"the status is lost":               {maps: []NamespaceMap{liqoMap("shop=till")}, before: []Pair{ready}, want: []Pair{unready}},
		"is back":                          {maps: []NamespaceMap{liqoMap("shop=till Accepted")}, before: []Pair{unready}, want: []Pair{ready}},
		"going there, still asked for":     {maps: []NamespaceMap{liqoMap("shop=till Terminating")}, before: []Pair{ready}, want: []Pair{unready}},
		"another counterpart is asked for": {maps: []NamespaceMap{{Name: "a", Cluster: "east", Desired: map[string]string{"shop": "desk"}, Current: map[string]Mapping{"shop": {"till", MappingAccepted}}}}, want: []Pair{unready}},

		"not asked for any more":                             {maps: []NamespaceMap{liqoMap("shop!till Accepted")}, want: []Pair{withdrawn}},
		"not asked for any more, and going, after a restart": {maps: []NamespaceMap{liqoMap("shop!till Terminating")}, want: []Pair{withdrawn}},
		"its entry was seen to go":                           {maps: []NamespaceMap{liqoMap()}, before: []Pair{ready}, want: []Pair{withdrawn}},
		"its entry was seen to go while it was unready":      {maps: []NamespaceMap{liqoMap()}, before: []Pair{unready}, want: []Pair{withdrawn}},
		"remembered while twins are left":                    {maps: []NamespaceMap{liqoMap()}, before: []Pair{withdrawn}, left: true, want: []Pair{withdrawn}},
		"remembered while twins are left, without the map":   {before: []Pair{withdrawn}, left: true, want: []Pair{withdrawn}},
		"and not longer":                                     {maps: []NamespaceMap{liqoMap()}, before: []Pair{withdrawn}},
		"taken back, and asked for again":                    {maps: []NamespaceMap{liqoMap("shop=till Accepted")}, before: []Pair{withdrawn}, left: true, want: []Pair{ready}},
		"its map is going":                                   {maps: []NamespaceMap{going(liqoMap("shop=till Accepted", "desk=desk"))}, want: []Pair{withdrawn}},
		"its map was seen to go":                             {deleted: map[string]bool{"east": true}, before: []Pair{ready}, want: []Pair{withdrawn}},
		"its map is missing, and nobody saw it go":           {before: []Pair{ready}},
		"its map is made again while the old one goes":       {maps: []NamespaceMap{going(liqoMap("shop=till Terminating")), {Name: "tenant/new", Cluster: "east", Desired: map[string]string{"shop": "till"}, Current: map[string]Mapping{"shop": {"till", MappingAccepted}}}}, want: []Pair{ready}},

		"its remote leaves":                 {maps: []NamespaceMap{liqoMap("shop=till CreationLoopBackOff")}, remotes: []Remote{{Name: "east", Leaving: true}}, want: []Pair{withdrawn}},
		"without a RemoteCluster":           {maps: []NamespaceMap{liqoMap("shop=till Accepted")}, remotes: []Remote{}, want: []Pair{ready}},
		"withdrawn without a RemoteCluster": {maps: []NamespaceMap{liqoMap()}, remotes: []Remote{}, before: []Pair{withdrawn}, left: true},

		"two maps for one cluster": {
			maps: []NamespaceMap{{Name: "b", Cluster: "east", Desired: map[string]string{"desk": "desk"}}, {Name: "a", Cluster: "east", Desired: map[string]string{"shop": "till"}}},
			want: []Pair{unready}, refused: "NamespaceMap b is for cluster east, as a is",
		},
		"two namespaces with one counterpart": {
			maps: []NamespaceMap{liqoMap("shop=till Accepted", "aisle=till Accepted")}, before: []Pair{ready},
			want: []Pair{ready}, refused: "namespace aisle is mapped to till on east, which is the counterpart of shop already",
		},
		"a namespace of the cluster itself": {maps: []NamespaceMap{liqoMap("shop=kube-system Accepted")}, refused: "belong to that cluster itself"},
	} {
		t.Run(name, func(t *testing.T) {
			remotes := test.remotes
			if remotes == nil {
				remotes = []Remote{east}
			}
			pairs, refused := Mapped{
				Maps: test.maps, Deleted: test.deleted, Remotes: remotes, Before: test.before, Drained: func(p Pair) bool {
					if !p.Withdrawn {
						t.Errorf("asked about %+v", p)
					}
					return !test.left
				},
			}.Pairs()
			if diff := cmp.Diff(test.want, pairs); diff != "" {
				t.Error(diff)
			}
			if said := strings.Join(refused, "\n"); !strings.Contains(said, test.refused) || test.refused == "" && said != "" {
				t.Errorf("refused: %q, expected %q", said, test.refused)
			}
		})
	}
}

func TestD_FrozenPairsAreNotTouched(t *testing.T) {
	pairs := []Pair{{Local: "a"}, {Local: "b", Withdrawn: true}, {Local: "c", Unready: true}, {Local: "d", Cluster: "east"}}
	want := []Pair{{Local: "a", Unready: true}, {Local: "b", Withdrawn: true}, {Local: "c", Unready: true}, {Local: "d", Cluster: "east", Withdrawn: true}}
	if diff := cmp.Diff(want, Frozen(pairs, []Remote{{Name: "east", Leaving: true}})); diff != "" {
		t.Error(diff)
	}
}
