package access

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// FromKubeconfig returns how the cluster of a kubeconfig's current context is reached. The kubeconfig comes from a Secret,
// and whoever may write a Secret must neither read files of this machine nor run programs on it: so it may hold tokens and
// certificates, and is refused when it names files, a command or an auth provider. An error says what is wrong and where,
// and quotes no values but names.
func FromKubeconfig(content []byte) (*rest.Config, error) {
	if len(bytes.TrimSpace(content)) == 0 {
		return nil, errors.New("is empty: expected a kubeconfig")
	}
	file, err := clientcmd.Load(content)
	if err != nil {
		return nil, fmt.Errorf("is not a kubeconfig%s: see what kubectl --kubeconfig says of it", lineOf(err))
	}
	name, context, err := currentContext(file)
	if err != nil {
		return nil, err
	}
	cluster, user := file.Clusters[context.Cluster], file.AuthInfos[context.AuthInfo]
	switch {
	case cluster == nil:
		return nil, fmt.Errorf("context %q: its cluster %q does not exist", name, context.Cluster)
	case user == nil:
		return nil, fmt.Errorf("context %q: its user %q does not exist", name, context.AuthInfo)
	}
	if err := checkCluster(cluster); err != nil {
		return nil, fmt.Errorf("cluster %q: %w", context.Cluster, err)
	}
	if err := checkUser(user); err != nil {
		return nil, fmt.Errorf("user %q: %w", context.AuthInfo, err)
	}
	config := &rest.Config{
		Host:               cluster.Server,
		BearerToken:        user.Token,
		DisableCompression: cluster.DisableCompression,
		Impersonate:        rest.ImpersonationConfig{UserName: user.Impersonate, UID: user.ImpersonateUID, Groups: user.ImpersonateGroups, Extra: user.ImpersonateUserExtra},
		TLSClientConfig: rest.TLSClientConfig{
			Insecure: cluster.InsecureSkipTLSVerify, ServerName: cluster.TLSServerName, CAData: cluster.CertificateAuthorityData,
			CertData: user.ClientCertificateData, KeyData: user.ClientKeyData,
		},
	}
	return config, setProxy(config, cluster.ProxyURL)
}

// currentContext returns the context that a kubeconfig means: the current one, or the only one.
func currentContext(file *clientcmdapi.Config) (string, *clientcmdapi.Context, error) {
	names := slices.Sorted(maps.Keys(file.Contexts))
	switch context := file.Contexts[file.CurrentContext]; {
	case context != nil:
		return file.CurrentContext, context, nil
	case file.CurrentContext != "":
		return "", nil, fmt.Errorf("its current-context %q does not exist", file.CurrentContext)
	case len(names) == 1:
		return names[0], file.Contexts[names[0]], nil
	case len(names) == 0:
		return "", nil, errors.New("has no contexts: expected a kubeconfig with a cluster, a user, and a context of the two")
	}
	return "", nil, fmt.Errorf("has no current-context; it has the contexts %s: set one of them", strings.Join(names, ", "))
}

func checkCluster(cluster *clientcmdapi.Cluster) error {
	if cluster.CertificateAuthority != "" {
		return inline("certificate-authority", "certificate-authority-data")
	}
	if err := checkServer(cluster.Server); err != nil {
		return err
	}
	return checkAuthority(cluster.CertificateAuthorityData, cluster.InsecureSkipTLSVerify)
}

func checkUser(user *clientcmdapi.AuthInfo) error {
	const noPrograms = "a kubeconfig in a Secret may not run programs here; " +
		"let it hold a token or a client certificate, or use a ClusterProfile, for which the operator says which plugins may run"
	switch {
	case user.Exec != nil:
		return errors.New("has an exec plugin: " + noPrograms)
	case user.AuthProvider != nil:
		return errors.New("has an auth-provider: " + noPrograms)
	case user.TokenFile != "":
		return inline("tokenFile", "token")
	case user.ClientCertificate != "":
		return inline("client-certificate", "client-certificate-data")
	case user.ClientKey != "":
		return inline("client-key", "client-key-data")
	case user.Username != "" || user.Password != "":
		return errors.New("has a username and password, which API servers do not take: use a token or a client certificate")
	case len(user.ClientCertificateData) == 0 && len(user.ClientKeyData) == 0 && user.Token == "":
		return errors.New("has neither a token nor client-certificate-data and client-key-data")
	case strings.ContainsFunc(user.Token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("its token holds a space, a line break or another character that no token has")
	}
	if len(user.ClientCertificateData) > 0 || len(user.ClientKeyData) > 0 {
		if _, err := tls.X509KeyPair(user.ClientCertificateData, user.ClientKeyData); err != nil {
			return fmt.Errorf("client-certificate-data and client-key-data: %w", err)
		}
	}
	return nil
}

// inline says that a file is named where only its content may stand.
func inline(field, instead string) error {
	return fmt.Errorf("%s names a file: a kubeconfig in a Secret may not name files of the machine that it is read on; put the content into %s (kubectl config view --flatten does)", field, instead)
}

// checkServer reports what is wrong with a server's URL, without quoting it: it may hold a password.
func checkServer(server string) error {
	u, err := url.Parse(server)
	switch {
	case server == "":
		return errors.New("has no server: expected a URL like https://api.example.com:6443")
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return errors.New("its server is not a URL like https://api.example.com:6443")
	case u.User != nil:
		return errors.New("its server holds a user name or password: credentials belong to the user")
	case u.RawQuery != "" || u.Fragment != "":
		return errors.New("its server has a query or a fragment (? or #): expected a URL like https://api.example.com:6443")
	}
	return nil
}

// checkAuthority reports what is wrong with the certificates that a server's is checked against.
func checkAuthority(bundle []byte, insecure bool) error {
	switch {
	case len(bundle) == 0:
		return nil
	case insecure:
		return errors.New("has both insecure-skip-tls-verify and a certificate authority: remove one of them")
	case !x509.NewCertPool().AppendCertsFromPEM(bundle):
		return errors.New("its certificate-authority-data holds no certificate: expected PEM blocks, BEGIN CERTIFICATE")
	}
	return nil
}

// setProxy makes a configuration use a proxy; "" leaves it to the environment. The URL is not quoted: it may hold a password.
func setProxy(config *rest.Config, proxy string) error {
	if proxy == "" {
		return nil
	}
	u, err := url.Parse(proxy)
	if err != nil || u.Host == "" || !slices.Contains([]string{"http", "https", "socks5"}, u.Scheme) {
		return errors.New("its proxy-url is not a URL like http://, https:// or socks5://proxy.example.com:3128")
	}
	config.Proxy = http.ProxyURL(u)
	return nil
}

var errorLine = regexp.MustCompile(`\bline (\d+)`)

// lineOf returns where a syntax error is, and nothing else of it: it may quote values.
func lineOf(err error) string {
	if m := errorLine.FindStringSubmatch(err.Error()); m != nil {
		return " (line " + m[1] + ")"
	}
	return ""
}
