//go:build unix

// Command demo shows Isthmus at work between two real control planes on this machine: run "make demo".
//
// On a terminal it shows what crossed and then stays up for people to try things. Otherwise, with CI=true, or with
// --check, it also tries the commands that it would show, prints how many checks passed, and leaves nothing behind.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"
)

func main() {
	check := flag.Bool("check", false, "check every step, and end; the default without a terminal and with CI=true")
	flag.Parse()
	if !term.IsTerminal(int(os.Stdout.Fd())) || os.Getenv("CI") == "true" {
		*check = true
	}
	// SIGHUP: the terminal was closed.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := newDemo(os.Stdout, *check).run(ctx)
	stopped := ctx.Err() != nil
	stop()
	switch {
	case stopped && !*check && errors.Is(err, context.Canceled):
	case errors.Is(err, errChecks): // what failed is told already
		os.Exit(1)
	case err != nil:
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}
