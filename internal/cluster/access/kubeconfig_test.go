package access

import (
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func kubeconfig(t testing.TB, change func(*clientcmdapi.Config, *clientcmdapi.Cluster, *clientcmdapi.AuthInfo)) []byte {
	t.Helper()
	file := clientcmdapi.NewConfig()
	cluster, user := &clientcmdapi.Cluster{Server: "https://paris:6443"}, &clientcmdapi.AuthInfo{Token: "secret-1"}
	file.Clusters["c"], file.AuthInfos["u"] = cluster, user
	file.Contexts["x"], file.CurrentContext = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}, "x"
	change(file, cluster, user)
	text, err := clientcmd.Write(*file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Whoever may write a Secret runs nothing and reads nothing here (F4), and is told what is wrong without its values.
func TestF4_KubeconfigsThatAreRefused(t *testing.T) {
	type file = *clientcmdapi.Config
	type cluster = *clientcmdapi.Cluster
	type user = *clientcmdapi.AuthInfo
	for want, change := range map[string]func(file, cluster, user){
		`user "u": has an exec plugin: a kubeconfig in a Secret may not run programs here`: func(_ file, _ cluster, u user) {
			u.Exec = &clientcmdapi.ExecConfig{APIVersion: "client.authentication.k8s.io/v1", Command: "id", InteractiveMode: "Never"}
		},
		"has an auth-provider":                     func(_ file, _ cluster, u user) { u.AuthProvider = &clientcmdapi.AuthProviderConfig{Name: "oidc"} },
		"tokenFile names a file":                   func(_ file, _ cluster, u user) { u.TokenFile = "/var/run/secrets/token" },
		"client-certificate names a file":          func(_ file, _ cluster, u user) { u.ClientCertificate = "/c" },
		"client-key names a file":                  func(_ file, _ cluster, u user) { u.ClientKey = "/k" },
		"certificate-authority names a file":       func(_ file, c cluster, _ user) { c.CertificateAuthority = "/ca" },
		"has a username and password":              func(_ file, _ cluster, u user) { u.Username, u.Password = "a", "secret-1" },
		"has neither a token nor":                  func(_ file, _ cluster, u user) { u.Token = "" },
		"its token holds a space":                  func(_ file, _ cluster, u user) { u.Token = "secret-1\n" },
		"client-certificate-data and client-key-":  func(_ file, _ cluster, u user) { u.ClientCertificateData = []byte("secret-1") },
		"has no server":                            func(_ file, c cluster, _ user) { c.Server = "" },
		"is not a URL":                             func(_ file, c cluster, _ user) { c.Server = "secret-1:%zz" },
		"holds a user name or password":            func(_ file, c cluster, _ user) { c.Server = "https://a:secret-1@b" },
		"has a query or a fragment":                func(_ file, c cluster, _ user) { c.Server = "https://b/?secret-1" },
		"holds no certificate":                     func(_ file, c cluster, _ user) { c.CertificateAuthorityData = []byte("secret-1") },
		"proxy-url is not a URL":                   func(_ file, c cluster, _ user) { c.ProxyURL = "secret-1" },
		`its current-context "y" does not exist`:   func(f file, _ cluster, _ user) { f.CurrentContext = "y" },
		`context "x": its cluster "d" does not`:    func(f file, _ cluster, _ user) { f.Contexts["x"].Cluster = "d" },
		`context "x": its user "v" does not exist`: func(f file, _ cluster, _ user) { f.Contexts["x"].AuthInfo = "v" },
		"has no current-context; it has the contexts x, z: set one": func(f file, _ cluster, _ user) {
			f.CurrentContext, f.Contexts["z"] = "", &clientcmdapi.Context{}
		},
	} {
		_, err := FromKubeconfig(kubeconfig(t, change))
		switch {
		case err == nil || !strings.Contains(err.Error(), want):
			t.Errorf("%v, want %s", err, want)
		case strings.Contains(err.Error(), "secret-1"):
			t.Errorf("quotes a value: %v", err)
		}
	}
	for text, want := range map[string]string{
		"":          "is empty",
		"kind: Pod": "is not a kubeconfig",
		"apiVersion: v1\nkind: Config\nusers: secret-1":                                       "is not a kubeconfig",
		"apiVersion: v1\nkind: Config\nusers:\n- name: a\n  user: {token: [secret-1]}":        "is not a kubeconfig",
		"apiVersion: v1\nkind: Config\nusers:\n- name: a\n  user: {token: secret-1\n b: c: d": "is not a kubeconfig (line ",
		"apiVersion: v1\nkind: Config":                                                        "has no contexts",
	} {
		if _, err := FromKubeconfig([]byte(text)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret-1") {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestKubeconfigIsTakenWhole(t *testing.T) {
	config, err := FromKubeconfig(kubeconfig(t, func(f *clientcmdapi.Config, c *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
		f.CurrentContext = "" // there is one only
		c.TLSServerName, c.InsecureSkipTLSVerify, c.DisableCompression, c.ProxyURL = "api", true, true, "socks5://p:1"
		u.Impersonate, u.ImpersonateGroups = "anna", []string{"g"}
	}))
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != "https://paris:6443" || config.BearerToken != "secret-1" || config.ServerName != "api" || !config.Insecure || !config.DisableCompression ||
		config.Impersonate.UserName != "anna" || len(config.Impersonate.Groups) != 1 || config.Proxy == nil {
		t.Errorf("%+v", config)
	}
}
