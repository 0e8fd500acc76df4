package cluster

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"isthmus.dev/isthmus/internal/controlplane"
	"isthmus.dev/isthmus/internal/observe/logtest"
)

// pluginEnv makes this test binary an access plugin. See pretend.
const pluginEnv = "ISTHMUS_TEST_ACCESS_PLUGIN"

func TestMain(m *testing.M) {
	if what := os.Getenv(pluginEnv); what != "" {
		pretend(what)
	}
	controlplane.Main(m)
}

// pretend is an access plugin: what is "hang", "say TEXT", or the file of what it returns: an ExecCredential's status in
// JSON, or a token.
func pretend(what string) {
	if what == "hang" {
		time.Sleep(time.Minute) // longer than its caller waits
		os.Exit(0)
	}
	if text, ok := strings.CutPrefix(what, "say "); ok {
		fmt.Fprintln(os.Stderr, text)
		os.Exit(3)
	}
	content, err := os.ReadFile(what)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var status map[string]any
	if json.Unmarshal(content, &status) != nil {
		status = map[string]any{"token": string(content)}
	}
	_ = os.WriteFile(what+".info", []byte(os.Getenv("KUBERNETES_EXEC_INFO")), 0o600)
	if n, err := os.Stdin.Read(make([]byte, 1)); n > 0 || err != io.EOF {
		fmt.Fprintln(os.Stderr, "there is standard input")
		os.Exit(1)
	}
	_ = json.NewEncoder(os.Stdout).Encode(map[string]any{
		"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status,
	})
	os.Exit(0)
}

func pluginOf(c *Cluster) *plugin { return c.transport.current.Load().rt.(*plugged).plugin }

// server is a TLS server that stands for an API server as far as transport goes.
type server struct {
	*httptest.Server
	mu      sync.Mutex
	token   string
	calls   int
	handler http.HandlerFunc
}

func newServer(t *testing.T, token string, handler http.HandlerFunc) *server {
	s := &server{token: token, handler: handler}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.calls++
		accepted := s.token == "" || r.Header.Get("Authorization") == "Bearer "+s.token
		s.mu.Unlock()
		w.Header().Set("Audit-Id", "a")
		w.Header().Set("Content-Type", "application/json")
		if !accepted {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized","code":401}`)
			return
		}
		s.handler(w, r)
	}))
	s.EnableHTTP2 = true
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func (s *server) accept(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = token
}

func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func (s *server) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

// namespaceAnswer answers a GET of a namespace's metadata.
func namespaceAnswer(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprint(w, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"kube-system","uid":"u1"}}`)
}

// kubeconfig returns a kubeconfig with one context named "c".
func kubeconfig(url string, ca []byte, user clientcmdapi.AuthInfo) *clientcmdapi.Config {
	file := clientcmdapi.NewConfig()
	file.Clusters["c"] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: ca}
	file.AuthInfos["u"] = &user
	file.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	file.CurrentContext = "c"
	return file
}

func writeKubeconfig(t *testing.T, path string, file *clientcmdapi.Config) string {
	t.Helper()
	if path == "" {
		path = filepath.Join(t.TempDir(), "kubeconfig")
	}
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func withToken(token string) clientcmdapi.AuthInfo { return clientcmdapi.AuthInfo{Token: token} }

func connect(t *testing.T, path string) (*Cluster, *logtest.Log) {
	t.Helper()
	log := &logtest.Log{}
	c, err := Connect(Options{Role: "remote", Kubeconfig: path, UserAgent: "isthmus-test",
		Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.transport.CloseIdleConnections)
	return c, log
}

// connectAs is connect as a user of a control plane.
func connectAs(t *testing.T, cp *controlplane.Cluster, user string) (*Cluster, *logtest.Log) {
	t.Helper()
	path, err := cp.UserKubeconfig(user)
	if err != nil {
		t.Fatal(err)
	}
	return connect(t, path)
}

// later makes a cluster believe that time has passed.
func later(c *Cluster, d time.Duration) {
	c.transport.mu.Lock()
	defer c.transport.mu.Unlock()
	old := c.transport.now
	c.transport.now = func() time.Time { return old().Add(d) }
}

// eventually waits until cond holds.
func eventually(t *testing.T, within time.Duration, what string, cond func() bool) {
	t.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-deadline.C:
			t.Fatalf("not within %s: %s", within, what)
		case <-tick.C:
		}
	}
}
