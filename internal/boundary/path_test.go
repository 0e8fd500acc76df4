package boundary

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParsePath(t *testing.T) {
	field, items := func(name string) Step { return Step{Field: name} }, Step{EachItem: true}
	item := func(i int) Step { return Step{IsIndex: true, Index: i} }
	tests := []struct {
		text    string
		want    Path
		written string // if not as text
	}{
		{"spec", Path{field("spec")}, ""},
		{".spec.replicas", Path{field("spec"), field("replicas")}, "spec.replicas"},
		{"spec.ports[*].nodePort", Path{field("spec"), field("ports"), items, field("nodePort")}, ""},
		{"a[*][*]", Path{field("a"), items, items}, ""},
		{"a[0].b[12][*]", Path{field("a"), item(0), field("b"), item(12), items}, ""},
		{`metadata.labels["example.io/team"]`, Path{field("metadata"), field("labels"), field("example.io/team")}, ""},
		{`["a"]["b c"].d`, Path{field("a"), field("b c"), field("d")}, `a["b c"].d`},
		{`a["\"]"]`, Path{field("a"), field(`"]`)}, ""},
		{"ä-b_c/d", Path{field("ä-b_c/d")}, ""},
	}
	for _, tt := range tests {
		got, err := ParsePath(tt.text)
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", tt.text, diff)
		}
		if tt.written == "" {
			tt.written = tt.text
		}
		if got.String() != tt.written {
			t.Errorf("%s is written as %s, want %s", tt.text, got, tt.written)
		}
	}
}

func TestParsePathSaysWhatIsWrong(t *testing.T) {
	const other = `".", "[" or the end (write other keys as ["key"], and every item of a list as [*])`
	tests := []struct{ text, want string }{
		{"", "empty path: expected a field, like spec.replicas"},
		{".", `path ".": expected a field at character 2`},
		{"a.", `path "a.": expected a field at character 3`},
		{"ä..b", `path "ä..b": expected a field at character 3`},
		{"a.[*]", `path "a.[*]": expected a field at character 3`},
		{"[*]", `path "[*]": expected a field at character 1`},
		{"[0]", `path "[0]": expected a field at character 1`},
		{"a[01]", `path "a[01]": expected [*], [0] or ["key"] at character 2`},
		{"a[-1]", `path "a[-1]": expected [*], [0] or ["key"] at character 2`},
		{"a[-0]", `path "a[-0]": expected [*], [0] or ["key"] at character 2`},
		{"a[+1]", `path "a[+1]": expected [*], [0] or ["key"] at character 2`},
		{"a[1", `path "a[1": expected [*], [0] or ["key"] at character 2`},
		{"a[]", `path "a[]": expected [*], [0] or ["key"] at character 2`},
		{"a[99999999999999999999]", `path "a[99999999999999999999]": expected [*], [0] or ["key"] at character 2`},
		{"a[0]b", `path "a[0]b": expected "." or "[" at character 5`},
		{`a[""]`, `path "a[\"\"]": expected [*], [0] or ["key"] at character 2`},
		{`a["b"`, `path "a[\"b\"": expected [*], [0] or ["key"] at character 2`},
		{`a["b"]c`, `path "a[\"b\"]c": expected "." or "[" at character 7`},
		{"a]", `path "a]": expected ` + other + ` at character 2`},
		{"a.*.b", `path "a.*.b": expected ` + other + ` at character 3`},
		{"a ", `path "a ": expected ` + other + ` at character 2`},
	}
	for _, tt := range tests {
		if p, err := ParsePath(tt.text); err == nil || err.Error() != tt.want {
			t.Errorf("%q: got %#v, %v\nwant %s", tt.text, p, err, tt.want)
		}
	}
}
