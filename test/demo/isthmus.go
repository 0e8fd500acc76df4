//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"isthmus.dev/isthmus/internal/controlplane"
)

// isthmus is a running isthmus sync or isthmus controller.
type isthmus struct {
	cmd     *exec.Cmd
	done    chan struct{}
	address string // of /readyz and /metrics
	logFile string
}

func buildIsthmus(ctx context.Context, binary string) error {
	out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "isthmus.dev/isthmus/cmd/isthmus").CombinedOutput()
	if err != nil {
		return fmt.Errorf("compiling Isthmus: %w\n%s", err, out)
	}
	return nil
}

// startIsthmus grants a user of both clusters what isthmus rbac prints for a configuration, and runs isthmus sync as that
// user. The user's name is the instance's too.
func startIsthmus(ctx context.Context, binary, dir, user string, configuration []byte, local, remote *side) (*isthmus, error) {
	config := filepath.Join(dir, user+".yaml")
	if err := os.WriteFile(config, configuration, 0o600); err != nil {
		return nil, err
	}
	kubeconfigs := map[string]string{}
	for name, s := range map[string]*side{"local": local, "remote": remote} {
		var err error
		if kubeconfigs[name], err = s.UserKubeconfig(user); err != nil {
			return nil, err
		}
		if err := grantRights(ctx, binary, s, user, "--config", config, "--side", name, "--instance", user, "--kubeconfig", s.Kubeconfig()); err != nil {
			return nil, err
		}
	}
	return launch(binary, filepath.Join(dir, user+".log"), "sync", "--config", config,
		"--local-kubeconfig", kubeconfigs["local"], "--remote-kubeconfig", kubeconfigs["remote"], "--instance", user,
		"--cluster-id", local.Name(), "--remote-id", remote.Name())
}

// grantRights gives a user on a cluster, or a service account NAMESPACE/NAME of it, what isthmus rbac prints.
func grantRights(ctx context.Context, binary string, on *side, user string, flags ...string) error {
	subject := "--subject-user"
	if strings.Contains(user, "/") {
		subject = "--subject-serviceaccount"
	}
	if err := on.ApplyOutput(ctx, exec.CommandContext(ctx, binary, append([]string{"rbac", subject, user}, flags...)...)); err != nil {
		return fmt.Errorf("isthmus rbac %s: %w", strings.Join(flags, " "), err)
	}
	return nil
}

// launch starts an Isthmus, which listens at an address of its own.
func launch(binary, logFile string, args ...string) (*isthmus, error) {
	p := &isthmus{done: make(chan struct{}), logFile: logFile}
	var err error
	if p.address, err = controlplane.FreeAddress(); err != nil {
		return nil, err
	}
	log, err := os.Create(p.logFile)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = exec.Command(binary, append(args, "--listen", p.address)...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = childAttributes()
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// ready returns nil when Isthmus is ready, else what it says.
func (p *isthmus) ready(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+"/readyz", nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(strings.TrimSpace(string(body)))
	}
	return err
}

// running returns an error when the process has ended.
func (p *isthmus) running() error {
	select {
	case <-p.done:
		return fmt.Errorf("isthmus has ended: %s", p.cmd.ProcessState)
	default:
		return nil
	}
}

// stopsCleanly stops each Isthmus as a cluster would.
func stopsCleanly(ctx context.Context, w *world) error {
	var errs []error
	for _, p := range w.isthmuses() {
		errs = append(errs, p.stop(ctx))
	}
	return errors.Join(errs...)
}

func (p *isthmus) stop(ctx context.Context) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.done:
	case <-time.After(5 * time.Second):
		return errors.New("it still runs")
	case <-ctx.Done():
		return ctx.Err()
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("it ended with code %d", code)
	}
	return nil
}

func (p *isthmus) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// lastLines returns the end of the log.
func (p *isthmus) lastLines(n int) string {
	content, err := os.ReadFile(p.logFile)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(content), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
