//go:build !unix

package cluster

import "os/exec"

// endWithChildren does nothing: only the command itself is ended.
func endWithChildren(*exec.Cmd) {}
