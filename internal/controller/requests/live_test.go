package requests

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"isthmus.dev/isthmus/api/v1alpha1"
	crd "isthmus.dev/isthmus/config/crd"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/controlplane"
)

func TestMain(m *testing.M) { controlplane.Main(m) }

// patience is how long a test waits for what must happen.
const patience = 90 * time.Second

func eventually(t *testing.T, check func() error) {
	t.Helper()
	controlplane.Eventually(t, patience, check)
}

// provider is a cluster that stands for a provider whose answers the test gives.
type provider struct {
	*controlplane.Cluster
	t      *testing.T
	client dynamic.ResourceInterface
}

const consumerID = "west"

func newProvider(t *testing.T) *provider {
	t.Helper()
	c, err := controlplane.Start(t.Context(), "provider", controlplane.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	dyn, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	p := &provider{c, t, dyn.Resource(resource).Namespace(v1alpha1.ConsumerNamespacePrefix + consumerID)}
	p.apply(fmt.Sprintf(`
apiVersion: v1
kind: Namespace
metadata: {name: isthmus-consumer-%[1]s}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: consumer, namespace: isthmus-consumer-%[1]s}
rules: [{apiGroups: [isthmus.dev], resources: [namespacerequests], verbs: [get, list, watch, create, update, patch, delete]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: consumer, namespace: isthmus-consumer-%[1]s}
subjects: [{kind: User, name: west, apiGroup: rbac.authorization.k8s.io}]
roleRef: {kind: Role, name: consumer, apiGroup: rbac.authorization.k8s.io}
`, consumerID))
	return p
}

func (p *provider) apply(manifest string) {
	p.t.Helper()
	if err := p.Apply(p.t.Context(), []byte(manifest)); err != nil {
		p.t.Fatal(err)
	}
}

// serve installs the CRD.
func (p *provider) serve() {
	p.t.Helper()
	content, err := crd.Files.ReadFile("isthmus.dev_namespacerequests.yaml")
	if err != nil {
		p.t.Fatal(err)
	}
	p.apply(string(content))
}

func (p *provider) request(name string) *unstructured.Unstructured {
	p.t.Helper()
	u, err := p.client.Get(p.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return u
}

// answer writes a request's status.
func (p *provider) answer(name, status, reason string) {
	p.t.Helper()
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q,"reason":%q,"message":"said the provider","observedGeneration":%d,"lastTransitionTime":"2026-01-01T00:00:00Z"}],
		"granted":[{"group":"example.io","resource":"widgets","access":"Write"}]}}`, status, reason, p.request(name).GetGeneration())
	if _, err := p.client.Patch(p.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		p.t.Fatal(err)
	}
}

// connect returns the requests of one Isthmus, running.
func (p *provider) connect(user, clusterUID string) (r *Requests, changes *atomic.Int64) {
	p.t.Helper()
	kubeconfig, err := p.UserKubeconfig(user)
	if err != nil {
		p.t.Fatal(err)
	}
	remote, err := cluster.Connect(cluster.Options{Role: "remote", Kubeconfig: kubeconfig, UserAgent: user})
	if err != nil {
		p.t.Fatal(err)
	}
	changes = &atomic.Int64{}
	r = New(Options{
		Remote: remote, Consumer: consumerID, Instance: "controller", ClusterUID: clusterUID,
		Changed: func() { changes.Add(1) },
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { r.Run(ctx); close(done) }()
	p.t.Cleanup(func() { cancel(); <-done })
	return r, changes
}

func widgets(names ...string) (out []v1alpha1.RequestedResource) {
	for _, name := range names {
		out = append(out, v1alpha1.RequestedResource{Group: "example.io", Resource: name})
	}
	return out
}

// writes counts the writes of a user to requests since a time.
func (p *provider) writes(user string, since time.Time) (out []string) {
	p.t.Helper()
	events, err := p.AuditSince(since)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, e := range events {
		if e.User.Username == user && slices.Contains([]string{"create", "update", "patch", "delete"}, e.Verb) &&
			e.ObjectRef != nil && e.ObjectRef.Resource == "namespacerequests" {
			out = append(out, e.Verb+" "+path.Join(e.ObjectRef.Namespace, e.ObjectRef.Name))
		}
	}
	return out
}

// One life of requests: a provider that serves them late, answers, changes of what is wanted, an outage, another cluster's
// request under the same name, a restart, the end.
func TestRequestsFollowWhatIsWanted(t *testing.T) {
	p := newProvider(t)
	r, changes := p.connect("west", "uid-1")
	r.Want(map[string]Wanted{"a": {Source: "team-a", Resources: widgets("widgets", "gadgets")}, "b": {Source: "team-b"}})

	eventually(t, func() error {
		if state := r.State("a"); state.Known || state.Reason != ReasonNotServed {
			return fmt.Errorf("state without the API: %+v", state)
		}
		return nil
	})
	if served, err := r.Served(t.Context()); served || err != nil {
		t.Fatalf("served: %v %v", served, err)
	}
	before := changes.Load()
	p.serve()
	eventually(t, func() error {
		if p.request("a") == nil || p.request("b") == nil {
			return errors.New("not requested yet")
		}
		if state := r.State("a"); !state.Known || state.Ready || state.Reason != ReasonRequested {
			return fmt.Errorf("state before an answer: %+v", state)
		}
		return nil
	})
	if changes.Load() == before {
		t.Error("nobody was told that the API is served")
	}

	p.answer("a", "True", v1alpha1.ReasonGranted)
	eventually(t, func() error {
		state := r.State("a")
		if !state.Ready || !state.Settled || state.Gone || len(state.Granted) != 1 || state.Message != "said the provider" {
			return fmt.Errorf("state after the answer: %+v", state)
		}
		return nil
	})

	// A change of what is wanted keeps the namespace ready until it is answered.
	r.Want(map[string]Wanted{"a": {Source: "team-a", Resources: widgets("widgets")}, "b": {Source: "team-b"}})
	eventually(t, func() error {
		resources, _, _ := unstructured.NestedSlice(p.request("a").Object, "spec", "resources")
		if state := r.State("a"); len(resources) != 1 || !state.Ready || state.Settled {
			return fmt.Errorf("resources %v, state %+v", resources, state)
		}
		return nil
	})
	p.answer("a", "False", v1alpha1.ReasonNoResources)
	eventually(t, func() error {
		if state := r.State("a"); state.Ready || !state.Settled || state.Reason != v1alpha1.ReasonNoResources {
			return fmt.Errorf("state %+v", state)
		}
		return nil
	})

	// In step there is nothing to write, also for one that starts anew with resources in another order.
	quiet := time.Now()
	again, _ := p.connect("west", "uid-1")
	again.Want(map[string]Wanted{"a": {Source: "team-a", Resources: append(widgets("widgets"), widgets("widgets")...)}, "b": {Source: "team-b"}})
	eventually(t, func() error {
		if !again.State("a").Settled {
			return fmt.Errorf("state %+v", again.State("a"))
		}
		return nil
	})
	if writes := p.writes("west", quiet); len(writes) > 0 {
		t.Errorf("writes at rest: %v", writes)
	}

	// A cluster of the same ID but another UID touches none of them.
	other, _ := p.connect("west", "uid-2")
	other.Want(map[string]Wanted{"a": {Source: "team-a"}})
	eventually(t, func() error {
		if state := other.State("a"); state.Reason != ReasonRequestTaken || !state.Gone {
			return fmt.Errorf("state %+v", state)
		}
		return nil
	})
	if p.request("b") == nil || p.request("a") == nil {
		t.Fatal("another cluster deleted a request")
	}

	// An outage changes nothing of what is known, and what was wanted meanwhile is written after it.
	if err := p.Kill(controlplane.APIServer); err != nil {
		t.Fatal(err)
	}
	r.Want(map[string]Wanted{"a": {Source: "team-a", Resources: widgets("widgets")}, "c": {Source: "team-c"}})
	eventually(t, func() error {
		if state := r.State("c"); state.Ready || state.Reason != cluster.ReasonRefused {
			return fmt.Errorf("state %+v", state)
		}
		return nil
	})
	if state := r.State("a"); !state.Known || state.Gone || state.Reason != v1alpha1.ReasonNoResources {
		t.Errorf("an outage changed what is known: %+v", state)
	}
	if state := r.State("b"); state.Gone {
		t.Errorf("an outage made a request gone: %+v", state)
	}
	if err := p.Restart(t.Context(), controlplane.APIServer); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if p.request("c") == nil || !r.State("b").Gone {
			return fmt.Errorf("c %v, state of b %+v", p.request("c") != nil, r.State("b"))
		}
		return nil
	})
}

// Whoever has no rights says so, and goes on by itself when it gets them.
func TestForbiddenThenLetIn(t *testing.T) {
	p := newProvider(t)
	p.serve()
	r, _ := p.connect("stranger", "uid-1")
	r.Want(map[string]Wanted{"a": {Source: "team-a"}})
	eventually(t, func() error {
		if state := r.State("a"); state.Known || state.Reason != cluster.ReasonForbidden {
			return fmt.Errorf("state %+v", state)
		}
		return nil
	})
	p.apply(`
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: stranger, namespace: isthmus-consumer-west}
subjects: [{kind: User, name: stranger, apiGroup: rbac.authorization.k8s.io}]
roleRef: {kind: Role, name: consumer, apiGroup: rbac.authorization.k8s.io}
`)
	eventually(t, func() error {
		if p.request("a") == nil {
			return fmt.Errorf("state %+v", r.State("a"))
		}
		return nil
	})
}
