//go:build unix

package remotecluster

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/controller/link/linktest"
	"isthmus.dev/isthmus/internal/controlplane"
)

// F1: why a remote is not reached is told by a reason of its own, and when that ends, it is reached without a restart.
func TestF1_ReasonsOfNotReachable(t *testing.T) {
	e := newEnv(t)
	paris := controlplane.Shared(t, "paris")
	account := e.consumer(paris, "reasons")
	powerless := linktest.NewAccount(e, paris, "default", "powerless")
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := closed.Addr().String()
	closed.Close()
	other := linktest.CA(e.cp.Config())
	p := linktest.NewProxy(t, paris)
	p.Hang()
	for _, tc := range []struct{ reason, kubeconfig, message string }{
		{v1alpha1.ReasonDNS, account.Kubeconfig(linktest.Server("https://no-such-host.invalid:6443")), "no-such-host.invalid"},
		{v1alpha1.ReasonRefused, account.Kubeconfig(linktest.Server("https://" + port)), "connection refused"},
		{v1alpha1.ReasonTLS, account.Kubeconfig(func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.CertificateAuthorityData = other }), "certificate"},
		{v1alpha1.ReasonUnauthorized, account.Kubeconfig(func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.Token = "nobody-s" }), "401"},
		{v1alpha1.ReasonForbidden, powerless.Kubeconfig(), "kube-system"},
		{v1alpha1.ReasonTimeout, account.Kubeconfig(linktest.Server(p.URL())), "paris"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			e := &env{T: t, cp: e.cp, client: e.client, kube: e.kube, remotes: e.remotes, log: e.log}
			name := "paris-" + strings.ToLower(tc.reason)
			e.secret(name, tc.kubeconfig)
			e.remote(name)
			c := e.reachable(name, tc.reason)
			if !strings.Contains(c.Message, tc.message) {
				t.Errorf("message %q lacks %q", c.Message, tc.message)
			}
			since := time.Now()
			time.Sleep(3 * time.Second) // several probes
			for _, write := range e.writes(since) {
				if strings.Contains(write, name) {
					t.Errorf("a failure that goes on is written again: %s", write)
				}
			}
			e.secret(name, account.Kubeconfig())
			e.reachable(name, v1alpha1.ReasonReached)
			e.remove(name)
		})
	}
	for _, secret := range []string{account.Token, powerless.Token, "nobody-s"} {
		if strings.Contains(e.log.String(), secret) {
			t.Errorf("a token was logged")
		}
	}
}

// remove deletes a RemoteCluster that others may not wait for.
func (e *env) remove(name string) {
	e.Helper()
	rc := e.get(name)
	rc.Annotations = map[string]string{v1alpha1.ReleaseAnnotation: "true"}
	if err := e.client.Update(context.Background(), rc); err != nil {
		e.Fatal(err)
	}
	if err := e.client.Delete(context.Background(), rc); err != nil {
		e.Fatal(err)
	}
	e.eventually(func() string {
		if e.of(name).Name != "" {
			return name + " does not go"
		}
		return ""
	})
}

// F1: a Secret that says nothing usable is told by name and key, and nothing of it is run, read or quoted.
func TestF1_UnusableSecrets(t *testing.T) {
	e := newEnv(t)
	paris := controlplane.Shared(t, "paris")
	account := e.consumer(paris, "unusable")
	marker := t.TempDir() + "/ran"
	e.remote("paris")
	e.reachable("paris", v1alpha1.ReasonAccess)
	for want, kubeconfig := range map[string]string{
		"exec plugin": account.Kubeconfig(func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			u.Token, u.Exec = "", &clientcmdapi.ExecConfig{APIVersion: "client.authentication.k8s.io/v1", Command: "touch", Args: []string{marker}, InteractiveMode: "Never"}
		}),
		"tokenFile names a file": account.Kubeconfig(func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.Token, u.TokenFile = "", "/etc/passwd" }),
		"certificate-authority names a file": account.Kubeconfig(func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
			c.CertificateAuthorityData, c.CertificateAuthority = nil, "/etc/passwd"
		}),
		"is not a kubeconfig (line 2)": "apiVersion: v1\n\tusers: secret-value-1\n",
		"is empty":                     " ",
	} {
		e.secret("paris", kubeconfig)
		e.eventually(func() string {
			c := e.condition("paris", v1alpha1.ConditionReachable)
			if c.Reason != v1alpha1.ReasonAccess || !strings.Contains(c.Message, want) || !strings.Contains(c.Message, `Secret isthmus-system/paris, key "kubeconfig"`) {
				return fmt.Sprintf("%+v, want %s", c, want)
			}
			if strings.Contains(c.Message, "secret-value") {
				t.Errorf("a value is quoted: %s", c.Message)
			}
			return ""
		})
		if r := e.of("paris"); r.Usable || r.Cluster != nil {
			t.Errorf("usable with %s", want)
		}
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("the command was run")
	}
	e.secret("paris", account.Kubeconfig())
	e.reachable("paris", v1alpha1.ReasonReached)
	if err := e.kube.CoreV1().Secrets(namespace).Delete(context.Background(), "paris", deleteNow); err != nil {
		t.Fatal(err)
	}
	if c := e.reachable("paris", v1alpha1.ReasonAccess); !strings.Contains(c.Message, "does not exist") {
		t.Errorf("message %q", c.Message)
	}
	e.eventually(func() string {
		if r := e.of("paris"); r.Usable || r.Cluster == nil {
			return fmt.Sprintf("without its Secret: %+v", r)
		}
		return ""
	})
}
