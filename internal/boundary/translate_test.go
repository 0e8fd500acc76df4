package boundary

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

// translatedLine writes a reference and what became of it in one line.
func translatedLine(ref Translated) string {
	side := func(r Reference) string {
		kind := r.Kind
		if r.GroupKnown {
			kind = r.Group + "/" + kind
		}
		if kind != "" {
			kind += " "
		}
		return kind + r.Namespace + "/" + r.Name
	}
	line := ref.Path + ": " + side(ref.From) + " -> " + side(ref.To)
	for _, mark := range []struct {
		is   bool
		text string
	}{{ref.Dangling && !ref.Absent, "dangling"}, {ref.Absent, "absent"}, {ref.Roams != nil, "roams"}, {ref.Unknown, "unknown"}} {
		if mark.is {
			line += " (" + mark.text + ")"
		}
	}
	return line
}

func translatedLines(refs []Translated) []string {
	var lines []string
	for _, ref := range refs {
		lines = append(lines, translatedLine(ref))
	}
	return lines
}

type translateTest struct {
	name          string
	tr            Translator
	patches       []string
	content, want string
	refs          []string
}

func (tt translateTest) run(t *testing.T, source types.NamespacedName) {
	t.Helper()
	object := map[string]any{"spec": value(t, tt.content)}
	got, refs, err := compile(t, tt.patches...).Apply(object, source, tt.tr)
	if err != nil {
		t.Errorf("%s: %v", tt.name, err)
		return
	}
	if diff := cmp.Diff(map[string]any{"spec": value(t, tt.want)}, got); diff != "" {
		t.Errorf("%s: -want +got:\n%s", tt.name, diff)
	}
	if diff := cmp.Diff(tt.refs, translatedLines(refs)); diff != "" {
		t.Errorf("%s: references: -want +got:\n%s", tt.name, diff)
	}
	if diff := cmp.Diff(map[string]any{"spec": value(t, tt.content)}, object); diff != "" {
		t.Errorf("%s: the source was changed:\n%s", tt.name, diff)
	}
}

func TestX2_Names(t *testing.T) {
	for _, tt := range []translateTest{
		{"in the source's namespace", toAcme, []string{"spec.a rewriteName"}, `{a: db, b: db}`, `{a: db-x-shop-x-acme, b: db}`,
			[]string{"spec.a: shop/db -> host-acme/db-x-shop-x-acme"}},
		{"in a sibling's namespace", toAcme, []string{"spec.a rewriteName"}, `{a: db, namespace: bank}`, `{a: db-x-bank-x-acme, namespace: bank}`,
			[]string{"spec.a: bank/db -> host-acme/db-x-bank-x-acme"}},
		{"the sibling is rewritten too", toAcme, []string{"spec.a rewriteName", "spec.namespace rewriteNamespace"},
			`{a: db, namespace: bank}`, `{a: db-x-bank-x-acme, namespace: host-acme}`,
			[]string{"spec.a: bank/db -> host-acme/db-x-bank-x-acme", "spec.namespace: bank/ -> host-acme/"}},
		{"no sibling namespace", toAcme, []string{"spec.a rewriteName"}, `{a: db, namespace: ""}`, `{a: db-x-shop-x-acme, namespace: ""}`,
			[]string{"spec.a: shop/db -> host-acme/db-x-shop-x-acme"}},
		{"a list", toAcme, []string{"spec.a[*] rewriteName"}, `{a: [db, web], namespace: bank}`, `{a: [db-x-shop-x-acme, web-x-shop-x-acme], namespace: bank}`,
			[]string{"spec.a[0]: shop/db -> host-acme/db-x-shop-x-acme", "spec.a[1]: shop/web -> host-acme/web-x-shop-x-acme"}},
		{"nothing is named", toAcme, []string{"spec.a rewriteName", "spec.b rewriteName", "spec.c[*] rewriteName"},
			`{a: "", b: null, c: []}`, `{a: "", b: null, c: []}`, nil},
		{"names stay", toRegion, []string{"spec.a rewriteName", "spec.namespace rewriteNamespace"}, `{a: db, namespace: bank}`, `{a: db, namespace: bank-west}`,
			[]string{"spec.a: bank/db -> bank-west/db", "spec.namespace: bank/ -> bank-west/"}},
		{"a namespace without counterpart", toRegion, []string{"spec.a rewriteNamespace"}, `{a: kube-system}`, `{a: kube-system-west}`,
			[]string{"spec.a: kube-system/ -> kube-system-west/ (dangling)"}},
	} {
		tt.run(t, blueSource)
	}
}

func TestX2_Annotations(t *testing.T) {
	object := object(t, blueWidget).Object
	object["metadata"].(map[string]any)["annotations"] = map[string]any{"a.io/secret": "db", "namespace": "bank", "b": "db"}
	got, refs, err := compile(t, `metadata.annotations["a.io/secret"] rewriteName`).Apply(object, blueSource, toAcme)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"a.io/secret": "db-x-shop-x-acme", "namespace": "bank", "b": "db"}
	if diff := cmp.Diff(want, got["metadata"].(map[string]any)["annotations"]); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{`metadata.annotations["a.io/secret"]: shop/db -> host-acme/db-x-shop-x-acme`}, translatedLines(refs)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestX2_References(t *testing.T) {
	ref := []string{"spec.a rewriteRef"}
	shared := func(namespace, name string) string { return acme.SharedName(namespace, name) }
	for _, tt := range []translateTest{
		{"name only", toAcme, ref, `a: {name: db}`, `a: {name: db-x-shop-x-acme}`, []string{"spec.a: shop/db -> host-acme/db-x-shop-x-acme"}},
		{"name and namespace", toAcme, ref, `a: {name: db, namespace: bank, port: 80}`, `a: {name: db-x-bank-x-acme, namespace: host-acme, port: 80}`,
			[]string{"spec.a: bank/db -> host-acme/db-x-bank-x-acme"}},
		{"namespace only", toAcme, ref, `a: {namespace: bank}`, `a: {namespace: host-acme}`, []string{"spec.a: bank/ -> host-acme/"}},
		{"nothing", toAcme, ref, `a: {name: "", namespace: null}`, `a: {name: "", namespace: null}`, nil},
		{"core kind by group", toAcme, ref, `a: {group: "", kind: Secret, name: db}`, `a: {group: "", kind: Secret, name: db-x-shop-x-acme}`,
			[]string{"spec.a: /Secret shop/db -> /Secret host-acme/db-x-shop-x-acme"}},
		{"core kind by apiVersion", toAcme, ref, `a: {apiVersion: v1, kind: Secret, name: db}`, `a: {apiVersion: v1, kind: Secret, name: db-x-shop-x-acme}`,
			[]string{"spec.a: /Secret shop/db -> /Secret host-acme/db-x-shop-x-acme"}},
		{"kind that crosses", toAcme, ref, `a: {apiVersion: example.io/v2, kind: Widget, name: red}`, `a: {apiVersion: example.io/v2, kind: Widget, name: red-x-shop-x-acme}`,
			[]string{"spec.a: example.io/Widget shop/red -> example.io/Widget host-acme/red-x-shop-x-acme"}},
		{"object that does not cross", toAcme, ref, `a: {apiGroup: example.io, kind: Widget, name: lost}`, `a: {apiGroup: example.io, kind: Widget, name: lost-x-shop-x-acme}`,
			[]string{"spec.a: example.io/Widget shop/lost -> example.io/Widget host-acme/lost-x-shop-x-acme (absent)"}},
		{"object whose flow does not run", toAcme, ref, `a: {apiGroup: example.io, kind: Widget, name: lost, namespace: bank}`,
			`a: {apiGroup: example.io, kind: Widget, name: lost-x-bank-x-acme, namespace: host-acme}`,
			[]string{"spec.a: example.io/Widget bank/lost -> example.io/Widget host-acme/lost-x-bank-x-acme"}},
		{"one of several host namespaces", toAcme, ref, `a: {kind: Nomad, name: near, namespace: shop}`, `a: {kind: Nomad, name: near-x-shop-x-acme, namespace: host-acme}`,
			[]string{"spec.a: Nomad shop/near -> Nomad host-acme/near-x-shop-x-acme (roams)"}},
		{"another of several host namespaces", toAcme, ref, `a: {kind: Nomad, name: far, namespace: shop}`, `a: {kind: Nomad, name: ` + shared("shop", "far") + `, namespace: platform}`,
			[]string{"spec.a: Nomad shop/far -> Nomad platform/" + shared("shop", "far") + " (roams)"}},
		{"another of several host namespaces, out of reach", toAcme, ref, `a: {kind: Nomad, name: far}`, `a: {kind: Nomad, name: ` + shared("shop", "far") + `}`,
			[]string{"spec.a: Nomad shop/far -> Nomad platform/" + shared("shop", "far") + " (dangling) (roams)"}},
		{"in none of several host namespaces", toAcme, ref, `a: {kind: Nomad, name: lost}`, `a: {kind: Nomad, name: lost-x-shop-x-acme}`,
			[]string{"spec.a: Nomad shop/lost -> Nomad host-acme/lost-x-shop-x-acme (absent) (roams)"}},
		{"in one of several host namespaces, not known which", toAcme, ref, `a: {kind: Nomad, name: far, namespace: bank}`, `a: {kind: Nomad, name: far-x-bank-x-acme, namespace: host-acme}`,
			[]string{"spec.a: Nomad bank/far -> Nomad host-acme/far-x-bank-x-acme (roams) (unknown)"}},
		{"kind that does not cross", toAcme, ref, `a: {group: other.io, kind: Widget, name: red}`, `a: {group: other.io, kind: Widget, name: red-x-shop-x-acme}`,
			[]string{"spec.a: other.io/Widget shop/red -> other.io/Widget host-acme/red-x-shop-x-acme (dangling)"}},
		{"kind without group, of a rule", toAcme, ref, `a: {kind: Gadget, name: red, namespace: bank}`,
			`a: {kind: Gadget, name: ` + shared("bank", "red") + `, namespace: platform}`,
			[]string{"spec.a: Gadget bank/red -> Gadget platform/" + shared("bank", "red")}},
		{"kind without group, of two rules", toAcme, ref, `a: {kind: Twice, name: red}`, `a: {kind: Twice, name: red-x-shop-x-acme}`,
			[]string{"spec.a: Twice shop/red -> Twice host-acme/red-x-shop-x-acme"}},
		{"shared namespace that can't be reached", toAcme, ref, `a: {group: example.io, kind: Gadget, name: red}`,
			`a: {group: example.io, kind: Gadget, name: ` + shared("shop", "red") + `}`,
			[]string{"spec.a: example.io/Gadget shop/red -> example.io/Gadget platform/" + shared("shop", "red") + " (dangling)"}},
		{"cluster-scoped", toAcme, ref, `a: {group: example.io, kind: Zone, name: eu}`, `a: {group: example.io, kind: Zone, name: vcluster-eu-x-host-acme-x-acme}`,
			[]string{"spec.a: example.io/Zone /eu -> example.io/Zone /vcluster-eu-x-host-acme-x-acme"}},
		{"cluster-scoped with a namespace", toAcme, ref, `a: {group: example.io, kind: Zone, name: eu, namespace: x}`,
			`a: {group: example.io, kind: Zone, name: vcluster-eu-x-host-acme-x-acme, namespace: x}`,
			[]string{"spec.a: example.io/Zone /eu -> example.io/Zone /vcluster-eu-x-host-acme-x-acme"}},
		{"mirrored, cluster-scoped", toAcme, ref, `a: {group: example.io, kind: Class, name: fast}`, `a: {group: example.io, kind: Class, name: fast}`,
			[]string{"spec.a: example.io/Class /fast -> example.io/Class /fast"}},
		{"mirrored", toAcme, ref, `a: {group: example.io, kind: Import, name: x, namespace: shop}`, `a: {group: example.io, kind: Import, name: x, namespace: host-acme}`,
			[]string{"spec.a: example.io/Import shop/x -> example.io/Import host-acme/x"}},
		{"a namespace", toAcme, ref, `a: {apiVersion: v1, kind: Namespace, name: bank}`, `a: {apiVersion: v1, kind: Namespace, name: host-acme}`,
			[]string{"spec.a: /Namespace /bank -> /Namespace /host-acme"}},

		{"same names", toRegion, ref, `a: {name: db, namespace: bank, kind: Widget}`, `a: {name: db, namespace: bank-west, kind: Widget}`,
			[]string{"spec.a: Widget bank/db -> Widget bank-west/db"}},
		{"same names, own namespace", toRegion, ref, `a: {name: db}`, `a: {name: db}`, []string{"spec.a: shop/db -> shop-west/db"}},
		{"same names, no counterpart", toRegion, ref, `a: {name: db, namespace: kube-system}`, `a: {name: db, namespace: kube-system-west}`,
			[]string{"spec.a: kube-system/db -> kube-system-west/db (dangling)"}},
		{"same names, a namespace", toRegion, ref, `a: {apiVersion: v1, kind: Namespace, name: bank}`, `a: {apiVersion: v1, kind: Namespace, name: bank-west}`,
			[]string{"spec.a: /Namespace /bank -> /Namespace /bank-west"}},
		{"same names, object that does not cross", SameNames{Kinds: toAcme.Kinds, Resolve: resolve}, ref, `a: {group: example.io, kind: Widget, name: lost}`, `a: {group: example.io, kind: Widget, name: lost}`,
			[]string{"spec.a: example.io/Widget shop/lost -> example.io/Widget shop/lost (absent)"}},
		{"same names, kind that does not cross", SameNames{Kinds: toAcme.Kinds, Resolve: resolve}, ref, `a: {group: "", kind: Secret, name: db}`, `a: {group: "", kind: Secret, name: db}`,
			[]string{"spec.a: /Secret shop/db -> /Secret shop/db (dangling)"}},
		{"same names, kind that the other side has", SameNames{Kinds: toAcme.Kinds, Resolve: resolve}, ref, `a: {kind: Class, name: fast}`, `a: {kind: Class, name: fast}`,
			[]string{"spec.a: Class /fast -> Class /fast"}},
	} {
		tt.run(t, blueSource)
	}
	inShared := toAcme
	inShared.Shared = "platform"
	for _, tt := range []translateTest{
		{"from a shared namespace into it", inShared, ref, `a: {group: example.io, kind: Gadget, name: red}`,
			`a: {group: example.io, kind: Gadget, name: ` + shared("shop", "red") + `}`,
			[]string{"spec.a: example.io/Gadget shop/red -> example.io/Gadget platform/" + shared("shop", "red")}},
		{"from a shared namespace to the virtual cluster's own", inShared, ref, `a: {name: db, namespace: shop}`, `a: {name: db-x-shop-x-acme, namespace: host-acme}`,
			[]string{"spec.a: shop/db -> host-acme/db-x-shop-x-acme"}},
		{"from a shared namespace out of reach", inShared, ref, `a: {name: db}`, `a: {name: db-x-shop-x-acme}`,
			[]string{"spec.a: shop/db -> host-acme/db-x-shop-x-acme (dangling)"}},
	} {
		tt.run(t, blueSource)
	}
	translateTest{"cluster-scoped source", toAcme, ref, `a: {name: db, namespace: bank}`, `a: {name: db-x-bank-x-acme, namespace: host-acme}`,
		[]string{"spec.a: bank/db -> host-acme/db-x-bank-x-acme"}}.run(t, types.NamespacedName{Name: "eu"})
}

func TestX2_HostReferences(t *testing.T) {
	ref := []string{"spec.a rewriteHostRef"}
	inShared := toAcme
	inShared.Shared = "platform"
	const gateway = `a: {group: gateway.networking.k8s.io, kind: Gateway, name: gw, namespace: infra}`
	const at = "spec.a: gateway.networking.k8s.io/Gateway infra/gw -> gateway.networking.k8s.io/Gateway "
	in := func(namespace string) string { return strings.Replace(gateway, "infra", namespace, 1) }
	for _, tt := range []translateTest{
		{"virtual cluster", toAcme, ref, gateway, in("host-acme"), []string{at + "host-acme/gw"}},
		{"shared namespace", inShared, ref, gateway, in("platform"), []string{at + "platform/gw"}},
		{"same names", toRegion, ref, gateway, in("shop-west"), []string{at + "shop-west/gw"}},
		{"name only", toAcme, ref, `a: {name: gw}`, `a: {name: gw}`, nil},
	} {
		tt.run(t, blueSource)
	}
	translateTest{"cluster-scoped source", toRegion, ref, strings.Replace(gateway, "infra", "bank", 1), in("bank-west"),
		[]string{strings.Replace(at, "infra", "bank", 1) + "bank-west/gw"}}.run(t, types.NamespacedName{Name: "eu"})
}

func TestX2_LabelSelectors(t *testing.T) {
	const release = "vcluster.loft.sh/label-acme-x-a4d451ec23"
	const own = `vcluster.loft.sh/managed-by: acme, vcluster.loft.sh/namespace: shop`
	selector := []string{"spec.a rewriteLabelSelector"}
	inShared := toAcme
	inShared.Shared = "platform"
	for _, tt := range []translateTest{
		{"labels", toAcme, selector, `a: {matchLabels: {app: web, release: r1}}`, `a: {matchLabels: {app: web, ` + release + `: r1, ` + own + `}}`, nil},
		{"labels in a shared namespace", inShared, selector, `a: {matchLabels: {app: web}}`,
			`a: {matchLabels: {app: web, vcluster.loft.sh/managed-by: host-acme, vcluster.loft.sh/namespace: shop}}`, nil},
		{"expressions", toAcme, selector, `a: {matchExpressions: [{key: release, operator: In, values: [r1]}, {key: app, operator: Exists}]}`,
			`a: {matchLabels: {` + own + `}, matchExpressions: [{key: ` + release + `, operator: In, values: [r1]}, {key: app, operator: Exists}]}`, nil},
		{"everything", toAcme, selector, `a: {}`, `a: {matchLabels: {` + own + `}}`, nil},
		{"everything, written out", toAcme, selector, `a: {matchLabels: null, matchExpressions: []}`, `a: {matchLabels: {` + own + `}, matchExpressions: []}`, nil},
		{"nothing", toAcme, selector, `a: null`, `a: null`, nil},
		{"none", toAcme, selector, `b: {}`, `b: {}`, nil},
		{"plain", toAcme, selector, `a: {app: web, release: r1}`, `a: {app: web, ` + release + `: r1, ` + own + `}`, nil},
		{"plain, with the name of a field", toAcme, selector, `a: {matchLabels: x}`, `a: {matchLabels: x, ` + own + `}`, nil},
		{"nobody else's labels", toAcme, selector, `a: {vcluster.loft.sh/managed-by: other, vcluster.loft.sh/namespace: other}`,
			`a: {vcluster.loft.sh/label-acme-x-e5f1b28ab2: other, vcluster.loft.sh/label-acme-x-101dcd4e86: other, ` + own + `}`, nil},
		{"a translated key", toAcme, selector, `a: {release: r1, ` + release + `: r2}`, `a: {` + release + `: r1, ` + own + `}`, nil},
		{"other fields", toAcme, selector, `a: {matchLabels: {app: web}, any: true}`, `a: {matchLabels: {app: web, ` + own + `}, any: true}`, nil},
		{"a list", toAcme, []string{"spec.a[*].s rewriteLabelSelector"}, `a: [{s: {}}, {}]`, `a: [{s: {matchLabels: {` + own + `}}}, {}]`, nil},
		{"same names", toRegion, selector, `a: {matchLabels: {release: r1}, matchExpressions: [{key: release}]}`,
			`a: {matchLabels: {release: r1}, matchExpressions: [{key: release}]}`, nil},
		{"same names, everything", toRegion, selector, `a: {}`, `a: {}`, nil},
	} {
		tt.run(t, blueSource)
	}
	translateTest{"cluster-scoped source", toAcme, selector, `a: {}`, `a: {matchLabels: {vcluster.loft.sh/managed-by: host-acme-x-acme}}`, nil}.run(t,
		types.NamespacedName{Name: "eu"})
}

func TestX3_AValueOfTheWrongTypeIsNamed(t *testing.T) {
	tests := []struct{ patch, content, want string }{
		{"spec.a rewriteName", `a: [x]`, "spec.a is a list: rewriteName expects a string there"},
		{"spec.a[*] rewriteName", `a: [x, {b: c}]`, "spec.a[1] is an object: rewriteName expects a string there"},
		{"spec.a[1] rewriteNamespace", `a: [x, 3]`, "spec.a[1] is a number: rewriteNamespace expects a string there"},
		{`spec["a.b"] rewriteRef`, `a.b: hidden`, `spec["a.b"] is a string: rewriteRef expects an object there`},
		{"spec.a rewriteRef", `a: [{name: x}]`, "spec.a is a list: rewriteRef expects an object there"},
		{"spec.a rewriteRef", `a: {name: {x: hidden}}`, "spec.a.name is an object: rewriteRef expects a string there"},
		{"spec.a rewriteRef", `a: {name: x, namespace: true}`, "spec.a.namespace is a boolean: rewriteRef expects a string there"},
		{"spec.a rewriteHostRef", `a: {name: x, kind: 0.5}`, "spec.a.kind is a number: rewriteHostRef expects a string there"},
		{"spec.a rewriteLabelSelector", `a: app=hidden`, "spec.a is a string: rewriteLabelSelector expects an object there"},
		{"spec.a rewriteLabelSelector", `a: {app: [hidden]}`, "spec.a.app is a list: rewriteLabelSelector expects a string there"},
		{"spec.a rewriteLabelSelector", `a: {matchLabels: [hidden]}`, "spec.a.matchLabels is a list: rewriteLabelSelector expects an object there"},
		{"spec.a rewriteLabelSelector", `a: {matchLabels: {a.io/b: null}}`, `spec.a.matchLabels["a.io/b"] is null: rewriteLabelSelector expects a string there`},
		{"spec.a rewriteLabelSelector", `a: {matchExpressions: {key: hidden}}`, "spec.a.matchExpressions is an object: rewriteLabelSelector expects a list there"},
		{"spec.a rewriteLabelSelector", `a: {matchExpressions: [hidden]}`, "spec.a.matchExpressions[0] is a string: rewriteLabelSelector expects an object there"},
		{"spec.a rewriteLabelSelector", `a: {matchExpressions: [{operator: Exists}]}`, "spec.a.matchExpressions[0].key is null: rewriteLabelSelector expects a string there"},
	}
	for _, tt := range tests {
		object := map[string]any{"spec": value(t, tt.content), "zzz": "db"}
		// X4: what could be translated is not returned either.
		got, refs, err := compile(t, tt.patch, "zzz rewriteName", "aaa rewriteName").Apply(object, blueSource, toAcme)
		if err == nil || err.Error() != tt.want || got != nil || refs != nil {
			t.Errorf("%s in %s: got %v, %v, %v\nwant %s", tt.patch, tt.content, got, refs, err, tt.want)
		}
	}
}

func TestX3_APathThatMatchesNothingCostsNothing(t *testing.T) {
	object := sizable(t).Source.Object
	var tr Translator = toAcme
	p := compile(t, "spec.rules[*].backendRefs[*] rewriteRef", "spec.ports[*].missing rewriteName", "spec.params.missing rewriteRef", "spec.ports[9] none",
		`metadata.annotations.missing rewriteName`, "spec.template.spec.volumes[*].secret.secretName rewriteName", "status.a rewriteName")
	for name, p := range map[string]*Patches{"patches": p, "nil": nil, "zero": {}, "empty": compile(t)} {
		if allocs := testing.AllocsPerRun(100, func() {
			if out, refs, err := p.Apply(object, blueSource, tr); !same(out, object) || refs != nil || err != nil {
				t.Errorf("%s: %v, %v, or another object", name, refs, err)
			}
		}); allocs != 0 {
			t.Errorf("%s: %v allocations", name, allocs)
		}
	}
}

func TestX4_UntouchedPartsAreShared(t *testing.T) {
	object := map[string]any{"spec": value(t, `{a: [{name: x, keep: {b: c}}, {keep: {}}], keep: {d: e}}`)}
	got, _, err := compile(t, "spec.a[0].name rewriteName").Apply(object, blueSource, toAcme)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"keep", "a.0.keep", "a.1"} {
		if !same(dig(got["spec"], path), dig(object["spec"], path)) {
			t.Errorf("spec.%s was copied", path)
		}
	}
	if same(dig(got["spec"], "a.0"), dig(object["spec"], "a.0")) {
		t.Error("spec.a[0] was changed in place")
	}
}

// dig returns what is at a path of fields and indexes.
func dig(v any, path string) any {
	for _, step := range strings.Split(path, ".") {
		switch inner := v.(type) {
		case map[string]any:
			v = inner[step]
		case []any:
			v = inner[step[0]-'0']
		}
	}
	return v
}
