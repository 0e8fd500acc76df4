//go:build unix

// Package tenancy proves a provider's consent on a real control plane: the controller runs as a user that holds what
// rbac.Provider says and nothing else, the consumers as users that hold what the controller gives them.
package tenancy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/config/crd"
	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/controller/tenancy"
	"isthmus.dev/isthmus/internal/controlplane"
	"isthmus.dev/isthmus/internal/rbac"
	"isthmus.dev/isthmus/test/harness"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	controlplane.Main(m)
}

// controllerUser is whom the controller runs as, home its namespace.
const (
	controllerUser = "tenancy-controller"
	home           = "isthmus-system"
)

// handedOut are the kinds that the controller may hand out in these tests. Consumers are let have less.
var handedOut = []v1alpha1.AllowedResources{
	{Resources: []string{"configmaps", "secrets"}, Access: v1alpha1.AccessWrite},
	{Group: "example.io", Resources: []string{"widgets"}, Access: v1alpha1.AccessWrite},
	{Group: "example.io", Resources: []string{"gadgets"}, Access: v1alpha1.AccessRead},
	{Group: "rbac.authorization.k8s.io", Resources: []string{"roles", "rolebindings"}, Access: v1alpha1.AccessWrite},
	{Group: "wild.example.io", Resources: []string{"*"}, Access: v1alpha1.AccessWrite},
}

// provider is a provider's cluster, seen as its operator, with a controller that may run.
type provider struct {
	client.Client
	t    *testing.T
	c    *controlplane.Cluster
	stop func()
}

func newScheme() *runtime.Scheme {
	known := runtime.NewScheme()
	_ = scheme.AddToScheme(known)
	_ = v1alpha1.AddToScheme(known)
	return known
}

var (
	prepare  sync.Once
	prepared error
)

// newProvider returns the provider that the tests share, its controller running.
func newProvider(t *testing.T) *provider {
	t.Helper()
	c := controlplane.Shared(t, "provider")
	prepare.Do(func() {
		prepared = c.StartComponent(context.Background(), controlplane.ControllerManager)
		if prepared == nil {
			prepared = equip(c)
		}
	})
	if prepared != nil {
		t.Fatal(prepared)
	}
	p := on(t, c)
	p.run()
	return p
}

func on(t *testing.T, c *controlplane.Cluster) *provider {
	t.Helper()
	admin, err := client.New(c.Config(), client.Options{Scheme: newScheme()})
	if err != nil {
		t.Fatal(err)
	}
	return &provider{Client: admin, t: t, c: c, stop: func() {}}
}

// equip installs the CRDs and the controller's RBAC.
func equip(c *controlplane.Cluster) error {
	files, err := crd.Files.ReadDir(".")
	if err != nil {
		return err
	}
	manifests := harness.WidgetCRD("example.io")
	for _, file := range files {
		content, err := crd.Files.ReadFile(file.Name())
		if err != nil {
			return err
		}
		manifests += "\n---\n" + string(content)
	}
	var roles strings.Builder
	objects := rbac.Provider(rbac.ProviderOptions{Resources: handedOut, Instance: "controller", Namespace: home, Subject: rbac.Subject{User: controllerUser}})
	if err := rbac.Print(&roles, nil, objects); err != nil {
		return err
	}
	return c.Apply(context.Background(), []byte(manifests+"\n"+roles.String()))
}

// run starts the controller; stop ends it, and so does the test's end.
func (p *provider) run() {
	p.t.Helper()
	config, err := p.c.UserConfig(controllerUser)
	if err != nil {
		p.t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(&panics{t: p.t}, nil))
	mgr, err := ctrl.NewManager(config, ctrl.Options{Metrics: metricsserver.Options{BindAddress: "0"}, Logger: logr.FromSlogHandler(log.Handler())})
	if err != nil {
		p.t.Fatal(err)
	}
	if err := tenancy.Setup(mgr, tenancy.Options{Namespace: home, Logger: log}); err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	p.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			p.t.Errorf("the manager ended with %v", err)
		}
	})
	p.t.Cleanup(p.stop)
}

// panics takes in a log, and fails the test on a panic in it: a controller goes on after one.
type panics struct{ t *testing.T }

func (w *panics) Write(b []byte) (int, error) {
	if os.Getenv("ISTHMUS_TEST_LOG") != "" {
		_, _ = os.Stderr.Write(b)
	}
	if bytes.Contains(b, []byte("Observed a panic")) {
		w.t.Errorf("the controller: %s", b)
	}
	return len(b), nil
}

// patience is how long a test waits for what must happen.
const patience = 90 * time.Second

func (p *provider) eventually(check func() error) {
	p.t.Helper()
	controlplane.Eventually(p.t, patience, check)
}

// name makes a name of this test's own.
func name(t *testing.T, suffix string) string {
	t.Helper()
	sum := 0
	for _, c := range t.Name() {
		sum = (sum*31 + int(c)) % 46656
	}
	return fmt.Sprintf("t%d-%s", sum, suffix)
}

func resources(group string, names ...string) v1alpha1.AllowedResources {
	return v1alpha1.AllowedResources{Group: group, Resources: names, Access: v1alpha1.AccessWrite}
}

func asks(group, resource string) v1alpha1.RequestedResource {
	return v1alpha1.RequestedResource{Group: group, Resource: resource, Access: v1alpha1.AccessWrite}
}

// letIn makes a Consumer that may have configmaps and widgets in namespaces of its own name and of the patterns, and waits until it is
// let in.
func (p *provider) letIn(consumer string, patterns ...string) {
	p.t.Helper()
	p.create(&v1alpha1.Consumer{
		ObjectMeta: metav1.ObjectMeta{Name: consumer},
		Spec: v1alpha1.ConsumerSpec{
			Subject:    v1alpha1.Subject{Kind: "User", Name: consumer},
			Resources:  []v1alpha1.AllowedResources{resources("", "configmaps"), resources("example.io", "widgets")},
			Namespaces: v1alpha1.AllowedNamespaces{Patterns: append(patterns, consumer+"-*")},
		},
	})
	p.eventually(func() error {
		ready := p.consumerReady(consumer)
		if ready == nil || ready.Status != metav1.ConditionTrue {
			return fmt.Errorf("consumer %s: %+v", consumer, ready)
		}
		return nil
	})
}

func (p *provider) consumerReady(name string) *metav1.Condition {
	consumer := &v1alpha1.Consumer{}
	if !p.get("", name, consumer) {
		return nil
	}
	return meta.FindStatusCondition(consumer.Status.Conditions, v1alpha1.ConditionReady)
}

// change changes an object, again where somebody else was faster.
func change[T client.Object](p *provider, namespace, name string, o T, how func(T)) {
	p.t.Helper()
	p.eventually(func() error {
		if !p.get(namespace, name, o) {
			return errors.New("not there")
		}
		how(o)
		return p.Update(p.t.Context(), o)
	})
}

func (p *provider) create(o client.Object) {
	p.t.Helper()
	if err := p.Create(p.t.Context(), o); err != nil {
		p.t.Fatalf("creating %T %s: %v", o, o.GetName(), err)
	}
}

// get reads an object; false: there is none.
func (p *provider) get(namespace, name string, o client.Object) bool {
	p.t.Helper()
	err := p.Get(p.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, o)
	if err != nil && !apierrors.IsNotFound(err) {
		p.t.Fatalf("reading %T %s/%s: %v", o, namespace, name, err)
	}
	return err == nil
}

func (p *provider) namespace(name string) *corev1.Namespace {
	ns := &corev1.Namespace{}
	if !p.get("", name, ns) {
		return nil
	}
	return ns
}

func newRequest(consumer, namespace, source string, kinds ...v1alpha1.RequestedResource) *v1alpha1.NamespaceRequest {
	return &v1alpha1.NamespaceRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.ConsumerNamespacePrefix + consumer, Name: namespace},
		Spec: v1alpha1.NamespaceRequestSpec{
			Source:    v1alpha1.SourceNamespace{Name: source, ClusterUID: "uid-of-" + consumer, Instance: "controller"},
			Resources: kinds,
		},
	}
}

// request reads a consumer's request; nil: there is none.
func (p *provider) request(consumer, namespace string) *v1alpha1.NamespaceRequest {
	request := &v1alpha1.NamespaceRequest{}
	if !p.get(v1alpha1.ConsumerNamespacePrefix+consumer, namespace, request) {
		return nil
	}
	return request
}

// answered waits until a request, as it is now, has an answer of that reason, and returns it.
func (p *provider) answered(consumer, namespace, reason string) *v1alpha1.NamespaceRequest {
	p.t.Helper()
	var request *v1alpha1.NamespaceRequest
	p.eventually(func() error {
		if request = p.request(consumer, namespace); request == nil {
			return errors.New("no request")
		}
		ready := meta.FindStatusCondition(request.Status.Conditions, v1alpha1.ConditionReady)
		if ready == nil || ready.ObservedGeneration != request.Generation || ready.Reason != reason {
			return fmt.Errorf("request %s: %+v", namespace, ready)
		}
		if (ready.Status == metav1.ConditionTrue) != (reason == v1alpha1.ReasonGranted) {
			return fmt.Errorf("request %s: %+v", namespace, ready)
		}
		return nil
	})
	return request
}

// asked has a consumer ask for a namespace, and waits for the answer.
func (p *provider) asked(consumer, namespace, source, reason string, kinds ...v1alpha1.RequestedResource) *v1alpha1.NamespaceRequest {
	p.t.Helper()
	if err := p.as(consumer).Create(p.t.Context(), newRequest(consumer, namespace, source, kinds...)); err != nil {
		p.t.Fatalf("consumer %s asks for %s: %v", consumer, namespace, err)
	}
	return p.answered(consumer, namespace, reason)
}

// as returns the client of a user.
func (p *provider) as(user string) client.Client {
	p.t.Helper()
	config, err := p.c.UserConfig(user)
	if err != nil {
		p.t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: newScheme()})
	if err != nil {
		p.t.Fatal(err)
	}
	return c
}

// rules returns the rules of a consumer's role in a namespace, as "resource: verbs" lines; nil: there is no role.
func (p *provider) rules(consumer, namespace string) (lines []string) {
	var rules []rbacv1.PolicyRule
	if namespace == "" {
		role := &rbacv1.ClusterRole{}
		p.get("", v1alpha1.ConsumerNamespacePrefix+consumer, role)
		rules = role.Rules
	} else {
		role := &rbacv1.Role{}
		p.get(namespace, v1alpha1.ConsumerNamespacePrefix+consumer, role)
		rules = role.Rules
	}
	for _, rule := range rules {
		for _, resource := range rule.Resources {
			line := strings.TrimSuffix(resource+"."+rule.APIGroups[0], ".") + ": " + strings.Join(rule.Verbs, ",")
			if len(rule.ResourceNames) > 0 {
				line = fmt.Sprintf("%s of %s", line, strings.Join(rule.ResourceNames, ","))
			}
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return lines
}

// wait waits until a consumer's role in a namespace has these rules.
func (p *provider) waitRules(consumer, namespace string, want ...string) {
	p.t.Helper()
	p.eventually(func() error {
		if got := p.rules(consumer, namespace); !slices.Equal(got, want) {
			return fmt.Errorf("rules in %q: %q, expected %q", namespace, got, want)
		}
		return nil
	})
}

// What a role says of a kind that is granted to write, and to read.
func written(resource string) string  { return resource + ": get,list,watch,create,patch,delete" }
func readable(resource string) string { return resource + ": get,list,watch" }

// may waits until a request of a consumer is answered as expected: RBAC takes effect a moment after it is written.
func (p *provider) may(want bool, what string, try func() error) {
	p.t.Helper()
	p.eventually(func() error {
		err := try()
		if want && err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if !want && !apierrors.IsForbidden(err) {
			return fmt.Errorf("%s: expected to be forbidden, got %v", what, err)
		}
		return nil
	})
}

func widget(namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(1)}}}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.io", Version: "v1", Kind: "Widget"})
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

func configMap(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// origin returns whose a namespace is by its stamp.
func origin(ns *corev1.Namespace) string {
	if ns == nil {
		return ""
	}
	return ns.Labels[boundary.LabelOrigin]
}

// writes returns what a user wrote since a time.
func (p *provider) writes(user string, since time.Time) (out []string) {
	p.t.Helper()
	events, err := p.c.AuditSince(since)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, e := range events {
		if e.User.Username == user && e.IsWrite() && e.ObjectRef != nil && e.ObjectRef.Resource != "selfsubjectaccessreviews" {
			out = append(out, fmt.Sprintf("%s %s %s/%s: %d", e.Verb, e.ObjectRef.Resource, e.ObjectRef.Namespace, e.ObjectRef.Name, e.Code()))
		}
	}
	return out
}
