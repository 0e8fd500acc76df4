// Command progress runs "go build" or "go test" and tells how far it is, for the Makefile:
//
//	go run ./test/progress build -o bin/ ./cmd/isthmus
//	go run ./test/progress test -rerun 8 -timeout=30m ./test/e2e
//
// A build reports how many packages are compiled; a test run prints a line a test as it ends, and the whole output of
// those that failed. Its exit code is that of the go command.
//
// With -rerun N, at most N tests that failed are run once more, each package's by themselves and one at a time, unless
// something else went wrong too (a panic, a timeout, a package that can't be compiled). If all pass then, so does the whole,
// and the last line says which they were.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "progress: expected build or test, and arguments of that go command")
		os.Exit(2)
	}
	if _, err := exec.LookPath("go"); err != nil {
		fmt.Fprintln(os.Stderr, "progress: the Go toolchain is missing: there is no \"go\" in PATH")
		os.Exit(2)
	}
	var err error
	switch what, args := os.Args[1], os.Args[2:]; what {
	case "build":
		err = build(os.Stdout, args)
	case "test":
		err = test(os.Stdout, args)
	default:
		err = fmt.Errorf("unknown command %q: expected build or test", what)
	}
	var ended *exec.ExitError
	switch {
	case err == nil:
	case errors.As(err, &ended) && ended.ExitCode() > 0:
		os.Exit(ended.ExitCode())
	default:
		fmt.Fprintln(os.Stderr, "progress:", err)
		os.Exit(1)
	}
}

// run starts a go command, passes signals on to it, and hands back how it ends.
func run(cmd *exec.Cmd, while func() error) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s)
		}
	}()
	err := while()
	return errors.Join(cmd.Wait(), err)
}
