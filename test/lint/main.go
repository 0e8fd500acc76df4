// Command lint checks what no linter of others does, over all files of the repository: Go files are formatted, no file
// names a package registry's host or a path of somebody's machine, or holds both sides of a merge, and Kubernetes itself
// is required by the module in controlplane/ alone.
//
//	go run ./test/lint
package main

import (
	"bytes"
	"fmt"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	files, err := listed()
	if err != nil {
		fmt.Fprintln(os.Stderr, "lint:", err)
		os.Exit(1)
	}
	found := 0
	for _, path := range files {
		content, err := os.ReadFile(path)
		if err != nil {
			continue // deleted, and not committed yet
		}
		for _, problem := range check(path, content) {
			found++
			fmt.Println(problem)
		}
	}
	if found > 0 {
		fmt.Fprintf(os.Stderr, "lint: %d problems in %d files\n", found, len(files))
		os.Exit(1)
	}
	fmt.Printf("lint: %d files\n", len(files))
}

// listed returns the repository's files, also those that are not committed yet.
func listed() ([]string, error) {
	out, err := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"), nil
}

// hosts are those of registries, in parts: this file is checked too.
var hosts = [][]string{
	{"proxy", "golang", "org"}, {"sum", "golang", "org"}, {"docker", "io"}, {"gcr", "io"}, {"ghcr", "io"}, {"quay", "io"},
	{"registry", "k8s", "io"}, {"pkg", "dev"}, {"registry", "npmjs", "org"}, {"pypi", "org"}, {"artifacthub", "io"},
}

var (
	hostPattern = compileHosts()
	machinePath = regexp.MustCompile(`(?m)(?:^|[\s"'` + "`" + `(=:,])/(?:root|home|work|Users)/[\w.]`)
	undone      = regexp.MustCompile(`(?m)^(?:<{7}|>{7}) `)
	kubernetes  = regexp.MustCompile(`(?m)^\s*(?:require\s+)?k8s\.io/kubernetes\s+v`)
)

func compileHosts() *regexp.Regexp {
	var all []string
	for _, parts := range hosts {
		all = append(all, regexp.QuoteMeta(strings.Join(parts, ".")))
	}
	return regexp.MustCompile(`(?:^|[^\w-])(?:` + strings.Join(all, "|") + `)(?:$|[^\w-])`)
}

// check returns what is wrong with a file, a line each.
func check(path string, content []byte) (problems []string) {
	problem := func(offset int, format string, args ...any) {
		line := 1 + bytes.Count(content[:offset], []byte("\n"))
		problems = append(problems, fmt.Sprintf("%s:%d: %s", path, line, fmt.Sprintf(format, args...)))
	}
	if bytes.IndexByte(content, 0) >= 0 {
		return nil // not text
	}
	if at := hostPattern.FindIndex(content); at != nil {
		problem(at[1]-1, "names a registry's host: %s", strings.TrimSpace(string(content[at[0]:at[1]])))
	}
	if at := machinePath.FindIndex(content); at != nil {
		problem(at[1]-1, "names a path of somebody's machine: %s", strings.TrimSpace(string(content[at[0]:at[1]])))
	}
	if at := undone.FindIndex(content); at != nil {
		problem(at[0], "has both sides of a merge: keep one")
	}
	if path == "go.mod" {
		if at := kubernetes.FindIndex(content); at != nil {
			problem(at[1]-1, "requires k8s.io/kubernetes; only controlplane/go.mod may")
		}
	}
	if filepath.Ext(path) == ".go" {
		formatted, err := format.Source(content)
		switch {
		case err != nil:
			problem(0, "does not parse: %v", err)
		case !bytes.Equal(formatted, content):
			problem(0, "is not formatted: run gofmt -w %s", path)
		}
	}
	return problems
}
