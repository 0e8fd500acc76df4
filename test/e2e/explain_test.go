//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/internal/controlplane"
	"isthmus.dev/isthmus/internal/plan"
	"isthmus.dev/isthmus/test/harness"
)

// isthmus explain tells which rule takes an object, both names, references, owners, generations, status and what it
// waits for, for sources and twins, selected or not; and is completed by what the clusters have.
func TestS2_ExplainTellsHowItComesAbout(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns, host := e.Namespace("a"), e.Namespace("host")
	config := virtual(host, []string{ns}, widgetsOut+"statusSync: true\nhostOwnedFields: [spec.replicas]\nselector: {matchLabels: {of: keep}}\npatches: [{path: spec.note, type: rewriteName}]")
	keep := func(name, spec string) string {
		return strings.Replace(widget(ns, name, spec), "metadata: {", "metadata: {labels: {of: keep}, ", 1)
	}
	e.Local.Create(keep("one", "{size: 1, note: two}"))
	e.Local.Create(keep("two", "{size: 1}"))
	e.Local.Create(keep("blocked", "{size: 1}"))
	e.Local.Create(widget(ns, "other", "{size: 1}"))
	e.Remote.Create(widget(host, hostName(ns, "blocked"), "{size: 9}"))
	p := e.Start(config)
	e.Eventually(func() error { return is(e.Remote.Get(widgets, host, hostName(ns, "one")), 1, "spec", "size") })
	e.Remote.SetStatus(widgets, host, hostName(ns, "one"), "{ready: true, observedGeneration: 1}")
	e.Eventually(func() error { return is(e.Local.Get(widgets, ns, "one"), true, "status", "ready") })
	p.Stop()
	e.Remote.PatchAs("scaler", types.MergePatchType, widgets, host, hostName(ns, "one"), "spec: {replicas: 4, color: blue}")

	file := e.WriteConfig(config)
	ask := func(want int, args ...string) string {
		t.Helper()
		out, code := e.Ask("explain", file, args...)
		if code != want {
			t.Errorf("explain %v: code %d, expected %d\n%s", args, code, want, out)
		}
		return out
	}
	text := ask(0, "WIDGET/one", "-n", ns)
	for _, words := range [][]string{
		{"Source:", ns + "/one on the local cluster, UID", "generation 1"},
		{"Twin:", host + "/" + hostName(ns, "one") + " on the remote cluster", "content of the source's generation 1"},
		{"would take it"}, {"label selector", "yes"}, {"policy All", "yes"},
		{"spec.note", ns + "/two → ", hostName(ns, "two")},
		{"spec.replicas", "target side: scaler"}, {"spec.size", "source"}, {"spec.color", "scaler"},
		{"Status, local:", `"ready":true`}, {"Status, remote:", `"observedGeneration":1`},
		{"A run would:", "apply", "spec.color"}, {"Because:", "spec.color was changed or removed on the other side"}, {"Waits for:", "nothing"},
	} {
		says(t, text, words...)
	}
	if strings.Contains(text, "in step") {
		t.Errorf("what is to be written is called in step:\n%s", text)
	}
	says(t, ask(0, "widget", "one", "-n", ns), "Source:", ns+"/one on the local cluster")
	says(t, ask(0, "widgets/"+hostName(ns, "one"), "-n", host), "Source:", ns+"/one on the local cluster")
	var all []plan.Explanation
	if err := json.Unmarshal([]byte(ask(0, "widgets.example.io/"+hostName(ns, "one"), "-n", host, "--twin", "-o", "json")), &all); err != nil || len(all) != 1 || all[0].Source.Name != "one" {
		t.Errorf("by the twin's name: %v, %+v", err, all)
	}
	says(t, ask(0, "widget/blocked"), "Waits for:", "place free")
	says(t, ask(0, "widget/blocked"), "it is written by test")
	says(t, ask(0, "widget/other", "-n", ns), "label selector", "no: its labels do not match the selector")
	says(t, ask(0, "widget/other", "-n", ns), "Rule:", "none takes it")
	says(t, ask(1, "widget/nowhere", "-n", ns), "was not found: neither as a source nor as a twin")
	says(t, ask(1, "gadget/one"), `no rule names the kind "gadget": expected one of Widget`)

	flags := []string{"--config", file, "--local-kubeconfig", e.LocalKubeconfig(), "--remote-kubeconfig", e.RemoteKubeconfig(),
		"--cluster-id", e.ID, "--remote-id", "remote", "--instance", e.ID}
	complete := func(args ...string) string {
		t.Helper()
		out, code := harness.Run(t, append([]string{"__complete", "explain"}, append(flags, args...)...)...)
		if code != 0 {
			t.Errorf("complete %v: %s", args, out)
		}
		return out
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"wi"}, "widget/\n"},
		{[]string{"widget/o"}, "widget/one\nwidget/other\n"},
		{[]string{"widget", "o"}, "one\nother\n"},
		{[]string{"widget/one", "-n", ""}, ns + "\n"},
	} {
		if out := complete(c.args...); !strings.HasPrefix(out, c.want) {
			t.Errorf("%v is completed by\n%s", c.args, out)
		}
	}
}

// isthmus explain takes a short name for the kind, and finds an import by the name of its copy, in whose namespace no
// source can be read.
func TestS2_ExplainFindsAnImportByItsCopy(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	host, target := e.Namespace("host"), e.ID+"-target"
	config := imports(host, `apiVersion: v1, kind: ConfigMap, direction: fromHost, selector: {matchLabels: {share: "yes"}}, targetNamespace: `+target)
	e.Remote.Create(fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: root, namespace: %s, labels: {share: 'yes'}}}", host))
	p := e.Start(config)
	e.Eventually(func() error { return present(e.Local, "configmaps", target, "root") })
	p.Stop()
	path := e.WriteConfig(config)
	out, code := e.Ask("explain", path, "cm", "root", "-n", target)
	if code != 0 {
		t.Errorf("code %d\n%s", code, out)
	}
	says(t, out, "Source:", host+"/root on the remote cluster")
	says(t, out, "Twin:", target+"/root on the local cluster")
	out, code = e.Ask("explain", path, "cm/nowhere", "-n", target)
	if code != 1 {
		t.Errorf("code %d\n%s", code, out)
	}
	says(t, out, "was not found", "as a source on the remote cluster it can't be seen")
}

// The binary under the names of a plugin is one: kubectl runs it, and completes it.
func TestF5_KubectlPlugin(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	dir := t.TempDir()
	for _, name := range []string{"kubectl-isthmus", "kubectl_complete-isthmus"} {
		if err := os.Symlink(harness.Binary(t), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	kubectl := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(e.Local.Binaries().Path(controlplane.Kubectl), args...)
		cmd.Env = append(os.Environ(), "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if _, exited := err.(*exec.ExitError); err != nil && !exited {
			t.Fatalf("kubectl %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	config := e.WriteConfig("version: v1\nsyncResources:\n- {apiVersion: example.io/v1, kind: Widget, direction: toHost}\n")
	for want, args := range map[string][]string{
		"kubectl isthmus plan --config FILE":     {"isthmus", "plan", "--help"},
		"\n  kubectl isthmus explain widget/one": {"isthmus", "explain", "--help"},
		"see kubectl isthmus plan --help":        {"isthmus", "plan", "--nope"},
		config + ": 1 rule":                      {"isthmus", "validate", config},
		"widget/\n":                              {"__complete", "isthmus", "explain", "--config", config, "w"},
	} {
		if out := kubectl(args...); !strings.Contains(out, want) {
			t.Errorf("kubectl %v: %q is missing in\n%s", args, want, out)
		}
	}
}
