//go:build unix

package linktest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"isthmus.dev/isthmus/internal/controlplane"
)

const inventory = "sigs.k8s.io/cluster-inventory-api"

// The access plugins that come with the Cluster Inventory API, by which their packages and providers are called.
const (
	SecretReader           = "secretreader"
	KubeconfigSecretReader = "kubeconfig-secretreader"
)

// BuildPlugins builds plugins into a folder, under their names.
func BuildPlugins(t testing.TB, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		cmd := exec.Command("go", "build", "-o", filepath.Join(dir, name), inventory+"/plugins/"+name+"/cmd/plugin")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("building %s: %v\n%s", name, err, out)
		}
	}
}

// PluginKubeconfig writes a kubeconfig of a user into a folder, in whose namespace the plugins read Secrets.
func PluginKubeconfig(t testing.TB, cluster *controlplane.Cluster, dir, user, namespace string) (path string) {
	t.Helper()
	from, err := cluster.UserKubeconfig(user)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "kubeconfig")
	text = []byte(strings.Replace(string(text), "- context:\n", "- context:\n    namespace: "+namespace+"\n", 1))
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Provider is an entry of a provider file, for a plugin beside the file that is called like its provider.
func Provider(name, kubeconfig string) map[string]any {
	return map[string]any{"name": name, "execConfig": map[string]any{
		"apiVersion": "client.authentication.k8s.io/v1", "command": "./" + name, "provideClusterInfo": true,
		"env": []any{map[string]any{"name": "KUBECONFIG", "value": kubeconfig}},
	}}
}

// WriteProviders writes a provider file, in one step.
func WriteProviders(t testing.TB, path string, providers ...map[string]any) {
	t.Helper()
	text, err := json.Marshal(map[string]any{"providers": providers})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// Profiles makes and changes the ClusterProfiles of a namespace of a cluster.
type Profiles struct {
	T       testing.TB
	Cluster *controlplane.Cluster
	// Version they are served under, v1alpha1 for instance.
	Version, Namespace string
	// Lists: an extension may be a list, as that for arguments is, which the definition in v0.1.3 of the API does not admit.
	Lists bool
}

var (
	crds            = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	clusterProfiles = schema.GroupResource{Group: "multicluster.x-k8s.io", Resource: "clusterprofiles"}
)

var extensionIsObject = regexp.MustCompile(`( +extension:\n +description: [^\n]+\n) +type: object\n`)

// Serve makes the cluster serve ClusterProfiles, and waits until it does.
func (p Profiles) Serve() {
	p.T.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", inventory).Output()
	if err != nil {
		p.T.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "config/crd/bases/multicluster.x-k8s.io_clusterprofiles.yaml"))
	if err != nil {
		p.T.Fatal(err)
	}
	definition := strings.ReplaceAll(string(text), "name: v1alpha1", "name: "+p.Version)
	if p.Lists {
		definition = extensionIsObject.ReplaceAllString(definition, "$1")
	}
	Apply(p.T, p.Cluster, definition)
	kube := kubernetes.NewForConfigOrDie(p.Cluster.Config())
	controlplane.Eventually(p.T, time.Minute, func() error {
		_, err := kube.Discovery().ServerResourcesForGroupVersion(clusterProfiles.Group + "/" + p.Version)
		return err
	})
}

// Unserve takes ClusterProfiles away from the cluster, without waiting.
func (p Profiles) Unserve() {
	p.T.Helper()
	err := dynamic.NewForConfigOrDie(p.Cluster.Config()).Resource(crds).Delete(context.Background(), clusterProfiles.String(), metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		p.T.Fatal(err)
	}
}

// Served reports whether the cluster has the definition of ClusterProfiles.
func (p Profiles) Served() bool {
	_, err := dynamic.NewForConfigOrDie(p.Cluster.Config()).Resource(crds).Get(context.Background(), clusterProfiles.String(), metav1.GetOptions{})
	return err == nil
}

func (p Profiles) resource() dynamic.ResourceInterface {
	return dynamic.NewForConfigOrDie(p.Cluster.Config()).Resource(clusterProfiles.WithVersion(p.Version)).Namespace(p.Namespace)
}

// Set gives a profile a status, and creates it if there is none.
func (p Profiles) Set(name string, status map[string]any) {
	p.T.Helper()
	_, err := p.resource().Create(context.Background(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": clusterProfiles.Group + "/" + p.Version, "kind": "ClusterProfile", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"clusterManager": map[string]any{"name": "test"}},
	}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		p.T.Fatal(err)
	}
	if status["conditions"] == nil {
		status["conditions"] = []any{}
	}
	patch, err := json.Marshal([]any{map[string]any{"op": "add", "path": "/status", "value": status}})
	if err != nil {
		p.T.Fatal(err)
	}
	if _, err := p.resource().Patch(context.Background(), name, types.JSONPatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		p.T.Fatal(err)
	}
}

// Delete deletes a profile.
func (p Profiles) Delete(name string) {
	p.T.Helper()
	if err := p.resource().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
		p.T.Fatal(err)
	}
}

// DeleteAll deletes all profiles of the namespace.
func (p Profiles) DeleteAll() {
	p.T.Helper()
	if err := p.resource().DeleteCollection(context.Background(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		p.T.Fatal(err)
	}
}

// Way is an entry of status.accessProviders for a cluster. change replaces fields of the cluster, and plugin is what the
// plugin is told.
func Way(provider string, cluster *controlplane.Cluster, change, plugin map[string]any) map[string]any {
	config := cluster.Config()
	fields := map[string]any{
		"server": config.Host, "certificate-authority-data": base64.StdEncoding.EncodeToString(CA(config)),
		"extensions": []any{map[string]any{"name": "client.authentication.k8s.io/exec", "extension": plugin}},
	}
	for key, value := range change {
		fields[key] = value
	}
	return map[string]any{"name": provider, "cluster": fields}
}

// Ways is the status of a profile with these ways.
func Ways(all ...any) map[string]any { return map[string]any{"accessProviders": all} }

// Unhealthy is the status of a profile with these ways, whose manager says that its control plane is not healthy.
func Unhealthy(reason, message string, all ...any) map[string]any {
	status := Ways(all...)
	status["conditions"] = []any{map[string]any{"type": "ControlPlaneHealthy", "status": "False", "reason": reason, "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"}}
	return status
}
