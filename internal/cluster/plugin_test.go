package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// What a plugin complains about is in the error, and no secret of it (F4).
func TestF4_AccessPluginsComplaintIsTold(t *testing.T) {
	s := newServer(t, "t", namespaceAnswer)
	user := pluginUser("say no such account; token=abc.def-9 Bearer xyz12345 eyJhbGciOiJSUzI1.eyJzdWIi.c2ln env: hunter2-long 0123456789abcdef0123456789abcdef")
	user.Exec.Env = append(user.Exec.Env, clientcmdapi.ExecEnvVar{Name: "PASS", Value: "hunter2-long"})
	c, log := connect(t, writeKubeconfig(t, "", kubeconfig(s.URL, s.ca(), user)))
	// The variable that makes it complain holds all of the text.
	pluginOf(c).exec.Env = pluginOf(c).exec.Env[1:]
	t.Setenv(pluginEnv, user.Exec.Env[0].Value)
	_, err := c.UID(t.Context())
	if Reason(err) != ReasonCredentialPlugin {
		t.Fatalf("%v: %s", err, Reason(err))
	}
	for _, want := range []string{os.Args[0], "exit status 3", "no such account", "token=[hidden]", "Bearer [hidden]", "env: [hidden]"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
	for _, secret := range []string{"abc.def-9", "xyz12345", "c2ln", "hunter2-long", "0123456789abcdef"} {
		if strings.Contains(err.Error()+log.String(), secret) {
			t.Errorf("%q holds %q", err.Error()+log.String(), secret)
		}
	}
	if s.count() > 0 {
		t.Error("a request was sent without a credential")
	}
}

func TestAccessPluginThatHangsIsEnded(t *testing.T) {
	s := newServer(t, "t", namespaceAnswer)
	c, _ := connect(t, writeKubeconfig(t, "", kubeconfig(s.URL, s.ca(), pluginUser("hang"))))
	pluginOf(c).timeout = 300 * time.Millisecond
	_, err := c.UID(t.Context())
	if Reason(err) != ReasonCredentialPlugin || !strings.Contains(err.Error(), "did not answer within 300ms") {
		t.Fatalf("%v: %s", err, Reason(err))
	}
}

func TestUnusableAccessPlugins(t *testing.T) {
	s := newServer(t, "t", namespaceAnswer)
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	missing := pluginUser("x")
	missing.Exec.Command, missing.Exec.InstallHint = "isthmus-no-such-plugin", "install it with apt"
	echo := pluginUser("x")
	echo.Exec.Command, echo.Exec.Args = "echo", []string{"secret-token", "$(touch", dir + "/shell)"}
	for want, user := range map[string]clientcmdapi.AuthInfo{
		"is not on this machine: install it with apt":             missing,
		"something else than an ExecCredential":                   echo,
		"neither a token nor a client certificate":                pluginUser(file("nothing", "{}")),
		"a credential that ended at 2020-01-01T00:00:00Z":         pluginUser(file("old", `{"token": "t", "expirationTimestamp": "2020-01-01T00:00:00Z"}`)),
		"client certificate and a key that are of no use: tls: f": pluginUser(file("cert", `{"clientCertificateData": "x", "clientKeyData": "secret-token"}`)),
	} {
		c, log := connect(t, writeKubeconfig(t, "", kubeconfig(s.URL, s.ca(), user)))
		_, err := c.UID(t.Context())
		if Reason(err) != ReasonCredentialPlugin || !strings.Contains(err.Error(), want) {
			t.Errorf("%v (%s), want %q", err, Reason(err), want)
		}
		if strings.Contains(err.Error()+log.String(), "secret-token") {
			t.Errorf("what the plugin returned is quoted: %v", err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "shell)")); err == nil {
		t.Error("a shell was run")
	}
}

// A credential with an end is replaced before it is refused.
func TestAccessPluginsCredentialThatEnds(t *testing.T) {
	s := newServer(t, "one", namespaceAnswer)
	path := filepath.Join(t.TempDir(), "status")
	write := func(token string, ends time.Time) {
		text, _ := json.Marshal(map[string]any{"token": token, "expirationTimestamp": ends.UTC().Format(time.RFC3339)})
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one", time.Now().Add(time.Hour))
	c, _ := connect(t, writeKubeconfig(t, "", kubeconfig(s.URL, s.ca(), pluginUser(path))))
	for range 2 {
		if _, err := c.UID(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	write("two", time.Now().Add(3*time.Hour))
	p := pluginOf(c)
	p.mu.Lock()
	p.now = func() time.Time { return time.Now().Add(time.Hour - 5*time.Second) }
	p.mu.Unlock()
	s.accept("two")
	if _, err := c.UID(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := s.count(); n != 3 {
		t.Errorf("%d requests for 3 calls: the old token was still used", n)
	}
}

// One run serves all who wait for it, and a refusal of many requests at once is one more run.
func TestAccessPluginIsRunOnceForAll(t *testing.T) {
	s := newServer(t, "old", namespaceAnswer)
	dir := t.TempDir()
	token, script := filepath.Join(dir, "token"), filepath.Join(dir, "plugin")
	write := func(path, text string, mode os.FileMode) {
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write(token, "old", 0o600)
	write(script, "#!/bin/sh\necho run >> "+dir+"/runs\nsleep 0.3\nexec "+os.Args[0]+"\n", 0o700)
	user := pluginUser(token)
	user.Exec.Command = script
	c, _ := connect(t, writeKubeconfig(t, "", kubeconfig(s.URL, s.ca(), user)))
	all := func() {
		var wait sync.WaitGroup
		for range 20 {
			wait.Go(func() {
				if _, err := c.UID(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
	}
	all()
	write(token, "new", 0o600)
	s.accept("new")
	all()
	runs, err := os.ReadFile(filepath.Join(dir, "runs"))
	if n := strings.Count(string(runs), "run"); err != nil || n != 2 {
		t.Errorf("%d runs, want 2 (%v)", n, err)
	}
}

// A client certificate that a plugin replaces is shown on connections of its own.
func TestAccessPluginsCertificateIsReplaced(t *testing.T) {
	var mu sync.Mutex
	accepted, seen := "one", []string{}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		name := r.TLS.PeerCertificates[0].Subject.CommonName
		seen = append(seen, name)
		w.Header().Set("Content-Type", "application/json")
		if name != accepted {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		namespaceAnswer(w, r)
	}))
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	s.StartTLS()
	defer s.Close()
	path := filepath.Join(t.TempDir(), "status")
	write := func(name string) {
		cert, key := clientPair(t, name)
		text, _ := json.Marshal(map[string]any{"clientCertificateData": cert, "clientKeyData": key})
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	ca := (&server{Server: s}).ca()
	c, _ := connect(t, writeKubeconfig(t, "", kubeconfig(s.URL, ca, pluginUser(path))))
	for _, next := range []string{"one", "two"} {
		write(next)
		mu.Lock()
		accepted = next
		mu.Unlock()
		if _, err := c.UID(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if text := strings.Join(seen, " "); text != "one one two" {
		t.Errorf("shown: %s", text)
	}
}

func clientPair(t *testing.T, name string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: text}))
}

// A plugin is told which cluster it is for, where that is asked for.
func TestAccessPluginIsToldTheCluster(t *testing.T) {
	s := newServer(t, "t", namespaceAnswer)
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte("t"), 0o600); err != nil {
		t.Fatal(err)
	}
	user := pluginUser(path)
	user.Exec.ProvideClusterInfo = true
	file := kubeconfig(s.URL, s.ca(), user)
	file.Clusters["c"].Extensions = map[string]runtime.Object{"client.authentication.k8s.io/exec": &runtime.Unknown{Raw: []byte(`{"clusterName":"paris"}`), ContentType: runtime.ContentTypeJSON}}
	c, _ := connect(t, writeKubeconfig(t, "", file))
	if _, err := c.UID(t.Context()); err != nil {
		t.Fatal(err)
	}
	info, err := os.ReadFile(path + ".info")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"apiVersion":"client.authentication.k8s.io/v1"`, `"server":"` + s.URL, `"config":{"clusterName":"paris"}`, `"interactive":false`} {
		if !strings.Contains(string(info), want) {
			t.Errorf("%s lacks %s", info, want)
		}
	}
}
