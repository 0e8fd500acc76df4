//go:build unix

package remotecluster

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/controller/link/linktest"
	"isthmus.dev/isthmus/internal/controlplane"
)

func (e *env) drain(left int, known bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.left, e.drained = left, known
	e.remotes.Recheck("")
}

func (e *env) gone(name string) bool {
	return apierrors.IsNotFound(e.client.Get(context.Background(), client.ObjectKey{Name: name}, &v1alpha1.RemoteCluster{}))
}

// told waits for an Event on a RemoteCluster.
func (e *env) told(name, reason, want string) {
	e.Helper()
	e.eventually(func() string {
		list, err := e.kube.CoreV1().Events("default").List(context.Background(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
		if err != nil {
			return err.Error()
		}
		for _, event := range list.Items {
			if event.Reason == reason && strings.Contains(event.Message, want) {
				return ""
			}
		}
		return fmt.Sprintf("no Event %s: %s", reason, want)
	})
}

// D3: a RemoteCluster that is deleted waits for what is left there; the annotation lets it go, and an Event says what was left.
func TestD3_DeletedRemoteWaits(t *testing.T) {
	e := newEnv(t)
	e.drain(7, true)
	paris := controlplane.Shared(t, "paris")
	p := linktest.NewProxy(t, paris)
	e.secret("drained", e.consumer(paris, "drained").Kubeconfig(linktest.Server(p.URL())))
	e.remote("drained")
	e.reachable("drained", v1alpha1.ReasonReached)
	rc := e.get("drained")
	if err := e.client.Delete(context.Background(), rc); err != nil {
		t.Fatal(err)
	}
	e.told("drained", "Draining", "the 7 objects that Isthmus has there are gone")
	e.drain(0, false) // as after a restart: nothing is known yet
	e.told("drained", "Draining", "what Isthmus has there is known and gone")
	p.Stop()
	e.reachable("drained", v1alpha1.ReasonRefused)
	e.drain(1, true)
	e.told("drained", "Draining", "the 1 object that Isthmus has there is gone")
	if e.gone("drained") {
		t.Fatal("it went")
	}
	rc = e.get("drained")
	rc.Annotations = map[string]string{v1alpha1.ReleaseAnnotation: "true"}
	if err := e.client.Update(context.Background(), rc); err != nil {
		t.Fatal(err)
	}
	e.eventually(func() string {
		if !e.gone("drained") {
			return "it does not go"
		}
		return ""
	})
	e.told("drained", "Released", "before the 1 object that Isthmus has there is gone")

	// One that was never reached has nothing to wait for.
	e.remote("never")
	e.reachable("never", v1alpha1.ReasonAccess)
	if err := e.client.Delete(context.Background(), e.get("never")); err != nil {
		t.Fatal(err)
	}
	e.eventually(func() string {
		if !e.gone("never") {
			return "it does not go"
		}
		return ""
	})
}

// F7: when another cluster answers than the one that was known, it is not used, until the right one answers again.
func TestF7_AnotherClusterAnswers(t *testing.T) {
	e := newEnv(t)
	paris, lyon := controlplane.Shared(t, "paris"), controlplane.Shared(t, "lyon")
	right, wrong := e.consumer(paris, "right").Kubeconfig(), e.consumer(lyon, "wrong").Kubeconfig()
	e.secret("replaced", right)
	e.remote("replaced")
	e.reachable("replaced", v1alpha1.ReasonReached)
	e.secret("replaced", wrong)
	c := e.reachable("replaced", v1alpha1.ReasonReplaced)
	if !strings.Contains(c.Message, string(lyon.UID())) || !strings.Contains(c.Message, string(paris.UID())) {
		t.Errorf("message %q", c.Message)
	}
	e.eventually(func() string {
		if r := e.of("replaced"); r.Usable || r.Reached {
			return "usable"
		}
		return ""
	})
	if uid := e.get("replaced").Status.ClusterUID; uid != string(paris.UID()) {
		t.Errorf("the UID was changed to %s", uid)
	}
	e.secret("replaced", right)
	e.reachable("replaced", v1alpha1.ReasonReached)
}

// S7: KindsServed names what a remote does not serve, and sees it come; consent is seen as NamespaceRequests are served.
func TestS7_KindsServed(t *testing.T) {
	e := newEnv(t)
	paris := controlplane.Shared(t, "paris")
	e.secret("kinds", e.consumer(paris, "kinds").Kubeconfig())
	e.remote("kinds")
	e.reachable("kinds", v1alpha1.ReasonReached)
	served := func(reason, message string) {
		t.Helper()
		e.eventually(func() string {
			if c := e.condition("kinds", v1alpha1.ConditionKindsServed); c.Reason != reason || !strings.Contains(c.Message, message) {
				return fmt.Sprintf("%+v, want %s", c, reason)
			}
			return ""
		})
	}
	served(v1alpha1.ReasonAllServed, "No kinds")
	e.mu.Lock()
	e.kinds = []schema.GroupVersionResource{{Version: "v1", Resource: "configmaps"}, {Group: "kinds.example.io", Version: "v1", Resource: "things"}}
	e.mu.Unlock()
	e.remotes.KindsChanged()
	served(v1alpha1.ReasonNotServed, "things.kinds.example.io (v1)")
	e.apply(paris, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.kinds.example.io}
spec:
  group: kinds.example.io
  scope: Namespaced
  names: {kind: Thing, plural: things, singular: thing, listKind: ThingList}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`)
	served(v1alpha1.ReasonAllServed, "all kinds")
}
