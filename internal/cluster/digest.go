package cluster

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// identity is what one configuration is told from another by: all that says who is reached, how, and as whom. Functions
// can't be compared; of the proxy's, what it says of the server is.
type identity struct {
	Host, APIPath, Proxy         string
	Username, Password, Token    string
	Impersonate                  rest.ImpersonationConfig
	Insecure, DisableCompression bool
	ServerName                   string
	CertData, KeyData, CAData    []byte
	NextProtos                   []string
	Exec                         *clientcmdapi.ExecConfig
	ExecInfo                     any // is not in Exec's JSON
	AuthProvider                 *clientcmdapi.AuthProviderConfig
}

// digest returns what is the same for configurations with the same content. Files are read before (inlineFiles).
func digest(config *rest.Config) (sum [sha256.Size]byte, err error) {
	id := identity{
		Host: config.Host, APIPath: config.APIPath,
		Username: config.Username, Password: config.Password, Token: config.BearerToken,
		Impersonate: config.Impersonate,
		Insecure:    config.Insecure, DisableCompression: config.DisableCompression,
		ServerName: config.ServerName,
		CertData:   config.CertData, KeyData: config.KeyData, CAData: config.CAData,
		NextProtos:   config.NextProtos,
		Exec:         config.ExecProvider,
		AuthProvider: config.AuthProvider,
	}
	if id.Proxy, err = proxyOf(config); err != nil {
		return sum, err
	}
	if exec := config.ExecProvider; exec != nil {
		id.ExecInfo = exec.Config
	}
	text, err := json.Marshal(id)
	if err != nil {
		return sum, fmt.Errorf("comparing it with what was read before: %w", err)
	}
	return sha256.Sum256(text), nil
}

// proxyOf returns the proxy that a configuration names for its server; "": none, or the one of the environment.
func proxyOf(config *rest.Config) (string, error) {
	if config.Proxy == nil {
		return "", nil
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		return "", fmt.Errorf("server %q is not a URL", config.Host)
	}
	proxy, err := config.Proxy(&http.Request{URL: server})
	if err != nil || proxy == nil {
		return "", err
	}
	return proxy.String(), nil
}

// destination is who is reached under a reading of the configuration, as far as it says so.
func (s *settings) destination() string {
	proxy, _ := proxyOf(s.config) // that it can be told, reading it has shown
	return s.server.String() + " " + proxy + " " + s.config.ServerName
}
