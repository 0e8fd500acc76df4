//go:build unix

// Package quickstart follows docs/quick-start.md, command by command, on two real control planes.
package quickstart

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"isthmus.dev/isthmus/internal/controlplane"
	"isthmus.dev/isthmus/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// What the page says to type works as it stands, in its order.
func TestQuickStart(t *testing.T) {
	text, err := os.ReadFile("../../docs/quick-start.md")
	if err != nil {
		t.Fatal(err)
	}
	configuration, shell := blocks(t, string(text), "yaml")[0], blocks(t, string(text), "sh")
	clusters := startClusters(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "sync.yaml"), configuration)
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"isthmus": harness.Binary(t), "kubectl": clusters[0].Binaries().Path(controlplane.Kubectl)} {
		if err := os.Symlink(target, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	admin := filepath.Join(dir, "admin.kubeconfig")
	command := func(ctx context.Context, script string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "sh", "-e", "-c", script)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"),
			"KUBECONFIG="+admin+":"+clusters[0].Kubeconfig()+":"+clusters[1].Kubeconfig(), "HOME="+dir)
		return cmd
	}
	running := false
	for _, script := range shell {
		if strings.HasPrefix(script, "isthmus sync") {
			// In a terminal of its own, on a free port; sh becomes isthmus, so that the end of the test ends it.
			cmd := command(t.Context(), "exec "+strings.Replace(script, "127.0.0.1:8080", "127.0.0.1:0", 1))
			var log strings.Builder
			cmd.Stderr = &log
			harness.Tie(cmd)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
				if t.Failed() {
					t.Log(log.String())
				}
			})
			running = true
			continue
		}
		// What crosses takes a moment, so what is shown is asked for until it is there.
		deadline := time.Now().Add(harness.Patience)
		for {
			out, err := command(t.Context(), script).CombinedOutput()
			if err == nil {
				t.Logf("%s\n%s", script, out)
				break
			}
			if !strings.Contains(script, " get ") || time.Now().After(deadline) {
				t.Fatalf("%s\n%v\n%s", script, err, out)
			}
		}
	}
	if !running {
		t.Error("the page does not run isthmus")
	}
	out, err := command(t.Context(), "kubectl --context provider -n tenant-42-team-a get configmap latency -o yaml").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "isthmus.dev/source: team-a/latency") {
		t.Errorf("%v\n%s", err, out)
	}
	// The kubeconfigs hold nothing of the administrator.
	for _, name := range []string{"consumer", "provider"} {
		content, err := os.ReadFile(filepath.Join(dir, name+".kubeconfig"))
		if err != nil || strings.Contains(string(content), "client-key") || !strings.Contains(string(content), "token:") {
			t.Errorf("%s.kubeconfig: %v\n%s", name, err, content)
		}
	}
}

func startClusters(t *testing.T) [2]*controlplane.Cluster {
	t.Helper()
	var clusters [2]*controlplane.Cluster
	var errs [2]error
	var starting sync.WaitGroup
	for i, name := range []string{"consumer", "provider"} {
		starting.Go(func() { clusters[i], errs[i] = controlplane.Start(t.Context(), name, controlplane.Options{}) })
	}
	starting.Wait()
	for i, c := range clusters {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		t.Cleanup(c.Stop)
	}
	return clusters
}

// blocks returns the fenced code blocks of a language.
func blocks(t *testing.T, page, language string) (all []string) {
	t.Helper()
	for _, part := range strings.Split(page, "```"+language+"\n")[1:] {
		text, _, ok := strings.Cut(part, "```")
		if !ok {
			t.Fatal(fmt.Errorf("a code block has no end: %.80s", part))
		}
		all = append(all, text)
	}
	if len(all) == 0 {
		t.Fatalf("the page has no %s block", language)
	}
	return all
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
