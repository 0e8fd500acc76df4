//go:build unix

package harness

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"isthmus.dev/isthmus/internal/controlplane"
)

// Side is one cluster, seen as its administrator. All its methods fail the test on an error that a test does not expect.
type Side struct {
	*controlplane.Cluster
	t   testing.TB
	dyn dynamic.Interface

	mu    sync.Mutex
	users map[string]string
}

func newSide(t testing.TB, c *controlplane.Cluster) *Side {
	t.Helper()
	dyn, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	return &Side{Cluster: c, t: t, dyn: dyn, users: map[string]string{}}
}

// Kind names a resource as plural.group, or plural.version.group, or plural for the core group; the version defaults
// to v1.
func Kind(resource string) schema.GroupVersionResource {
	parts := strings.SplitN(resource, ".", 3)
	if len(parts) == 3 && strings.HasPrefix(parts[1], "v") && len(parts[1]) > 1 && parts[1][1] >= '0' && parts[1][1] <= '9' {
		return schema.GroupVersionResource{Group: parts[2], Version: parts[1], Resource: parts[0]}
	}
	plural, group, _ := strings.Cut(resource, ".")
	return schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural}
}

// Client returns the client of a resource (see Kind) in a namespace.
func (s *Side) Client(resource, namespace string) dynamic.ResourceInterface {
	return s.dyn.Resource(Kind(resource)).Namespace(namespace)
}

// Apply applies manifests, CRDs first being established.
func (s *Side) Apply(manifests string) {
	s.t.Helper()
	if err := s.Cluster.Apply(context.Background(), []byte(manifests)); err != nil {
		s.t.Fatalf("apply on %s: %v", s.Name(), err)
	}
}

// Create creates one object from a manifest, by POST as most clients do, and returns it.
func (s *Side) Create(manifest string) *unstructured.Unstructured {
	s.t.Helper()
	obj, err := s.TryCreate(manifest)
	if err != nil {
		s.t.Fatalf("create on %s: %v", s.Name(), err)
	}
	return obj
}

// TryCreate is Create for a test that expects an error.
func (s *Side) TryCreate(manifest string) (*unstructured.Unstructured, error) {
	s.t.Helper()
	return s.CreateObject(Parse(s.t, manifest))
}

// CreateObject is TryCreate for an object.
func (s *Side) CreateObject(obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	gvr, _ := meta.UnsafeGuessKindToResource(obj.GroupVersionKind())
	return s.dyn.Resource(gvr).Namespace(obj.GetNamespace()).Create(context.Background(), obj, metav1.CreateOptions{FieldManager: "test"})
}

// Parse reads a manifest.
func Parse(t testing.TB, manifest string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict([]byte(manifest), &obj.Object); err != nil {
		t.Fatalf("manifest: %v\n%s", err, manifest)
	}
	return obj
}

// Get returns an object; nil when there is none.
func (s *Side) Get(resource, namespace, name string) *unstructured.Unstructured {
	s.t.Helper()
	obj, err := s.Client(resource, namespace).Get(context.Background(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		s.t.Fatalf("get %s %s/%s on %s: %v", resource, namespace, name, s.Name(), err)
	}
	return obj
}

// There says that an object is missing which should be there.
func (s *Side) There(resource, namespace, name string) error {
	s.t.Helper()
	if s.Get(resource, namespace, name) == nil {
		return fmt.Errorf("%s %s/%s is not on %s", resource, namespace, name, s.Name())
	}
	return nil
}

// Gone says that an object is there which should not.
func (s *Side) Gone(resource, namespace, name string) error {
	s.t.Helper()
	if s.Get(resource, namespace, name) != nil {
		return fmt.Errorf("%s %s/%s is still on %s", resource, namespace, name, s.Name())
	}
	return nil
}

// All makes several checks one, for Eventually.
func All(checks ...func() error) func() error {
	return func() error {
		var errs []error
		for _, check := range checks {
			errs = append(errs, check())
		}
		return errors.Join(errs...)
	}
}

// List returns the objects of a namespace ("" for all) that match a label selector ("" for all).
func (s *Side) List(resource, namespace, selector string) []unstructured.Unstructured {
	s.t.Helper()
	list, err := s.Client(resource, namespace).List(context.Background(), metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		s.t.Fatalf("list %s on %s: %v", resource, s.Name(), err)
	}
	return list.Items
}

// Patch applies a JSON merge patch, and returns the object.
func (s *Side) Patch(resource, namespace, name, patch string, subresources ...string) *unstructured.Unstructured {
	s.t.Helper()
	return s.PatchAs("test", types.MergePatchType, resource, namespace, name, patch, subresources...)
}

// PatchAs applies a patch of any type as a field manager. YAML is accepted.
func (s *Side) PatchAs(manager string, kind types.PatchType, resource, namespace, name, patch string, subresources ...string) *unstructured.Unstructured {
	s.t.Helper()
	encoded, err := yaml.YAMLToJSON([]byte(patch))
	if err != nil {
		s.t.Fatalf("patch: %v", err)
	}
	obj, err := s.Client(resource, namespace).Patch(context.Background(), name, kind, encoded, metav1.PatchOptions{FieldManager: manager}, subresources...)
	if err != nil {
		s.t.Fatalf("patch %s %s/%s on %s: %v", resource, namespace, name, s.Name(), err)
	}
	return obj
}

// SetStatus replaces parts of an object's status, as its controller would.
func (s *Side) SetStatus(resource, namespace, name, status string) *unstructured.Unstructured {
	s.t.Helper()
	return s.PatchAs("controller", types.MergePatchType, resource, namespace, name, "status: "+status, "status")
}

// Delete deletes an object; one that is not there is no error.
func (s *Side) Delete(resource, namespace, name string) {
	s.t.Helper()
	err := s.Client(resource, namespace).Delete(context.Background(), name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		s.t.Fatalf("delete %s %s/%s on %s: %v", resource, namespace, name, s.Name(), err)
	}
}

// DeleteAll deletes all objects of a kind in a namespace with one request.
func (s *Side) DeleteAll(resource, namespace string) {
	s.t.Helper()
	if err := s.Client(resource, namespace).DeleteCollection(context.Background(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		s.t.Fatalf("delete all %s in %s on %s: %v", resource, namespace, s.Name(), err)
	}
}

// Events returns the Events on an object, as "type reason message" lines.
func (s *Side) Events(namespace, name string) []string {
	s.t.Helper()
	var lines []string
	for _, e := range s.List("events", namespace, "") {
		involved, _, _ := unstructured.NestedString(e.Object, "involvedObject", "name")
		if involved != name {
			continue
		}
		field := func(name string) string { v, _, _ := unstructured.NestedString(e.Object, name); return v }
		lines = append(lines, fmt.Sprintf("%s %s %s", field("type"), field("reason"), field("message")))
	}
	return lines
}

// HasEvent returns nil when an Event on the object contains all texts.
func (s *Side) HasEvent(namespace, name string, texts ...string) error {
	s.t.Helper()
	events := s.Events(namespace, name)
next:
	for _, line := range events {
		for _, text := range texts {
			if !strings.Contains(line, text) {
				continue next
			}
		}
		return nil
	}
	return fmt.Errorf("no Event on %s/%s with %q; there are %q", namespace, name, texts, events)
}

// userKubeconfig returns the kubeconfig of a user, made at the first call.
func (s *Side) userKubeconfig(name string) string {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if path := s.users[name]; path != "" {
		return path
	}
	path, err := s.Cluster.UserKubeconfig(name)
	if err != nil {
		s.t.Fatalf("kubeconfig of %s on %s: %v", name, s.Name(), err)
	}
	s.users[name] = path
	return path
}

// Kubeconfig of a test's user on this side.
func (e *Env) LocalKubeconfig() string { return e.Local.userKubeconfig(e.User()) }

// RemoteKubeconfig is that on the remote side.
func (e *Env) RemoteKubeconfig() string {
	if e.remoteUser != "" {
		return e.Remote.userKubeconfig(e.remoteUser)
	}
	return e.Remote.userKubeconfig(e.User())
}

// Finalize ends a terminating namespace, as the namespace controller does when it is empty.
func (s *Side) Finalize(namespace string) {
	s.t.Helper()
	clientset, err := kubernetes.NewForConfig(s.Config())
	if err != nil {
		s.t.Fatal(err)
	}
	ns, err := clientset.CoreV1().Namespaces().Get(context.Background(), namespace, metav1.GetOptions{})
	if err == nil {
		ns.Spec.Finalizers = nil
		_, err = clientset.CoreV1().Namespaces().Finalize(context.Background(), ns, metav1.UpdateOptions{})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		s.t.Fatalf("finalize namespace %s on %s: %v", namespace, s.Name(), err)
	}
}
