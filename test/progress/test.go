package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// event is what go test -json tells.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

// test runs go test with arguments, and prints a line for each test as it ends. Behind "-rerun N" at the front, up to N
// tests that fail are run once more.
func test(out io.Writer, args []string) error {
	most, args, err := rerunFlag(args)
	if err != nil {
		return err
	}
	first, err := goTest(out, args)
	if err == nil || !first.mayRerun(most) {
		return err
	}
	return rerun(out, args, first.failed)
}

// goTest runs go test with arguments, and returns what came of the tests.
func goTest(out io.Writer, args []string) (*results, error) {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	r := newResults()
	return r, run(cmd, func() error { return show(out, stdout, r) })
}

// show turns the events of go test into lines for people, and notes the results.
func show(out io.Writer, events io.Reader, r *results) error {
	reader := bufio.NewReader(events)
	kept := map[string]*strings.Builder{} // output by package and top-level test, until that ends
	counts := map[string]int{}
	for {
		line, err := reader.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				_, _ = out.Write(line)
			} else {
				r.note(e)
				if e.take(out, kept) {
					counts[e.Action]++
				}
			}
		}
		switch {
		case err == io.EOF:
			_, err := fmt.Fprintf(out, "tests: %d passed, %d failed, %d skipped\n", counts["pass"], counts["fail"], counts["skip"])
			return err
		case err != nil:
			return err
		}
	}
}

// take takes in an event. counts: it ends a test.
func (e event) take(out io.Writer, kept map[string]*strings.Builder) (counts bool) {
	top, _, sub := strings.Cut(e.Test, "/")
	key := e.Package + " " + top
	took := time.Duration(e.Elapsed * float64(time.Second)).Round(10 * time.Millisecond)
	switch e.Action {
	case "output":
		if kept[key] == nil {
			kept[key] = &strings.Builder{}
		}
		kept[key].WriteString(e.Output)
	case "build-output":
		_, _ = io.WriteString(out, e.Output)
	case "pass", "fail", "skip":
		if sub {
			return false
		}
		name := testName{e.Package, e.Test}
		switch {
		case e.Action == "fail":
			if kept[key] != nil {
				_, _ = io.WriteString(out, kept[key].String())
			}
			_, _ = fmt.Fprintf(out, "FAIL  %s (%s)\n", name, took)
		case e.Test == "" || e.Action == "skip" || took >= slow:
			_, _ = fmt.Fprintf(out, "%-5s %s (%s)\n", word(e.Action), name, took)
		}
		delete(kept, key)
		return e.Test != ""
	}
	return false
}

// slow is how long a test takes that gets a line of its own.
const slow = 200 * time.Millisecond

func word(action string) string {
	if action == "pass" {
		return "ok"
	}
	return action
}
