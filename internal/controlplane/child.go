//go:build unix

package controlplane

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
)

// lifelineEnv is known to the programs of the module in controlplane/: the
// number of a descriptor whose end of file ends them.
const lifelineEnv = "ISTHMUS_LIFELINE_FD"

// child is a running process that ends with this one.
type child struct {
	cmd *exec.Cmd
	// done is closed when the process has ended; err is what it ended with.
	done chan struct{}
	err  error
}

// startChild starts the command in a process group of its own (a Ctrl-C in the
// terminal is for this process to handle) and tied to the life of this process:
// by a pipe that the programs of the control plane watch, and on Linux by the
// kernel, which also reaches a process that is stopped and so can't watch.
func startChild(cmd *exec.Cmd) (*child, error) {
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	cmd.SysProcAttr = childAttributes()
	cmd.ExtraFiles = []*os.File{reader}
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, lifelineEnv+"=3")

	c := &child{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel's tie is to the thread that starts the process, so that
		// thread must live for as long as the process does.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		_ = reader.Close()
		started <- err
		if err == nil {
			c.err = cmd.Wait()
			close(c.done)
		}
		_ = writer.Close()
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// running tells whether the process has not ended yet.
func (c *child) running() bool {
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// signal sends a signal to the process and those that it started.
func (c *child) signal(sig syscall.Signal) error {
	err := syscall.Kill(-c.pid(), sig)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// kill ends the process at once; it has ended when done is closed.
func (c *child) kill() {
	if c.running() {
		_ = c.signal(syscall.SIGKILL)
	}
}

// lastLines returns the end of a log file, indented, for error messages.
func lastLines(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return "(no log: " + err.Error() + ")"
	}
	lines := strings.Split(strings.TrimRight(string(content), "\n"), "\n")
	lines = lines[max(0, len(lines)-failureLines):]
	return "  " + strings.Join(lines, "\n  ")
}
