//go:build unix

// Package linktest holds what tests of connections to other clusters share: accounts there, proxies in front of them, and
// ClusterProfiles with the access plugins that come with the Cluster Inventory API.
package linktest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"isthmus.dev/isthmus/internal/controlplane"
)

// Account is a service account on a cluster.
type Account struct {
	Namespace, Name string
	Token           string

	cluster *controlplane.Cluster
}

// NewAccount makes a service account in a namespace that there is.
func NewAccount(t testing.TB, cluster *controlplane.Cluster, namespace, name string) *Account {
	t.Helper()
	Apply(t, cluster, fmt.Sprintf("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: %s, namespace: %s}\n", name, namespace))
	path, err := cluster.ServiceAccountKubeconfig(context.Background(), namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	config, err := controlplane.LoadConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	return &Account{Namespace: namespace, Name: name, Token: config.BearerToken, cluster: cluster}
}

// Revoke makes the account's token invalid.
func (a *Account) Revoke(t testing.TB) {
	t.Helper()
	kube := kubernetes.NewForConfigOrDie(a.cluster.Config())
	if err := kube.CoreV1().ServiceAccounts(a.Namespace).Delete(context.Background(), a.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// Kubeconfig returns a kubeconfig with the account's token.
func (a *Account) Kubeconfig(change ...func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo)) string {
	config := a.cluster.Config()
	cluster := &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: CA(config)}
	user := &clientcmdapi.AuthInfo{Token: a.Token}
	for _, f := range change {
		f(cluster, user)
	}
	file := clientcmdapi.NewConfig()
	file.Clusters["c"], file.AuthInfos["u"] = cluster, user
	file.Contexts["c"], file.CurrentContext = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}, "c"
	text, err := clientcmd.Write(*file)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Server changes the address in a Kubeconfig.
func Server(url string) func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo) {
	return func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.Server = url }
}

// CA returns the certificate authority of a configuration.
func CA(config *rest.Config) []byte {
	if len(config.CAData) > 0 {
		return config.CAData
	}
	data, err := os.ReadFile(config.CAFile)
	if err != nil {
		panic(err)
	}
	return data
}

// Apply applies manifests as the administrator.
func Apply(t testing.TB, cluster *controlplane.Cluster, manifests string) {
	t.Helper()
	if err := cluster.Apply(context.Background(), []byte(manifests)); err != nil {
		t.Fatal(err)
	}
}

// Proxy is in front of a cluster. It can be stopped, and started again.
type Proxy struct {
	*toxiproxy.Proxy
	t testing.TB
}

// NewProxy starts a proxy, until the test ends.
func NewProxy(t testing.TB, cluster *controlplane.Cluster) *Proxy {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := &Proxy{toxiproxy.NewProxy(server, "p", "127.0.0.1:0", strings.TrimPrefix(cluster.URL(), "https://")), t}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return p
}

// URL is where the proxy listens.
func (p *Proxy) URL() string { return "https://" + p.Listen }

// Hang swallows all answers, until the returned function is called.
func (p *Proxy) Hang() (mend func()) {
	p.t.Helper()
	if _, err := p.Toxics.AddToxicJson(strings.NewReader(`{"name": "lost", "type": "timeout", "stream": "downstream", "attributes": {"timeout": 0}}`)); err != nil {
		p.t.Fatal(err)
	}
	return func() {
		p.t.Helper()
		if err := p.Toxics.RemoveToxic(context.Background(), "lost"); err != nil {
			p.t.Fatal(err)
		}
	}
}
