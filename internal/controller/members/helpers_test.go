//go:build unix

package members

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/cluster/access"
	"isthmus.dev/isthmus/internal/controller/link"
	"isthmus.dev/isthmus/internal/controller/link/linktest"
	"isthmus.dev/isthmus/internal/controlplane"
	"isthmus.dev/isthmus/internal/observe/logtest"
)

// patience is how long a test waits for what must come, on a machine that may be slow.
const patience = 90 * time.Second

// hubRole is all that Members needs on the hub, and what the access plugins need there, who run as a user of their own.
const hubRole = `
apiVersion: v1
kind: Namespace
metadata: {name: fleet-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: members}
rules:
- {apiGroups: [multicluster.x-k8s.io], resources: [clusterprofiles], verbs: [get, list, watch]}
- {apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], resourceNames: [clusterprofiles.multicluster.x-k8s.io], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: members}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: members}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: isthmus}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: plugins, namespace: fleet-system}
rules:
- {apiGroups: [""], resources: [secrets], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: plugins, namespace: fleet-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: plugins}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: plugins}]
`

// memberRole is what the accounts on members may do: say who the cluster is, and watch a namespace.
const memberRole = `
apiVersion: v1
kind: Namespace
metadata: {name: accounts}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: accounts}
rules:
- {apiGroups: [""], resources: [namespaces], resourceNames: [kube-system], verbs: [get]}
- {apiGroups: [""], resources: [configmaps], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: accounts}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: accounts}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:serviceaccounts:accounts"}]
`

func TestMain(m *testing.M) { controlplane.Main(m) }

// env is a hub with Members that run there.
type env struct {
	*testing.T
	linktest.Profiles
	hub     *controlplane.Cluster
	dir     string // of the provider file and the plugins
	members *Members
	log     *logtest.Log

	mu     sync.Mutex
	wanted map[types.NamespacedName]bool
	told   map[types.NamespacedName][]string // the reasons that Get gave when Changed was called
}

func ref(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "fleet-system", Name: name}
}

// newEnv starts Members, with times that fit a test. prepare puts the plugins and the provider file into e.dir.
func newEnv(t *testing.T, prepare func(*env)) *env {
	t.Helper()
	hub := controlplane.Shared(t, "hub")
	e := &env{T: t, hub: hub, dir: t.TempDir(), log: &logtest.Log{}, wanted: map[types.NamespacedName]bool{}, told: map[types.NamespacedName][]string{},
		Profiles: linktest.Profiles{T: t, Cluster: hub, Version: "v1alpha1", Namespace: "fleet-system", Lists: true}}
	linktest.Apply(t, hub, hubRole)
	e.Serve()
	t.Cleanup(e.DeleteAll)
	prepare(e)
	providers, err := access.OpenProviderFile(e.file())
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := hub.UserKubeconfig("isthmus")
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(e.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	local, err := cluster.Connect(cluster.Options{Role: "local", Kubeconfig: kubeconfig, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	e.members = newMembers(Options{Local: local, Providers: providers, UserAgent: "isthmus-test", Logger: log, Changed: e.changed},
		link.Timing{Answer: 3 * time.Second, Idle: 2 * time.Second, RetryFirst: 100 * time.Millisecond, RetryMost: time.Second})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { e.members.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		local.Close()
	})
	return e
}

func (e *env) file() string { return filepath.Join(e.dir, "providers.json") }

func (e *env) changed(ref types.NamespacedName) {
	now := e.members.Get(ref)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.told[ref] = append(e.told[ref], now.Reason)
}

// want asks for a profile, beside those that were asked for.
func (e *env) want(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.wanted[ref(name)] = true
	e.members.Want(maps.Clone(e.wanted))
}

// becomes waits until a member stands so, its message holds text, and Changed told it.
func (e *env) becomes(name, reason, text string) Member {
	e.Helper()
	var m Member
	e.eventually(func() error {
		m = e.members.Get(ref(name))
		e.mu.Lock()
		defer e.mu.Unlock()
		told := e.told[ref(name)]
		if m.Reason != reason || !strings.Contains(m.Message, text) || len(told) == 0 || told[len(told)-1] != reason {
			return fmt.Errorf("%s is %s: %s (told: %v); want %s: %s", name, m.Reason, m.Message, told, reason, text)
		}
		return nil
	})
	if m.Reached != (reason == v1alpha1.ReasonReached) {
		e.Errorf("%s: %+v", name, m)
	}
	return m
}

// reached waits until a member is reached, and is the cluster that it is to be.
func (e *env) reached(name string, is *controlplane.Cluster) Member {
	e.Helper()
	m := e.becomes(name, v1alpha1.ReasonReached, "")
	if m.UID != string(is.UID()) || m.Epoch != m.Cluster.Epoch() {
		e.Errorf("%s: %+v, want UID %s", name, m, is.UID())
	}
	return m
}

func (e *env) eventually(check func() error) {
	e.Helper()
	failed := func() error {
		err := check()
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, e.log)
		}
		return err
	}
	controlplane.Eventually(e, patience, failed)
}

// account makes an account on a member, and keeps its token in a Secret on the hub, where secretreader finds it.
func (e *env) account(cluster *controlplane.Cluster, name, secret string) *linktest.Account {
	e.Helper()
	linktest.Apply(e, cluster, memberRole)
	a := linktest.NewAccount(e, cluster, "accounts", name)
	linktest.Apply(e, e.hub, fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: %s, namespace: fleet-system}, stringData: {token: %s}}", secret, a.Token))
	return a
}

// watching watches a namespace of a member as whoever installs there does, until the test ends.
func (e *env) watching(m Member) {
	e.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var ends sync.WaitGroup
	ends.Go(func() {
		for ctx.Err() == nil {
			w, err := m.Cluster.Clientset().CoreV1().ConfigMaps("kube-system").Watch(ctx, metav1.ListOptions{})
			if err == nil {
				drain(ctx, w)
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
	e.Cleanup(func() {
		cancel()
		ends.Wait()
	})
}

func drain(ctx context.Context, w watch.Interface) {
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case _, open := <-w.ResultChan():
			if !open {
				return
			}
		}
	}
}
