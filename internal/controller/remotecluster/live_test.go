//go:build unix

package remotecluster

import (
	"context"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/controlplane"
)

func TestRemoteIsReached(t *testing.T) {
	e := newEnv(t)
	paris := controlplane.Shared(t, "paris")
	account := e.consumer(paris, "reached")
	e.remote("paris")
	c := e.reachable("paris", v1alpha1.ReasonAccess)
	if !strings.Contains(c.Message, "Secret isthmus-system/paris does not exist") {
		t.Errorf("message %q", c.Message)
	}
	e.secret("paris", account.Kubeconfig())
	e.reachable("paris", v1alpha1.ReasonReached)
	rc := e.get("paris")
	if rc.Status.ClusterUID != string(paris.UID()) || !strings.HasPrefix(rc.Status.KubernetesVersion, "v1.") || rc.Status.Server != paris.URL() ||
		rc.Status.Consent != v1alpha1.ConsentConsumer || len(rc.Finalizers) != 1 {
		t.Errorf("%+v, finalizers %v", rc.Status, rc.Finalizers)
	}
	e.eventually(func() string {
		if r := e.of("paris"); !r.Usable || !r.Reached || r.Cluster == nil || r.UID != string(paris.UID()) {
			return "All does not have it"
		}
		return ""
	})
	// At rest, nothing is written.
	since := time.Now()
	time.Sleep(6 * time.Second)
	if writes := e.writes(since); len(writes) > 0 {
		t.Errorf("writes at rest: %q", writes)
	}
	if strings.Contains(e.log.String(), account.Token) {
		t.Error("the token was logged")
	}

	if err := e.client.Delete(context.Background(), rc); err != nil {
		t.Fatal(err)
	}
	e.eventually(func() string {
		if r := e.of("paris"); !r.Deleting || !r.Usable {
			return "its deletion is not told"
		}
		return ""
	})
	e.mu.Lock()
	e.drained = true
	e.mu.Unlock()
	e.remotes.Recheck("paris")
	e.eventually(func() string {
		if err := e.client.Get(context.Background(), client.ObjectKey{Name: "paris"}, &v1alpha1.RemoteCluster{}); err == nil {
			return "it does not go"
		}
		if e.of("paris").Name != "" {
			return "All still has it"
		}
		return ""
	})
}
