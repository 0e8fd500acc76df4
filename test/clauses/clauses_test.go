package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const contract = `# The contract
- word: not a clause
- P1 Every twin carries it.
- P2 Nothing else does.
- D1 Deletes go to ours only.
`

func TestReport(t *testing.T) {
	tests := []struct {
		name, declared string
		source         string
		count          string
		problems       []string
	}{
		{
			name: "a test proves", declared: "P1 # a comment\n",
			source: "func TestP1_Stamp(t *testing.T) {}", count: "clauses: 1 of 3 proven",
		},
		{
			name: "several clauses in a name", declared: "P1 P2\nD1",
			source: "func TestP1P2_Both(t *testing.T) {}\nfunc TestP2_D1_Both(t *testing.T) {}", count: "clauses: 3 of 3 proven",
		},
		{
			name: "fuzz targets and subtests prove", declared: "P1 P2 D1",
			source: `func FuzzP1_Stamp(f *testing.F) {}
func TestAll(t *testing.T) {
	t.Run("P2 nothing else", func(t *testing.T) {})
	t.Run("D1_Ours", func(t *testing.T) {})
}`, count: "clauses: 3 of 3 proven",
		},
		{
			name: "a declared clause without a test", declared: "P1 D1",
			source: "func TestP1(t *testing.T) {}", count: "clauses: 1 of 3 proven",
			problems: []string{"D1 is declared proven in test/clauses/ci.txt, and no test is named after it"},
		},
		{
			name:   "a test about no clause",
			source: "func TestP9_Nothing(t *testing.T) {}", count: "clauses: 0 of 3 proven",
			problems: []string{"x_test.go:4: TestP9_Nothing is about clause P9, which the contract does not have"},
		},
		{
			name: "a declared clause that does not exist", declared: "Q1", count: "clauses: 0 of 3 proven",
			problems: []string{"Q1 is declared proven in test/clauses/ci.txt, and the contract does not have it"},
		},
		{
			name: "a declaration that is no clause", declared: "P1-P2", count: "clauses: 0 of 3 proven",
			problems: []string{`test/clauses/ci.txt: "P1-P2": expected a clause such as P3`},
		},
		{
			name: "benchmarks and tests that skip prove nothing", declared: "P1 P2",
			source: `func BenchmarkP1_Stamp(b *testing.B) {}
func TestP2_Sometimes(t *testing.T) { if testing.Short() { t.Skip("no time") } }`, count: "clauses: 0 of 3 proven",
			problems: []string{"P1 is declared proven", "P2 is declared proven"},
		},
		{
			name:   "a property that drops cases proves",
			source: "func TestP1_Any(t *testing.T) { rapid.Check(t, func(t *rapid.T) { t.Skip() }) }", count: "clauses: 1 of 3 proven",
		},
		{
			name: "other names carry no clause",
			source: `func TestUTF8_Names(t *testing.T) {}
func TestP1Stamp(t *testing.T) {}
func TestE2E_All(t *testing.T) { t.Run("P1x", nil) }
func helperP1_(t *testing.T) {}`, count: "clauses: 0 of 3 proven",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			write(t, filepath.Join(root, "x_test.go"), "package x\n\nimport \"testing\"\n"+tt.source+"\n")
			write(t, filepath.Join(root, "testdata", "y_test.go"), "package x\nfunc TestP7_InTestdata() {}\n")
			found, err := scan(root)
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			problems := report(&out, contract, tt.declared, found)
			if !strings.HasSuffix(out.String(), tt.count+"\n") {
				t.Errorf("expected %q at the end of:\n%s", tt.count, out.String())
			}
			if len(problems) != len(tt.problems) {
				t.Fatalf("problems, -want +got:\n%s", cmp.Diff(tt.problems, problems))
			}
			for i, want := range tt.problems {
				if !strings.HasPrefix(problems[i], want) {
					t.Errorf("problem %q, expected %q…", problems[i], want)
				}
			}
		})
	}
}

func TestTheContractOfTheRepository(t *testing.T) {
	text, err := os.ReadFile("../../docs/contract.md")
	if err != nil {
		t.Fatal(err)
	}
	clauses := contractClauses(string(text))
	if len(clauses) < 60 || clauses[0].id != "S1" || clauses[len(clauses)-1].id != "E8" {
		t.Errorf("read %d clauses: %v", len(clauses), clauses)
	}
	seen := map[string]bool{}
	for _, c := range clauses {
		if seen[c.id] {
			t.Errorf("clause %s is there twice", c.id)
		}
		seen[c.id] = true
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
