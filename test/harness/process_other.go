//go:build unix && !linux

package harness

import "syscall"

// childAttributes lets a process be; only Linux can end it with its parent.
func childAttributes() *syscall.SysProcAttr { return nil }
