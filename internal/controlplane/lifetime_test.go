//go:build unix

package controlplane_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"isthmus.dev/isthmus/internal/controlplane"
)

// helperEnv makes the test binary a process that starts a cluster and waits to
// be killed.
const helperEnv = "ISTHMUS_TEST_CONTROLPLANE_HELPER"

var everything = []controlplane.Component{controlplane.ControllerManager, controlplane.Scheduler, controlplane.Kwok}

// helper prints the process IDs of a whole cluster, two of them paused.
func helper() {
	c, err := controlplane.Start(context.Background(), "orphan", controlplane.Options{With: everything})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, component := range []controlplane.Component{controlplane.Etcd, controlplane.Kwok} {
		if err := c.Pause(component); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	fmt.Print(c.Dir())
	for _, component := range append([]controlplane.Component{controlplane.Etcd, controlplane.APIServer}, everything...) {
		fmt.Print(" ", c.PID(component))
	}
	fmt.Println()
	select {}
}

func TestNothingOutlivesAKilledProcess(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), helperEnv+"=1")
	cmd.Stderr = os.Stderr
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatalf("the helper printed %q: %v", line, err)
	}
	fields := strings.Fields(line)
	if len(fields) != 6 {
		t.Fatalf("the helper printed %q", line)
	}
	var pids []int
	for _, field := range fields[1:] {
		pid, err := strconv.Atoi(field)
		if err != nil || !alive(pid) {
			t.Fatalf("process %q of the helper's cluster does not run (%v)", field, err)
		}
		pids = append(pids, pid)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	eventually(t, "processes of a killed process", func(context.Context) error {
		for _, pid := range pids {
			if alive(pid) {
				return fmt.Errorf("process %d still runs", pid)
			}
		}
		return nil
	})

	// What it left on the disk goes with the next start.
	start(t, "next", controlplane.Options{})
	if _, err := os.Stat(fields[0]); !os.IsNotExist(err) {
		t.Errorf("the killed process's folder after the next start: %v", err)
	}
}

// alive tells whether a process runs; one that only waits to be reaped does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return !os.IsNotExist(err)
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}
