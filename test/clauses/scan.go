package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// clause is one numbered promise of the contract.
type clause struct {
	id, title string
}

var (
	clauseLine = regexp.MustCompile(`^- ([A-Z][0-9]+) (.+)$`)
	clauseID   = regexp.MustCompile(`[A-Z][0-9]+`)
	wholeID    = regexp.MustCompile(`^[A-Z][0-9]+$`)
	// testName is the name of a test that carries clauses: its kind, the clauses, and the rest after "_".
	testName = regexp.MustCompile(`^(Test|Fuzz|Benchmark)((?:_?[A-Z][0-9]+)+)(?:_|$)`)
	// subtestName is that of a subtest: the clauses, and the rest after "_", ":" or a space.
	subtestName = regexp.MustCompile(`^((?:_?[A-Z][0-9]+)+)(?:[_: ]|$)`)
)

// contractClauses reads the clauses out of the contract, in its order.
func contractClauses(text string) (clauses []clause) {
	for line := range strings.Lines(text) {
		if m := clauseLine.FindStringSubmatch(strings.TrimRight(line, "\n")); m != nil {
			clauses = append(clauses, clause{m[1], shorten(m[2], 100)})
		}
	}
	return clauses
}

func shorten(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// declaredClauses reads the names of clauses, separated by white space; # begins a comment.
func declaredClauses(text string) (ids, problems []string) {
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		for _, id := range strings.Fields(line) {
			if !wholeID.MatchString(id) {
				problems = append(problems, fmt.Sprintf("test/clauses/ci.txt: %q: expected a clause such as P3", id))
				continue
			}
			ids = append(ids, id)
		}
	}
	return ids, problems
}

// test is a test, a fuzz target, a benchmark or a subtest that carries clauses in its name.
type test struct {
	name, place string // place is file:line
	clauses     []string
	proves      bool
	why         string // it proves nothing
}

// scan finds all tests of a repository that carry clauses.
func scan(root string) (tests []test, err error) {
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if path != root && (name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("reading tests: %w", err)
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		tests = append(tests, testsOf(file, func(n ast.Node) string {
			return fmt.Sprintf("%s:%d", filepath.ToSlash(relative), files.Position(n.Pos()).Line)
		})...)
		return nil
	})
	return tests, err
}

// testsOf finds the tests of a file.
func testsOf(file *ast.File, place func(ast.Node) string) (tests []test) {
	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok || function.Recv != nil || function.Body == nil {
			continue
		}
		kind := testName.FindStringSubmatch(function.Name.Name)
		if kind != nil {
			t := test{name: function.Name.Name, place: place(function), clauses: clauseID.FindAllString(kind[2], -1)}
			t.judge(kind[1], function.Body)
			tests = append(tests, t)
		}
		if !strings.HasPrefix(function.Name.Name, "Test") {
			continue
		}
		ast.Inspect(function.Body, func(n ast.Node) bool {
			name, body := subtest(n)
			if m := subtestName.FindStringSubmatch(name); m != nil {
				t := test{name: function.Name.Name + "/" + name, place: place(n), clauses: clauseID.FindAllString(m[1], -1)}
				t.judge("Test", body)
				tests = append(tests, t)
			}
			return true
		})
	}
	return tests
}

// judge decides whether a run of all tests makes this one prove something.
func (t *test) judge(kind string, body ast.Node) {
	switch {
	case kind == "Benchmark":
		t.why = "a benchmark"
	case skips(body):
		t.why = "it may skip itself"
	default:
		t.proves = true
	}
}

// subtest returns the name and the function of a call x.Run("name", f); an empty name for anything else.
func subtest(n ast.Node) (name string, body ast.Node) {
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) != 2 {
		return "", nil
	}
	selector, ok := call.Fun.(*ast.SelectorExpr)
	literal, isLiteral := call.Args[0].(*ast.BasicLit)
	if !ok || selector.Sel.Name != "Run" || !isLiteral || literal.Kind != token.STRING {
		return "", nil
	}
	name, err := strconv.Unquote(literal.Value)
	if err != nil {
		return "", nil
	}
	return name, call.Args[1]
}

// skips reports whether a test calls Skip, Skipf or SkipNow. What a property does with its own T is another thing:
// there it drops one drawn case.
func skips(body ast.Node) (found bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		if literal, ok := n.(*ast.FuncLit); ok && takesRapid(literal) {
			return false
		}
		if call, ok := n.(*ast.CallExpr); ok {
			if selector, ok := call.Fun.(*ast.SelectorExpr); ok && strings.HasPrefix(selector.Sel.Name, "Skip") {
				found = true
			}
		}
		return true
	})
	return found
}

// takesRapid reports whether a function's first parameter is a *rapid.T.
func takesRapid(f *ast.FuncLit) bool {
	if len(f.Type.Params.List) == 0 {
		return false
	}
	pointer, ok := f.Type.Params.List[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	selector, ok := pointer.X.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	from, ok := selector.X.(*ast.Ident)
	return ok && from.Name == "rapid"
}
