package boundary

import (
	"testing"
)

// Where no namespace has a counterpart, no rule has any: neither of sources nor of twins.
func TestS2_NoPairsNoNamespaces(t *testing.T) {
	rule := &Rule{Name: "widgets"}
	for name, naming := range map[string]Naming{
		"outward": SameName{Pairs: NamespacePairs{}}, "inward": Import{Pairs: NamespacePairs{}, Confined: true},
	} {
		if sources, ok := rule.SourceNamespaces(naming); !ok || len(sources) != 0 {
			t.Errorf("%s: sources are in %v, listed: %v", name, sources, ok)
		}
		if twins, ok := TwinNamespaces([]*Rule{rule}, naming); !ok || len(twins) != 0 {
			t.Errorf("%s: twins are in %v, listed: %v", name, twins, ok)
		}
	}
	if _, ok := rule.SourceNamespaces(SameName{}); ok {
		t.Error("without pairs any namespace has sources")
	}
}

// Copies that are confined go where their namespaces' counterparts are, whatever they say.
func TestN3_ConfinedImports(t *testing.T) {
	naming := Import{Pairs: NamespacePairs{"remote": "local"}, Confined: true}
	source := object(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: one, namespace: remote, annotations: {isthmus.dev/target-namespace: elsewhere, isthmus.dev/target-name: other}}}")
	if place, err := naming.Place(&Rule{}, source); err != nil || FormatName(place) != "local/one" {
		t.Errorf("%v %v", place, err)
	}
	if targets := naming.Targets(&Rule{}, "remote"); len(targets) != 1 || targets[0] != "local" {
		t.Errorf("%v", targets)
	}
	if targets := naming.Targets(&Rule{}, "unknown"); targets == nil || len(targets) != 0 {
		t.Errorf("%v", targets)
	}
}
