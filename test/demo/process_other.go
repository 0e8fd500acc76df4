//go:build unix && !linux

package main

import "syscall"

// childAttributes keep a terminal's Ctrl-C from a process, which is for the demo to handle.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
