package controlplane

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// waitStopped returns when the last thread of a process that was sent SIGSTOP
// has stopped: until then it may still answer.
func waitStopped(pid int) error {
	for {
		// Without taking the news from whoever waits for the process's end.
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, syscall.EINTR) {
			if err != nil {
				return fmt.Errorf("waiting until process %d has stopped: %w", pid, err)
			}
			return nil
		}
	}
}
