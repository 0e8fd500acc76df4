package access

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

func profile(t testing.TB, status string) *Profile {
	t.Helper()
	var content map[string]any
	if err := yaml.Unmarshal([]byte(status), &content); err != nil {
		t.Fatal(err)
	}
	p, err := ReadProfile(&unstructured.Unstructured{Object: map[string]any{"status": content}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func providers(t testing.TB, text string) *Providers {
	t.Helper()
	p, err := ParseProviders("/etc/isthmus/providers.json", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// two offers two providers, with both policies in use.
const two = `
providers:
- name: first
  execConfig: {apiVersion: client.authentication.k8s.io/v1, command: first, args: [a], env: [{name: B, value: "1"}, {name: A, value: "2"}], provideClusterInfo: true}
  profileSourcedCLIArgsPolicy: Append
  profileSourcedEnvVarsPolicy: Replace
- name: second
  execConfig: {apiVersion: client.authentication.k8s.io/v1beta1, command: second, env: [{name: B, value: "1"}]}
  profileSourcedEnvVarsPolicy: AppendIfNotExists
- name: third
  execConfig: {apiVersion: client.authentication.k8s.io/v1, command: third, args: [a]}
`

const moreArgs = `
- {name: clusterprofiles.multicluster.x-k8s.io/exec/additional-args, extension: [--cluster, paris]}
- {name: clusterprofiles.multicluster.x-k8s.io/exec/additional-envs, extension: {Z: z, B: b, C: c}}
- {name: client.authentication.k8s.io/exec, extension: {clusterName: paris}}
- {name: example.com/other, extension: 5}
`

func way(name, extensions string) string {
	return fmt.Sprintf("{name: %s, cluster: {server: 'https://%s:6443', extensions: [%s]}}", name, name, flow(extensions))
}

// flow makes a list in flow style of one in block style.
func flow(list string) string {
	return strings.ReplaceAll(strings.Trim(strings.ReplaceAll(list, "\n- ", ", "), ", \n"), "\n", "")
}

func env(exec *clientcmdapi.ExecConfig) string {
	var text []string
	for _, v := range exec.Env {
		text = append(text, v.Name+"="+v.Value)
	}
	return strings.Join(text, " ")
}

func TestProfileUsesTheFirstProviderOfTheFile(t *testing.T) {
	for name, tc := range map[string]struct {
		status, server, command, args, env string
	}{
		"the file's order":        {"accessProviders: [" + way("second", "") + "," + way("first", "") + "]", "https://first:6443", "first", "a", "B=1 A=2"},
		"deprecated":              {"credentialProviders: [" + way("second", "") + "]", "https://second:6443", "second", "", "B=1"},
		"access wins":             {"credentialProviders: [{name: third, cluster: {server: 'https://old:1'}}]\naccessProviders: [" + way("third", "") + "]", "https://third:6443", "third", "a", ""},
		"append and replace":      {"accessProviders: [" + way("first", moreArgs) + "]", "https://first:6443", "first", "a --cluster paris", "B=b A=2 C=c Z=z"},
		"append if it is not set": {"accessProviders: [" + way("second", moreArgs) + "]", "https://second:6443", "second", "", "B=1 C=c Z=z"},
		"ignored":                 {"accessProviders: [" + way("third", moreArgs) + "]", "https://third:6443", "third", "a", ""},
	} {
		t.Run(name, func(t *testing.T) {
			config, err := FromProfile(profile(t, tc.status), providers(t, two))
			if err != nil {
				t.Fatal(err)
			}
			exec := config.ExecProvider
			got := []string{config.Host, exec.Command, strings.Join(exec.Args, " "), env(exec)}
			if diff := cmp.Diff([]string{tc.server, tc.command, tc.args, tc.env}, got); diff != "" {
				t.Error(diff)
			}
			if exec.InteractiveMode != clientcmdapi.NeverExecInteractiveMode {
				t.Error(exec.InteractiveMode)
			}
		})
	}
}

// The fields that the reference client drops are kept.
func TestProfileKeepsAllOfTheCluster(t *testing.T) {
	config, err := FromProfile(profile(t, `
accessProviders:
- name: first
  cluster:
    server: https://paris:6443
    tls-server-name: api.paris
    certificate-authority: /etc/ca.crt
    disable-compression: true
    proxy-url: http://user:pass@proxy:3128
    extensions: [{name: client.authentication.k8s.io/exec, extension: {clusterName: paris}}]`), providers(t, two))
	if err != nil {
		t.Fatal(err)
	}
	if config.ServerName != "api.paris" || config.CAFile != "/etc/ca.crt" || !config.DisableCompression || !config.ExecProvider.ProvideClusterInfo {
		t.Errorf("%+v", config)
	}
	if proxy, err := config.Proxy(&http.Request{URL: &url.URL{Host: "paris:6443"}}); err != nil || proxy.String() != "http://user:pass@proxy:3128" {
		t.Error(proxy, err)
	}
	if raw, err := json.Marshal(config.ExecProvider.Config); err != nil || string(raw) != `{"clusterName":"paris"}` {
		t.Error(string(raw), err)
	}
	config, err = FromProfile(profile(t, `accessProviders: [{name: first, cluster: {server: "https://paris:6443", insecure-skip-tls-verify: true}}]`), providers(t, two))
	if err != nil || !config.Insecure || config.Proxy != nil {
		t.Error(config, err)
	}
}

// What one cluster's profile says never reaches another cluster's plugin, and the same profile gives the same answer.
func TestProfilesDoNotLeakIntoEachOther(t *testing.T) {
	word := rapid.StringMatching(`[A-Z]{1,3}`)
	rapid.Check(t, func(t *rapid.T) {
		p := &Providers{}
		for i := range 3 {
			p.List = append(p.List, Provider{Name: fmt.Sprint("p", i),
				ExecConfig: ExecConfig{APIVersion: "client.authentication.k8s.io/v1", Command: "x",
					Args: append(make([]string, 0, 8), rapid.SliceOfN(word, 0, 3).Draw(t, "args")...)}, // with room to append in place
				ProfileSourcedCLIArgsPolicy: rapid.SampledFrom([]ArgsPolicy{ArgsAppend, ArgsIgnore}).Draw(t, "args policy"),
				ProfileSourcedEnvVarsPolicy: rapid.SampledFrom([]EnvPolicy{EnvAppendIfNotExists, EnvReplace, EnvIgnore}).Draw(t, "env policy"),
			})
			seen := map[string]bool{}
			for _, name := range rapid.SliceOfN(word, 0, 4).Draw(t, "env") {
				if !seen[name] {
					seen[name] = true
					p.List[i].ExecConfig.Env = append(p.List[i].ExecConfig.Env, EnvVar{name, "operator"})
				}
			}
		}
		before, _ := json.Marshal(p)
		draw := func(mark string) *Profile {
			args, _ := json.Marshal([]string{mark})
			vars := map[string]string{}
			for _, name := range rapid.SliceOfN(word, 0, 5).Draw(t, "names") {
				vars[name] = mark
			}
			envs, _ := json.Marshal(vars)
			return &Profile{Ways: map[string]clientcmdv1.Cluster{
				fmt.Sprint("p", rapid.IntRange(0, 2).Draw(t, "provider")): {Server: "https://" + mark, Extensions: []clientcmdv1.NamedExtension{
					{Name: extensionArgs, Extension: runtime.RawExtension{Raw: args}}, {Name: extensionEnv, Extension: runtime.RawExtension{Raw: envs}},
				}}}}
		}
		answer := func(of *Profile) (*rest.Config, string) {
			config, err := FromProfile(of, p)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := json.Marshal(config.ExecProvider)
			return config, config.Host + string(text)
		}
		one, other := draw("one"), draw("other")
		config, first := answer(one)
		_, second := answer(other)
		if strings.Contains(strings.TrimPrefix(second, "https://other"), "one") || strings.Contains(strings.TrimPrefix(first, "https://one"), "other") {
			t.Fatalf("leaked:\n%s\n%s", first, second)
		}
		// Whoever changes an answer changes neither the file nor a later one.
		config.ExecProvider.Args = append(config.ExecProvider.Args, "mine")
		for i := range config.ExecProvider.Env {
			config.ExecProvider.Env[i].Value = "mine"
		}
		if _, again := answer(one); again != first {
			t.Fatalf("then:\n%s\nnow:\n%s", first, again)
		}
		if after, _ := json.Marshal(p); string(after) != string(before) {
			t.Fatalf("the providers were changed:\n%s\n%s", before, after)
		}
	})
}

func TestProfilesThatSayNothingUsable(t *testing.T) {
	for status, want := range map[string]string{
		"{}": "has no access providers",
		"accessProviders: [{name: other, cluster: {server: 'https://a'}}]":                                                                 "has the access providers other, none of which is in the file of --clusterprofile-provider-file, which has first, second, third",
		"accessProviders: [{name: first, cluster: {}}]":                                                                                    `access provider "first": has no server`,
		"accessProviders: [{name: first, cluster: {server: 'ftp://a'}}]":                                                                   "is not a URL",
		"accessProviders: [{name: first, cluster: {server: 'https://a', certificate-authority-data: eA==}}]":                               "holds no certificate",
		"accessProviders: [{name: first, cluster: {server: 'https://a', certificate-authority: x, insecure-skip-tls-verify: true}}]":       "remove one of them",
		"accessProviders: [{name: first, cluster: {server: 'https://a', proxy-url: 'http//b'}}]":                                           "proxy-url is not a URL",
		"accessProviders: [{name: first, cluster: {server: 'https://a', extensions: [{name: " + extensionArgs + ", extension: {a: b}}]}}]": "is not a list of strings",
		"accessProviders: [{name: first, cluster: {server: 'https://a', extensions: [{name: " + extensionEnv + ", extension: {a: 1}}]}}]":  "is not an object with strings",
	} {
		if _, err := FromProfile(profile(t, status), providers(t, two)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", status, err, want)
		}
	}
	if _, err := FromProfile(profile(t, "accessProviders: [{name: a, cluster: {server: 'https://a'}}]"), nil); err == nil || !strings.Contains(err.Error(), "--clusterprofile-provider-file") {
		t.Error(err)
	}
	p := profile(t, "conditions: [{type: ControlPlaneHealthy, status: 'False', reason: Down, message: no etcd}]")
	if want := "its condition ControlPlaneHealthy is False: Down: no etcd"; p.Unhealthy != want {
		t.Error(p.Unhealthy)
	}
	if p := profile(t, "conditions: [{type: ControlPlaneHealthy, status: Unknown}]"); p.Unhealthy != "" {
		t.Error(p.Unhealthy)
	}
}

// F5: the provider file is read strictly, and says where it is wrong.
func TestF5_ProviderFile(t *testing.T) {
	const exec = `{apiVersion: client.authentication.k8s.io/v1, command: x}`
	for text, want := range map[string]string{
		"":                                      "providers.json:1:1: the file is empty: expected at least `providers: []`",
		"[]":                                    "1:1: is a list: expected an object",
		"{}":                                    "1:1: providers: is missing",
		"providers: [{name: a}]":                "1:13: providers[0].execConfig: is missing",
		"providers:\n- name: a\n  execConf: {}": `3:3: providers[0].execConf: unknown field, did you mean "execConfig"?`,
		"providers:\n- {name: a, execConfig: " + exec + "}\n- {name: a, execConfig: " + exec + "}":                                   `3:10: providers[1].name: the provider "a" is also providers[0]`,
		"providers: [{name: a, execConfig: {apiVersion: client.authentication.k8s.io/v1alpha1, command: x}}]":                        "unknown value \"client.authentication.k8s.io/v1alpha1\"",
		"providers: [{name: a, execConfig: " + exec + ", profileSourcedCLIArgsPolicy: append}]":                                      `did you mean "Append"?`,
		"providers: [{name: a, execConfig: {apiVersion: client.authentication.k8s.io/v1, command: x, interactiveMode: Always}}]":     "expected Never or IfAvailable",
		"providers: [{name: a, execConfig: {apiVersion: client.authentication.k8s.io/v1, command: x, env: [{name: A=B}]}}]":          "can't hold =",
		"providers: [{name: a, execConfig: {apiVersion: client.authentication.k8s.io/v1, command: x, env: [{name: A}, {name: A}]}}]": "is there twice",
		"{\"providers\": [\n\t{\"name\": 5}]}": "2:11: providers[0].name: is the number 5",
	} {
		if _, err := ParseProviders("/etc/isthmus/providers.json", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	p := providers(t, "{\n\t\"providers\": [{\n\t\t\"name\": \"a\", \"execConfig\": {\"apiVersion\": \"client.authentication.k8s.io/v1\", \"command\": \"./bin/x\", \"env\": [{\"name\": \"A\", \"value\": \"\"}]}}]}")
	if got := p.List[0]; got.ExecConfig.Command != "/etc/isthmus/bin/x" || got.ProfileSourcedCLIArgsPolicy != ArgsIgnore || got.ProfileSourcedEnvVarsPolicy != EnvIgnore {
		t.Errorf("%+v", got)
	}
}

func TestProviderFileIsFollowed(t *testing.T) {
	path := t.TempDir() + "/providers.yaml"
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := OpenProviderFile(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Error(err)
	}
	write(two)
	f, err := OpenProviderFile(path)
	if err != nil {
		t.Fatal(err)
	}
	look := func(changed bool, fault string) {
		t.Helper()
		got, err := f.Look()
		if got != changed || (err == nil) != (fault == "") || err != nil && !strings.Contains(err.Error(), fault) {
			t.Errorf("changed %v, %v", got, err)
		}
	}
	look(false, "")
	write("providers: []")
	look(true, "")
	write("providers: 5")
	look(false, "expected a list")
	look(false, "") // told once
	if len(f.Providers().List) != 0 {
		t.Error("what was read before is not in use")
	}
	write(two)
	look(true, "")
	if len(f.Providers().List) != 3 {
		t.Error(f.Providers())
	}
	var none *ProviderFile
	if none.Providers() != nil {
		t.Error("a nil file has providers")
	}
}
