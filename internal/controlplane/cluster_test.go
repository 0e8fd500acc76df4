//go:build unix

package controlplane_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"isthmus.dev/isthmus/internal/controlplane"
)

func TestMain(m *testing.M) {
	if os.Getenv(helperEnv) != "" {
		helper()
	}
	controlplane.Main(m)
}

func start(t *testing.T, name string, options controlplane.Options) *controlplane.Cluster {
	t.Helper()
	began := time.Now()
	cluster, err := controlplane.Start(t.Context(), name, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Stop)
	t.Logf("cluster %s ready in %s", name, time.Since(began).Round(time.Millisecond))
	return cluster
}

func client(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func clientOf(t *testing.T, kubeconfig string) kubernetes.Interface {
	t.Helper()
	config, err := controlplane.LoadConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return client(t, config)
}

// eventually polls until the check returns nil.
func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	began := time.Now()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			t.Logf("%s: after %s", what, time.Since(began).Round(time.Millisecond))
			return
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, last)
		case <-ticker.C:
		}
	}
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"key": "value-of-" + name}}
}

func create(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), configMap(name), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func mustHave(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	if _, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), name, metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestTwoClustersStartInParallel(t *testing.T) {
	t.Parallel()
	var wait sync.WaitGroup
	clusters := make([]*controlplane.Cluster, 2)
	for i, name := range []string{"consumer", "provider"} {
		wait.Go(func() {
			cluster, err := controlplane.Start(t.Context(), name, controlplane.Options{})
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(cluster.Stop)
			clusters[i] = cluster
		})
	}
	wait.Wait()
	if t.Failed() {
		return
	}
	a, b := clusters[0], clusters[1]
	if a.UID() == b.UID() || a.UID() == "" || a.Port() == b.Port() {
		t.Errorf("clusters %s on port %d and %s on port %d are not two", a.UID(), a.Port(), b.UID(), b.Port())
	}
	create(t, client(t, a.Config()), "here")
	_, err := client(t, b.Config()).CoreV1().ConfigMaps("default").Get(t.Context(), "here", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("an object of one cluster in the other: %v", err)
	}
	dir := a.Dir()
	a.Stop()
	a.Stop()
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("data of a stopped cluster: %v", err)
	}
	if err := a.StartComponent(t.Context(), controlplane.Etcd); err == nil {
		t.Error("a component of a stopped cluster was started")
	}
}

func TestKillAndRestartKeepsData(t *testing.T) {
	t.Parallel()
	c := start(t, "restarted", controlplane.Options{})
	admin := client(t, c.Config())
	create(t, admin, "before")

	for _, component := range []controlplane.Component{controlplane.Etcd, controlplane.APIServer} {
		pid := c.PID(component)
		if err := c.Kill(component); err != nil {
			t.Fatal(err)
		}
		if c.PID(component) != 0 {
			t.Errorf("%s has a process after it was killed", component)
		}
		if err := c.Restart(t.Context(), component); err != nil {
			t.Fatal(err)
		}
		if now := c.PID(component); now == 0 || now == pid {
			t.Errorf("%s: process %d before and %d after the restart", component, pid, now)
		}
		mustHave(t, admin, "before")
		create(t, admin, "after-"+string(component))
	}

	events, err := c.Audit()
	if err != nil {
		t.Fatal(err)
	}
	var created []string
	for _, event := range events {
		if event.Verb == "create" && event.ObjectRef.Resource == "configmaps" && event.ObjectRef.Namespace == "default" && event.User.Username == "admin" {
			created = append(created, event.ObjectRef.Name)
		}
	}
	if got, want := strings.Join(created, " "), "before after-etcd after-kube-apiserver"; got != want {
		t.Errorf("creations in the audit log: %s, want %s", got, want)
	}
}

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	c := start(t, "paused", controlplane.Options{})
	admin := client(t, c.Config())
	create(t, admin, "before")
	for _, component := range []controlplane.Component{controlplane.APIServer, controlplane.Etcd} {
		if err := c.Pause(component); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		_, err := admin.CoreV1().ConfigMaps("default").Get(ctx, "before", metav1.GetOptions{})
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a request while %s is paused: %v", component, err)
		}
		if err := c.Resume(component); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a request after resuming "+string(component), func(ctx context.Context) error {
			_, err := admin.CoreV1().ConfigMaps("default").Get(ctx, "before", metav1.GetOptions{})
			return err
		})
	}
	// A paused process is killed and restarted like any other.
	if err := c.Pause(controlplane.APIServer); err != nil {
		t.Fatal(err)
	}
	if err := c.Restart(t.Context(), controlplane.APIServer); err != nil {
		t.Fatal(err)
	}
	mustHave(t, admin, "before")
	if err := c.Resume(controlplane.Kwok); err == nil {
		t.Error("a component that was never started was resumed")
	}
}

func TestReplacedClusterTakesThePlace(t *testing.T) {
	t.Parallel()
	old := start(t, "old", controlplane.Options{})
	if _, err := controlplane.Start(t.Context(), "squatter", controlplane.Options{Port: old.Port()}); err == nil {
		t.Fatal("two clusters on one port")
	}
	admin := client(t, old.Config())
	create(t, admin, "lost")
	old.Stop()
	replaced := start(t, "replaced", controlplane.Options{Port: old.Port(), PKIFrom: old})
	if replaced.UID() == old.UID() {
		t.Error("the new cluster has the old one's identity")
	}
	// The old kubeconfig works, on other data.
	_, err := admin.CoreV1().ConfigMaps("default").Get(t.Context(), "lost", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("an object of the old cluster: %v", err)
	}
}

func TestFailedStartQuotesTheLog(t *testing.T) {
	t.Parallel()
	_, err := controlplane.Start(t.Context(), "broken", controlplane.Options{APIServerArgs: []string{"--no-such-flag"}})
	if err == nil || !strings.Contains(err.Error(), "unknown flag: --no-such-flag") {
		t.Errorf("error of a failed start: %v", err)
	}
}
