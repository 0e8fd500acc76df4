//go:build unix

package members

import (
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/controller/link/linktest"
	"isthmus.dev/isthmus/internal/controlplane"
)

// examples is what docs/access-provider.md works with.
const examples = "../../../examples/access-provider"

// The example of docs/access-provider.md leads to a member, by the commands that stand there, and its page shows the files as
// they are.
func TestI5_ExampleOfAnAccessProvider(t *testing.T) {
	tokens := t.TempDir()
	e := newEnv(t, func(e *env) {
		for from, to := range map[string]string{"token-files.sh": "token-files.sh", "providers.yaml": "providers.json"} {
			text := strings.ReplaceAll(example(t, from), "/var/run/isthmus/tokens", tokens)
			if err := os.WriteFile(filepath.Join(e.dir, to), []byte(text), 0o700); err != nil {
				t.Fatal(err)
			}
		}
	})
	one := controlplane.Shared(t, "one")
	config := one.Config()
	profile := filepath.Join(t.TempDir(), "clusterprofile.yaml")
	text := strings.NewReplacer("https://apac-1.example.com:6443", config.Host, "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t", base64.StdEncoding.EncodeToString(linktest.CA(config))).
		Replace(example(t, "clusterprofile.yaml"))
	if err := os.WriteFile(profile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	page := read(t, "../../../docs/access-provider.md")
	for _, command := range []string{"kubectl apply -f clusterprofile.yaml", "kubectl patch clusterprofile apac-1 -n fleet-system --subresource=status --type=merge --patch-file clusterprofile.yaml"} {
		if !strings.Contains(page, command) {
			t.Errorf("the page lacks %s", command)
		}
		words := strings.Fields(command)
		words[len(words)-1] = profile
		cmd := exec.Command(e.hub.Binaries().Path(controlplane.Kubectl), append(words[1:], "--kubeconfig", e.hub.Kubeconfig())...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
	for _, file := range []string{"token-files.sh", "providers.yaml", "clusterprofile.yaml"} {
		if !strings.Contains(page, example(t, file)) {
			t.Errorf("the page does not show %s as it is", file)
		}
	}
	e.want("apac-1")
	e.becomes("apac-1", v1alpha1.ReasonPlugin, "it says: TOKEN_DIR has no file that can be read of the name in CLUSTER")
	account := e.account(one, "example", "example")
	if err := os.WriteFile(filepath.Join(tokens, "apac-1"), []byte(account.Token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e.reached("apac-1", one)
	if strings.Contains(e.log.String(), account.Token) {
		t.Error("the token was logged")
	}
}

func example(t *testing.T, name string) string {
	t.Helper()
	return read(t, filepath.Join(examples, name))
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
