package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// run runs a command line in process.
func run(args ...string) (stdout string, err error) {
	var out bytes.Buffer
	root := newRootCommand()
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&out)
	err = root.Execute()
	return out.String(), err
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestValidate(t *testing.T) {
	bad := write(t, "bad.yaml", "version: v1\nfoo:\nnamespaces: {a: kube-system}\n")
	out, err := run("validate", "../../examples/widgets.yaml", bad, "../../examples/secrets.yaml", "missing.yaml")
	if want := "../../examples/widgets.yaml: 1 rule\n../../examples/secrets.yaml: 1 rule\n"; out != want {
		t.Errorf("printed %q, want %q", out, want)
	}
	if err == nil {
		t.Fatal("no error")
	}
	lines := strings.Split(err.Error(), "\n")
	want := []string{bad + ":2:1: foo: unknown field", bad + ":3:17: namespaces[a]: kube-system can't be written to", "reading the configuration: open missing.yaml"}
	if len(lines) != len(want) {
		t.Fatalf("got %q", lines)
	}
	for i := range want {
		if !strings.HasPrefix(lines[i], want[i]) {
			t.Errorf("line %d: got %q, want %q…", i, lines[i], want[i])
		}
	}
}

func TestSchemaIsJSON(t *testing.T) {
	out, err := run("schema")
	if err != nil || !json.Valid([]byte(out)) || !strings.Contains(out, "syncResources") {
		t.Errorf("%v: %.100s", err, out)
	}
}

func TestVersion(t *testing.T) {
	out, err := run("version")
	if err != nil || !strings.HasPrefix(out, "isthmus ") || strings.Count(out, "\n") != 1 {
		t.Errorf("%v: %q", err, out)
	}
}

func TestUsageErrors(t *testing.T) {
	const widgets = "--config=../../examples/widgets.yaml"
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"frobnicate"}, `unknown command "frobnicate" for "isthmus"`},
		{[]string{"vaildate"}, "unknown command \"vaildate\" for \"isthmus\"\n\nDid you mean this?\n\tvalidate\n"},
		{[]string{"explain", "widget", widgets, "--cluster-id=a", "--remote-id=b", "--remote-kubeconfig=r"}, `isthmus explain: "widget": expected KIND/NAME or KIND NAME, like widget/one; see isthmus explain --help`},
		{[]string{"--nope"}, "isthmus: unknown flag: --nope; see isthmus --help"},
		{[]string{"validate"}, "isthmus validate: expected the files to check; see isthmus validate --help"},
		{[]string{"validate", "--strict"}, "isthmus validate: unknown flag: --strict; see isthmus validate --help"},
		{[]string{"schema", "x"}, `isthmus schema: unknown command "x" for "isthmus schema"; see isthmus schema --help`},
		{[]string{"rbac"}, "isthmus rbac: --config is missing: expected the configuration file, or --crossings, --consumers or --installations; see isthmus rbac --help"},
		{[]string{"rbac", widgets}, `isthmus rbac: --side "": expected local or remote; see isthmus rbac --help`},
		{[]string{"rbac", widgets, "--format=helm"}, `isthmus rbac: --format "helm": expected manifests or vcluster; see isthmus rbac --help`},
		{[]string{"rbac", widgets, "--side=local", "--namespace=A"}, `isthmus rbac: --namespace "A": expected a name of lower-case letters, digits and -; see isthmus rbac --help`},
		{[]string{"rbac", widgets, "--side=local", "--subject-serviceaccount=a"}, `isthmus rbac: --subject-serviceaccount "a": expected NAMESPACE/NAME; see isthmus rbac --help`},
		{[]string{"rbac", widgets, "--side=local", "--name=a/b"}, `isthmus rbac: --name "a/b": expected a name without / and %; see isthmus rbac --help`},
		{[]string{"rbac", widgets, "--side=local", "--kubeconfig=nowhere"}, "reading the kubeconfig: stat nowhere: no such file or directory"},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			out, err := run(tt.args...)
			if err == nil || err.Error() != tt.want {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
			if out != "" {
				t.Errorf("printed %q", out)
			}
		})
	}
	if _, err := run("rbac", widgets, "--side=local", "--subject-user=a", "--subject-serviceaccount=b/c"); err == nil {
		t.Error("two subjects are no error")
	}
}

func TestRBAC(t *testing.T) {
	out, err := run("rbac", "--config=../../examples/widgets.yaml", "--side=remote", "--subject-user=bob", "--instance=one")
	if err != nil {
		t.Fatal(err)
	}
	comments, documents, _ := strings.Cut(out, "---\n")
	want := `# What Isthmus needs on the remote side for 1 rule.
# These resources' names are guessed from their kinds, which are taken for namespaced unless a rule says clusterScoped: widgets (Widget.example.io).
# Check them, or pass --kubeconfig of a cluster that serves these kinds.
# Rights hold in all namespaces because of createNamespaces: a Role can't be there before its namespace.
`
	if diff := cmp.Diff(want, comments); diff != "" {
		t.Errorf("comments, -want +got:\n%s", diff)
	}
	for _, part := range []string{"name: isthmus-one-remote", "kind: User\n  name: bob", "- tenant-42-team-a"} {
		if !strings.Contains(documents, part) {
			t.Errorf("%q is missing in:\n%s", part, documents)
		}
	}
	out, err = run("rbac", "--config=../../examples/widgets.yaml", "--side=local")
	if want := "# Roles go to these namespaces, which must exist: team-a, team-b.\n"; err != nil || !strings.Contains(out, want) {
		t.Errorf("on the local side: %v, expected %q in:\n%s", err, want, out)
	}
}

// A complete vcluster.yaml holds what isthmus rbac prints for it, and no other rights.
func TestRBACOfTheExamplesForVCluster(t *testing.T) {
	files, err := filepath.Glob("../../examples/vcluster/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			out, err := run("rbac", "--format=vcluster", "--config="+path)
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var have, want map[string]any
			if err := errors.Join(yaml.Unmarshal(text, &have), yaml.Unmarshal([]byte(out), &want)); err != nil {
				t.Fatal(err)
			}
			plugin := have["plugin"].(map[string]any)["isthmus"].(map[string]any)
			for _, key := range []string{"version", "image", "config"} {
				if plugin[key] == nil {
					t.Errorf("%s is missing", key)
				}
				delete(plugin, key)
			}
			if diff := cmp.Diff(want, have); diff != "" {
				t.Errorf("-printed +in the file:\n%s", diff)
			}
		})
	}
	if _, err := run("rbac", "--side=remote", "--config="+files[0]); err == nil || !strings.Contains(err.Error(), "does not say which virtual cluster it is for") {
		t.Errorf("for a remote side that nobody knows: %v", err)
	}
	if _, err := run("sync", "--config="+files[0], "--cluster-id=a", "--remote-id=b", "--listen=127.0.0.1:0"); err == nil || !strings.Contains(err.Error(), "add virtualCluster with name and hostNamespace to plugin.isthmus.config") {
		t.Errorf("isthmus sync: %v", err)
	}
}

func TestRBACAsksTheCluster(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/apis/example.io/v1" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"example.io/v1","resources":[{"name":"gizmos","kind":"Widget","namespaced":true,"verbs":["get"]}]}`)
	}))
	defer server.Close()
	kubeconfig := write(t, "kubeconfig", fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c,
clusters: [{name: c, cluster: {server: %q}}], contexts: [{name: c, context: {cluster: c}}]}`, server.URL))
	out, err := run("rbac", "--config=../../examples/widgets.yaml", "--side=local", "--kubeconfig="+kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, "- gizmos\n") || strings.Contains(out, "guessed") {
		t.Error(out)
	}
}

// Every command says what it is for, and documents its flags.
func TestHelp(t *testing.T) {
	for _, cmd := range newRootCommand().Commands() {
		if cmd.Short == "" || cmd.RunE == nil || cmd.Args == nil {
			t.Errorf("%s is incomplete", cmd.Name())
		}
	}
	if out, err := run(); err != nil || !strings.Contains(out, "validate") {
		t.Errorf("%v: %s", err, out)
	}
}
