//go:build unix

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
)

// FreeAddress returns a loopback address that nobody listens on, for a program
// that is about to be started.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String(), nil
}

// ApplyOutput runs a program and applies the documents that it prints, as
// [Cluster.Apply] does. The error of a program that fails has what it said.
func (c *Cluster) ApplyOutput(ctx context.Context, program *exec.Cmd) error {
	manifest, err := program.Output()
	if err != nil {
		var ended *exec.ExitError
		if errors.As(err, &ended) {
			err = fmt.Errorf("%w: %s", err, ended.Stderr)
		}
		return err
	}
	return c.Apply(ctx, manifest)
}
