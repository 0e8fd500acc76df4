//go:build unix

package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Proxy is a line between Isthmus and a cluster, of a test that fails where the line does.
type Proxy struct {
	*Line
	// Kubeconfig is this test's user's, with the proxy's address.
	Kubeconfig string

	t testing.TB
}

// newProxy puts a proxy in front of a cluster, which lets all through until the test's end.
func newProxy(t testing.TB, side *Side) *Proxy {
	t.Helper()
	line, err := NewLine(side.Name(), strings.TrimPrefix(side.URL(), "https://"))
	p := &Proxy{Line: line, t: t}
	p.must(err)
	t.Cleanup(p.Cut)
	return p
}

func (p *Proxy) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatalf("proxy: %v", err)
	}
}

// Proxy puts a proxy in front of a side.
func (e *Env) Proxy(side *Side) *Proxy {
	e.T.Helper()
	p := newProxy(e.T, side)
	p.Kubeconfig = e.CopyKubeconfig(side)
	content, err := os.ReadFile(p.Kubeconfig)
	if err != nil {
		e.T.Fatal(err)
	}
	proxied := strings.ReplaceAll(string(content), side.URL(), p.URL())
	if err := os.WriteFile(p.Kubeconfig, []byte(proxied), 0o600); err != nil {
		e.T.Fatal(err)
	}
	return p
}

// Mend is that of Line, as are the others.
func (p *Proxy) Mend() {
	p.t.Helper()
	p.must(p.Line.Mend())
}

// LoseAnswers is that of Line.
func (p *Proxy) LoseAnswers() {
	p.t.Helper()
	p.must(p.Line.LoseAnswers())
}

// Answer is that of Line.
func (p *Proxy) Answer() {
	p.t.Helper()
	p.must(p.Line.Answer())
}

// Delay is that of Line.
func (p *Proxy) Delay(by time.Duration) {
	p.t.Helper()
	p.must(p.Line.Delay(by))
}

// CopyKubeconfig copies the kubeconfig of this test's user on a side to a file that outlives the cluster, and that the
// test may change.
func (e *Env) CopyKubeconfig(side *Side) string {
	e.T.Helper()
	path := filepath.Join(e.dir, fmt.Sprintf("kubeconfig-%d", counter.Add(1)))
	e.ReplaceKubeconfig(path, side.userKubeconfig(e.User()))
	return path
}

// ReplaceKubeconfig replaces a kubeconfig file in one step by a copy of another one.
func (e *Env) ReplaceKubeconfig(path, by string) {
	e.T.Helper()
	content, err := os.ReadFile(by)
	if err == nil {
		err = os.WriteFile(path+".new", content, 0o600)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		e.T.Fatal(err)
	}
}
