package boundary

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzParsePath: a path that parses is written so that it parses to the same path again.
func FuzzParsePath(f *testing.F) {
	for _, text := range []string{
		"spec", ".spec.replicas", "spec.ports[*].nodePort", `metadata.labels["example.io/team"]`, `["a.b"].c`, `a["\"]\n\u00e9"][*]["x"]`,
		"", ".", "..", "a.", "a..b", "[*]", "a[0]", "a[0][12].b", "a[01]", "a[-0]", "a[9999999999999999999]", "[0]", `a[""]`, `a["b"`, "a]b", `a"b`, `a["b"]c`, "a[*][*]", ".[*]", `.["a"]`, "a[`b`]", "a\xffb", "\u200b",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		path, err := ParsePath(text)
		if err != nil {
			return
		}
		if len(path) == 0 || path[0].EachItem || path[0].IsIndex {
			t.Fatalf("%q: %#v does not start with a field", text, path)
		}
		for _, step := range path {
			if !step.EachItem && !step.IsIndex && step.Field == "" {
				t.Fatalf("%q: %#v has an empty field", text, path)
			}
		}
		again, err := ParsePath(path.String())
		if err != nil {
			t.Fatalf("%q is written as %q: %v", text, path.String(), err)
		}
		if diff := cmp.Diff(path, again); diff != "" {
			t.Errorf("%q is written as %q:\n%s", text, path.String(), diff)
		}
	})
}
