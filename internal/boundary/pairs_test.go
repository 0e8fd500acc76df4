package boundary

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestD2_WhichNamespacesHaveAnotherCounterpart(t *testing.T) {
	kinds := Kinds{schema.GroupKind{Kind: "Secret"}: {Shared: "x"}}
	pairs := func(namesOf ...string) Naming { return SameName{Pairs: pairsOf(namesOf...), Origin: "west"} }
	for _, test := range []struct {
		name         string
		before, next Naming
		changed      []string
		ok           bool
	}{
		{"nothing", pairs("a", "x", "b", "y"), pairs("b", "y", "a", "x"), nil, true},
		{"one comes", pairs("a", "x"), pairs("a", "x", "b", "y"), []string{"b"}, true},
		{"one goes", pairs("a", "x", "b", "y"), pairs("b", "y"), []string{"a"}, true},
		{"the last goes", pairs("a", "x"), pairs(), []string{"a"}, true},
		{"one moves", pairs("a", "x", "b", "y"), pairs("a", "z", "b", "y"), []string{"a"}, true},
		{"two change places", pairs("a", "x", "b", "y", "c", "z"), pairs("a", "y", "b", "x", "c", "z"), []string{"a", "b"}, true},
		{"all have one of the same name now", pairs("a", "x"), SameName{Origin: "west"}, nil, false},
		{"only some have one now", SameName{Origin: "west"}, pairs("a", "x"), nil, false},
		{"all have one of the same name still", SameName{}, SameName{}, nil, true},
		{"the origin", pairs("a", "x"), SameName{Pairs: pairsOf("a", "x"), Origin: "east"}, nil, false},
		{"the kinds", SameName{Pairs: pairsOf("a", "x"), Kinds: kinds}, SameName{Pairs: pairsOf("a", "x"), Kinds: Kinds{}}, nil, false},
		{"any kind", SameName{Pairs: pairsOf("a", "x"), Kinds: Kinds{}}, SameName{Pairs: pairsOf("a", "x")}, nil, false},
		{"imports", Import{Pairs: pairsOf("x", "a")}, Import{Pairs: pairsOf("x", "b")}, []string{"x"}, true},
		{"imports of a host", Import{From: []string{"h"}}, Import{From: []string{"h"}}, nil, true},
		{"imports of another host", Import{From: []string{"h"}}, Import{From: []string{"g"}}, nil, false},
		{"a virtual cluster", VirtualClusterNaming{Kinds: kinds}, VirtualClusterNaming{Kinds: kinds}, nil, true},
		{"another virtual cluster", VirtualClusterNaming{}, VirtualClusterNaming{Cluster: VirtualCluster{Name: "v"}}, nil, false},
		{"another way to name", pairs("a", "x"), Import{Pairs: pairsOf("a", "x")}, nil, false},
	} {
		changed, ok := PairChanges(test.before, test.next)
		if !slices.Equal(changed, test.changed) || ok != test.ok {
			t.Errorf("%s: %v, %t", test.name, changed, ok)
		}
	}
}

// pairsOf makes pairs of names that come in twos.
func pairsOf(names ...string) NamespacePairs {
	pairs := NamespacePairs{}
	for i := 0; i < len(names); i += 2 {
		pairs[names[i]] = names[i+1]
	}
	return pairs
}
