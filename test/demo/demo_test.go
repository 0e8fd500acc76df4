//go:build unix

package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"isthmus.dev/isthmus/internal/config"
)

// Without a terminal the demo checks all that it shows, says how many checks passed, and leaves nothing running.
func TestDemo(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "demo")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	temp := t.TempDir()
	cmd := exec.CommandContext(ctx, binary)
	mark := "TMPDIR=" + temp // every process of the demo inherits it
	cmd.Env = append(os.Environ(), mark)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("the demo: %v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	last := strings.Fields(lines[len(lines)-1]) // demo: N of N checks passed
	if len(last) != 6 || last[0] != "demo:" || last[1] != last[3] || last[1] == "0" {
		t.Errorf("the last line is %q", lines[len(lines)-1])
	}
	for _, part := range []string{"spec out, status back", "left alone", "in the project acme; the provider's operation is kept", "spec and status in", "consumer-shop   Ready", "the link is down        10.94.0.2", "another-agent      False   LockHeld"} {
		if !strings.Contains(string(out), part) {
			t.Errorf("the table does not say %q:\n%s", part, out)
		}
	}
	if left := processesWith(mark); len(left) > 0 {
		t.Errorf("these still run: %q", left)
	}
	if left, _ := filepath.Glob(filepath.Join(temp, "isthmus-demo-*")); len(left) > 0 {
		t.Errorf("these files are left: %q", left)
	}
}

// processesWith returns the command lines of the processes whose environment holds an entry, where the system tells.
func processesWith(entry string) (commands []string) {
	environments, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range environments {
		if environment, err := os.ReadFile(path); err == nil && strings.Contains(string(environment)+"\x00", entry+"\x00") {
			command, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
			commands = append(commands, strings.ReplaceAll(string(command), "\x00", " "))
		}
	}
	return commands
}

func TestProcessesAreFound(t *testing.T) {
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		return // this system does not tell
	}
	cmd := exec.Command("sleep", "60")
	mark := "ISTHMUS_DEMO_TEST=" + t.TempDir()
	cmd.Env = append(os.Environ(), mark)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if found := processesWith(mark); len(found) != 1 || !strings.Contains(found[0], "sleep 60") {
		t.Errorf("found %q", found)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// What fails is counted and shown, and does not keep the next step from being tried.
func TestAFailedStepIsCounted(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(log, []byte("one\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	w := &world{out: &out, isthmus: &isthmus{logFile: log}}
	tries := 0
	passed, total := w.runSteps(t.Context(), []step{
		{title: "bad", do: func(context.Context, *world) error { return errors.New("out of cheese") }},
		{title: "good", check: func(context.Context, *world) error {
			if tries++; tries < 3 {
				return errors.New("not yet")
			}
			return nil
		}},
	})
	if passed != 1 || total != 2 || tries != 3 {
		t.Errorf("%d of %d passed after %d tries", passed, total, tries)
	}
	for _, part := range []string{"FAIL  bad", "out of cheese", "two", "ok    good"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("%q is missing in:\n%s", part, out.String())
		}
	}
}

func TestTheConfigurationsAreValid(t *testing.T) {
	for name, rules := range map[string]int{"sync.yaml": 4, "tenant-sync.yaml": 7} {
		if c, err := config.Parse(name, file(name)); err != nil || len(c.Rules) != rules {
			t.Errorf("%s: %v: %v", name, c, err)
		}
	}
}
