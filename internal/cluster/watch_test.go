package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus.dev/isthmus/internal/controlplane"
)

// told collects the names that a watch told.
type told struct {
	mu    sync.Mutex
	names map[string]int
}

func (s *told) add(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names == nil {
		s.names = map[string]int{}
	}
	s.names[name]++
}

func (s *told) count(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names[name]
}

const fewNamespaces = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: few-namespaces}
rules: [{apiGroups: [""], resources: [namespaces], resourceNames: [few-a, few-b, few-none], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: few-namespaces}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: few-namespaces}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: few}]
---
apiVersion: v1
kind: Namespace
metadata: {name: few-a, labels: {a: b}}
`

func TestLiveNamespacesByName(t *testing.T) {
	cp, admin := live(t)
	apply(t, cp, fewNamespaces)
	c, _ := connectAs(t, cp, "few")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	told := &told{}
	ns := c.WatchNamespaces(ctx, told.add)
	ns.Use([]string{"few-a", "few-b", "few-none"})
	eventually(t, 15*time.Second, "all are known", ns.Synced)
	if s, known := ns.Get("few-a"); !known || !s.Exists || s.Terminating || s.UID == "" || s.Labels["a"] != "b" {
		t.Errorf("few-a: %+v %v", s, known)
	}
	if s, known := ns.Get("few-none"); !known || s.Exists {
		t.Errorf("few-none: %+v %v", s, known)
	}
	if _, known := ns.Get("kube-system"); known {
		t.Error("an unwatched namespace is known")
	}
	if told.count("few-none") != 1 || told.count("few-a") != 1 {
		t.Errorf("told: %v", told.names)
	}
	apply(t, cp, "apiVersion: v1\nkind: Namespace\nmetadata: {name: few-b, annotations: {x: here}}")
	eventually(t, 10*time.Second, "few-b is seen", func() bool { s, _ := ns.Get("few-b"); return s.Exists && s.Annotations["x"] == "here" })
	// There is no controller manager: the namespace stays terminating until its finalizer is taken.
	if err := admin.Dynamic().Resource(namespaces).Delete(t.Context(), "few-b", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "few-b is seen terminating", func() bool { s, _ := ns.Get("few-b"); return s.Exists && s.Terminating })
	finalize(t, admin, "few-b")
	eventually(t, 10*time.Second, "few-b is seen gone", func() bool { s, known := ns.Get("few-b"); return known && !s.Exists })
}

func finalize(t *testing.T, c *Cluster, name string) {
	t.Helper()
	body, _ := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}, "spec": map[string]any{"finalizers": []string{}}})
	if err := c.Clientset().CoreV1().RESTClient().Put().AbsPath("/api/v1/namespaces/" + name + "/finalize").Body(body).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
}

func TestLiveAllNamespaces(t *testing.T) {
	cp, c := live(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	told := &told{}
	ns := c.WatchAllNamespaces(ctx, told.add)
	eventually(t, 15*time.Second, "all are known", ns.Synced)
	if s, known := ns.Get("kube-system"); !known || s.UID != string(cp.UID()) {
		t.Errorf("kube-system: %+v %v", s, known)
	}
	if s, known := ns.Get("all-none"); !known || s.Exists {
		t.Errorf("absent: %+v %v", s, known)
	}
	apply(t, cp, "apiVersion: v1\nkind: Namespace\nmetadata: {name: all-a}")
	eventually(t, 10*time.Second, "all-a is told", func() bool { s, _ := ns.Get("all-a"); return s.Exists && told.count("all-a") > 0 })
}

// Denied watches are tried again seldom, told once, and nothing becomes absent by them.
func TestLiveDeniedWatch(t *testing.T) {
	cp, _ := live(t)
	c, log := connectAs(t, cp, "nobody-in-particular")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ns := c.WatchNamespaces(ctx, func(string) { t.Error("told of a namespace that we may not read") })
	ns.Use([]string{"default"})
	c.WatchCRD(ctx, schema.GroupResource{Group: "live.example.io", Resource: "xs"}, func() { t.Error("told of a CRD that we may not read") })
	eventually(t, 15*time.Second, "both failures are logged", func() bool { return strings.Count(log.String(), "Watching failed") == 2 })
	if _, known := ns.Get("default"); known || ns.Synced() {
		t.Error("an error made a namespace known")
	}
}

// F1: an API server that goes away and comes back, and credentials that expire, need no restart.
func TestF1_LiveOutageAndExpiry(t *testing.T) {
	cp, err := controlplane.Start(t.Context(), "outage", controlplane.Options{NoAudit: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cp.Stop)
	c, _ := connect(t, cp.Kubeconfig())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ns := c.WatchAllNamespaces(ctx, func(string) {})
	eventually(t, 15*time.Second, "namespaces are known", ns.Synced)

	cp.Kill(controlplane.APIServer)
	eventually(t, 20*time.Second, "the outage is seen", func() bool { h := c.Health(); return !h.Reached && Reason(h.Err) == ReasonRefused })
	if s, known := ns.Get("default"); !known || !s.Exists {
		t.Errorf("an outage made a namespace %+v, known %v", s, known)
	}
	if err := cp.Restart(t.Context(), controlplane.APIServer); err != nil {
		t.Fatal(err)
	}
	apply(t, cp, "apiVersion: v1\nkind: Namespace\nmetadata: {name: after}")
	eventually(t, 20*time.Second, "the watch goes on", func() bool { s, _ := ns.Get("after"); return s.Exists })
	if !c.Health().Reached {
		t.Errorf("health after the outage: %+v", c.Health())
	}

	// A client certificate that runs out, and is replaced in the file.
	short, err := cp.UserKubeconfigExpiring("short", time.Now().Add(3*time.Second), "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	path := copyFile(t, short)
	c2, _ := connect(t, path)
	if _, err := c2.UID(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, 15*time.Second, "the certificate is expired", func() bool {
		_, err := c2.UID(t.Context())
		return Reason(err) == ReasonUnauthorized
	})
	content, err := os.ReadFile(cp.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, "the new certificate is used", func() bool {
		_, err := c2.UID(t.Context())
		return err == nil
	})

	// The server's own certificate runs out.
	if err := cp.ReplaceServingCert(t.Context(), time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	c3, _ := connect(t, cp.Kubeconfig())
	eventually(t, 15*time.Second, "the server's certificate is expired", func() bool {
		_, err := c3.UID(t.Context())
		c3.transport.CloseIdleConnections()
		return Reason(err) == ReasonCertificateExpired
	})
	if err := cp.ReplaceServingCert(t.Context(), time.Time{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, 15*time.Second, "the server is trusted again", func() bool {
		_, err := c3.UID(t.Context())
		return err == nil
	})
}

func copyFile(t *testing.T, from string) string {
	t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir() + "/kubeconfig"
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const manyNamespaces = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: many-namespaces}
rules: [{apiGroups: [""], resources: [namespaces], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: many-namespaces}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: many-namespaces}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: many}]
---
apiVersion: v1
kind: Namespace
metadata: {name: many-there}
`

// Many namespaces take one watch where RBAC allows it; where it does not any more, they are watched one by one.
func TestLiveManyNamespaces(t *testing.T) {
	cp, admin := live(t)
	apply(t, cp, manyNamespaces)
	c, _ := connectAs(t, cp, "many")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	told := &told{}
	ns := c.WatchNamespaces(ctx, told.add)
	names := []string{"many-there"}
	for len(names) < singlesMost {
		names = append(names, fmt.Sprintf("many-%d", len(names)))
	}
	ns.Use(names)
	eventually(t, 15*time.Second, "few are known", ns.Synced)
	if n := watches(ns); n != singlesMost {
		t.Fatalf("%d watches of single namespaces, expected %d", n, singlesMost)
	}
	names = append(names, "many-more")
	ns.Use(names)
	eventually(t, 15*time.Second, "many are known", ns.Synced)
	if n := watches(ns); n != 0 {
		t.Errorf("%d watches of single namespaces beside one of all", n)
	}
	if s, known := ns.Get("many-there"); !known || !s.Exists {
		t.Errorf("many-there: %+v %v", s, known)
	}
	if _, known := ns.Get("kube-system"); known {
		t.Error("a namespace is known that is of no concern")
	}
	for _, name := range []string{"many-there", "many-more"} {
		if told.count(name) != 1 {
			t.Errorf("%s was told %d times, expected once", name, told.count(name))
		}
	}

	// One that comes to be of concern is known at once, and what happens to it is told.
	apply(t, cp, "apiVersion: v1\nkind: Namespace\nmetadata: {name: many-new}")
	ns.Use(append(names, "many-late"))
	if s, known := ns.Get("many-late"); !known || s.Exists {
		t.Errorf("many-late: %+v %v", s, known)
	}
	apply(t, cp, "apiVersion: v1\nkind: Namespace\nmetadata: {name: many-late}")
	eventually(t, 10*time.Second, "many-late is told", func() bool { s, _ := ns.Get("many-late"); return s.Exists && told.count("many-late") > 0 })
	if told.count("many-new") != 0 {
		t.Error("told of a namespace that is of no concern")
	}
	ns.Use(names)
	if _, known := ns.Get("many-late"); known {
		t.Error("a namespace is known that is of no concern any more")
	}

	// Denied for long, it gives way to single ones; nothing becomes absent by that.
	ns.mu.Lock()
	all := ns.all
	all.denied = true
	ns.mu.Unlock()
	ns.leave(all, func() {})
	if n := watches(ns); n != len(names) {
		t.Errorf("%d watches of single namespaces, expected %d", n, len(names))
	}
	if s, known := ns.Get("many-there"); !known || !s.Exists {
		t.Errorf("many-there: %+v %v", s, known)
	}
	if err := admin.Dynamic().Resource(namespaces).Delete(t.Context(), "many-there", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "many-there is seen terminating", func() bool { s, _ := ns.Get("many-there"); return s.Exists && s.Terminating })
}

// watches returns how many namespaces have a watch of their own.
func watches(n *Namespaces) (single int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, one := range n.named {
		if one.stop != nil {
			single++
		}
	}
	return single
}

// Many namespaces of which RBAC allows but some are watched one by one.
func TestLiveManyNamespacesOneByOne(t *testing.T) {
	cp, _ := live(t)
	apply(t, cp, fewNamespaces)
	c, _ := connectAs(t, cp, "few")
	ns := c.WatchNamespaces(t.Context(), func(string) {})
	names := []string{"few-a"}
	for len(names) <= singlesMost {
		names = append(names, fmt.Sprintf("few-denied-%d", len(names)))
	}
	ns.Use(names)
	eventually(t, 15*time.Second, "few-a is known", func() bool { s, known := ns.Get("few-a"); return known && s.Exists })
	if n := watches(ns); n != len(names) {
		t.Errorf("%d watches of single namespaces, expected %d", n, len(names))
	}
}
