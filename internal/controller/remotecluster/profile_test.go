//go:build unix

package remotecluster

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/cluster/access"
	"isthmus.dev/isthmus/internal/controlplane"
)

const inventory = "sigs.k8s.io/cluster-inventory-api"

var clusterProfiles = schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "clusterprofiles"}

// buildPlugin builds one of the access plugins that come with the Cluster Inventory API.
func buildPlugin(t *testing.T, dir, name string) {
	t.Helper()
	cmd := exec.Command("go", "build", "-o", filepath.Join(dir, name), inventory+"/plugins/"+name+"/cmd/plugin")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", name, err, out)
	}
}

// serveProfiles applies the CRD of ClusterProfiles, under versions that the caller names.
func (e *env) serveProfiles(version string) {
	e.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", inventory).Output()
	if err != nil {
		e.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "config/crd/bases/multicluster.x-k8s.io_clusterprofiles.yaml"))
	if err != nil {
		e.Fatal(err)
	}
	e.apply(e.cp, strings.ReplaceAll(string(text), "name: v1alpha1", "name: "+version))
}

// profileClient makes and changes ClusterProfiles, of a version.
type profileClient struct {
	*env
	version string
}

func (p profileClient) resource() dynamic.ResourceInterface {
	gvr := clusterProfiles
	gvr.Version = p.version
	return dynamic.NewForConfigOrDie(p.cp.Config()).Resource(gvr).Namespace("default")
}

// set gives a profile a status, and creates it if there is none.
func (p profileClient) set(name string, status map[string]any) {
	p.Helper()
	_, err := p.resource().Create(context.Background(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "multicluster.x-k8s.io/" + p.version, "kind": "ClusterProfile", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"clusterManager": map[string]any{"name": "test"}},
	}}, metav1.CreateOptions{})
	if err != nil && !strings.Contains(err.Error(), "already exists") {
		p.Fatal(err)
	}
	if status["conditions"] == nil {
		status["conditions"] = []any{}
	}
	patch, _ := json.Marshal([]any{map[string]any{"op": "add", "path": "/status", "value": status}})
	if _, err := p.resource().Patch(context.Background(), name, types.JSONPatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		p.Fatal(err)
	}
}

// way is an entry of status.accessProviders for a cluster.
func way(provider string, cp *controlplane.Cluster, change map[string]any, exec map[string]any) map[string]any {
	config := cp.Config()
	cluster := map[string]any{
		"server": config.Host, "certificate-authority-data": base64.StdEncoding.EncodeToString(caOf(config)),
		"extensions": []any{map[string]any{"name": "client.authentication.k8s.io/exec", "extension": exec}},
	}
	for key, value := range change {
		cluster[key] = value
	}
	return map[string]any{"name": provider, "cluster": cluster}
}

func ways(all ...any) map[string]any { return map[string]any{"accessProviders": all} }

// put writes a Secret.
func (e *env) put(name string, data map[string]string) {
	e.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, StringData: data}
	_, err := e.kube.CoreV1().Secrets(namespace).Create(context.Background(), s, metav1.CreateOptions{})
	if err != nil {
		_, err = e.kube.CoreV1().Secrets(namespace).Update(context.Background(), s, metav1.UpdateOptions{})
	}
	if err != nil {
		e.Fatal(err)
	}
}

// providerFile writes a provider file, for plugins that act as the user that Isthmus is, in its namespace.
func providerFile(t *testing.T, path, kubeconfig string, names ...string) {
	t.Helper()
	var list []any
	for _, name := range names {
		list = append(list, map[string]any{"name": name, "execConfig": map[string]any{
			"apiVersion": "client.authentication.k8s.io/v1", "command": "./" + name, "provideClusterInfo": true,
			"env": []any{map[string]any{"name": "KUBECONFIG", "value": kubeconfig}},
		}})
	}
	text, _ := json.Marshal(map[string]any{"providers": list})
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// pluginEnv starts Remotes with the real plugins, each of which is offered to it.
func pluginEnv(t *testing.T) (e *env, file, kubeconfig string) {
	t.Helper()
	dir := t.TempDir()
	buildPlugin(t, dir, "secretreader")
	buildPlugin(t, dir, "kubeconfig-secretreader")
	cp := controlplane.Shared(t, "local")
	path, err := cp.UserKubeconfig("isthmus")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig = filepath.Join(dir, "kubeconfig") // whose namespace is where the plugins read Secrets
	if err := os.WriteFile(kubeconfig, []byte(strings.Replace(string(text), "- context:\n", "- context:\n    namespace: "+namespace+"\n", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(dir, "providers.json")
	providerFile(t, file, kubeconfig, "secretreader", "kubeconfig-secretreader")
	providers, err := access.OpenProviderFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return newEnvWith(t, providers), file, kubeconfig
}

func (e *env) profiled(name string) {
	e.Helper()
	e.create(name, v1alpha1.Access{ClusterProfileRef: &v1alpha1.ClusterProfileRef{Namespace: "default", Name: name}})
}

// A ClusterProfile is followed, from before its kind is served, through all that may change of it and around it.
func TestClusterProfileIsFollowed(t *testing.T) {
	e, file, kubeconfig := pluginEnv(t)
	ctx := context.Background()
	e.apply(e.cp, "apiVersion: v1\nkind: Namespace\nmetadata: {name: default}\n")
	_ = dynamic.NewForConfigOrDie(e.cp.Config()).Resource(crds).Delete(ctx, "clusterprofiles.multicluster.x-k8s.io", metav1.DeleteOptions{})
	paris := controlplane.Shared(t, "paris")
	account := e.consumer(paris, "profiled")

	e.profiled("paris")
	message := func(reason, want string) {
		t.Helper()
		e.eventually(func() string {
			if c := e.condition("paris", v1alpha1.ConditionReachable); c.Reason != reason || !strings.Contains(c.Message, want) {
				return fmt.Sprintf("%s: %s, want %s", c.Reason, c.Message, want)
			}
			return ""
		})
	}
	message(v1alpha1.ReasonAccess, "serves no ClusterProfiles")
	e.serveProfiles("v1alpha1")
	message(v1alpha1.ReasonAccess, "ClusterProfile default/paris does not exist")

	p := profileClient{e, "v1alpha1"}
	spoke := map[string]any{"clusterName": "spoke"}
	p.set("paris", ways(way("unheard-of", paris, nil, map[string]any{})))
	message(v1alpha1.ReasonAccess, "which has secretreader, kubeconfig-secretreader")
	p.set("paris", ways(way("secretreader", paris, nil, spoke)))
	message(v1alpha1.ReasonPlugin, `secrets "spoke" not found`) // what the plugin says
	e.put("spoke", map[string]string{"token": account.token})
	e.reachable("paris", v1alpha1.ReasonReached)
	remote := e.of("paris").Cluster

	// Its token is replaced, and the old one ends, without any change of the profile: no request fails.
	next := e.consumer(paris, "profiled-2")
	e.put("spoke", map[string]string{"token": next.token})
	account.revoke(t)
	for range 3 {
		if _, err := remote.UID(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if c := e.condition("paris", v1alpha1.ConditionReachable); c.Status != metav1.ConditionTrue {
		t.Errorf("%+v", c)
	}

	// Its certificate authority, endpoint and provider change.
	other := map[string]any{"certificate-authority-data": base64.StdEncoding.EncodeToString(caOf(e.cp.Config()))}
	p.set("paris", ways(way("secretreader", paris, other, spoke)))
	message(v1alpha1.ReasonTLS, "certificate")
	proxy := newProxy(t, paris)
	p.set("paris", ways(way("secretreader", paris, map[string]any{"server": proxy.url()}, spoke)))
	e.reachable("paris", v1alpha1.ReasonReached)
	if remote.Server() != proxy.url() || e.get("paris").Status.Server != proxy.url() {
		t.Errorf("server %s, in the status %s", remote.Server(), e.get("paris").Status.Server)
	}
	third := e.consumer(paris, "profiled-3")
	e.put("whole", map[string]string{"value": third.kubeconfig()})
	p.set("paris", ways(way("kubeconfig-secretreader", paris, nil, map[string]any{"name": "whole", "key": "value"})))
	e.eventually(func() string {
		if remote.Server() != paris.URL() {
			return "the provider was not changed"
		}
		return ""
	})
	next.revoke(t)
	if _, err := remote.UID(ctx); err != nil {
		t.Fatal(err)
	}
	e.reachable("paris", v1alpha1.ReasonReached)

	// The provider file changes.
	providerFile(t, file, kubeconfig, "secretreader")
	message(v1alpha1.ReasonAccess, "which has secretreader")
	if err := os.WriteFile(file, []byte("providers: 5"), 0o600); err != nil {
		t.Fatal(err)
	}
	e.eventually(func() string {
		if !strings.Contains(e.log.String(), "providers.json:1:12: providers: is the number 5") {
			return "the fault is not told"
		}
		return ""
	})
	providerFile(t, file, kubeconfig, "kubeconfig-secretreader")
	e.reachable("paris", v1alpha1.ReasonReached)

	// Its control plane is called unhealthy, heals, and the profile is deleted.
	status := ways(way("kubeconfig-secretreader", paris, nil, map[string]any{"name": "whole", "key": "value"}))
	condition := map[string]any{"type": "ControlPlaneHealthy", "status": "False", "reason": "Down", "message": "no etcd", "lastTransitionTime": "2026-01-01T00:00:00Z"}
	status["conditions"] = []any{condition}
	p.set("paris", status)
	message(v1alpha1.ReasonUnhealthy, "Down: no etcd")
	e.eventually(func() string {
		if e.of("paris").Usable {
			return "still usable"
		}
		return ""
	})
	condition["status"] = "True"
	p.set("paris", status)
	e.reachable("paris", v1alpha1.ReasonReached)
	if err := p.resource().Delete(ctx, "paris", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	message(v1alpha1.ReasonAccess, "ClusterProfile default/paris does not exist")
	if e.of("paris").Cluster != remote {
		t.Error("another Cluster than before")
	}
	for _, token := range []string{account.token, next.token, third.token} {
		if strings.Contains(e.log.String(), token) {
			t.Error("a token was logged")
		}
	}
}

// F6, row 401: while writes run, a token of a plugin that says nothing of its end is replaced and ends: no write fails.
func TestF6_RotatedPluginTokenLosesNoWrite(t *testing.T) {
	e, _, _ := pluginEnv(t)
	e.serveProfiles("v1alpha1")
	paris := controlplane.Shared(t, "paris")
	account := e.consumer(paris, "plugged-0")
	e.put("spoke", map[string]string{"token": account.token})
	profileClient{e, "v1alpha1"}.set("paris", ways(way("secretreader", paris, nil, map[string]any{"clusterName": "spoke"})))
	e.profiled("paris")
	e.reachable("paris", v1alpha1.ReasonReached)
	remote := e.of("paris").Cluster

	more, done := e.writing(remote, "plugged")
	for i := 1; i <= 2; i++ {
		next := e.consumer(paris, fmt.Sprintf("plugged-%d", i))
		e.put("spoke", map[string]string{"token": next.token})
		account.revoke(t)
		account = next
		more()
		time.Sleep(time.Second)
	}
	done()
}

// A version of ClusterProfiles that this program does not know is read as far as it is known.
func TestClusterProfileOfALaterVersion(t *testing.T) {
	e, _, _ := pluginEnv(t)
	_ = dynamic.NewForConfigOrDie(e.cp.Config()).Resource(crds).Delete(context.Background(), "clusterprofiles.multicluster.x-k8s.io", metav1.DeleteOptions{})
	e.eventually(func() string {
		if _, err := dynamic.NewForConfigOrDie(e.cp.Config()).Resource(crds).Get(context.Background(), "clusterprofiles.multicluster.x-k8s.io", metav1.GetOptions{}); err == nil {
			return "the CRD does not go"
		}
		return ""
	})
	e.serveProfiles("v1alpha2")
	paris := controlplane.Shared(t, "paris")
	e.put("spoke", map[string]string{"token": e.consumer(paris, "later").token})
	e.eventually(func() string {
		list, err := e.kube.Discovery().ServerResourcesForGroupVersion("multicluster.x-k8s.io/v1alpha2")
		if err != nil || len(list.APIResources) == 0 {
			return "not served"
		}
		return ""
	})
	profileClient{e, "v1alpha2"}.set("paris", ways(way("secretreader", paris, nil, map[string]any{"clusterName": "spoke"})))
	e.profiled("paris")
	e.reachable("paris", v1alpha1.ReasonReached)
	_ = dynamic.NewForConfigOrDie(e.cp.Config()).Resource(crds).Delete(context.Background(), "clusterprofiles.multicluster.x-k8s.io", metav1.DeleteOptions{})
	if c := e.reachable("paris", v1alpha1.ReasonAccess); !strings.Contains(c.Message, "serves no ClusterProfiles") && !strings.Contains(c.Message, "does not exist") {
		t.Error(c.Message)
	}
}

var crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
