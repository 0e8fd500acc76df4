package main

import "syscall"

// childAttributes keep a terminal's Ctrl-C from a process, which is for the demo to handle, and let it end with the demo.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
