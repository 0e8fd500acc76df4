//go:build unix

package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// Proxy stands between Isthmus and a cluster and breaks connections on demand.
type Proxy struct {
	// Kubeconfig is this test's user's, with the proxy's address.
	Kubeconfig string

	t     testing.TB
	proxy *toxiproxy.Proxy
}

// newProxy puts a proxy in front of a cluster, which lets all through until the test's end.
func newProxy(t testing.TB, side *Side) *Proxy {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := &Proxy{t: t, proxy: toxiproxy.NewProxy(server, side.Name(), "127.0.0.1:0", strings.TrimPrefix(side.URL(), "https://"))}
	p.Mend()
	t.Cleanup(p.Cut)
	return p
}

// URL is where the proxy listens, as an API server's address.
func (p *Proxy) URL() string { return "https://" + p.proxy.Listen }

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

// Cut ends all connections and takes no new ones.
func (p *Proxy) Cut() { p.proxy.Stop() }

// Mend lets connections through again.
func (p *Proxy) Mend() {
	p.t.Helper()
	if err := p.proxy.Start(); err != nil {
		p.t.Fatalf("proxy: %v", err)
	}
}

// LoseAnswers lets requests through and swallows what is answered, until Answer.
func (p *Proxy) LoseAnswers() {
	p.t.Helper()
	if _, err := p.proxy.Toxics.AddToxicJson(strings.NewReader(`{"name": "lost", "type": "timeout", "stream": "downstream", "attributes": {"timeout": 0}}`)); err != nil {
		p.t.Fatalf("proxy: %v", err)
	}
}

// Answer ends LoseAnswers, and with it the connections on which answers were lost.
func (p *Proxy) Answer() {
	p.t.Helper()
	if err := p.proxy.Toxics.RemoveToxic(context.Background(), "lost"); err != nil {
		p.t.Fatalf("proxy: %v", err)
	}
}

// Delay makes everything that the cluster says arrive later, from now on; what it is told arrives at once.
func (p *Proxy) Delay(by time.Duration) {
	p.t.Helper()
	toxic := fmt.Sprintf(`{"name": "late", "type": "latency", "stream": "downstream", "attributes": {"latency": %d}}`, by.Milliseconds())
	if _, err := p.proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
		p.t.Fatalf("proxy: %v", err)
	}
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
