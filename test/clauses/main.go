// Command clauses lists the clauses of docs/contract.md with the tests that carry them in their names, and fails where
// a clause that ci.txt declares proven is not, or where a name is about no clause:
//
//	go run ./test/clauses
//
// A test carries the clauses that its name begins with: TestP3_ForeignObjectInARace, TestP2P6_WhatNeverCrosses,
// FuzzN1_Names; so does a subtest, as in t.Run("P3 the race", …). Benchmarks are listed and prove nothing, as no test
// run executes them; nor does a test that may skip itself.
package main

import (
	_ "embed"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// declared names the clauses that CI proves.
//
//go:embed ci.txt
var declared string

func main() {
	root := flag.String("root", ".", "the repository")
	flag.Parse()
	contract, err := os.ReadFile(filepath.Join(*root, "docs", "contract.md"))
	if err != nil {
		fail(err)
	}
	tests, err := scan(*root)
	if err != nil {
		fail(err)
	}
	if problems := report(os.Stdout, string(contract), declared, tests); len(problems) > 0 {
		fail(fmt.Errorf("%s", strings.Join(problems, "\n")))
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// report prints each clause with its tests, and a count. It returns what is wrong, a line each.
func report(out io.Writer, contract, declared string, tests []test) (problems []string) {
	clauses := contractClauses(contract)
	byClause := map[string][]test{}
	for _, t := range tests {
		for _, id := range t.clauses {
			if !slices.ContainsFunc(clauses, func(c clause) bool { return c.id == id }) {
				problems = append(problems, fmt.Sprintf("%s: %s is about clause %s, which the contract does not have", t.place, t.name, id))
				continue
			}
			byClause[id] = append(byClause[id], t)
		}
	}
	must, bad := declaredClauses(declared)
	problems = append(problems, bad...)

	proven := 0
	for _, c := range clauses {
		is := slices.ContainsFunc(byClause[c.id], func(t test) bool { return t.proves })
		mark := "     "
		switch {
		case is:
			mark = "proven"
			proven++
		case slices.Contains(must, c.id):
			mark = "MISSING"
			problems = append(problems, fmt.Sprintf("%s is declared proven in test/clauses/ci.txt, and no test is named after it: %s", c.id, c.title))
		}
		_, _ = fmt.Fprintf(out, "%-4s%-8s%s\n", c.id, mark, c.title)
		for _, t := range byClause[c.id] {
			note := ""
			if !t.proves {
				note = "  (" + t.why + ")"
			}
			_, _ = fmt.Fprintf(out, "            %s  %s%s\n", t.name, t.place, note)
		}
	}
	for _, id := range must {
		if !slices.ContainsFunc(clauses, func(c clause) bool { return c.id == id }) {
			problems = append(problems, fmt.Sprintf("%s is declared proven in test/clauses/ci.txt, and the contract does not have it", id))
		}
	}
	_, _ = fmt.Fprintf(out, "\nclauses: %d of %d proven\n", proven, len(clauses))
	return problems
}
