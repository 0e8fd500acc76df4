package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

func TestConnectSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	two := kubeconfig("https://127.0.0.1:1", nil, withToken("t"))
	two.Contexts["d"] = two.Contexts["c"]
	undecided := two.DeepCopy()
	undecided.CurrentContext = ""
	dangling := two.DeepCopy()
	dangling.CurrentContext = "e"
	noCluster := two.DeepCopy()
	delete(noCluster.Clusters, "c")
	file := func(name string, c *clientcmdapi.Config) string {
		return writeKubeconfig(t, filepath.Join(dir, name), c)
	}
	user := func(name string, u clientcmdapi.AuthInfo) string {
		return file(name, kubeconfig("https://127.0.0.1:1", nil, u))
	}
	for name, tc := range map[string]struct {
		path, context string
		want          []string
	}{
		"missing":          {filepath.Join(dir, "none"), "", []string{"remote cluster", filepath.Join(dir, "none"), "no such file"}},
		"not YAML":         {write("bad", "{"), "", []string{"is not valid"}},
		"empty":            {write("empty", ""), "", []string{"no current-context", "no contexts"}},
		"no such context":  {file("two", two), "x", []string{`no context "x"`, "c, d"}},
		"undecided":        {file("undecided", undecided), "", []string{"no current-context", "c, d"}},
		"dangling current": {file("dangling", dangling), "", []string{`current-context "e"`, "c, d"}},
		"no cluster":       {file("nocluster", noCluster), "", []string{`cluster "c" does not exist`}},
		"no token file":    {user("notoken", clientcmdapi.AuthInfo{TokenFile: filepath.Join(dir, "nothing")}), "", []string{"nothing"}},
		"empty token file": {user("emptytoken", clientcmdapi.AuthInfo{TokenFile: write("blank", "\n")}), "", []string{"blank", "empty"}},
		"no pair":          {user("nopair", clientcmdapi.AuthInfo{ClientCertificateData: []byte("x"), ClientKeyData: []byte("y")}), "", []string{"client certificate and key"}},
		"bad CA":           {file("badca", kubeconfig("https://127.0.0.1:1", []byte("x"), withToken("t"))), "", []string{"root certificates"}},
		"no pod":           {"", "", []string{"no kubeconfig", "pod"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Connect(Options{Role: "remote", Kubeconfig: tc.path, Context: tc.context})
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range append(tc.want, "remote cluster") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q lacks %q", err, want)
				}
			}
		})
	}
}

func TestConnectMakesNoRequest(t *testing.T) {
	s := newServer(t, "", namespaceAnswer)
	c, _ := connect(t, writeKubeconfig(t, "", kubeconfig(s.URL, s.ca(), withToken("t"))))
	if n := s.count(); n != 0 {
		t.Errorf("%d requests", n)
	}
	if h := c.Health(); h.Reached || h.Err != nil || !h.Since.IsZero() {
		t.Errorf("health before the first request: %+v", h)
	}
	if c.Role() != "remote" || c.Server() != s.URL {
		t.Errorf("%s at %s", c.Role(), c.Server())
	}
}
