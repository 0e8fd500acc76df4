package boundary

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// patches reads patches written as "path type".
func patches(t tester, lines ...string) []Patch {
	t.Helper()
	out := make([]Patch, len(lines))
	for i, line := range lines {
		text, patchType, _ := strings.Cut(line, " ")
		path, err := ParsePath(text)
		if err != nil {
			t.Fatal(err)
		}
		out[i] = Patch{path, PatchType(patchType)}
	}
	return out
}

func compile(t tester, lines ...string) *Patches {
	t.Helper()
	compiled, err := CompilePatches(patches(t, lines...))
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

var (
	blueSource = types.NamespacedName{Namespace: "shop", Name: "blue"}
	// toAcme translates for a virtual cluster. Gadgets go to a shared namespace, Zones are cluster-scoped, Classes come
	// from the host; of the Widgets all cross but those that are called lost.
	toAcme = VirtualNames{
		Cluster: acme,
		Kinds: map[schema.GroupKind]Placement{
			{Group: "example.io", Kind: "Widget"}: {},
			{Group: "example.io", Kind: "Gadget"}: {Shared: "platform"},
			{Group: "example.io", Kind: "Zone"}:   {ClusterScoped: true},
			{Group: "example.io", Kind: "Class"}:  {ClusterScoped: true, Mirrored: true},
			{Group: "example.io", Kind: "Import"}: {Mirrored: true},
			{Group: "one.io", Kind: "Twice"}:      {Shared: "platform"},
			{Group: "two.io", Kind: "Twice"}:      {},
			{Group: "example.io", Kind: "Nomad"}:  {Roams: true},
		},
		Resolve: resolve,
	}
	// toRegion translates names that stay, in two namespaces that have a counterpart.
	toRegion = SameNames{Pairs: NamespacePairs{"shop": "shop-west", "bank": "bank-west"}, Origin: "west"}
)

// resolve knows of the objects in the namespace bank nothing. Of the others, those that are called lost do not cross,
// those that are called far are in a shared namespace, and all others are in the virtual cluster's own.
func resolve(o Object) Resolution {
	switch {
	case o.Name.Namespace == "bank":
		return Resolution{}
	case o.Name.Name == "lost":
		return Resolution{Known: true}
	case o.Kind.Kind == "Gadget" || o.Name.Name == "far":
		return Resolution{true, true, types.NamespacedName{Namespace: "platform", Name: acme.SharedName(o.Name.Namespace, o.Name.Name)}}
	case o.Name.Namespace == "":
		return Resolution{true, true, types.NamespacedName{Name: acme.HostNameCluster(o.Name.Name)}}
	}
	return Resolution{true, true, types.NamespacedName{Namespace: acme.HostNamespace, Name: acme.HostName(o.Name.Namespace, o.Name.Name)}}
}

func TestX1_WhichPatchesThereAre(t *testing.T) {
	const types = "[rewriteName rewriteNamespace rewriteRef rewriteHostRef rewriteLabelSelector none]"
	const annotations = `can't be patched: of metadata only an annotation can, as metadata.annotations["key"]`
	tests := []struct {
		name    string
		patches []string
		want    string // empty: no error
	}{
		{"all types", []string{
			"spec.a rewriteName", "spec.b rewriteNamespace", "spec.c[*] rewriteRef", "spec.c[2] rewriteHostRef", "spec.d rewriteLabelSelector", "spec.e none",
			`metadata.annotations["a.io/b"] rewriteName`, "metadata.annotations.c none", "status.a[*].b rewriteName", "status none", "data.x rewriteName",
		}, ""},
		{"longer paths", []string{"spec.a rewriteRef", "spec.a.name none", "spec.a.b rewriteName", "spec none", "spec.a.c rewriteLabelSelector"}, ""},
		{"no type", []string{"spec.a replace"}, `spec.a: there is no patch type "replace": expected one of ` + types},
		{"kind", []string{"kind none"}, "kind can't be patched: a twin is of its source's kind"},
		{"apiVersion", []string{"apiVersion rewriteName"}, "apiVersion can't be patched: a twin is of its source's kind"},
		{"metadata", []string{"metadata none"}, "metadata " + annotations},
		{"name", []string{"metadata.name rewriteName"}, "metadata.name " + annotations},
		{"labels", []string{"metadata.labels.a rewriteName"}, "metadata.labels.a " + annotations},
		{"all annotations", []string{"metadata.annotations none"}, "metadata.annotations " + annotations},
		{"in an annotation", []string{"metadata.annotations.a.b none"}, "metadata.annotations.a.b " + annotations},
		{"stamp", []string{`metadata.annotations["isthmus.dev/source"] rewriteName`},
			`metadata.annotations["isthmus.dev/source"] can't be patched: the annotation isthmus.dev/source never crosses from a source`},
		{"annotation as object", []string{"metadata.annotations.a rewriteRef"},
			"metadata.annotations.a: rewriteRef does not apply to an annotation, which is a string: expected rewriteName, rewriteNamespace or none"},
		{"selector in status", []string{"status.a rewriteLabelSelector"},
			"status.a: rewriteLabelSelector does not apply to a status, which only ever returns: expected rewriteName, rewriteNamespace, rewriteRef or none"},
		{"twice", []string{"spec.a rewriteName", `spec["a"] rewriteName`}, `"spec.a: rewriteName" is there twice: remove one`},
		{"contradiction", []string{"spec.a[*] rewriteName", "spec.a[*] none"},
			`"spec.a[*]: rewriteName" and "spec.a[*]: none" contradict each other: keep one of them`},
		{"in a selector", []string{"spec.a rewriteLabelSelector", "spec.a.matchLabels none"},
			`"spec.a.matchLabels: none" is inside of "spec.a: rewriteLabelSelector", which takes all that is there: remove one`},
		{"in a string", []string{"spec.a[*] rewriteName", "spec.a[3].b.c rewriteName", "spec.a[4].x none"},
			`"spec.a[3].b.c: rewriteName" is inside of "spec.a[*]: rewriteName", which takes all that is there: remove one` + "\n" +
				`"spec.a[4].x: none" is inside of "spec.a[*]: rewriteName", which takes all that is there: remove one`},
		{"everything that is wrong", []string{"kind none", "spec.a none", "spec.a none"},
			"kind can't be patched: a twin is of its source's kind\n" + `"spec.a: none" is there twice: remove one`},
	}
	for _, tt := range tests {
		got, err := CompilePatches(patches(t, tt.patches...))
		switch {
		case tt.want == "" && (err != nil || got == nil):
			t.Errorf("%s: %v", tt.name, err)
		case tt.want != "" && (err == nil || err.Error() != tt.want || got != nil):
			t.Errorf("%s: got %v\nwant %s", tt.name, err, tt.want)
		}
	}
	if err := (Patch{}).Validate(); err == nil {
		t.Error("a patch without a path is taken")
	}
}

// In each case the names that a patch rewrote end in -x-shop-x-acme.
func TestX2_TheMostSpecificPathWins(t *testing.T) {
	tests := []struct {
		name          string
		patches       []string
		content, want string
	}{
		{"one item before every item", []string{"spec.a[*] rewriteName", "spec.a[1] none"},
			`a: [x, w, z]`, `a: [x-x-shop-x-acme, w, z-x-shop-x-acme]`},
		{"every item before none of them", []string{"spec.a none", "spec.a[*] rewriteName"},
			`a: [x]`, `a: [x-x-shop-x-acme]`},
		{"none protects its subtree from broader paths that are longer", []string{"spec.a[0] none", "spec.a[*].b[*].name rewriteName"},
			`a: [{b: [{name: x}]}, {b: [{name: w}]}]`, `a: [{b: [{name: x}]}, {b: [{name: w-x-shop-x-acme}]}]`},
		{"a longer path in a protected subtree", []string{"spec.a none", "spec.a.b.name rewriteName"},
			`a: {name: x, b: {name: w}}`, `a: {name: x, b: {name: w-x-shop-x-acme}}`},
		{"one item keeps what broader paths do elsewhere in it", []string{"spec.a[0].b rewriteName", "spec.a[*].c rewriteName"},
			`a: [{b: x, c: w}, {b: x, c: w}]`, `a: [{b: x-x-shop-x-acme, c: w-x-shop-x-acme}, {b: x, c: w-x-shop-x-acme}]`},
		{"an earlier step counts more than a later one", []string{"spec.a[0][*] none", "spec.a[*][0] rewriteName"},
			`a: [[x, w], [x, w]]`, `a: [[x, w], [x-x-shop-x-acme, w]]`},
		{"a name in a reference", []string{"spec.a rewriteRef", "spec.a.name none"},
			`a: {name: x, namespace: shop}`, `a: {name: x, namespace: host-acme}`},
		{"a namespace in a reference", []string{"spec.a rewriteRef", "spec.a.namespace none"},
			`a: {name: x, namespace: shop}`, `a: {name: x-x-shop-x-acme, namespace: shop}`},
		{"a reference that is one item", []string{"spec.a[0] rewriteRef", "spec.a[*].name none", "spec.a[*].b rewriteName"},
			`a: [{name: x, b: w}, {name: x, b: w}]`, `a: [{name: x-x-shop-x-acme, b: w-x-shop-x-acme}, {name: x, b: w-x-shop-x-acme}]`},
		{"a reference among protected items", []string{"spec.a[0] rewriteRef", "spec.a[*] none", "spec.a[*].b.name rewriteName"},
			`a: [{name: x, b: {name: w}}, {name: x}]`, `a: [{name: x-x-shop-x-acme, b: {name: w-x-shop-x-acme}}, {name: x}]`},
		{"a path that steps into another type matches nothing", []string{"spec.a[*] rewriteName", "spec.b.c rewriteName", "spec.d[0] rewriteName", "spec.e.f.g rewriteName"},
			`{a: {b: x}, b: [{c: x}], d: {"": x}, e: {f: x}}`, `{a: {b: x}, b: [{c: x}], d: {"": x}, e: {f: x}}`},
		{"an item that is not there", []string{"spec.a[7] rewriteName"}, `a: [x]`, `a: [x]`},
	}
	for _, tt := range tests {
		object := map[string]any{"spec": value(t, tt.content)}
		for _, order := range [][]string{tt.patches, reversed(tt.patches)} {
			got, _, err := compile(t, order...).Apply(object, blueSource, toAcme)
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
				continue
			}
			if diff := cmp.Diff(map[string]any{"spec": value(t, tt.want)}, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tt.name, diff)
			}
		}
		if diff := cmp.Diff(map[string]any{"spec": value(t, tt.content)}, object); diff != "" {
			t.Errorf("%s: the source was changed:\n%s", tt.name, diff)
		}
	}
}

func reversed[T any](list []T) []T {
	var out []T
	for _, v := range list {
		out = append([]T{v}, out...)
	}
	return out
}
