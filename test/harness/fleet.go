//go:build unix

package harness

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/config/crd"
	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/controlplane"
	"isthmus.dev/isthmus/internal/rbac"
)

// Fleet is a few clusters of a test's own, each of which may be a consumer, a provider, or both.
type Fleet struct {
	T        testing.TB
	clusters map[string]*Member
	dir      string
}

// Member is a cluster of a fleet. Its name is its cluster ID.
type Member struct {
	*Side
	fleet     *Fleet
	crossings []v1alpha1.Crossing
	liqo      bool
	endpoints bool
	networks  bool // Liqo's say how clusters are linked
	processes []*Isthmus
}

// IsthmusNamespace is where, on each cluster, Isthmus keeps what it keeps.
const IsthmusNamespace = "isthmus-system"

// NewFleet starts clusters with a controller manager each, which know the kinds of controller mode.
func NewFleet(t testing.TB, names ...string) *Fleet {
	t.Helper()
	f := &Fleet{T: t, clusters: map[string]*Member{}, dir: t.TempDir()}
	started := make([]*controlplane.Cluster, len(names))
	errs := make([]error, len(names))
	var starting sync.WaitGroup
	for i, name := range names {
		starting.Go(func() {
			started[i], errs[i] = controlplane.Start(t.Context(), name, controlplane.Options{With: []controlplane.Component{controlplane.ControllerManager}})
		})
	}
	starting.Wait()
	for _, c := range started {
		if c != nil {
			t.Cleanup(c.Stop)
		}
	}
	for i, err := range errs {
		if err != nil {
			t.Fatalf("start %s: %v", names[i], err)
		}
	}
	t.Cleanup(f.end)
	for _, c := range started {
		m := &Member{Side: newSide(t, c), fleet: f}
		f.clusters[c.Name()] = m
		files, err := crd.Files.ReadDir(".")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			content, err := crd.Files.ReadFile(file.Name())
			if err != nil {
				t.Fatal(err)
			}
			m.Apply(string(content))
		}
		m.Apply("{apiVersion: v1, kind: Namespace, metadata: {name: " + IsthmusNamespace + "}}")
	}
	return f
}

// Member returns a cluster.
func (f *Fleet) Member(name string) *Member { return f.clusters[name] }

// end stops all processes, and then looks at what they wrote.
func (f *Fleet) end() {
	for _, m := range f.clusters {
		for _, p := range m.processes {
			p.end()
		}
	}
	for _, m := range f.clusters {
		m.audit()
		if f.T.Failed() {
			for _, p := range m.processes[max(0, len(m.processes)-1):] {
				f.T.Logf("the end of the log of isthmus on %s:\n%s", m.Name(), tail(p.Log(), 60))
			}
		}
	}
}

// Eventually waits until check returns nil, or fails the test with its last error.
func (f *Fleet) Eventually(check func() error) {
	f.T.Helper()
	f.Within(2*Patience, check)
}

// Within waits until check returns nil, or fails the test with its last error after a time.
func (f *Fleet) Within(limit time.Duration, check func() error) {
	f.T.Helper()
	controlplane.Eventually(f.T, limit, check)
}

// user is whom the Isthmus of a cluster runs as, on all clusters.
func user(consumer string) string { return "isthmus-" + consumer }

// tenancyUser is whom the provider's Isthmus runs as.
const tenancyUser = "isthmus-tenancy"

// Consent makes the cluster a provider that gives namespaces on request: it runs the tenancy controller, with the rights to
// hand out those on resources.
func (m *Member) Consent(resources ...v1alpha1.AllowedResources) *Isthmus {
	m.t.Helper()
	m.applyObjects(rbac.Provider(rbac.ProviderOptions{
		Resources: resources, Instance: "controller", Namespace: IsthmusNamespace, Subject: rbac.Subject{User: tenancyUser},
	}), nil)
	return m.start("controller", "--controllers=tenancy", "--kubeconfig", m.userKubeconfig(tenancyUser))
}

// Admit lets a consumer in: resources are what it may have, patterns the names of its namespaces.
func (m *Member) Admit(consumer string, patterns string, resources ...v1alpha1.AllowedResources) {
	m.t.Helper()
	allowed, err := json.Marshal(resources)
	if err != nil {
		m.t.Fatal(err)
	}
	m.Apply(fmt.Sprintf(`{apiVersion: isthmus.dev/v1alpha1, kind: Consumer, metadata: {name: %s},
		spec: {subject: {kind: User, name: %s}, resources: %s, namespaces: {patterns: [%s]}}}`, consumer, user(consumer), allowed, patterns))
}

// Trust lets a consumer make namespaces by itself, with what isthmus rbac says for some Crossings.
func (m *Member) Trust(consumer *Member) {
	m.t.Helper()
	objects, err := rbac.Controller(rbac.ControllerOptions{
		Crossings: consumer.crossings, Side: rbac.Remote, Instance: "controller", Name: user(consumer.Name()), Namespace: IsthmusNamespace,
		Liqo: consumer.liqo, Endpoints: consumer.endpoints, Subject: rbac.Subject{User: user(consumer.Name())},
	})
	m.applyObjects(objects, err)
}

// UseLiqo says that Liqo makes the cluster's namespaces on its providers.
func (m *Member) UseLiqo() { m.liqo = true }

// UseEndpoints has the controller of endpoints run beside the cluster's reflection: it takes what others send it, and sends
// what Services have that cross.
func (m *Member) UseEndpoints() { m.endpoints = true }

// UseLiqoNetworks has that take links from what Liqo says of networks, too.
func (m *Member) UseLiqoNetworks() { m.networks = true }

// Receive starts isthmus controller with the controller of endpoints alone, as a user that holds what isthmus rbac says for it.
func (m *Member) Receive() *Isthmus {
	m.t.Helper()
	m.applyObjects(rbac.Endpoints(rbac.ProviderOptions{
		Instance: "controller", Namespace: IsthmusNamespace, LiqoNetworks: m.networks, Subject: rbac.Subject{User: user(m.Name())},
	}), nil)
	return m.start("controller", "--controllers=endpoints", fmt.Sprintf("--liqo-networks=%t", m.networks), "--kubeconfig", m.userKubeconfig(user(m.Name())))
}

// Reach tells a consumer how to reach a provider: a Secret with a kubeconfig, and a RemoteCluster with some labels.
func (m *Member) Reach(provider *Member, labels string) {
	m.t.Helper()
	m.SetAccess(provider, provider.userKubeconfig(user(m.Name())))
	m.Apply(fmt.Sprintf("{apiVersion: isthmus.dev/v1alpha1, kind: RemoteCluster, metadata: {name: %[1]s, labels: {%[2]s}}, spec: {access: {kubeconfigSecretRef: {name: %[1]s}}}}",
		provider.Name(), labels))
}

// SetAccess puts a kubeconfig, a file, into the Secret by which a provider is reached.
func (m *Member) SetAccess(provider *Member, kubeconfig string) {
	m.t.Helper()
	content, err := os.ReadFile(kubeconfig)
	if err != nil {
		m.t.Fatal(err)
	}
	secret, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": provider.Name(), "namespace": IsthmusNamespace},
		"stringData": map[string]string{"kubeconfig": string(content)},
	})
	if err != nil {
		m.t.Fatal(err)
	}
	m.Apply(string(secret))
}

// Cross applies Crossings, after granting what they need on this cluster.
func (m *Member) Cross(manifests string) {
	m.t.Helper()
	for _, document := range strings.Split(manifests, "\n---\n") {
		var c v1alpha1.Crossing
		if err := yaml.UnmarshalStrict([]byte(document), &c); err != nil {
			m.t.Fatal(err)
		}
		m.crossings = append(m.crossings, c)
	}
	m.Grant()
	m.Apply(manifests)
}

// Grant gives the cluster's Isthmus what it needs on its own cluster, and nothing else.
func (m *Member) Grant() {
	m.t.Helper()
	objects, err := rbac.Controller(rbac.ControllerOptions{
		Crossings: m.crossings, Side: rbac.Local, Instance: "controller", Namespace: IsthmusNamespace, Liqo: m.liqo, Endpoints: m.endpoints, LiqoNetworks: m.networks,
		Subject: rbac.Subject{User: user(m.Name())},
	})
	m.applyObjects(objects, err)
}

// Ask runs a command that tells what isthmus controller would do, as the user that it runs as.
func (m *Member) Ask(command string, flags ...string) (output string, code int) {
	m.t.Helper()
	if m.endpoints {
		flags = append(flags, "--endpoints")
	}
	return Run(m.t, append([]string{command, "--controller", "--kubeconfig", m.userKubeconfig(user(m.Name())), "--cluster-id", m.Name()}, flags...)...)
}

// Reflect starts isthmus controller, as a user that holds what Grant gives.
func (m *Member) Reflect(flags ...string) *Isthmus {
	m.t.Helper()
	m.Grant()
	if m.endpoints {
		flags = append(flags, "--controllers=reflection,endpoints", fmt.Sprintf("--liqo-networks=%t", m.networks))
	}
	return m.start(append([]string{"controller", "--cluster-id", m.Name(), "--kubeconfig", m.userKubeconfig(user(m.Name())), "--log-level", "trace"}, flags...)...)
}

// Offload offloads a namespace, which it makes.
func (m *Member) Offload(namespace, spec string) {
	m.t.Helper()
	m.Apply("{apiVersion: v1, kind: Namespace, metadata: {name: " + namespace + "}}")
	m.Apply(fmt.Sprintf("{apiVersion: isthmus.dev/v1alpha1, kind: NamespaceOffloading, metadata: {name: offloading, namespace: %s}, spec: {%s}}", namespace, spec))
}

func (m *Member) start(args ...string) *Isthmus {
	m.t.Helper()
	p := (&Env{T: m.t}).process()
	p.launch(append(args, "--listen", p.listen))
	m.processes = append(m.processes, p)
	p.WaitReady()
	return p
}

func (m *Member) applyObjects(objects []runtime.Object, err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
	var all bytes.Buffer
	for _, object := range objects {
		text, err := yaml.Marshal(object)
		if err != nil {
			m.t.Fatal(err)
		}
		all.WriteString("---\n")
		all.Write(text)
	}
	m.Apply(all.String())
}

// Writes returns what the Isthmus of a consumer wrote on this cluster since a time, but for its bookkeeping: Events, Leases,
// ledgers, and the statuses of isthmus's own kinds; and but for dry runs.
func (m *Member) Writes(consumer string, since time.Time) (writes []Request) {
	m.t.Helper()
	for _, r := range m.requests(consumer, since) {
		own := r.ObjectRef != nil && r.ObjectRef.APIGroup == v1alpha1.GroupVersion.Group
		reviews := r.ObjectRef != nil && strings.HasSuffix(r.ObjectRef.Resource, "reviews")
		if r.IsWrite() && !own && !reviews && !(r.looks() && r.dryRun()) && !(&Request{AuditEvent: r.AuditEvent, Side: "local"}).bookkeeping() {
			writes = append(writes, r)
		}
	}
	return writes
}

// AllWrites returns what Writes does, and writes to isthmus's own kinds besides.
func (m *Member) AllWrites(consumer string, since time.Time) (writes []Request) {
	m.t.Helper()
	for _, r := range m.requests(consumer, since) {
		if own := r.ObjectRef != nil && r.ObjectRef.APIGroup == v1alpha1.GroupVersion.Group; own && r.IsWrite() {
			writes = append(writes, r)
		}
	}
	return append(writes, m.Writes(consumer, since)...)
}

// Listings returns the lists and watches that the Isthmus of a consumer began on this cluster since a time.
func (m *Member) Listings(consumer string, since time.Time) (all []Request) {
	m.t.Helper()
	events, err := m.AuditSince(since)
	if err != nil {
		m.t.Fatalf("audit log of %s: %v", m.Name(), err)
	}
	for _, event := range events {
		if event.User.Username == user(consumer) && (event.Verb == "list" && event.Stage == "ResponseComplete" || event.Verb == "watch" && event.Stage == "ResponseStarted") {
			all = append(all, Request{event, m.Name()})
		}
	}
	return all
}

// Watching returns how many watches of a resource the Isthmus of a consumer has open on this cluster.
func (m *Member) Watching(consumer, resource string) int {
	m.t.Helper()
	open, err := m.OpenWatches(user(consumer))
	if err != nil {
		m.t.Fatalf("audit log of %s: %v", m.Name(), err)
	}
	return open[resource]
}

// User is whom the cluster's Isthmus runs as, on all clusters.
func (m *Member) User() string { return user(m.Name()) }

// May asks whether a user may do something with a resource in a namespace; "": in all of them.
func (m *Member) May(user, verb, resource, namespace string) bool {
	m.t.Helper()
	gvr := Kind(resource)
	clientset, err := kubernetes.NewForConfig(m.Config())
	if err != nil {
		m.t.Fatal(err)
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user, Groups: []string{"system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: gvr.Group, Version: gvr.Version, Resource: gvr.Resource, Namespace: namespace},
	}}
	answer, err := clientset.AuthorizationV1().SubjectAccessReviews().Create(m.t.Context(), review, metav1.CreateOptions{})
	if err != nil {
		m.t.Fatal(err)
	}
	return answer.Status.Allowed
}

// TokenKubeconfig returns a kubeconfig with a token of the service account that has a consumer's name, which is made if
// need be.
func (m *Member) TokenKubeconfig(consumer string) string {
	m.t.Helper()
	m.Apply("{apiVersion: v1, kind: ServiceAccount, metadata: {name: " + consumer + ", namespace: " + IsthmusNamespace + "}}")
	path, err := m.ServiceAccountKubeconfig(m.t.Context(), IsthmusNamespace, consumer)
	if err != nil {
		m.t.Fatal(err)
	}
	return path
}

// BrokenKubeconfig is TokenKubeconfig with a token that the cluster does not know.
func (m *Member) BrokenKubeconfig(consumer string) string {
	m.t.Helper()
	content, err := os.ReadFile(m.TokenKubeconfig(consumer))
	if err != nil {
		m.t.Fatal(err)
	}
	path := filepath.Join(m.fleet.dir, "broken.kubeconfig")
	content = regexp.MustCompile(`token: .*`).ReplaceAll(content, []byte("token: nobody-s"))
	if err := os.WriteFile(path, content, 0o600); err != nil {
		m.t.Fatal(err)
	}
	return path
}

func (m *Member) requests(consumer string, since time.Time) (all []Request) {
	events, err := m.AuditSince(since)
	if err != nil {
		m.t.Fatalf("audit log of %s: %v", m.Name(), err)
	}
	for _, event := range events {
		if event.User.Username == user(consumer) && event.Stage == "ResponseComplete" {
			all = append(all, Request{event, m.Name()})
		}
	}
	return all
}

var namespaced = regexp.MustCompile(`^/apis?/.*/namespaces/([^/]+)/`)

// audit fails the test on writes that no Isthmus may make, whoever's it is: what it applies to a twin carries the whole stamp
// and is create-only or bound, and what it deletes is bound (P1, P3); on its own cluster it writes to what may cross nothing
// but status and finalizers (O5).
func (m *Member) audit() {
	for consumer := range m.fleet.clusters {
		for _, r := range m.Writes(consumer, time.Time{}) {
			if len(r.RequestObject) == 0 && r.Code() >= http.StatusBadRequest || r.ObjectRef.Resource == "namespaces" {
				continue // refused before the server read what it says
			}
			request := object(r.RequestObject)
			stamped := request.Metadata.Annotations[boundary.AnnotationApplied] != "" && request.Metadata.Labels[boundary.LabelOrigin] != ""
			bound := request.Metadata.ResourceVersion != ""
			switch {
			case r.looks():
				m.t.Errorf("audit: a command that only looks wrote: %s", r)
			case r.Verb == "patch" && r.ObjectRef.Subresource == "status":
			case r.Verb == "patch" && stamped && bound:
			case r.Verb == "patch" && finalizersPatch(r) != nil:
			case r.ObjectRef.Resource == "endpointslices" && request.Metadata.Labels[discoveryv1.LabelManagedBy] == v1alpha1.EndpointsManager: // what was received
			case r.Verb == "patch" && strings.HasPrefix(string(r.RequestObject), "["): // a release, which tests the UID
			case r.Verb == "delete":
				if _, bound := boundTo(r); !bound {
					m.t.Errorf("audit: a delete without UID and resourceVersion: %s", r)
				}
			default:
				m.t.Errorf("audit: a write that no Isthmus may make: %s %s", r, r.RequestObject)
			}
			if match := namespaced.FindStringSubmatch(r.RequestURI); match != nil && match[1] == IsthmusNamespace {
				m.t.Errorf("audit: a write in isthmus's own namespace that is no bookkeeping: %s", r)
			}
		}
	}
}
