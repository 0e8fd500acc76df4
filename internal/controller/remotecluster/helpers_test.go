//go:build unix

package remotecluster

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/config/crd"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/cluster/access"
	"isthmus.dev/isthmus/internal/controller/link/linktest"
	"isthmus.dev/isthmus/internal/controlplane"
	"isthmus.dev/isthmus/internal/observe"
	"isthmus.dev/isthmus/internal/observe/logtest"
)

// patience is how long a test waits for what must come, on a machine that may be slow.
const patience = 90 * time.Second

const namespace = "isthmus-system"

// localRole is all that Remotes needs in its own cluster, and remoteRole all that it needs on a remote.
const localRole = `
apiVersion: v1
kind: Namespace
metadata: {name: isthmus-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: remotes}
rules:
- {apiGroups: [isthmus.dev], resources: [remoteclusters], verbs: [get, list, watch, patch]}
- {apiGroups: [isthmus.dev], resources: [remoteclusters/status], verbs: [patch]}
- {apiGroups: [multicluster.x-k8s.io], resources: [clusterprofiles], verbs: [get, list, watch]}
- {apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], resourceNames: [clusterprofiles.multicluster.x-k8s.io], verbs: [list, watch]}
- {apiGroups: [""], resources: [namespaces], resourceNames: [kube-system], verbs: [get]}
- {apiGroups: [""], resources: [events], verbs: [create, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: remotes}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: remotes}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: isthmus}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: remotes, namespace: isthmus-system}
rules:
- {apiGroups: [""], resources: [secrets], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: remotes, namespace: isthmus-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: remotes}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: isthmus}]
`

const remoteRole = `
apiVersion: v1
kind: Namespace
metadata: {name: consumer}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: consumer}
rules:
- {apiGroups: [""], resources: [namespaces], resourceNames: [kube-system], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: consumer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: consumer}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:serviceaccounts:consumer"}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: consumer, namespace: consumer}
rules:
- {apiGroups: [""], resources: [configmaps], verbs: [create, get, list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: consumer, namespace: consumer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: consumer}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:serviceaccounts:consumer"}]
`

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	controlplane.Main(m)
}

// env is a local cluster with Remotes that run there, as a user with localRole.
type env struct {
	*testing.T
	cp      *controlplane.Cluster
	client  client.Client // the admin's
	kube    kubernetes.Interface
	remotes *Remotes
	log     *logtest.Log
	began   time.Time

	mu      sync.Mutex
	kinds   []schema.GroupVersionResource
	left    int
	drained bool
}

// newEnv starts Remotes with times that fit a test.
func newEnv(t *testing.T, change ...func(*timing)) *env { return newEnvWith(t, nil, change...) }

func newEnvWith(t *testing.T, providers *access.ProviderFile, change ...func(*timing)) *env {
	t.Helper()
	e := &env{T: t, cp: controlplane.Shared(t, "local"), log: &logtest.Log{}, began: time.Now()}
	definition, err := fs.ReadFile(crd.Files, "isthmus.dev_remoteclusters.yaml")
	if err != nil {
		t.Fatal(err)
	}
	e.apply(e.cp, string(definition))
	e.apply(e.cp, localRole)
	scheme := runtime.NewScheme()
	_ = v1alpha1.AddToScheme(scheme)
	_ = clientgoscheme.AddToScheme(scheme)
	if e.client, err = client.New(e.cp.Config(), client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	e.kube = kubernetes.NewForConfigOrDie(e.cp.Config())
	t.Cleanup(e.clean)
	e.start(scheme, providers, change)
	return e
}

// start starts Remotes, and stops them when the test ends.
func (e *env) start(scheme *runtime.Scheme, providers *access.ProviderFile, change []func(*timing)) {
	kubeconfig, err := e.cp.UserKubeconfig("isthmus")
	if err != nil {
		e.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(e.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	local, err := cluster.Connect(cluster.Options{Role: "local", Kubeconfig: kubeconfig, Logger: log})
	if err != nil {
		e.Fatal(err)
	}
	config, err := controlplane.LoadConfig(kubeconfig)
	if err != nil {
		e.Fatal(err)
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		e.Fatal(err)
	}
	events := observe.NewEvents(local.Clientset(), observe.Component, true)
	r := New(Options{Local: local, Namespace: namespace, Providers: providers, UserAgent: "isthmus-test", Logger: log, Events: events,
		Kinds: func(string) []schema.GroupVersionResource {
			e.mu.Lock()
			defer e.mu.Unlock()
			return e.kinds
		},
		Drained: func(string) (int, bool) {
			e.mu.Lock()
			defer e.mu.Unlock()
			return e.left, e.drained
		},
	})
	r.timing.Answer, r.timing.Idle, r.timing.grace = 3*time.Second, 2*time.Second, time.Second
	r.timing.RetryFirst, r.timing.RetryMost = 100*time.Millisecond, time.Second
	for _, f := range change {
		f(&r.timing)
	}
	if err := r.SetupWithManager(mgr); err != nil {
		e.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	e.remotes = r
	e.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			e.Error(err)
		}
		events.Shutdown()
		local.Close()
	})
}

// clean removes what a test has left on the local cluster, finalizers included: nothing runs any more.
func (e *env) clean() {
	ctx := context.Background()
	var list v1alpha1.RemoteClusterList
	if err := e.client.List(ctx, &list); err != nil {
		e.Error(err)
	}
	for _, rc := range list.Items {
		_ = e.client.Delete(ctx, &rc)
		_ = e.client.Patch(ctx, &rc, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))
	}
	_ = e.client.DeleteAllOf(ctx, &corev1.Secret{}, client.InNamespace(namespace))
}

func (e *env) apply(cp *controlplane.Cluster, manifest string) {
	e.Helper()
	linktest.Apply(e, cp, manifest)
}

// consumer makes an account on a remote with remoteRole.
func (e *env) consumer(cp *controlplane.Cluster, name string) *linktest.Account {
	e.Helper()
	e.apply(cp, remoteRole)
	return linktest.NewAccount(e, cp, "consumer", name)
}

// secret writes a Secret with a kubeconfig.
func (e *env) secret(name, kubeconfig string) {
	e.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Data: map[string][]byte{"kubeconfig": []byte(kubeconfig)}}
	_, err := e.kube.CoreV1().Secrets(namespace).Create(context.Background(), s, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = e.kube.CoreV1().Secrets(namespace).Update(context.Background(), s, metav1.UpdateOptions{})
	}
	if err != nil {
		e.Fatal(err)
	}
}

// remote creates a RemoteCluster with the Secret of the same name.
func (e *env) remote(name string) *v1alpha1.RemoteCluster {
	e.Helper()
	return e.create(name, v1alpha1.Access{KubeconfigSecretRef: &v1alpha1.SecretKeyRef{Name: name}})
}

func (e *env) create(name string, a v1alpha1.Access) *v1alpha1.RemoteCluster {
	e.Helper()
	rc := &v1alpha1.RemoteCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.RemoteClusterSpec{Access: a}}
	if err := e.client.Create(context.Background(), rc); err != nil {
		e.Fatal(err)
	}
	return rc
}

func (e *env) get(name string) *v1alpha1.RemoteCluster {
	e.Helper()
	rc := &v1alpha1.RemoteCluster{}
	if err := e.client.Get(context.Background(), client.ObjectKey{Name: name}, rc); err != nil {
		e.Fatal(err)
	}
	return rc
}

// condition returns a condition of a RemoteCluster; without one, an empty one.
func (e *env) condition(name, conditionType string) metav1.Condition {
	e.Helper()
	if c := meta.FindStatusCondition(e.get(name).Status.Conditions, conditionType); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// reachable waits until Reachable has a reason, and returns it.
func (e *env) reachable(name, reason string) metav1.Condition {
	e.Helper()
	var c metav1.Condition
	e.eventually(func() string {
		c = e.condition(name, v1alpha1.ConditionReachable)
		if c.Reason != reason {
			return fmt.Sprintf("%s is Reachable=%s: %s: %s; want %s", name, c.Status, c.Reason, c.Message, reason)
		}
		return ""
	})
	want := metav1.ConditionFalse
	if reason == v1alpha1.ReasonReached {
		want = metav1.ConditionTrue
	}
	if rc := e.get(name); c.Status != want || c.ObservedGeneration != rc.Generation {
		e.Errorf("%s: Reachable is %+v, at generation %d", name, c, rc.Generation)
	}
	return c
}

// of returns what All says of a remote.
func (e *env) of(name string) Remote {
	for _, r := range e.remotes.All() {
		if r.Name == name {
			return r
		}
	}
	return Remote{}
}

// eventually waits until problem returns "".
func (e *env) eventually(problem func() string) {
	e.Helper()
	deadline := time.Now().Add(patience)
	for {
		text := problem()
		if text == "" {
			return
		}
		if time.Now().After(deadline) {
			e.Fatalf("not within %s: %s\n%s", patience, text, e.log)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// writing makes ConfigMaps on a remote all the time. more waits until many more are made, and done ends it; both fail the test
// when one of the writes failed.
func (e *env) writing(remote *cluster.Cluster, prefix string) (more, done func()) {
	var wrote atomic.Int32
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error, 1)
	go func() {
		defer close(failed)
		for i := 0; ctx.Err() == nil; i++ {
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", prefix, i)}}
			if _, err := remote.Clientset().CoreV1().ConfigMaps("consumer").Create(context.Background(), cm, metav1.CreateOptions{}); err != nil {
				failed <- fmt.Errorf("write %d: %w", i, err)
				return
			}
			wrote.Add(1)
		}
	}()
	more = func() {
		e.Helper()
		before := wrote.Load()
		e.eventually(func() string {
			select {
			case err := <-failed:
				return fmt.Sprint(err)
			default:
			}
			if wrote.Load() < before+50 {
				return "no more writes"
			}
			return ""
		})
	}
	done = func() {
		e.Helper()
		cancel()
		if err := <-failed; err != nil {
			e.Error(err)
		}
	}
	return more, done
}

// writes returns what Remotes has written to the local cluster since a time, but for Events. A write that the server refused,
// as of a status that was read a moment too early, has changed nothing.
func (e *env) writes(since time.Time) []string {
	e.Helper()
	events, err := e.cp.AuditSince(since)
	if err != nil {
		e.Fatal(err)
	}
	var writes []string
	for _, event := range events {
		if event.User.Username == "isthmus" && event.IsWrite() && event.ObjectRef != nil && event.ObjectRef.Resource == "remoteclusters" &&
			event.ResponseStatus != nil && event.ResponseStatus.Code < 300 {
			writes = append(writes, event.Verb+" "+event.RequestURI+" "+string(event.RequestObject))
		}
	}
	return writes
}
