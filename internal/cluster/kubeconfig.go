package cluster

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubeconfigs that kubectl accepts work here too
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// source is where the configuration of a cluster is read from, as often as need be.
type source struct {
	live      Source // instead of path and content
	path      string // "": the pod's own
	content   []byte // of a kubeconfig that is in no file, instead of path
	context   string // "": the current one at the first reading
	pinned    string // the context that the first reading found
	userAgent string
}

// settings are one reading of a source. They hold the content of all files that the configuration refers to, so that a
// certificate never meets the key of another reading.
type settings struct {
	config *rest.Config
	server *url.URL
	digest [sha256.Size]byte
}

// read reads the source; refused: because what it said last was refused. The error says what is wrong with which file;
// on an error nothing of the source changes.
func (s *source) read(refused bool) (*settings, error) {
	var config *rest.Config
	var err error
	switch {
	case s.live != nil:
		if config, err = s.live(refused); err == nil {
			config = rest.CopyConfig(config)
		}
	case s.path == "" && s.content == nil:
		config, err = inCluster()
	default:
		config, err = s.fromFile()
	}
	if err != nil {
		return nil, err
	}
	config.UserAgent = s.userAgent
	if err := inlineFiles(config); err != nil {
		return nil, s.name(err)
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, s.name(fmt.Errorf("server %q: %w", config.Host, err))
	}
	server.Path = strings.TrimSuffix(server.Path, "/")
	out := &settings{config: config, server: server}
	if out.digest, err = digest(config); err != nil {
		return nil, s.name(err)
	}
	return out, nil
}

// name says which configuration an error is about.
func (s *source) name(err error) error {
	switch {
	case s.live != nil:
		return err
	case s.content != nil:
		return fmt.Errorf("the kubeconfig that was handed over: %w", err)
	case s.path == "":
		return fmt.Errorf("the pod's own configuration: %w", err)
	}
	return fmt.Errorf("kubeconfig %s: %w", s.path, err)
}

func inCluster() (*rest.Config, error) {
	config, err := rest.InClusterConfig()
	if errors.Is(err, rest.ErrNotInCluster) {
		return nil, errors.New("no kubeconfig was named, and this process does not run in a pod, so there is no configuration to fall back on")
	}
	if err != nil {
		return nil, fmt.Errorf("the pod's own configuration: %w", err)
	}
	return config, nil
}

// fromFile reads the kubeconfig by hand: client-go's deferred loader takes an empty file for "use the pod's own
// configuration", which would be another cluster.
func (s *source) fromFile() (*rest.Config, error) {
	content := s.content
	if content == nil {
		var err error
		if content, err = os.ReadFile(s.path); err != nil {
			return nil, fmt.Errorf("reading the kubeconfig: %w", err)
		}
	}
	file, err := clientcmd.Load(content)
	if err != nil {
		return nil, s.name(fmt.Errorf("is not valid: %w", err))
	}
	name, err := s.choose(file)
	if err != nil {
		return nil, s.name(err)
	}
	if cluster := file.Contexts[name].Cluster; file.Clusters[cluster] == nil {
		return nil, s.name(fmt.Errorf("context %q: cluster %q does not exist", name, cluster))
	}
	absolute, err := filepath.Abs(s.path)
	if err != nil {
		return nil, s.name(err)
	}
	for _, c := range file.Clusters {
		c.LocationOfOrigin = absolute
	}
	for _, u := range file.AuthInfos {
		u.LocationOfOrigin = absolute
	}
	if err := clientcmd.ResolveLocalPaths(file); err != nil {
		return nil, s.name(err)
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*file, name, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil, s.name(fmt.Errorf("context %q: %w", name, err))
	}
	s.pinned = name
	return config, nil
}

// choose returns the name of the context to use.
func (s *source) choose(file *clientcmdapi.Config) (string, error) {
	names := make([]string, 0, len(file.Contexts))
	for name := range file.Contexts {
		names = append(names, name)
	}
	slices.Sort(names)
	switch {
	case s.context != "":
		if file.Contexts[s.context] == nil {
			return "", fmt.Errorf("has no context %q; it has %s", s.context, orNone(names))
		}
		return s.context, nil
	case s.pinned != "" && file.Contexts[s.pinned] != nil:
		return s.pinned, nil
	case file.CurrentContext != "":
		if file.Contexts[file.CurrentContext] == nil {
			return "", fmt.Errorf("its current-context %q does not exist; it has %s", file.CurrentContext, orNone(names))
		}
		return file.CurrentContext, nil
	case len(names) == 1:
		return names[0], nil
	default:
		return "", fmt.Errorf("has no current-context; it has %s, and one must be named", orNone(names))
	}
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "no contexts"
	}
	return strings.Join(names, ", ")
}

// inlineFiles puts the content of the files that the configuration refers to in place of their names, and checks what
// can be checked of it: a half-written file is an error here, not a failed handshake later.
func inlineFiles(config *rest.Config) error {
	for _, f := range []struct {
		what string
		path *string
		data *[]byte
	}{
		{"certificate authority", &config.CAFile, &config.CAData},
		{"client certificate", &config.CertFile, &config.CertData},
		{"client key", &config.KeyFile, &config.KeyData},
	} {
		if *f.path != "" && len(*f.data) == 0 {
			content, err := os.ReadFile(*f.path)
			if err != nil {
				return fmt.Errorf("reading the %s: %w", f.what, err)
			}
			*f.data = content
		}
		*f.path = ""
	}
	if config.BearerTokenFile != "" {
		content, err := os.ReadFile(config.BearerTokenFile)
		if err != nil {
			return fmt.Errorf("reading the token: %w", err)
		}
		content = bytes.TrimSpace(content)
		if len(content) == 0 {
			return fmt.Errorf("the token file %s is empty", config.BearerTokenFile)
		}
		config.BearerToken, config.BearerTokenFile = string(content), ""
	}
	if len(config.CertData) > 0 || len(config.KeyData) > 0 {
		if _, err := tls.X509KeyPair(config.CertData, config.KeyData); err != nil {
			return fmt.Errorf("client certificate and key: %w", err)
		}
	}
	return nil
}
