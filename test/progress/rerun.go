package main

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// testName is a top-level test; an empty Test is its package.
type testName struct{ Package, Test string }

// module is left out of the names of packages.
const module = "isthmus.dev/isthmus/"

func (n testName) String() string {
	return strings.TrimSpace(strings.TrimPrefix(n.Package, module) + " " + n.Test)
}

// results are what came of the top-level tests.
type results struct {
	passed  map[testName]bool
	failed  []testName
	running map[testName]bool
	crashed map[string]bool // packages that a panic ended, a timeout included
	// broken: a package failed in another way than by tests that ran to their end.
	broken bool
}

func newResults() *results {
	return &results{passed: map[testName]bool{}, running: map[testName]bool{}, crashed: map[string]bool{}}
}

// note takes in an event.
func (r *results) note(e event) {
	if e.Action == "output" && (strings.HasPrefix(e.Output, "panic: ") || strings.HasPrefix(e.Output, "fatal error: ")) {
		r.crashed[e.Package] = true
	}
	name := testName{e.Package, e.Test}
	switch {
	case strings.Contains(e.Test, "/"):
	case e.Test == "":
		if e.Action == "fail" {
			r.broken = r.broken || r.endedBadly(e.Package)
		}
	case e.Action == "run":
		r.running[name] = true
	case e.Action == "pass" || e.Action == "fail" || e.Action == "skip":
		delete(r.running, name)
		r.passed[name] = e.Action == "pass"
		if e.Action == "fail" {
			r.failed = append(r.failed, name)
		}
	}
}

// endedBadly reports whether a package that failed did so without a test that says why, as one that can't be compiled, or
// before all its tests had ended.
func (r *results) endedBadly(pkg string) bool {
	for name := range r.running {
		if name.Package == pkg {
			return true
		}
	}
	return r.crashed[pkg] || !slices.ContainsFunc(r.failed, func(name testName) bool { return name.Package == pkg })
}

// mayRerun reports whether the failures may be those of a busy machine: few tests, and nothing but tests. Where a test has
// not ended, the run was interrupted.
func (r *results) mayRerun(most int) bool {
	return !r.broken && len(r.running) == 0 && len(r.failed) > 0 && len(r.failed) <= most
}

// rerunFlag takes "-rerun N" from the front of the arguments of go test.
func rerunFlag(args []string) (most int, rest []string, err error) {
	if len(args) == 0 || args[0] != "-rerun" {
		return 0, args, nil
	}
	if len(args) > 1 {
		most, err = strconv.Atoi(args[1])
	}
	if len(args) == 1 || err != nil || most < 0 {
		return 0, nil, errors.New("-rerun: expected how many failed tests are run once more, as in -rerun 4")
	}
	flags := flagsOf(args[2:])
	for _, arg := range args[2+len(flags):] {
		if strings.HasPrefix(arg, "-") {
			return 0, nil, fmt.Errorf("with -rerun, expected flags as -flag=value and before the packages, not %q", arg)
		}
	}
	return most, args[2:], nil
}

// flagsOf returns the arguments before the packages.
func flagsOf(args []string) []string {
	for i, arg := range args {
		if !strings.HasPrefix(arg, "-") {
			return args[:i]
		}
	}
	return args
}

// rerun runs tests once more, alone, and says last how each ended. It returns an error unless all pass.
func rerun(out io.Writer, args []string, failed []testName) error {
	var errs []error
	var passed, again []string
	for _, pkg := range packagesOf(failed) {
		var tests []string
		for _, name := range failed {
			if name.Package == pkg {
				tests = append(tests, regexp.QuoteMeta(name.Test))
			}
		}
		_, _ = fmt.Fprintf(out, "once more, alone: %s %s\n", testName{Package: pkg}, strings.Join(tests, ", "))
		alone := append(slices.Clone(flagsOf(args)), "-run=^("+strings.Join(tests, "|")+")$", "-parallel=1", "-count=1", pkg)
		second, err := goTest(out, alone)
		errs = append(errs, err)
		for _, name := range failed {
			switch {
			case name.Package != pkg:
			case second != nil && second.passed[name]:
				passed = append(passed, name.String())
			default:
				again = append(again, name.String())
			}
		}
	}
	if len(passed) > 0 {
		_, _ = fmt.Fprintln(out, "failed at first and passed alone:", strings.Join(passed, ", "))
	}
	if len(again) > 0 {
		_, _ = fmt.Fprintln(out, "failed at first, and did not pass alone:", strings.Join(again, ", "))
		errs = append(errs, errors.New("not all tests that failed pass alone"))
	}
	return errors.Join(errs...)
}

// packagesOf returns the packages of tests, each once.
func packagesOf(tests []testName) (packages []string) {
	for _, name := range tests {
		if !slices.Contains(packages, name.Package) {
			packages = append(packages, name.Package)
		}
	}
	return packages
}
