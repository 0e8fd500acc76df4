//go:build unix

package cluster

import (
	"os/exec"
	"syscall"
)

// endWithChildren makes a command that is ended take along what it started, as a shell script does its programs.
func endWithChildren(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
