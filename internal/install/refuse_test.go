package install

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"isthmus.dev/isthmus/api/v1alpha1"
)

// TestI4_Refused: what would do something else than it seems to is refused, and the error says where it stands.
func TestI4_Refused(t *testing.T) {
	const cm = "{apiVersion: v1, kind: ConfigMap, metadata: {name: c"
	tests := []struct{ name, manifest, want string }{
		{"nothing", "# nothing\n---\n", "the manifests have no object"},
		{"no YAML", "a: b\n---\n\nx: y\n  z: [\n", "m, document 2 (line 4): not valid YAML: line 5:"},
		{"a key twice", cm + "}, data: {a: b, a: c}}", `m, document 1 (line 1): not valid YAML: line 1: key "a" already set`},
		{"no object", "- a\n", "m, document 1 (line 1): expected an object with apiVersion, kind and metadata, found a list"},
		{"no kind", "apiVersion: v1\n", "m, document 1 (line 1), an object without kind: kind: expected a string, found nothing"},
		{"no apiVersion", "kind: ConfigMap\n", "apiVersion: expected a string"},
		{"no group/version", "{apiVersion: a/b/c, kind: X, metadata: {name: x}}", "apiVersion: expected group/version"},
		{"no metadata", "{apiVersion: v1, kind: ConfigMap}", "metadata: expected an object with a name, found nothing"},
		{"no name", "{apiVersion: v1, kind: ConfigMap, metadata: {}}", "metadata.name: expected a name"},
		{"a number as the name", "{apiVersion: v1, kind: ConfigMap, metadata: {name: 5}}", "metadata.name: expected a string, found a number; put it in quotes"},
		{"a name with /", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a/b}}", "metadata.name: expected a name of at most 253 characters without / and %"},
		{"a namespace", cm + ", namespace: A}}", `metadata.namespace "A": expected the name of a namespace`},
		{"a label", cm + ", labels: {a: true}}}", `ConfigMap c: metadata.labels["a"]: expected a string, found true or false; put it in quotes`},
		{"labels", cm + ", labels: [a]}}", "metadata.labels: expected an object, found a list"},
		{"an owner", cm + ", ownerReferences: [{name: a}]}}", "metadata.ownerReferences: expected none"},
		{"our stamp", cm + ", annotations: {isthmus.dev/installation: x}}}", "by which installed objects are known"},
		{"our label", cm + ", labels: {isthmus.dev/installed-by: x}}}", "by which installed objects are known"},
		{"an anchor's name", "{apiVersion: v1, kind: ConfigMap, metadata: {name: isthmus-anchor-x}}", "isthmus-anchor-"},
		{"another component's anchor", "{apiVersion: v1, kind: ConfigMap, metadata: {name: isthmus-anchor-other}}", "isthmus-anchor-"},
		{"another component's lock", "{apiVersion: v1, kind: ConfigMap, metadata: {name: isthmus-component-other, namespace: isthmus-system}}", "isthmus-component-"},
		{"a status alone", "{apiVersion: v1, kind: Pod, metadata: {name: p}, status: {phase: Running}}", "Pod p: it has a status and nothing else"},
		{"an unknown kind", "{apiVersion: x.io/v1, kind: Strange, metadata: {name: s}}", "the cluster does not serve Strange.x.io, and the manifests don't define it"},
		{"two that differ", cm + "}}\n---\n" + cm + "}, data: {a: b}}", "m, document 2 (line 3), ConfigMap c: it is there already, and differs: see m, document 1 (line 1)"},
		{"two of two versions", "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}}\n---\n{apiVersion: apps/v2, kind: Deployment, metadata: {name: d, namespace: x}}", "and differs"},
		{"two that meet", cm + ", namespace: a}, data: {a: b}}\n---\n" + cm + ", namespace: b}}", "ConfigMap b/c: it goes to the namespace there under the same name as ConfigMap a/c (m, document 1 (line 1)), and differs from it: expected different names, or one of a and b in keepNamespaces"},
		{"in a list", "apiVersion: v1\nkind: List\nitems:\n- " + cm + "}}\n- {apiVersion: v1, kind: ConfigMap, metadata: {}}\n", "m, document 1 (line 1), item 2, ConfigMap: metadata.name"},
		{"not text", "\xff\xfe", "m: expected YAML or JSON in UTF-8"},
		{"not gzip", "\x1f\x8bxx", "m: unpacking it with gzip"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Prepare(source(tt.manifest), options())
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v\nexpected %s", err, tt.want)
			}
		})
	}
}

// TestI8_Read: all ways in which manifests are written.
func TestI8_Read(t *testing.T) {
	const a, b = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}", "{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}"
	const ja, jb = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}`
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	if _, err := zip.Write([]byte(a + "\n---\n" + b)); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"documents":           a + "\n---\n" + b,
		"comments":            "# x\n---\n# y\n" + a + "\n--- # z\n---\n\n" + b + "\n---\n",
		"Windows":             a + "\r\n---\r\n" + b + "\r\n",
		"directives and ends": "%YAML 1.1\n---\n" + a + "\n...\n" + b + "\n",
		"behind separators":   "--- " + a + "\n--- " + b,
		"a mark":              "\xef\xbb\xbf" + a + "\n---\n" + b,
		"JSON":                ja + jb + "\n",
		"JSON, indented":      "\n " + ja + "\n\n " + jb,
		"a list":              "apiVersion: v1\nkind: List\nitems: [" + a + ", " + b + "]",
		"a typed list":        "apiVersion: v1\nkind: ConfigMapList\nitems: [{metadata: {name: a}}, " + b + "]",
		"lists in lists":      `{"kind":"List","apiVersion":"v1","items":[` + ja + `,{"kind":"List","apiVersion":"v1","items":[` + jb + `]}]}`,
		"gzip":                packed.String(),
		"the same twice":      a + "\n---\n" + b + "\n---\n" + a + "\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: elsewhere}}",
		"a separator inside":  a + "\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: b\n  annotations:\n    x: |\n      ---\n      y\n",
	} {
		t.Run(name, func(t *testing.T) {
			bundle := prepare(t, text, options())
			if got := strings.Join(names(bundle), "; "); got != "Namespaces: Namespace /there; Config: ConfigMap there/a, ConfigMap there/b" {
				t.Errorf("got %s", got)
			}
		})
	}
}

// TestF4_PreparationShowsNoSecret: errors hold no value of a Secret, nor of a patch of one.
func TestF4_PreparationShowsNoSecret(t *testing.T) {
	const value = "sesame-open-7"
	patch := func(p v1alpha1.ManifestPatch) func(*v1alpha1.InstallationSpec) {
		return func(s *v1alpha1.InstallationSpec) { s.Patches = []v1alpha1.ManifestPatch{p} }
	}
	const secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {k: " + value + "}\n"
	for name, tt := range map[string]struct {
		manifest string
		change   func(*v1alpha1.InstallationSpec)
		want     string
	}{
		"an alias":               {"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData:\n  k: *" + value, func(*v1alpha1.InstallationSpec) {}, "not valid YAML"},
		"differing Secrets":      {secret + "---\n" + strings.Replace(secret, value, value+value, 1), func(*v1alpha1.InstallationSpec) {}, "differs"},
		"a patch of nothing":     {secret, patch(v1alpha1.ManifestPatch{Patch: "apiVersion: v1\nkind: Secret\nmetadata: {name: other}\nstringData: {k: " + value + "}"}), "patches[0]"},
		"a patch without target": {secret, patch(v1alpha1.ManifestPatch{Patch: `[{"op":"replace","path":"/stringData/k","value":"` + value + `"}]`}), "patches[0]"},
		"a patch that fails":     {secret, patch(v1alpha1.ManifestPatch{Patch: `[{"op":"test","path":"/data/k","value":"` + value + `"}]`, Target: &v1alpha1.PatchTarget{Kind: "Secret"}}), "patches[0]"},
		"another's patch":        {secret + "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}", patch(v1alpha1.ManifestPatch{Patch: `[{"op":"remove","path":"/data/` + value + `"}]`, Target: &v1alpha1.PatchTarget{Kind: "ConfigMap"}}), "patches[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Prepare(source(tt.manifest), options(tt.change))
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), value) {
				t.Errorf("got %v, expected %q and no value", err, tt.want)
			}
		})
	}
}
