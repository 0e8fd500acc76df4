package chart

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// schema is the part of a JSON Schema that tells where values end.
type valueSchema struct {
	Properties map[string]valueSchema `json:"properties"`
}

// rows lists values below a node, a table row each: a value ends where the schema names no further properties.
func rows(t *testing.T, path string, node *yaml.Node, s valueSchema) (out []string) {
	t.Helper()
	for i := 0; i < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		name := strings.TrimPrefix(path+"."+key.Value, ".")
		below, known := s.Properties[key.Value]
		if !known {
			t.Errorf("values.schema.json does not know %s", name)
			continue
		}
		if len(below.Properties) > 0 {
			out = append(out, rows(t, name, value, below)...)
			continue
		}
		comment := strings.Join(strings.Fields(strings.ReplaceAll(key.HeadComment, "#", " ")), " ")
		if comment == "" {
			t.Errorf("values.yaml says nothing of %s: expected a comment", name)
		}
		var decoded any
		if err := value.Decode(&decoded); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(decoded)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("| `%s` | `%s` | %s |", name, text, strings.ReplaceAll(comment, "|", "\\|")))
	}
	return out
}

// The table of values in docs/install.md is made from values.yaml, and the schema knows them all. UPDATE_DOCS=1 writes it.
func TestValuesAreDocumented(t *testing.T) {
	text, err := os.ReadFile(chartPath + "/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	var s valueSchema
	if text, err = os.ReadFile(chartPath + "/values.schema.json"); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	table := "| value | default | meaning |\n| --- | --- | --- |\n" + strings.Join(rows(t, "", document.Content[0], s), "\n") + "\n"

	const page = "../../docs/install.md"
	written, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(written), "Documented . -->\n")
	_, after, found := strings.Cut(rest, "<!-- end of values -->")
	if !found {
		t.Fatalf("%s has lost the marks around its table", page)
	}
	want := before + "Documented . -->\n\n" + table + "\n<!-- end of values -->" + after
	if os.Getenv("UPDATE_DOCS") != "" {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(written)); diff != "" {
		t.Errorf("%s is out of date: -values.yaml +page:\n%s", page, diff)
	}
}
