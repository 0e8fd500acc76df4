//go:build unix

package remotecluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/controller/link/linktest"
	"isthmus.dev/isthmus/internal/controlplane"
)

var deleteNow = metav1.DeleteOptions{}

// F6, row 401: while writes run, a Secret gets another credential and the old one ends at once: no write fails.
func TestF6_RotatedSecretLosesNoWrite(t *testing.T) {
	e := newEnv(t)
	paris := controlplane.Shared(t, "paris")
	account := e.consumer(paris, "rotated-0")
	e.secret("paris", account.Kubeconfig())
	e.remote("paris")
	e.reachable("paris", v1alpha1.ReasonReached)
	remote := e.of("paris").Cluster

	more, done := e.writing(remote, "rotation")
	for i := 1; i <= 3; i++ {
		next := e.consumer(paris, fmt.Sprintf("rotated-%d", i))
		e.secret("paris", next.Kubeconfig())
		account.Revoke(t)
		account = next
		more()
		time.Sleep(1500 * time.Millisecond) // beyond the gap between two looks that a refusal brings about
	}
	done()
	if e.of("paris").Cluster != remote {
		t.Error("another Cluster after the rotation")
	}
	if c := e.condition("paris", v1alpha1.ConditionReachable); c.Status != metav1.ConditionTrue {
		t.Errorf("%+v", c)
	}
}

// Two RemoteClusters that are one cluster: the older one has it, the other one is refused with its name, and gets it when
// the older one is gone. The local cluster is refused too.
func TestOneClusterTwice(t *testing.T) {
	e := newEnv(t)
	paris := controlplane.Shared(t, "paris")
	account := e.consumer(paris, "twice")
	e.secret("first", account.Kubeconfig())
	e.secret("second", e.consumer(paris, "twice-2").Kubeconfig(linktest.Server(linktest.NewProxy(t, paris).URL())))
	e.remote("first")
	e.reachable("first", v1alpha1.ReasonReached)
	e.remote("second")
	if c := e.reachable("second", v1alpha1.ReasonSameCluster); !strings.Contains(c.Message, `RemoteCluster "first"`) {
		t.Errorf("message %q", c.Message)
	}
	if r := e.of("second"); r.Usable || len(e.get("second").Finalizers) > 0 || e.get("second").Status.ClusterUID != "" {
		t.Errorf("%+v %v", r, e.get("second"))
	}
	e.secret("self", e.consumer(e.cp, "self").Kubeconfig())
	e.remote("self")
	if c := e.reachable("self", v1alpha1.ReasonSameCluster); !strings.Contains(c.Message, "the cluster that Isthmus runs in") {
		t.Errorf("message %q", c.Message)
	}
	e.remove("first")
	e.reachable("second", v1alpha1.ReasonReached)
}

// F1: a remote that hangs delays neither another one's connection nor what is told of it.
func TestF1_HangingRemoteDelaysNoOther(t *testing.T) {
	e := newEnv(t, func(t *timing) { t.Answer = patience }) // it never answers
	p := linktest.NewProxy(t, controlplane.Shared(t, "paris"))
	p.Hang()
	e.secret("hanging", e.consumer(controlplane.Shared(t, "paris"), "hanging").Kubeconfig(linktest.Server(p.URL())))
	e.remote("hanging")
	e.eventually(func() string {
		if e.of("hanging").Cluster == nil {
			return "not tried yet"
		}
		return ""
	})
	lyon := e.consumer(controlplane.Shared(t, "lyon"), "live")
	e.secret("live", lyon.Kubeconfig())
	e.remote("live")
	e.reachable("live", v1alpha1.ReasonReached)
	e.secret("live", lyon.Kubeconfig(linktest.Server("https://127.0.0.1:1")))
	e.reachable("live", v1alpha1.ReasonRefused)
	if c := e.condition("hanging", v1alpha1.ConditionReachable); c.Reason != v1alpha1.ReasonConnecting {
		t.Errorf("the other one was not waited for: %+v", c)
	}
	// Its Secret is used at once, although a request hangs.
	e.secret("hanging", e.consumer(controlplane.Shared(t, "paris"), "hanging").Kubeconfig())
	e.reachable("hanging", v1alpha1.ReasonReached)
}

// A single failed request is told of in no condition, and one that lasts is.
func TestShortFailureIsNotTold(t *testing.T) {
	e := newEnv(t, func(t *timing) { t.grace = 3 * time.Second })
	paris := controlplane.Shared(t, "paris")
	p := linktest.NewProxy(t, paris)
	e.secret("paris", e.consumer(paris, "short").Kubeconfig(linktest.Server(p.URL())))
	e.remote("paris")
	e.reachable("paris", v1alpha1.ReasonReached)
	remote := e.of("paris").Cluster
	since := time.Now()
	p.Stop()
	if _, err := remote.UID(context.Background()); err == nil {
		t.Fatal("no failure")
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	e.eventually(func() string {
		if !remote.Health().Reached {
			return "not reached again"
		}
		return ""
	})
	time.Sleep(4 * time.Second)
	if writes := e.writes(since); len(writes) > 0 {
		t.Errorf("writes: %q", writes)
	}
	p.Stop()
	e.reachable("paris", v1alpha1.ReasonRefused)
	if r := e.of("paris"); !r.Usable || r.Reached {
		t.Errorf("a remote that is away: %+v", r)
	}
}
