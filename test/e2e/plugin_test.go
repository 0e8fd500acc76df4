//go:build unix

package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"isthmus.dev/isthmus/examples/demo"
	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/controlplane"
	"isthmus.dev/isthmus/test/harness"
)

// pluginRules is what plugins carry in the tests of what goes wrong: as for another generic sync plugin, it does not say
// which virtual cluster it is for.
const pluginRules = "version: v1\nsyncResources:\n- {apiVersion: v1, kind: ConfigMap, direction: toHost, selector: {matchLabels: {example.io/cross: \"true\"}}}\n"

// virtualCluster makes the host namespace of a virtual cluster, and its Service.
func virtualCluster(e *harness.Env) harness.PluginOptions {
	name, namespace := "v-"+e.ID[:strings.IndexByte(e.ID, '-')], e.ID+"-host"
	e.Remote.Apply(fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", namespace))
	e.Remote.Create(fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: %s, namespace: %s}, spec: {ports: [{port: 443}]}}", name, namespace))
	return harness.PluginOptions{Name: name, Namespace: namespace, File: e.PluginFile(pluginRules)}
}

// crosses creates a ConfigMap and waits until it is on the host.
func crosses(e *harness.Env, o harness.PluginOptions, namespace, name string) {
	e.T.Helper()
	e.Local.Create(fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: %s, labels: {example.io/cross: "true"}}, data: {a: b}}`, name, namespace))
	twin := boundary.VirtualCluster{Name: o.Name, HostNamespace: o.Namespace}.HostName(namespace, name)
	e.Eventually(func() error {
		if e.Remote.Get("configmaps", o.Namespace, twin) == nil {
			return fmt.Errorf("%s is not on the host", twin)
		}
		return nil
	})
}

// F5, F1: the tenant's control plane starts whatever is wrong with the configuration or with a cluster. What is wrong is
// told, and nothing crosses; failurePolicy: Abort keeps it from starting.
func TestF5_PluginLetsItsHostBoot(t *testing.T) {
	t.Parallel()
	nowhere := filepath.Join(t.TempDir(), "nowhere")
	if err := os.WriteFile(nowhere, []byte("{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: \"https://127.0.0.1:1\"}}], contexts: [{name: c, context: {cluster: c}}]}"), 0o600); err != nil {
		t.Fatal(err)
	}
	replace := func(from, to string) func(*harness.PluginOptions) {
		return func(o *harness.PluginOptions) {
			if !strings.Contains(o.File, from) {
				t.Fatalf("%q is not in the file:\n%s", from, o.File)
			}
			o.File = strings.Replace(o.File, from, to, 1)
		}
	}
	const config = "    config:\n"
	tests := []struct {
		name   string
		change func(*harness.PluginOptions)
		reason string
		event  bool // on the Service
		boots  bool
	}{
		{"unknown key", replace("kind: ConfigMap", "kind: ConfigMap\n        polcy: All"), `syncResources[0].polcy: unknown field, did you mean "policy"?`, true, true},
		{"unknown key, and abort", replace(config, config+"      failurePolicy: Abort\n      nope: 1\n"), "nope: unknown field", true, false},
		{"no object", replace("version: v1", "version: [v1]"), "version: is a list: expected v1", true, true},
		{"another virtual cluster", replace(config, config+"      virtualCluster: {name: other, hostNamespace: elsewhere}\n"), "but vCluster says that it is", true, true},
		{"many host namespaces", replace("plugin:\n", "sync: {toHost: {namespaces: {enabled: true, mappings: {byName: {\"team-*\": \"acme-team-*\"}}}}}\nplugin:\n"), "vCluster keeps names, in host namespaces of their own", true, true},
		{"the virtual cluster is not there", func(o *harness.PluginOptions) { o.Virtual = nowhere }, "local cluster: reading namespace kube-system", false, true},
		{"the host is not there", func(o *harness.PluginOptions) { o.Host = nowhere }, "remote cluster: reading namespace kube-system", false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := harness.New(t)
			o := virtualCluster(e)
			o.NotReady = true
			tt.change(&o)
			began := time.Now()
			p := e.StartPlugin(o)
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("it took %s to answer", took)
			}
			if tt.boots != (p.Booted == nil) || p.Booted != nil && !strings.Contains(p.Booted.Error(), tt.reason) {
				t.Fatalf("the host was answered %v", p.Booted)
			}
			if tt.event {
				e.Eventually(func() error {
					if tt.boots {
						return e.Remote.HasEvent(o.Namespace, o.Name, "Warning SyncFailed", tt.reason)
					}
					return nil
				})
			}
			if !tt.boots {
				p.Gone(harness.Patience)
				return
			}
			e.Eventually(func() error {
				if code, body := p.Ready(); code != http.StatusServiceUnavailable || !strings.Contains(body, tt.reason) {
					return fmt.Errorf("readyz: %d %s", code, body)
				}
				return nil
			})
			if out, code := harness.Run(t, "status", "--address", p.Address()); code != 2 || !strings.Contains(out, "not ready: ") || !strings.Contains(out, tt.reason) {
				t.Errorf("isthmus status: exit code %d: %s", code, out)
			}
			if !strings.Contains(strings.ReplaceAll(p.Log(), `\"`, `"`), tt.reason) {
				t.Errorf("the log does not say so:\n%s", p.Log())
			}
			if faulty := p.Metric("isthmus_configuration_faulty"); (faulty == "1") != tt.event {
				t.Errorf("isthmus_configuration_faulty is %s", faulty)
			}
			for command, want := range map[string]string{"mutate {not json": "ok mutated=false", "mutate": "ok mutated=false", "leader": "ok"} {
				if answer, err := p.Call(command); err != nil || answer != want {
					t.Errorf("%s: %q %v", command, answer, err)
				}
			}
			if _, err := p.Call("initialize {}"); err == nil || !strings.Contains(err.Error(), "was called before") {
				t.Errorf("a second Initialize: %v", err)
			}
			if writes := e.Writes(began); len(writes) > 0 {
				t.Errorf("it wrote: %v", writes)
			}
			p.End()
		})
	}
}

// A follower does nothing until it leads; a port that is taken keeps it from nothing, and is served when it is free.
func TestF1_PluginLeadsWhenTold(t *testing.T) {
	e := harness.New(t)
	ns := e.Namespace("web")
	o := virtualCluster(e)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o.Listen, o.Follower = taken.Addr().String(), true
	began := time.Now()
	p := e.StartPlugin(o)
	e.Eventually(func() error {
		return e.Remote.HasEvent(o.Namespace, o.Name, "health and metrics are not served", o.Listen)
	})
	if !strings.Contains(p.Log(), "Health and metrics are not served for now") {
		t.Errorf("the log does not say so:\n%s", p.Log())
	}
	for _, r := range e.Requests(began) {
		if kind := r.ObjectRef.Resource; kind != "services" && kind != "events" {
			t.Errorf("a follower asked for %s", r)
		}
	}
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	e.Eventually(func() error {
		if code, body := p.Ready(); code != http.StatusOK || !strings.Contains(body, "standing by") || !strings.Contains(body, o.Listen+" was taken before") {
			return fmt.Errorf("readyz: %d %s", code, body)
		}
		return nil
	})
	status := func(texts ...string) error {
		out, code := harness.Run(t, "status", "--address", p.Address())
		for _, text := range append(texts, boundary.VirtualCluster{Name: o.Name, HostNamespace: o.Namespace}.ClusterID()+" to host, instance "+e.ID) {
			if code != 0 || !strings.Contains(out, text) {
				return fmt.Errorf("isthmus status: exit code %d, and no %q in %s", code, text, out)
			}
		}
		return nil
	}
	if err := status("standing by: this replica of vCluster does not lead"); err != nil {
		t.Error(err)
	}
	for range 2 { // told twice is once
		if _, err := p.Call("leader"); err != nil {
			t.Fatal(err)
		}
	}
	p.WaitReady()
	crosses(e, o, ns, "a")
	e.Eventually(func() error {
		return status(": ready", "ConfigMap-toHost", "active", "configuration ", "remote cluster ")
	})
	p.End()
}

// When vCluster is killed its plugin ends with it: nobody writes on behalf of a control plane that is gone.
func TestF1_PluginEndsWithItsHost(t *testing.T) {
	e := harness.New(t)
	ns := e.Namespace("web")
	o := virtualCluster(e)
	p := e.StartPlugin(o)
	crosses(e, o, ns, "a")
	if err := syscall.Kill(p.HostPID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.Gone(15 * time.Second)
	began := time.Now()
	p = e.StartPlugin(o)
	restsSince(e, began)
	crosses(e, o, ns, "b")
	p.End()
}

// N3, X2, S2: two tenants of one host, each with a plugin of its own, carry seven kinds at once. Neither may read the
// other's credentials.
func TestN3_PluginsOfTwoTenants(t *testing.T) {
	t.Parallel()
	first := harness.NewOwn(t, controlplane.Options{})
	tenants := []*harness.Env{first, first.Tenant(t)}
	names := []string{"acme", "globex"}
	crds := harness.ModuleFile(t, gatewayAPI, "config/crd/standard/gateway.networking.k8s.io_gatewayclasses.yaml") + "\n---\n" +
		harness.ModuleFile(t, gatewayAPI, "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml") + "\n---\n" +
		harness.ModuleFile(t, argoCD, "manifests/crds/application-crd.yaml") + "\n---\n" +
		harness.ModuleFile(t, prometheusOperator, "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml")
	manifest := func(name string) string {
		content, err := demo.Files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	first.Remote.Apply(crds + "\n---\n" + manifest("host.yaml"))
	rules := strings.ReplaceAll(manifest("tenant-sync.yaml"), "naming: VirtualCluster\nvirtualCluster:\n  name: shop\n  hostNamespace: vcluster-acme--shop\n", "")
	for i, e := range tenants {
		e.Local.Apply(crds + "\n---\n" + manifest("tenant.yaml"))
		e.StartPlugin(harness.PluginOptions{Name: "shop", Namespace: "vcluster-" + names[i] + "--shop", File: e.PluginFile(rules)})
	}
	for i, e := range tenants {
		cluster := boundary.VirtualCluster{Name: "shop", HostNamespace: "vcluster-" + names[i] + "--shop"}
		x := &exampleRun{Env: e}
		twin := func(resource, namespace, name string, want any, path ...string) {
			t.Helper()
			x.twin(resource, namespace, name, want, path...)
		}
		host := cluster.HostNamespace
		x.waitFor(e.Local, gatewayClasses, "", "public", "example.io/gateways", "spec", "controllerName")
		front := cluster.HostName("web", "front")
		twin(httpRoutes, host, front, []any{map[string]any{"backendRefs": []any{map[string]any{"name": front}}}}, "spec", "rules")
		twin(applications, "argocd", cluster.SharedName("web", "front"), names[i], "spec", "project")
		twin(prometheusRules, host, cluster.HostName("web", "alerts"), "platform", "metadata", "labels", "release")
		twin("configmaps", "monitoring", cluster.SharedName("web", "latency"), "1", "metadata", "labels", "grafana_dashboard")
		twin("secrets", host, cluster.HostName("web", "git"), "Secret", "kind")
		if err := secretHas(e.Remote, host, cluster.HostName("web", "git"), "project", names[i]); err != nil {
			t.Error(err)
		}
		route := e.Remote.Get(httpRoutes, host, front)
		e.Remote.SetStatus(httpRoutes, host, front, fmt.Sprintf(`{parents: [{parentRef: {name: public, namespace: gateways}, controllerName: example.io/gateways,
			conditions: [{type: Accepted, status: "True", reason: Accepted, message: fine, lastTransitionTime: "2024-01-01T00:00:00Z", observedGeneration: %d}]}]}`, route.GetGeneration()))
		x.waitFor(e.Local, httpRoutes, "web", "front", []any{map[string]any{"conditions": []any{map[string]any{"type": "Accepted", "status": "True"}}}}, "status", "parents")
	}
	first.Eventually(func() error { return secretHas(first.Local, "platform", "database", "password", "not-a-real-one") })
	if others := tenants[1].Local.List("secrets", "", boundary.LabelOrigin); len(others) > 0 {
		t.Errorf("globex got %s, which is for acme", others[0].GetName())
	}
	for i, name := range names {
		user := harness.PluginUser("shop", "vcluster-"+name+"--shop")
		x := &exampleRun{Env: tenants[i]}
		for _, namespace := range []string{"vcluster-" + names[1-i] + "--shop", "argocd", "monitoring", ""} {
			if x.userMayList(user, "secrets", namespace) {
				t.Errorf("the plugin of %s may list the Secrets of %q", name, namespace)
			}
		}
		if !x.userMayList(user, "secrets", "vcluster-"+name+"--shop") {
			t.Errorf("the plugin of %s may not list the Secrets of its own namespace: this proves nothing", name)
		}
	}
}
