//go:build unix

package installation

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/config/crd"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/cluster/access"
	"isthmus.dev/isthmus/internal/controlplane"
	"isthmus.dev/isthmus/internal/observe"
	"isthmus.dev/isthmus/internal/observe/logtest"
)

// patience is how long a test waits for what must come, on a machine that may be slow.
const patience = 2 * time.Minute

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	controlplane.Main(m)
}

// env is a cluster that is hub and member at once.
type env struct {
	*testing.T
	cp     *controlplane.Cluster
	client client.Client // the admin's
	log    *logtest.Log
	stop   func()

	providers *access.ProviderFile // nil: none
}

var prepareOnce sync.Once

// newEnv returns the cluster that the tests of this package share, with a hub of the given name that runs there.
func newEnv(t *testing.T, hub string) *env {
	t.Helper()
	return newEnvWith(t, hub, nil)
}

// newEnvWith is newEnv for a hub that may run access plugins.
func newEnvWith(t *testing.T, hub string, providers *access.ProviderFile) *env {
	t.Helper()
	e := &env{T: t, cp: controlplane.Shared(t, "hub"), providers: providers, log: &logtest.Log{}}
	scheme := runtime.NewScheme()
	_ = v1alpha1.AddToScheme(scheme)
	_ = clientgoscheme.AddToScheme(scheme)
	var err error
	if e.client, err = client.New(e.cp.Config(), client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	prepareOnce.Do(func() {
		if err := e.cp.StartComponent(t.Context(), controlplane.ControllerManager); err != nil {
			t.Fatal(err)
		}
		definition, err := crd.Files.ReadFile("isthmus.dev_installations.yaml")
		if err != nil {
			t.Fatal(err)
		}
		e.apply(string(definition))
	})
	e.start(hub, scheme)
	t.Cleanup(func() {
		e.stop()
		if t.Failed() {
			text := e.log.String()
			t.Logf("the end of the log:\n%s", text[max(0, len(text)-6000):])
		}
	})
	return e
}

// start runs an Installer; stop ends it.
func (e *env) start(hub string, scheme *runtime.Scheme) {
	log := slog.New(slog.NewTextHandler(e.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	local, err := cluster.Connect(cluster.Options{Role: "local", Kubeconfig: e.cp.Kubeconfig(), Logger: log, UserAgent: hub})
	if err != nil {
		e.Fatal(err)
	}
	mgr, err := ctrl.NewManager(local.RESTConfig(), ctrl.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		e.Fatal(err)
	}
	events := observe.NewEvents(local.Clientset(), observe.Component, true)
	r := New(Options{Hub: hub, LocalUID: string(e.cp.UID()), Local: local, Providers: e.providers, UserAgent: hub, Logger: log, Events: events})
	if err := r.SetupWithManager(mgr); err != nil {
		e.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	e.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			e.Error(err)
		}
		events.Shutdown()
		local.Close()
	})
}

func (e *env) apply(manifest string) {
	e.Helper()
	if err := e.cp.Apply(e.Context(), []byte(manifest)); err != nil {
		e.Fatal(err)
	}
}

// installs creates a namespace and an Installation there, without a destination.
func (e *env) installs(namespace, component, spec, manifests string) {
	e.Helper()
	e.apply("{apiVersion: v1, kind: Namespace, metadata: {name: " + namespace + "}}")
	e.apply(fmt.Sprintf("apiVersion: isthmus.dev/v1alpha1\nkind: Installation\nmetadata: {name: it, namespace: %s}\nspec:\n  component: %s\n%s\n  manifests:\n  - inline: |\n%s",
		namespace, component, indent(spec, "  "), indent(manifests, "      ")))
}

func indent(text, by string) string {
	return by + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n"+by)
}

func (e *env) installation(namespace string) (*v1alpha1.Installation, error) {
	i := &v1alpha1.Installation{}
	return i, e.client.Get(e.Context(), client.ObjectKey{Namespace: namespace, Name: "it"}, i)
}

// stands waits until a condition of the Installation in a namespace has a status and a reason, and its message some words.
func (e *env) stands(namespace, condition, status, reason string, words ...string) {
	e.Helper()
	e.eventually(func() error {
		i, err := e.installation(namespace)
		if err != nil {
			return err
		}
		c := meta.FindStatusCondition(i.Status.Conditions, condition)
		if c == nil {
			return fmt.Errorf("no condition %s: %+v", condition, i.Status.Conditions)
		}
		if string(c.Status) != status || c.Reason != reason {
			return fmt.Errorf("%s is %s %s: %s", condition, c.Status, c.Reason, c.Message)
		}
		for _, word := range words {
			if !strings.Contains(c.Message, word) {
				return fmt.Errorf("the message of %s lacks %q: %s", condition, word, c.Message)
			}
		}
		if c.ObservedGeneration != i.Generation {
			return fmt.Errorf("%s is of generation %d, not %d", condition, c.ObservedGeneration, i.Generation)
		}
		return nil
	})
}

func (e *env) eventually(check func() error) {
	e.Helper()
	controlplane.Eventually(e, patience, check)
}

// get reads an object; kind is v1/ConfigMap, or apps/v1/Deployment.
func (e *env) get(kind, namespace, name string) (*unstructured.Unstructured, error) {
	i := strings.LastIndex(kind, "/")
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(kind[:i])
	o.SetKind(kind[i+1:])
	return o, e.client.Get(e.Context(), client.ObjectKey{Namespace: namespace, Name: name}, o)
}

// gone waits until an object is gone.
func (e *env) gone(kind, namespace, name string) {
	e.Helper()
	e.eventually(func() error {
		o, err := e.get(kind, namespace, name)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		if err == nil {
			return fmt.Errorf("%s %s/%s is still there: %v", kind, namespace, name, o.GetFinalizers())
		}
		return nil
	})
}

// there waits until an object is there, and returns it.
func (e *env) there(kind, namespace, name string) (found *unstructured.Unstructured) {
	e.Helper()
	e.eventually(func() (err error) {
		found, err = e.get(kind, namespace, name)
		return err
	})
	return found
}

// remove deletes the Installation in a namespace.
func (e *env) remove(namespace string) {
	e.Helper()
	i := &v1alpha1.Installation{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "it"}}
	if err := e.client.Delete(e.Context(), i); err != nil {
		e.Fatal(err)
	}
}
