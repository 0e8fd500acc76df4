//go:build unix

package harness

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/config/crd"
	"isthmus.dev/isthmus/internal/controlplane"
)

const (
	inventoryAPI = "sigs.k8s.io/cluster-inventory-api"
	// accessNamespace is where the hub has the tokens for its members, and members the service accounts.
	accessNamespace = "fleet-access"
	// accessPlugin is the access plugin that comes with the Cluster Inventory API, and the user that it runs as.
	accessPlugin = "secretreader"

	// Installations is the resource of Installations.
	Installations = "installations.v1alpha1.isthmus.dev"
	// ClusterProfiles is the resource of ClusterProfiles.
	ClusterProfiles = "clusterprofiles.v1alpha1.multicluster.x-k8s.io"
	// Marked is in values that must be read nowhere but where they are installed (F4). Tests put it into their Secrets.
	Marked = "marked-so-that-it-is-found"
)

// Hub is a cluster that installs components on two members, as one test sees it: an identity, a namespace, users and an
// Isthmus of the test's own, on clusters that all tests of the package share. The members run workloads, on paper.
type Hub struct {
	*Side
	// One and Two are the members.
	One, Two *Side
	// ID is the hub's cluster ID, and the namespace of its Installations and ClusterProfiles. It leads the names of what
	// the test makes for all.
	ID string

	dir       string
	owns      []string     // namespaces on members that go at the end, beside those that its ID leads
	granted   bytes.Buffer // the manifests whose rights were granted
	ways      []*Way
	processes []*Isthmus
}

// Way is how a hub reaches a member: a ClusterProfile, a proxy in between, and a token.
type Way struct {
	*Proxy
	Member *Side
	// Profile is the name of the ClusterProfile, in the hub's namespace.
	Profile string

	hub    *Hub
	tokens []string
}

var (
	prepareHubs sync.Once
	errHubs     error
)

// NewHub returns a hub on the clusters that the tests of a package share. Such tests stop an API server only while no other
// test runs: they are not parallel.
func NewHub(t testing.TB) *Hub {
	t.Helper()
	names := []string{"hub", "one", "two"}
	clusters := make([]*controlplane.Cluster, len(names))
	var starting sync.WaitGroup
	for i, name := range names[1:] {
		starting.Go(func() { clusters[i+1] = controlplane.Shared(t, name) })
	}
	clusters[0] = controlplane.Shared(t, names[0])
	starting.Wait()
	if clusters[1] == nil || clusters[2] == nil {
		t.FailNow()
	}
	prepareHubs.Do(func() { errHubs = prepareHub(clusters[0], clusters[1], clusters[2]) })
	if errHubs != nil {
		t.Fatal(errHubs)
	}
	hub, one, two := newSide(t, clusters[0]), newSide(t, clusters[1]), newSide(t, clusters[2])
	return newHub(hub, one, two)
}

// T is the test that the hub is of.
func (h *Hub) T() testing.TB { return h.t }

// Own says that namespaces on members are the test's, whatever their names.
func (h *Hub) Own(namespaces ...string) { h.owns = append(h.owns, namespaces...) }

// Another returns a second hub, on the cluster of the member Two; it can reach One.
func (h *Hub) Another() *Hub {
	h.t.Helper()
	return newHub(newSide(h.t, h.Two.Cluster), newSide(h.t, h.One.Cluster), nil)
}

func newHub(hub, one, two *Side) *Hub {
	hub.t.Helper()
	h := &Hub{Side: hub, One: one, Two: two, ID: testID(hub.t), dir: hub.t.TempDir()}
	h.Apply("{apiVersion: v1, kind: Namespace, metadata: {name: " + h.ID + "}}")
	hub.t.Cleanup(h.end)
	return h
}

// prepareHub gives the clusters what runs workloads, and hubs their kinds. It is done once.
func prepareHub(hub *controlplane.Cluster, members ...*controlplane.Cluster) error {
	ctx := context.Background()
	var kinds bytes.Buffer
	files, err := crd.Files.ReadDir(".")
	if err != nil {
		return err
	}
	for _, file := range files {
		content, err := crd.Files.ReadFile(file.Name())
		if err != nil {
			return err
		}
		fmt.Fprintf(&kinds, "---\n%s\n", content)
	}
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", inventoryAPI).Output()
	if err != nil {
		return fmt.Errorf("finding %s: %w", inventoryAPI, err)
	}
	profiles, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "config/crd/bases/multicluster.x-k8s.io_clusterprofiles.yaml"))
	if err != nil {
		return err
	}
	fmt.Fprintf(&kinds, "---\n%s\n---\n", profiles)
	kinds.WriteString(`{apiVersion: v1, kind: Namespace, metadata: {name: ` + accessNamespace + `}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: ` + IsthmusNamespace + `}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: ` + accessPlugin + `, namespace: ` + accessNamespace + `}
rules: [{apiGroups: [""], resources: [secrets], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: ` + accessPlugin + `, namespace: ` + accessNamespace + `}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: ` + accessPlugin + `}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ` + accessPlugin + `}]
`)
	equip := func(c *controlplane.Cluster, isHub, isMember bool) error {
		with := []controlplane.Component{controlplane.ControllerManager}
		if isMember {
			with = append(with, controlplane.Scheduler, controlplane.Kwok)
		}
		if err := c.StartComponent(ctx, with...); err != nil {
			return err
		}
		if isMember {
			if err := c.AddNode(ctx, "node"); err != nil {
				return err
			}
		}
		if isHub {
			return c.Apply(ctx, kinds.Bytes())
		}
		return c.Apply(ctx, []byte("{apiVersion: v1, kind: Namespace, metadata: {name: "+accessNamespace+"}}"))
	}
	errs := make([]error, 3)
	var equipping sync.WaitGroup
	equipping.Go(func() { errs[0] = equip(hub, true, false) })
	equipping.Go(func() { errs[1] = equip(members[0], false, true) })
	equipping.Go(func() { errs[2] = equip(members[1], true, true) })
	equipping.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Reach tells the hub how to reach a member, by a ClusterProfile of a name in the hub's namespace.
func (h *Hub) Reach(member *Side, profile string) *Way {
	h.t.Helper()
	w := &Way{Proxy: newProxy(h.t, member), Member: member, Profile: profile, hub: h}
	h.ways = append(h.ways, w)
	w.Rotate()
	w.Publish()
	return w
}

// Publish writes the ClusterProfile, with conditions if there are any.
func (w *Way) Publish(conditions ...string) {
	w.t.Helper()
	h := w.hub
	h.Apply(fmt.Sprintf("{apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ClusterProfile, metadata: {name: %s, namespace: %s}, spec: {clusterManager: {name: test}, displayName: %[1]s}}", w.Profile, h.ID))
	h.PatchAs("inventory", types.JSONPatchType, ClusterProfiles, h.ID, w.Profile, fmt.Sprintf(`[{op: add, path: /status, value: {
		conditions: [%s],
		accessProviders: [{name: %s, cluster: {server: "%s", certificate-authority-data: %s,
			extensions: [{name: client.authentication.k8s.io/exec, extension: {clusterName: %s}}]}}]}}]`,
		strings.Join(conditions, ", "), accessPlugin, w.URL(), base64.StdEncoding.EncodeToString(w.Member.Config().CAData), w.secret()), "status")
}

func (w *Way) secret() string { return w.hub.ID + "-" + w.Profile }

// account is the service account on the member that the hub's current token is of.
func (w *Way) account() string { return fmt.Sprintf("%s-%d", w.hub.User(), len(w.tokens)) }

// Rotate gives the hub a token of a new service account, and then ends the former one.
func (w *Way) Rotate() {
	w.t.Helper()
	former := w.account()
	w.tokens = append(w.tokens, "")
	w.Member.Apply("{apiVersion: v1, kind: ServiceAccount, metadata: {name: " + w.account() + ", namespace: " + accessNamespace + ", labels: {" + fixture + ": ''}}}")
	w.grant()
	path, err := w.Member.ServiceAccountKubeconfig(context.Background(), accessNamespace, w.account())
	if err != nil {
		w.t.Fatal(err)
	}
	config, err := controlplane.LoadConfig(path)
	if err != nil {
		w.t.Fatal(err)
	}
	w.tokens[len(w.tokens)-1] = config.BearerToken
	w.hub.Apply(fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: %s, namespace: %s, labels: {"+fixture+": ''}}, stringData: {token: %s}}", w.secret(), accessNamespace, config.BearerToken))
	if len(w.tokens) > 1 {
		w.Member.Delete("serviceaccounts", accessNamespace, former)
	}
}

// User is whom the hub's Isthmus runs as on the hub, and what its service accounts on members are called after.
func (h *Hub) User() string { return "isthmus-" + h.ID }

// Subject is whom it runs as on a member: NAMESPACE/NAME of a service account.
func (w *Way) Subject() string { return accessNamespace + "/" + w.account() }

// Grant gives the hub's Isthmus what isthmus rbac prints for manifests, which are Installations and the ConfigMaps that they
// name, beside what it was granted before.
func (h *Hub) Grant(manifests string) {
	h.t.Helper()
	fmt.Fprintf(&h.granted, "---\n%s\n", manifests)
	h.grantHub()
	for _, w := range h.ways {
		w.grant()
	}
}

// Install grants the rights for manifests, and applies them.
func (h *Hub) Install(manifests string) {
	h.t.Helper()
	h.Grant(manifests)
	h.Apply(manifests)
}

// Start runs isthmus controller on the hub, with the rights that were granted and no others, and waits until it is ready.
func (h *Hub) Start(flags ...string) *Isthmus {
	h.t.Helper()
	h.grantHub()
	p := (&Env{T: h.t}).process()
	p.launch(append([]string{
		"controller", "--controllers=installation", "--cluster-id", h.ID, "--kubeconfig", h.userKubeconfig(h.User()),
		"--clusterprofile-provider-file", h.providerFile(), "--log-level", "trace", "--listen", p.listen,
	}, flags...))
	h.processes = append(h.processes, p)
	p.WaitReady()
	return p
}

// providerFile returns the path of a provider file with the access plugin.
func (h *Hub) providerFile() string {
	h.t.Helper()
	path, kubeconfig := filepath.Join(h.dir, "providers.json"), filepath.Join(h.dir, "plugin.kubeconfig")
	if _, err := os.Stat(path); err == nil {
		return path
	}
	text, err := os.ReadFile(h.userKubeconfig(accessPlugin))
	if err != nil {
		h.t.Fatal(err)
	}
	// Its namespace is where the plugin finds tokens.
	text = bytes.Replace(text, []byte("- context:\n"), []byte("- context:\n    namespace: "+accessNamespace+"\n"), 1)
	if err := os.WriteFile(kubeconfig, text, 0o600); err != nil {
		h.t.Fatal(err)
	}
	content, err := json.Marshal(map[string]any{"providers": []any{map[string]any{"name": accessPlugin, "execConfig": map[string]any{
		"apiVersion": "client.authentication.k8s.io/v1", "command": pluginBinary(h.t), "provideClusterInfo": true,
		"env": []any{map[string]any{"name": "KUBECONFIG", "value": kubeconfig}},
	}}}})
	if err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		h.t.Fatal(err)
	}
	return path
}

var buildPlugin = sync.OnceValues(func() (string, error) {
	binary, err := build()
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(binary), accessPlugin)
	out, err := exec.Command("go", "build", "-o", path, inventoryAPI+"/plugins/"+accessPlugin+"/cmd/plugin").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", accessPlugin, err, out)
	}
	return path, nil
})

func pluginBinary(t testing.TB) string {
	t.Helper()
	path, err := buildPlugin()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Eventually waits until check returns nil, or fails the test with its last error.
func (h *Hub) Eventually(check func() error) {
	h.t.Helper()
	controlplane.Eventually(h.t, 3*Patience, check)
}

// Installation returns an Installation of the hub's namespace; nil: there is none.
func (h *Hub) Installation(name string) *v1alpha1.Installation {
	h.t.Helper()
	object := h.Get(Installations, h.ID, name)
	if object == nil {
		return nil
	}
	i := &v1alpha1.Installation{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, i); err != nil {
		h.t.Fatalf("installation %s: %v", name, err)
	}
	return i
}

// grantHub gives the hub's Isthmus what isthmus rbac says for all that was granted, on the hub; grant does on a member.
func (h *Hub) grantHub() {
	h.t.Helper()
	if h.granted.Len() > 0 {
		h.applyFixture(h.rbac("--side", "local", "--subject-user", h.User(), "--name", h.User()))
	}
}

func (w *Way) grant() {
	w.t.Helper()
	h, profile := w.hub, w.hub.ID+"/"+w.Profile
	if !strings.Contains(h.granted.String(), "clusterProfileRef: {name: "+w.Profile+",") {
		return // nothing goes there yet
	}
	w.Member.applyFixture(h.rbac("--side", "remote", "--clusterprofile", profile, "--subject-serviceaccount", w.Subject(), "--name", w.account()))
}

// rbac returns what isthmus rbac prints for what was granted.
func (h *Hub) rbac(flags ...string) string {
	h.t.Helper()
	file := filepath.Join(h.dir, "granted.yaml")
	if err := os.WriteFile(file, h.granted.Bytes(), 0o600); err != nil {
		h.t.Fatal(err)
	}
	out, code := Run(h.t, append([]string{"rbac", "--installations", file, "--instance", h.ID}, flags...)...)
	if code != 0 {
		h.t.Fatalf("isthmus rbac: exit code %d: %s", code, out)
	}
	return out
}

// applyFixture applies manifests as what is the test's own.
func (s *Side) applyFixture(manifests string) {
	s.t.Helper()
	var all strings.Builder
	for _, document := range strings.Split("\n"+manifests, "\n---\n") {
		var content map[string]any
		if err := yaml.Unmarshal([]byte(document), &content); err != nil {
			s.t.Fatalf("%v\n%s", err, document)
		}
		if len(content) == 0 {
			continue
		}
		object := &unstructured.Unstructured{Object: content}
		labels := object.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[fixture] = ""
		object.SetLabels(labels)
		text, err := yaml.Marshal(content)
		if err != nil {
			s.t.Fatal(err)
		}
		all.WriteString("---\n")
		all.Write(text)
	}
	s.Apply(all.String())
}
