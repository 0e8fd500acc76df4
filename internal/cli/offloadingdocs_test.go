package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// constants returns the values of the string constants of a type in the files of a package's folder.
func constants(t *testing.T, folder, typeName string) (values []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) == 0 {
				return true
			}
			if name, ok := spec.Type.(*ast.Ident); ok && name.Name == typeName {
				if literal, ok := spec.Values[0].(*ast.BasicLit); ok {
					value, _ := strconv.Unquote(literal.Value)
					values = append(values, value)
				}
			}
			return true
		})
	}
	slices.Sort(values)
	return values
}

var firstCell = regexp.MustCompile("^\\| `([A-Za-z]+)` \\|")

// The page about offloading has a row for each phase and each strategy that there is, and for no other.
func TestTablesOfTheOffloadingPage(t *testing.T) {
	tables := map[string][]string{} // by their first column's head
	head, before := "", ""
	for line := range strings.Lines(pages(t)["../../docs/offloading.md"]) {
		if strings.HasPrefix(line, "| ---") {
			head = strings.Trim(strings.SplitN(before, "|", 3)[1], " `")
		} else if m := firstCell.FindStringSubmatch(line); m != nil && head != "" {
			tables[head] = append(tables[head], m[1])
		}
		before = line
	}
	for column, typeName := range map[string]string{"phase": "OffloadingPhase", "namespaceMappingStrategy": "NamespaceMappingStrategy"} {
		want := constants(t, "../../api/v1alpha1", typeName)
		got := slices.Sorted(slices.Values(tables[column]))
		if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
			t.Errorf("table %s (of %v): -want +got:\n%s", column, slices.Sorted(maps.Keys(tables)), diff)
		}
	}
}
