package harness

import "syscall"

// childAttributes let a process end with the test that started it.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
