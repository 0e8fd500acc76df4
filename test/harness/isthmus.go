//go:build unix

package harness

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"isthmus.dev/isthmus/internal/controlplane"
	"isthmus.dev/isthmus/internal/observe/logtest"
)

// Isthmus is a running isthmus sync.
type Isthmus struct {
	// Config is the path of its configuration.
	Config string

	env    *Env
	cmd    *exec.Cmd
	listen string
	pid    int // of the process itself, where a host started it; 0: it is cmd's
	done   chan struct{}

	log logtest.Log
}

// Start options.
type StartOptions struct {
	// Flags are added to the command line, and win.
	Flags []string
	// Config is the path of a file that holds the configuration already; empty: one is written.
	Config string
	// LocalKubeconfig and RemoteKubeconfig replace those of the test's user.
	LocalKubeconfig, RemoteKubeconfig string
	// NoRBAC leaves the RBAC as it is.
	NoRBAC bool
	// NotReady does not wait until it is ready.
	NotReady bool
}

// remoteID is the cluster ID of the remote side in all tests.
const remoteID = "remote"

// User is the name of the user that this test's Isthmus runs as, on both sides.
func (e *Env) User() string { return "isthmus-" + e.ID }

// Start runs isthmus with a configuration, as a user that holds the RBAC that it generates for it and nothing else, and
// waits until it is ready.
func (e *Env) Start(config string) *Isthmus {
	e.T.Helper()
	return e.StartWith(config, StartOptions{})
}

// StartWith is Start with options.
func (e *Env) StartWith(config string, o StartOptions) *Isthmus {
	e.T.Helper()
	file := o.Config
	if file == "" {
		file = e.WriteConfig(config)
	}
	e.Allow(config)
	e.elects = e.elects || slices.Contains(o.Flags, "--leader-elect")
	if !o.NoRBAC {
		e.GrantRBAC(file)
	}
	if o.LocalKubeconfig == "" {
		o.LocalKubeconfig = e.Local.userKubeconfig(e.User())
	}
	if o.RemoteKubeconfig == "" {
		o.RemoteKubeconfig = e.Remote.userKubeconfig(e.User())
	}
	p := e.process()
	p.Config = file
	p.launch(append([]string{
		"sync", "--config", file, "--local-kubeconfig", o.LocalKubeconfig, "--remote-kubeconfig", o.RemoteKubeconfig,
		"--cluster-id", e.ID, "--remote-id", remoteID, "--instance", e.ID, "--listen", p.listen,
	}, o.Flags...))
	e.running = append(e.running, p)
	if !o.NotReady {
		p.WaitReady()
	}
	return p
}

// process prepares an isthmus; launch starts it.
func (e *Env) process() *Isthmus {
	return &Isthmus{env: e, listen: freeAddress(e), done: make(chan struct{})}
}

func (p *Isthmus) launch(args []string) {
	p.env.T.Helper()
	p.cmd = exec.Command(Binary(p.env.T), args...)
	p.cmd.Stdout, p.cmd.Stderr = p, p
	p.cmd.SysProcAttr = childAttributes()
	if err := p.cmd.Start(); err != nil {
		p.env.T.Fatalf("start isthmus: %v", err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
}

// WriteConfig writes a configuration to a file and returns its path.
func (e *Env) WriteConfig(config string) string {
	e.T.Helper()
	file := filepath.Join(e.dir, fmt.Sprintf("sync-%d.yaml", counter.Add(1)))
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		e.T.Fatal(err)
	}
	return file
}

// Reconfigure replaces the process's configuration in one step, after granting what the new one needs. It does not wait
// until it is in force.
func (p *Isthmus) Reconfigure(config string) {
	p.env.T.Helper()
	p.env.GrantRBAC(p.env.WriteConfig(config))
	p.ReconfigureOnly(config)
}

// ReconfigureOnly is Reconfigure that leaves the RBAC as it is.
func (p *Isthmus) ReconfigureOnly(config string) {
	p.env.T.Helper()
	p.env.Allow(config)
	if err := os.Rename(p.env.WriteConfig(config), p.Config); err != nil {
		p.env.T.Fatal(err)
	}
}

// GrantRBAC gives this test's user, on both sides, what isthmus rbac says for a configuration.
func (e *Env) GrantRBAC(file string) {
	e.T.Helper()
	for name, side := range map[string]*Side{"local": e.Local, "remote": e.Remote} {
		side.Apply(e.RBAC(file, name))
	}
}

// RBAC returns what isthmus rbac prints for a configuration and a side ("local" or "remote").
func (e *Env) RBAC(file, side string) string {
	e.T.Helper()
	out, code := Run(e.T, "rbac", "--config", file, "--side", side, "--subject-user", e.User(), "--instance", e.ID, fmt.Sprintf("--leader-elect=%t", e.elects))
	if code != 0 {
		e.T.Fatalf("isthmus rbac: exit code %d: %s", code, out)
	}
	return out
}

// Write takes in what the process prints.
func (p *Isthmus) Write(b []byte) (int, error) { return p.log.Write(b) }

// Log returns all that the process has printed.
func (p *Isthmus) Log() string { return p.log.String() }

// WaitReady waits until /readyz answers ok.
func (p *Isthmus) WaitReady() {
	p.env.T.Helper()
	p.env.Eventually(func() error {
		select {
		case <-p.done:
			p.env.T.Fatalf("isthmus ended: %s", tail(p.Log(), 20))
		default:
		}
		code, body := p.get("/readyz")
		if code != http.StatusOK {
			return fmt.Errorf("readyz: %d %s", code, body)
		}
		return nil
	})
}

// Ready returns the status code and the body of /readyz; code 0 means that there was no answer.
func (p *Isthmus) Ready() (code int, body string) { return p.get("/readyz") }

// Address returns the address of its HTTP server.
func (p *Isthmus) Address() string { return "http://" + p.listen }

// Metrics returns the text of /metrics.
func (p *Isthmus) Metrics() string {
	_, body := p.get("/metrics")
	return body
}

// StatusText returns the text of /status.
func (p *Isthmus) StatusText() string {
	_, body := p.get("/status")
	return body
}

// Metric returns the value of a metric's sample, as its line begins: name{labels}; empty when there is none.
func (p *Isthmus) Metric(sample string) string {
	for line := range strings.Lines(p.Metrics()) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), sample+" "); ok {
			return value
		}
	}
	return ""
}

func (p *Isthmus) get(path string) (int, string) {
	client := http.Client{Timeout: 5 * time.Second}
	response, err := client.Get("http://" + p.listen + path)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(body)
}

// Stop sends SIGTERM and checks that the process ends with code 0 within 5 seconds.
func (p *Isthmus) Stop() {
	p.env.T.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		if code := p.cmd.ProcessState.ExitCode(); code != 0 {
			p.env.T.Errorf("isthmus ended with code %d after SIGTERM", code)
		}
	case <-time.After(6 * time.Second):
		p.env.T.Errorf("isthmus still runs 6 seconds after SIGTERM")
		p.Kill()
	}
}

// Kill sends SIGKILL and waits for the end.
func (p *Isthmus) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Pause stops the process for a while (SIGSTOP); Resume lets it go on.
func (p *Isthmus) Pause() { _ = p.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (p *Isthmus) Resume() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }

// Signal sends the process a signal.
func (p *Isthmus) Signal(s os.Signal) { _ = p.cmd.Process.Signal(s) }

// Wait waits for the end of the process and returns its exit code.
func (p *Isthmus) Wait() int {
	p.env.T.Helper()
	select {
	case <-p.done:
	case <-time.After(Patience):
		p.env.T.Fatalf("isthmus still runs")
	}
	if p.cmd.ProcessState == nil {
		return 0 // a plugin's host, which nobody asks
	}
	return p.cmd.ProcessState.ExitCode()
}

// PID returns the process's ID.
func (p *Isthmus) PID() int { return p.cmd.Process.Pid }

func (p *Isthmus) end() {
	select {
	case <-p.done:
	default:
		p.Resume()
		p.Kill()
	}
}

func freeAddress(e *Env) string {
	address, err := controlplane.FreeAddress()
	if err != nil {
		e.T.Fatal(err)
	}
	return address
}
