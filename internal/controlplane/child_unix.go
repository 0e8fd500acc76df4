//go:build unix && !linux

package controlplane

import "syscall"

func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// waitStopped would return when a process that was sent SIGSTOP has stopped;
// here nothing tells, and it may answer for a moment.
func waitStopped(int) error { return nil }
