package cluster

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// F6, row 401: refresh the credential, then retry.
func TestF6_RotatedTokenIsUsedAtOnce(t *testing.T) {
	var bodies []string
	s := newServer(t, "old", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(body))
		_, _ = w.Write([]byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"}}`))
	})
	path := writeKubeconfig(t, "", kubeconfig(s.URL, s.ca(), withToken("old")))
	c, log := connect(t, path)
	patch := func() error {
		_, err := c.Dynamic().Resource(configMaps).Namespace("x").Patch(t.Context(), "a", types.MergePatchType, []byte(`{"data":{}}`), metav1.PatchOptions{})
		return err
	}
	if err := patch(); err != nil {
		t.Fatal(err)
	}
	s.accept("new")
	if err := patch(); !apierrors.IsUnauthorized(err) {
		t.Fatalf("before the rotation: %v", err)
	}
	if h := c.Health(); h.Reached || Reason(h.Err) != ReasonUnauthorized {
		t.Errorf("health before the rotation: %+v", h)
	}
	writeKubeconfig(t, path, kubeconfig(s.URL, s.ca(), withToken("new")))
	later(c, failureGap)
	if err := patch(); err != nil {
		t.Fatalf("after the rotation: %v", err)
	}
	if h := c.Health(); !h.Reached {
		t.Errorf("health after the rotation: %+v", h)
	}
	if len(bodies) != 2 || bodies[1] != `{"data":{}}` {
		t.Errorf("what arrived: %q", bodies)
	}
	if c.Epoch() != 1 {
		t.Errorf("epoch %d, want 1", c.Epoch())
	}
	if text := log.String(); strings.Contains(text, "old") || strings.Contains(text, "new\"") {
		t.Errorf("a token was logged:\n%s", text)
	}
}

func TestRefusalsDoNotMultiply(t *testing.T) {
	s := newServer(t, "right", namespaceAnswer)
	c, _ := connect(t, writeKubeconfig(t, "", kubeconfig(s.URL, s.ca(), withToken("wrong"))))
	for range 5 {
		if _, err := c.UID(t.Context()); !apierrors.IsUnauthorized(err) {
			t.Fatal(err)
		}
	}
	if n := s.count(); n != 5 {
		t.Errorf("%d requests for 5 calls", n)
	}
}

func TestRotationIsNoticedBeforeARefusal(t *testing.T) {
	s := newServer(t, "", namespaceAnswer)
	path := writeKubeconfig(t, "", kubeconfig(s.URL, s.ca(), withToken("old")))
	c, _ := connect(t, path)
	if _, err := c.UID(t.Context()); err != nil {
		t.Fatal(err)
	}
	writeKubeconfig(t, path, kubeconfig(s.URL, s.ca(), withToken("new")))
	later(c, lookEvery)
	s.accept("new")
	if _, err := c.UID(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := s.count(); n != 2 {
		t.Errorf("%d requests, want 2: the new token was not used at the first", n)
	}
}

func TestTokenFileIsFollowed(t *testing.T) {
	s := newServer(t, "old", namespaceAnswer)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("old\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, _ := connect(t, writeKubeconfig(t, "", kubeconfig(s.URL, s.ca(), clientcmdapi.AuthInfo{TokenFile: token})))
	if _, err := c.UID(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.accept("new")
	if err := os.WriteFile(token, []byte("new\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.UID(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestMovedServerIsFollowed(t *testing.T) {
	watching := make(chan struct{})
	old := newServer(t, "", func(w http.ResponseWriter, r *http.Request) {
		if isWatch(r) {
			w.(http.Flusher).Flush()
			close(watching)
			<-r.Context().Done()
			return
		}
		namespaceAnswer(w, r)
	})
	var paths []string
	next := newServer(t, "", func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.URL.Path)
		namespaceAnswer(w, r)
	})
	path := writeKubeconfig(t, "", kubeconfig(old.URL+"/clusters/a", old.ca(), withToken("t")))
	c, _ := connect(t, path)
	w, err := c.Metadata().Resource(namespaces).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	<-watching
	writeKubeconfig(t, path, kubeconfig(next.URL+"/b", next.ca(), withToken("t")))
	later(c, lookEvery)
	if _, err := c.UID(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := "/b/api/v1/namespaces/kube-system"; len(paths) != 1 || paths[0] != want {
		t.Errorf("the new server saw %q, want %q", paths, want)
	}
	if c.Server() != next.URL+"/b" {
		t.Errorf("Server() = %s", c.Server())
	}
	for range w.ResultChan() { // ends, because the old server's watch was ended
	}
}

func TestBrokenConfigurationKeepsTheOldOne(t *testing.T) {
	s := newServer(t, "", namespaceAnswer)
	good := kubeconfig(s.URL, s.ca(), withToken("t"))
	path := writeKubeconfig(t, "", good)
	c, log := connect(t, path)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"", "{", "kind: Config\n", string(whole[:len(whole)/2]), "apiVersion: v1\nkind: Config\ncurrent-context: other\n"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			later(c, lookEvery)
			if _, err := c.UID(t.Context()); err != nil {
				t.Errorf("with %q: %v", content, err)
			}
		}
	}
	if c.Epoch() != 0 {
		t.Errorf("a broken configuration was taken over")
	}
	if n := strings.Count(log.String(), "can't be read again"); n < 3 || n > 5 {
		t.Errorf("told %d times:\n%s", n, log)
	}
}

func TestAnotherCurrentContextMovesNothing(t *testing.T) {
	s := newServer(t, "", namespaceAnswer)
	file := kubeconfig(s.URL, s.ca(), withToken("t"))
	file.Clusters["other"] = &clientcmdapi.Cluster{Server: "https://127.0.0.1:1"}
	file.Contexts["other"] = &clientcmdapi.Context{Cluster: "other", AuthInfo: "u"}
	path := writeKubeconfig(t, "", file)
	c, _ := connect(t, path)
	file.CurrentContext = "other"
	writeKubeconfig(t, path, file)
	later(c, lookEvery)
	if _, err := c.UID(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c.Server() != s.URL {
		t.Errorf("moved to %s", c.Server())
	}
}

func TestAccessPluginIsAskedAgain(t *testing.T) {
	s := newServer(t, "old", namespaceAnswer)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, _ := connect(t, writeKubeconfig(t, "", kubeconfig(s.URL, s.ca(), pluginUser(token))))
	if _, err := c.UID(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(token, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.accept("new")
	if _, err := c.UID(t.Context()); err != nil {
		t.Fatalf("a fresh token was not used: %v", err)
	}
	s.accept("none of these")
	frozen := time.Now()
	pluginOf(c).now = func() time.Time { return frozen } // the plugin may take its time
	before := s.count()
	for range 5 {
		if _, err := c.UID(t.Context()); !apierrors.IsUnauthorized(err) {
			t.Fatal(err)
		}
	}
	if n := s.count() - before; n != 6 {
		t.Errorf("%d requests for 5 calls, want one repetition", n)
	}
}

func TestHangingAccessPluginHoldsNobody(t *testing.T) {
	s := newServer(t, "t", namespaceAnswer)
	c, _ := connect(t, writeKubeconfig(t, "", kubeconfig(s.URL, s.ca(), pluginUser("hang"))))
	c.transport.timeout = 200 * time.Millisecond
	for range 3 {
		if _, err := c.UID(t.Context()); Reason(err) != ReasonTimeout {
			t.Fatalf("%v: %s", err, Reason(err))
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.UID(ctx); Reason(err) != ReasonCanceled {
		t.Fatal(err)
	}
}

func pluginUser(token string) clientcmdapi.AuthInfo {
	return clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
		APIVersion: "client.authentication.k8s.io/v1", Command: os.Args[0], InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
		Env: []clientcmdapi.ExecEnvVar{{Name: pluginEnv, Value: token}},
	}}
}

func TestAddress(t *testing.T) {
	for _, tc := range []struct{ base, server, in, want string }{
		{"https://a:1", "https://a:1", "https://a:1/api?x=1", "https://a:1/api?x=1"},
		{"https://a:1", "http://b:2/p", "https://a:1/api/v1/x%2Fy?x=1", "http://b:2/p/api/v1/x%2Fy?x=1"},
		{"https://a:1/old", "https://b:2", "https://a:1/old/api", "https://b:2/api"},
		{"https://a:1/old%2F1", "https://b:2/new%2F2", "https://a:1/old%2F1/api", "https://b:2/new%2F2/api"},
	} {
		rt := &reloading{base: mustURL(t, tc.base)}
		conn := &connection{settings: &settings{server: mustURL(t, tc.server)}}
		if got := rt.address(conn, mustURL(t, tc.in)).String(); got != tc.want {
			t.Errorf("%s moved from %s to %s: %s, want %s", tc.in, tc.base, tc.server, got, tc.want)
		}
	}
}

func mustURL(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
