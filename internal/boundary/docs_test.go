package boundary

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The page about ownership shows the table of defaults as the code has it, and all keys that do not cross.
func TestDefaultsOfTheOwnershipPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/ownership.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	_, shown, _ := strings.Cut(page, "a test compares this table with the code -->\n")
	shown, _, ok := strings.Cut(shown, "<!-- end of defaults -->")
	if !ok {
		t.Fatal("the page has no table of defaults")
	}
	want := "\n| kind | path | unless the source says |\n| --- | --- | --- |\n"
	for _, row := range kindDefaults {
		kind := row.kind
		if row.group != "" {
			kind += " (" + strings.TrimSuffix(row.group+"/"+strings.Join(row.versions, ", "), "/") + ")"
		}
		for _, place := range row.remoteOwned {
			unless := ""
			if place.unless != nil {
				unless = fmt.Sprintf("`%s: %v`", place.unless, place.unlessValue)
			}
			want += fmt.Sprintf("| %s | `%s` | %s |\n", kind, place.path, unless)
		}
		if row.runsToCompletion && !strings.Contains(page, row.kind) {
			t.Errorf("the page does not name %s, which runs to completion", row.kind)
		}
		if row.secret && !strings.Contains(page, "Values of "+row.kind+"s are never shown") {
			t.Errorf("the page does not say that values of a %s are not shown", row.kind)
		}
	}
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Errorf("the table should be:\n%s\n-want +got:\n%s", want, diff)
	}
	for _, key := range append(append([]string(nil), reservedKeys...), droppedKeys...) {
		if !strings.Contains(page, "`"+key+"`") {
			t.Errorf("the page does not name the key %s, which does not cross", key)
		}
	}
}

// The page about virtual clusters shows what the name of a field tells.
func TestFieldKindsOfTheVirtualClustersPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/virtual-clusters.md")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, ok := strings.Cut(string(text), "| the field's name ends in | ")
	shown, _, end := strings.Cut(shown, "\n\n")
	if !ok || !end {
		t.Fatal("the page has no such table")
	}
	for _, row := range fieldKinds {
		if !strings.Contains(shown, "`"+row.words+"`") {
			t.Errorf("it does not name %s", row.words)
		}
	}
	for _, ending := range fieldEndings {
		if singular := strings.TrimSuffix(ending, "s"); singular != "" && !strings.Contains(shown, "`"+singular+"`") {
			t.Errorf("it does not name %s", ending)
		}
	}
}
