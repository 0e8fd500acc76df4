// Package lifeline ends a component when the process that started it is gone.
package lifeline

import (
	"io"
	"os"
	"strconv"
)

// FDEnv names the environment variable that carries the number of an inherited
// file descriptor: the reading end of a pipe that the starting process holds
// open for as long as it lives, and never writes to.
const FDEnv = "ISTHMUS_LIFELINE_FD"

// Hold makes this process exit as soon as the pipe named by FDEnv is closed,
// which the kernel does also for a parent that was killed. Without that
// variable it does nothing, so that the programs can be run by hand.
func Hold() {
	value, ok := os.LookupEnv(FDEnv)
	if !ok {
		return
	}
	// Not passed on: a grandchild does not inherit the descriptor.
	_ = os.Unsetenv(FDEnv)
	fd, err := strconv.Atoi(value)
	if err != nil || fd < 3 {
		_, _ = io.WriteString(os.Stderr, FDEnv+" is not the number of a file descriptor: "+value+"\n")
		os.Exit(2)
	}
	pipe := os.NewFile(uintptr(fd), "lifeline")
	go func() {
		_, _ = io.Copy(io.Discard, pipe)
		// No clean shutdown: nobody is left who would want the data.
		os.Exit(3)
	}()
}
