//go:build unix

package controlplane

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
)

// healthClient asks components for their health. It checks no certificates
// (theirs are made by themselves) and keeps no connections.
var healthClient = &http.Client{Transport: &http.Transport{
	TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
	DisableKeepAlives: true,
}}

// Config returns the admin's (group system:masters) client configuration,
// without limits on the client. The caller may change it.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.admin) }

// Kubeconfig returns the path of the admin's kubeconfig.
func (c *Cluster) Kubeconfig() string { return c.kubeconfigPath("admin") }

// UserKubeconfig writes a kubeconfig with a client certificate for a user of
// that name and groups, and returns its path. The user may do what RBAC grants
// to the name and groups, so at first next to nothing.
func (c *Cluster) UserKubeconfig(name string, groups ...string) (path string, err error) {
	return c.UserKubeconfigExpiring(name, time.Time{}, groups...)
}

// UserKubeconfigExpiring does the same with a certificate that is valid until
// notAfter. It replaces an earlier kubeconfig of that user.
func (c *Cluster) UserKubeconfigExpiring(name string, notAfter time.Time, groups ...string) (path string, err error) {
	pair, err := c.pki.client(name, groups, notAfter)
	if err != nil {
		return "", fmt.Errorf("making user %s of cluster %s: %w", name, c.name, err)
	}
	path, err = c.writeKubeconfig(name, &clientcmdapi.AuthInfo{ClientCertificateData: pair.cert, ClientKeyData: pair.key})
	if err != nil {
		return "", fmt.Errorf("making user %s of cluster %s: %w", name, c.name, err)
	}
	return path, nil
}

// UserConfig makes a user as [Cluster.UserKubeconfig] does, and returns the
// client configuration, without limits on the client.
func (c *Cluster) UserConfig(name string, groups ...string) (*rest.Config, error) {
	path, err := c.UserKubeconfig(name, groups...)
	if err != nil {
		return nil, err
	}
	return LoadConfig(path)
}

// ServiceAccountKubeconfig writes a kubeconfig with a token, valid for a day, of
// a service account that exists, and returns its path. Deleting the service
// account makes the token invalid.
func (c *Cluster) ServiceAccountKubeconfig(ctx context.Context, namespace, name string) (path string, err error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: ptr.To(int64((24 * time.Hour).Seconds())),
	}}
	response, err := c.client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("requesting a token of service account %s/%s of cluster %s: %w", namespace, name, c.name, err)
	}
	user := "system:serviceaccount:" + namespace + ":" + name
	path, err = c.writeKubeconfig(user, &clientcmdapi.AuthInfo{Token: response.Status.Token})
	if err != nil {
		return "", fmt.Errorf("writing the kubeconfig of service account %s/%s of cluster %s: %w", namespace, name, c.name, err)
	}
	return path, nil
}

// LoadConfig reads a kubeconfig's current context, without limits on the client.
func LoadConfig(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading kubeconfig %s: %w", kubeconfig, err)
	}
	config.QPS = -1
	return config, nil
}

// kubeconfigPath returns where a user's kubeconfig is.
func (c *Cluster) kubeconfigPath(user string) string {
	return c.path("users", url.PathEscape(user)+".kubeconfig")
}

func (c *Cluster) writeKubeconfig(user string, auth *clientcmdapi.AuthInfo) (string, error) {
	path := c.kubeconfigPath(user)
	config := clientcmdapi.NewConfig()
	config.Clusters[c.name] = &clientcmdapi.Cluster{Server: c.URL(), CertificateAuthorityData: c.pki.caPEM}
	// With the cluster's name, so that kubeconfigs of several clusters can be
	// merged ($KUBECONFIG with more than one path).
	user = user + "@" + c.name
	config.AuthInfos[user] = auth
	config.Contexts[c.name] = &clientcmdapi.Context{Cluster: c.name, AuthInfo: user}
	config.CurrentContext = c.name
	content, err := clientcmd.Write(*config)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(c.path("users"), 0o700); err != nil {
		return "", err
	}
	return path, writeFile(path, content)
}

// ReplaceServingCert gives the running API server another certificate, valid
// until notAfter (the zero time: for years), and returns when new connections
// get it. Connections that are open stay open.
func (c *Cluster) ReplaceServingCert(ctx context.Context, notAfter time.Time) error {
	der, err := c.writeServingCert(notAfter)
	if err != nil {
		return fmt.Errorf("replacing the serving certificate of cluster %s: %w", c.name, err)
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(c.port))
	// The API server watches the files, and looks by itself once a minute.
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
		connection, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			return false, nil
		}
		defer func() { _ = connection.Close() }()
		served := connection.(*tls.Conn).ConnectionState().PeerCertificates
		return len(served) > 0 && bytes.Equal(served[0].Raw, der), nil
	})
	if err != nil {
		return fmt.Errorf("waiting until cluster %s serves its new certificate: %w", c.name, err)
	}
	return nil
}

func (c *Cluster) writeServingCert(notAfter time.Time) (der []byte, err error) {
	pair, err := c.pki.serving(notAfter)
	if err != nil {
		return nil, err
	}
	if err := writeFile(c.path("serving.key"), pair.key); err != nil {
		return nil, err
	}
	if err := writeFile(c.path("serving.crt"), pair.cert); err != nil {
		return nil, err
	}
	block, _ := pem.Decode(pair.cert)
	return block.Bytes, nil
}
