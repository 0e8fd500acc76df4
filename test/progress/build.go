package main

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// every is how often a build reports.
const every = 10 * time.Second

// build runs go build with arguments, and reports to out how many packages are compiled.
func build(out io.Writer, args []string) error {
	total, err := stale(args)
	if err != nil {
		return err
	}
	cmd := exec.Command("go", append([]string{"build", "-v"}, args...)...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	said, compiled, began := time.Now(), 0, time.Now()
	return run(cmd, func() error {
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			line := lines.Text()
			if strings.ContainsAny(line, " \t:") { // a message, not a package
				_, _ = fmt.Fprintln(out, line)
				continue
			}
			compiled++
			if time.Since(said) >= every {
				said = time.Now()
				_, _ = fmt.Fprintf(out, "compiled %d of about %d packages, %s\n", compiled, total, time.Since(began).Round(time.Second))
			}
		}
		return lines.Err()
	})
}

// stale counts the packages that a build compiles.
func stale(args []string) (int, error) {
	args = slices.Clone(args)
	if at := slices.Index(args, "-o"); at >= 0 {
		args = slices.Delete(args, at, at+2)
	}
	cmd := exec.Command("go", append([]string{"list", "-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}"}, args...)...)
	var failure strings.Builder
	cmd.Stderr = &failure
	listed, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("go list: %w\n%s", err, failure.String())
	}
	return len(strings.Fields(string(listed))), nil
}
