package boundary

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestT4_ReferencesInStatusAreTranslatedBack(t *testing.T) {
	gateway := Reference{Group: "gateway.networking.k8s.io", GroupKnown: true, Kind: "Gateway", Namespace: "shop", Name: "gw"}
	service := Reference{GroupKnown: true, Kind: "Service", Namespace: "bank", Name: "gw"}
	to := func(ref Reference, namespace, name string) Translated {
		back := ref
		back.Namespace, back.Name = namespace, name
		return Translated{From: ref, To: back}
	}
	refs := []Translated{
		to(gateway, "host-acme", "gw-x"), to(service, "host-acme", "gw-x"),
		to(Reference{Namespace: "shop", Name: "db"}, "host-acme", "db-x"),
		to(Reference{GroupKnown: true, Group: "example.io", Kind: "Zone", Name: "eu"}, "", "eu-x"),
		to(Reference{Namespace: "bank"}, "host-bank", ""),
	}
	tests := []struct {
		name         string
		patches      []string
		status, want string
	}{
		{"name only", nil, `a: {name: db-x}`, `a: {name: db}`},
		{"namespace too", nil, `a: {name: db-x, namespace: host-acme, port: 80}`, `a: {name: db, namespace: shop, port: 80}`},
		{"kind and group", nil, `a: {group: gateway.networking.k8s.io, kind: Gateway, name: gw-x, namespace: host-acme}`,
			`a: {group: gateway.networking.k8s.io, kind: Gateway, name: gw, namespace: shop}`},
		{"by kind among several", nil, `a: {kind: Service, name: gw-x, namespace: host-acme}`, `a: {kind: Service, name: gw, namespace: bank}`},
		{"by apiVersion among several", nil, `a: {apiVersion: v1, name: gw-x, namespace: host-acme}`, `a: {apiVersion: v1, name: gw, namespace: bank}`},
		{"a kind that was not known", nil, `a: {apiVersion: v1, kind: Secret, name: db-x}`, `a: {apiVersion: v1, kind: Secret, name: db}`},
		{"cluster-scoped", nil, `a: {kind: Zone, name: eu-x}`, `a: {kind: Zone, name: eu}`},
		{"wherever it stands", nil, `a: [{b: [[{parentRef: {name: gw-x, namespace: host-acme}}]]}]`, `a: [{b: [[{parentRef: {name: gw, namespace: shop}}]]}]`},
		{"at the top", nil, `{name: db-x, conditions: [{type: Ready, name: db-x}]}`, `{name: db, conditions: [{type: Ready, name: db}]}`},

		{"another kind", nil, `a: {kind: Pod, name: gw-x, namespace: host-acme}`, `a: {kind: Pod, name: gw-x, namespace: host-acme}`},
		{"another group", nil, `a: {apiVersion: other.io/v1, kind: Gateway, name: gw-x}`, `a: {apiVersion: other.io/v1, kind: Gateway, name: gw-x}`},
		{"another namespace", nil, `a: {name: db-x, namespace: other}`, `a: {name: db-x, namespace: other}`},
		{"another name", nil, `a: {name: db-y, namespace: host-acme}`, `a: {name: db-y, namespace: host-acme}`},
		{"no object", nil, `{a: db-x, b: [db-x, host-acme], namespace: host-acme, name: {x: db-x}}`, `{a: db-x, b: [db-x, host-acme], namespace: host-acme, name: {x: db-x}}`},
		{"no status", nil, `null`, `null`},

		{"a string that a patch names", []string{"status.a rewriteName", "status.b[*] rewriteName"}, `{a: db-x, b: [db-x, other], c: db-x}`, `{a: db, b: [db, other], c: db-x}`},
		{"with a sibling namespace", []string{"status.a rewriteName"}, `{a: db-x, namespace: other}`, `{a: db-x, namespace: other}`},
		{"a namespace that a patch names", []string{"status.a rewriteNamespace", "status.b rewriteNamespace", "status.c rewriteNamespace"},
			`{a: host-bank, b: host-acme, c: other}`, `{a: bank, b: host-acme, c: other}`}, // host-acme was two
		{"a value of another type", []string{"status.a rewriteName"}, `a: {b: db-x}`, `a: {b: db-x}`},
		{"protected", []string{"status.a none"}, `{a: {name: db-x, b: [{name: db-x}]}, b: {name: db-x}}`, `{a: {name: db-x, b: [{name: db-x}]}, b: {name: db}}`},
		{"in what is protected", []string{"status none", "status.a.b rewriteName", "status.c[*] rewriteRef"},
			`{a: {b: db-x, name: db-x}, c: [{name: db-x, d: {name: db-x}}]}`, `{a: {b: db, name: db-x}, c: [{name: db, d: {name: db}}]}`},
		{"a protected name", []string{"status.a.name none"}, `a: {name: db-x, namespace: host-acme}`, `a: {name: db-x, namespace: shop}`},
	}
	for _, tt := range tests {
		status := value(t, tt.status)
		got := compile(t, tt.patches...).BackTranslate(status, refs)
		if diff := cmp.Diff(value(t, tt.want), got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", tt.name, diff)
		}
		if diff := cmp.Diff(value(t, tt.status), status); diff != "" {
			t.Errorf("%s: the twin's status was changed:\n%s", tt.name, diff)
		}
		if tt.status == tt.want && !same(got, status) {
			t.Errorf("%s: nothing to do, but the status was copied", tt.name)
		}
	}
	status := value(t, `{a: {name: db-x}, keep: [{b: c}]}`).(map[string]any)
	var none *Patches
	got := none.BackTranslate(status, refs).(map[string]any)
	if dig(got, "a.name") != "db" || !same(got["keep"], status["keep"]) {
		t.Errorf("without patches: %v, or the rest was copied", got)
	}
	if got := compile(t, "status.a rewriteName").BackTranslate(status, nil); !same(got, status) {
		t.Error("without references the status was copied")
	}
}

// referenceGenerator draws references as they stand in objects, of kinds that cross, that vCluster carries and that do
// neither.
var referenceGenerator = rapid.Custom(func(t *rapid.T) map[string]any {
	ref := map[string]any{"name": rapid.SampledFrom([]string{"db", "web", "lost", "a.b", "a-x-b"}).Draw(t, "name")}
	if rapid.Bool().Draw(t, "namespaced") {
		ref["namespace"] = rapid.SampledFrom([]string{"shop", "bank"}).Draw(t, "namespace")
	}
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
		ref["apiVersion"], ref["kind"] = "v1", "Secret"
	case 1:
		ref["group"], ref["kind"] = "example.io", rapid.SampledFrom([]string{"Widget", "Gadget", "Zone", "Class"}).Draw(t, "crosses")
	case 2:
		ref["apiGroup"], ref["kind"] = "other.io", "Thing"
	case 3:
		ref["kind"] = rapid.SampledFrom([]string{"Secret", "Widget", "Gadget"}).Draw(t, "kind without group")
	}
	return ref
})

// What a controller of the other side copies from the twin into its status reads on the source as in the source.
func TestT4_BackTranslateUndoesApply(t *testing.T) {
	p := compile(t, "spec.refs[*] rewriteRef", "spec.names[*] rewriteName", "status.names[*] rewriteName")
	rapid.Check(t, func(t *rapid.T) {
		refs, names := []any{}, []any{}
		for _, ref := range rapid.SliceOfN(referenceGenerator, 0, 5).Draw(t, "refs") {
			refs = append(refs, ref)
		}
		for _, name := range rapid.SliceOfN(rapid.SampledFrom([]string{"db", "cache", "web"}), 0, 3).Draw(t, "names") {
			names = append(names, name)
		}
		spec := map[string]any{"refs": refs, "names": names, "other": map[string]any{"name": "db", "namespace": "shop"}}
		tr := rapid.SampledFrom([]Translator{toAcme, toRegion, SameNames{}}).Draw(t, "translator")
		out, translated, err := p.Apply(map[string]any{"spec": spec}, blueSource, tr)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(any(spec), p.BackTranslate(out["spec"], translated)); diff != "" {
			t.Errorf("-source +returned:\n%s\nreferences: %q", diff, translatedLines(translated))
		}
	})
}
