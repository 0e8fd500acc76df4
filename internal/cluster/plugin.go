package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientauthentication "k8s.io/client-go/pkg/apis/clientauthentication/v1"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// An access plugin has pluginTimeout for an answer. One whose fresh credential is refused is not given another chance
// before pluginGap, and one that fails not before failureGap.
const (
	pluginTimeout = 20 * time.Second
	pluginGap     = 10 * time.Second
	pluginLinger  = time.Second // what it started may hold its output open for so long
	pluginOutput  = 1 << 20
)

// plugin is an access plugin (an exec plugin of the client authentication API) for one cluster, and what it returned last.
//
// client-go's own is not used: it runs plugins without a time limit, holds all requests meanwhile, writes what they
// complain about to our standard error instead of the error, and keeps one that has no end for good.
type plugin struct {
	exec    *clientcmdapi.ExecConfig
	info    string // KUBERNETES_EXEC_INFO
	timeout time.Duration
	now     func() time.Time

	mu      sync.Mutex
	cred    *credential
	failed  error // of the last run, at failedAt
	failAt  time.Time
	running chan struct{} // closed when the run that is under way is over
	says    *limited      // what that run wrote to standard error
}

// credential is what a plugin returned.
type credential struct {
	token    string
	cert     *tls.Certificate
	obtained time.Time
	ends     time.Time // zero: when it is refused
	worked   atomic.Bool
}

// newPlugin prepares the plugin of a configuration. It runs nothing.
func newPlugin(config *rest.Config) (*plugin, error) {
	e := config.ExecProvider
	switch {
	case config.AuthProvider != nil:
		return nil, errors.New("has an exec plugin and an auth provider: remove one of them")
	case e.Command == "":
		return nil, errors.New("the exec plugin has no command")
	case e.APIVersion != "client.authentication.k8s.io/v1" && e.APIVersion != "client.authentication.k8s.io/v1beta1":
		return nil, fmt.Errorf("the exec plugin %s has apiVersion %q: expected client.authentication.k8s.io/v1 or v1beta1", e.Command, e.APIVersion)
	case e.InteractiveMode == clientcmdapi.AlwaysExecInteractiveMode:
		return nil, fmt.Errorf("the exec plugin %s wants to ask its user something (interactiveMode: Always), and there is none", e.Command)
	}
	info := clientauthentication.ExecCredential{TypeMeta: metav1.TypeMeta{APIVersion: e.APIVersion, Kind: "ExecCredential"}}
	if e.ProvideClusterInfo {
		about, err := rest.ConfigToExecCluster(config)
		if err != nil {
			return nil, err
		}
		info.Spec.Cluster = &clientauthentication.Cluster{
			Server: about.Server, TLSServerName: about.TLSServerName, InsecureSkipTLSVerify: about.InsecureSkipTLSVerify,
			CertificateAuthorityData: about.CertificateAuthorityData, ProxyURL: about.ProxyURL, DisableCompression: about.DisableCompression,
		}
		if about.Config != nil {
			raw, err := json.Marshal(about.Config)
			if err != nil {
				return nil, fmt.Errorf("what the exec plugin is to be told of the cluster: %w", err)
			}
			info.Spec.Cluster.Config = runtime.RawExtension{Raw: raw}
		}
	}
	text, err := json.Marshal(info)
	if err != nil {
		return nil, fmt.Errorf("what the exec plugin is to be told: %w", err)
	}
	return &plugin{exec: e, info: string(text), timeout: pluginTimeout, now: time.Now}, nil
}

// credential returns what the plugin returned last, or runs it, once for all who wait, until life ends.
func (p *plugin) credential(ctx, life context.Context) (*credential, error) {
	for {
		p.mu.Lock()
		now := p.now()
		switch {
		case p.cred != nil && (p.cred.ends.IsZero() || now.Before(p.cred.ends)):
			defer p.mu.Unlock()
			return p.cred, nil
		case p.failed != nil && now.Sub(p.failAt) < failureGap:
			defer p.mu.Unlock()
			return nil, p.failed
		case p.running == nil:
			p.running, p.says = make(chan struct{}), &limited{most: 64 << 10}
			go p.renew(life, p.running, p.says)
		}
		running, says := p.running, p.says
		p.mu.Unlock()
		select {
		case <-running:
		case <-ctx.Done():
			cause := context.Cause(ctx)
			if errors.Is(cause, context.Canceled) {
				return nil, cause
			}
			return nil, p.fail("has not answered yet%s", p.complaint(says))
		}
		p.mu.Lock()
		err := p.failed
		p.mu.Unlock()
		if err != nil {
			return nil, err
		}
	}
}

func (p *plugin) renew(life context.Context, over chan struct{}, says *limited) {
	cred, err := p.run(life, says)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cred, p.failed, p.running = cred, err, nil
	if err != nil {
		p.failAt = p.now()
	}
	close(over)
}

// refused takes in that the server does not accept a credential, and reports whether there is another one to be had.
func (p *plugin) refused(c *credential) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.cred != c:
		return true
	case !c.worked.Load() && p.now().Sub(c.obtained) < pluginGap:
		return false
	}
	p.cred = nil
	return true
}

// run runs the plugin: directly, without a shell, and without standard input. One that is ended takes what it started along.
func (p *plugin) run(life context.Context, stderr *limited) (*credential, error) {
	ctx, cancel := context.WithTimeout(life, p.timeout)
	defer cancel()
	stdout := &limited{most: pluginOutput}
	cmd := exec.CommandContext(ctx, p.exec.Command, p.exec.Args...)
	cmd.Env = os.Environ()
	for _, v := range p.exec.Env {
		cmd.Env = append(cmd.Env, v.Name+"="+v.Value)
	}
	cmd.Env = append(cmd.Env, "KUBERNETES_EXEC_INFO="+p.info)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.WaitDelay = pluginLinger
	endWithChildren(cmd)
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // it ended well, and only left something behind that holds its output open
	}
	var exit *exec.ExitError
	switch {
	case err == nil && stdout.cut:
		return nil, p.fail("returned more than %d bytes", pluginOutput)
	case err == nil:
		return p.read(stdout.bytes())
	case ctx.Err() != nil && life.Err() == nil:
		return nil, p.fail("did not answer within %s%s", p.timeout, p.complaint(stderr))
	case errors.As(err, &exit):
		return nil, p.fail("ended with %s%s", exit.ProcessState, p.complaint(stderr))
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		hint := ""
		if p.exec.InstallHint != "" {
			hint = ": " + p.exec.InstallHint
		}
		return nil, p.fail("is not on this machine%s", hint)
	}
	return nil, p.fail("can't be run: %w", err)
}

// read reads what the plugin returned. Nothing of it is quoted: it is a credential.
func (p *plugin) read(output []byte) (*credential, error) {
	var answer clientauthentication.ExecCredential
	if err := json.Unmarshal(output, &answer); err != nil {
		return nil, p.fail("returned something else than an ExecCredential in JSON")
	}
	status := answer.Status
	switch {
	case answer.Kind != "ExecCredential" || answer.APIVersion != p.exec.APIVersion:
		return nil, p.fail("returned something else than an ExecCredential of %s, which its apiVersion promises", p.exec.APIVersion)
	case status == nil || status.Token == "" && status.ClientCertificateData == "" && status.ClientKeyData == "":
		return nil, p.fail("returned neither a token nor a client certificate")
	}
	c := &credential{token: status.Token, obtained: p.now()}
	if status.ClientCertificateData != "" || status.ClientKeyData != "" {
		pair, err := tls.X509KeyPair([]byte(status.ClientCertificateData), []byte(status.ClientKeyData))
		if err != nil {
			return nil, p.fail("returned a client certificate and a key that are of no use: %w", err)
		}
		c.cert, c.ends = &pair, pair.Leaf.NotAfter
	}
	if end := status.ExpirationTimestamp; end != nil {
		c.ends = end.Time
		if left := c.ends.Sub(c.obtained); left > 0 {
			c.ends = c.ends.Add(-min(left/10, 10*time.Second)) // it must last until the server has read it
		}
	}
	if !c.ends.IsZero() && !c.obtained.Before(c.ends) {
		return nil, p.fail("returned a credential that ended at %s", c.ends.UTC().Format(time.RFC3339))
	}
	return c, nil
}

// complaint returns what the plugin wrote to standard error, to go on an error.
func (p *plugin) complaint(stderr *limited) string {
	var secrets []string
	for _, v := range p.exec.Env {
		secrets = append(secrets, v.Value)
	}
	if text := redactOutput(string(stderr.bytes()), secrets); text != "" {
		return ": it says: " + text
	}
	return ""
}

// pluginError says that an access plugin gave no credential.
type pluginError struct{ error }

func (e *pluginError) Unwrap() error { return e.error }

func (p *plugin) fail(format string, args ...any) error {
	return &pluginError{fmt.Errorf("the access plugin %s "+format, append([]any{p.exec.Command}, args...)...)}
}

// limited is a buffer that takes in no more than most bytes, and passes over the rest.
type limited struct {
	most int

	mu  sync.Mutex
	buf bytes.Buffer
	cut bool
}

func (l *limited) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	room := l.most - l.buf.Len()
	if room < len(b) {
		l.cut = true
	}
	l.buf.Write(b[:min(max(room, 0), len(b))])
	return len(b), nil
}

func (l *limited) bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Clone(l.buf.Bytes())
}
