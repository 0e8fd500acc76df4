//go:build unix

package installation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/controlplane"
	"isthmus.dev/isthmus/internal/install"
	"isthmus.dev/isthmus/test/harness"
)

// The member's API server is killed when the first object of each phase is there, and when each begins to go.
func TestI4I5I8_MemberKilledAtEachPhase(t *testing.T) {
	h := harness.NewHub(t)
	h.Reach(h.One, "one")
	before := h.One.AllObjects()
	s := shopSpec(h, shop(h))
	widgets := "widgets." + h.ID + ".example.io"
	phases := []string{"namespaces", crds, "roles.rbac.authorization.k8s.io", "secrets", deployments, widgets, webhooks}
	kill := func(resource, namespace string, event watch.EventType) {
		t.Helper()
		await(h, h.One, resource, namespace, event)
		h.One.StopAPIServer(t)
		h.One.StartAPIServer(t)
	}
	h.Grant(s.in(h))
	h.Start()
	h.Install(s.in(h))
	for _, phase := range phases {
		kill(phase, s.namespace, watch.Added)
	}
	untilReady(h, "shop")
	if err := owned(h, h.One, "shop"); err != nil {
		t.Error(err)
	}
	h.Delete(harness.Installations, h.ID, "shop")
	for _, phase := range []string{webhooks, deployments, "roles.rbac.authorization.k8s.io"} {
		kill(phase, s.namespace, watch.Deleted)
	}
	h.Eventually(func() error { return ended(h, "shop") })
	h.Eventually(func() error { return h.One.SameAs(before) })
}

// await waits until a hub's object of a kind comes to a member, or goes, or has done so already.
func await(h *harness.Hub, s *harness.Side, resource, namespace string, event watch.EventType) {
	t := h.T()
	t.Helper()
	selected := metav1.ListOptions{LabelSelector: v1alpha1.InstalledByLabel + "=" + h.ID}
	switch resource {
	case "namespaces":
		selected, namespace = metav1.ListOptions{FieldSelector: "metadata.name=" + namespace}, ""
	case crds, webhooks:
		namespace = ""
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*harness.Patience)
	defer cancel()
	for ctx.Err() == nil {
		list, err := s.Client(resource, namespace).List(ctx, selected)
		if err != nil { // not served yet
			time.Sleep(20 * time.Millisecond)
			continue
		}
		if (event == watch.Added) == (len(list.Items) > 0) {
			return
		}
		from := selected
		from.ResourceVersion = list.GetResourceVersion()
		events, err := s.Client(resource, namespace).Watch(ctx, from)
		if err != nil {
			continue
		}
		for e := range events.ResultChan() {
			if e.Type == event {
				events.Stop()
				return
			}
		}
	}
	t.Fatalf("no %s of %s on %s", event, resource, s.Name())
}

// The token is replaced and the old one ends while an installation is under way, and again at rest: nothing fails for good.
func TestF6I8_TokenRotatedWhileInstalling(t *testing.T) {
	h := harness.NewHub(t)
	w := h.Reach(h.One, "one")
	before := h.One.AllObjects()
	if err := h.One.Pause(controlplane.Scheduler); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.One.Resume(controlplane.Scheduler) })
	s := shopSpec(h, shop(h))
	h.Install(s.in(h))
	h.Start()
	await(h, h.One, "serviceaccounts", s.namespace, watch.Added) // in the middle of it
	w.Rotate()
	h.Eventually(func() error { return h.One.There(deployments, s.namespace, "shop") })
	if err := h.One.Gone(webhooks, "", h.ID+"-shop"); err != nil {
		t.Error(err)
	}
	w.Rotate() // while it waits for pods
	if err := h.One.Resume(controlplane.Scheduler); err != nil {
		t.Fatal(err)
	}
	untilReady(h, "shop")
	w.Rotate() // at rest: drift is still seen
	h.One.Patch("configmaps", s.namespace, "settings", "data: {color: red}")
	h.Eventually(func() error { return holds(h.One, "configmaps", s.namespace, "settings", "blue", "data", "color") })
	uninstall(h, "shop", h.One, before)
}

// A member that can't be reached is told within seconds, others go on; back again, it is told and nothing is installed anew. What
// changed meanwhile is applied, and no more. A control plane that its profile calls unhealthy is waited for.
func TestI7F1_AnUnreachableMember(t *testing.T) {
	h := harness.NewHub(t)
	one := h.Reach(h.One, "one")
	h.Reach(h.Two, "two")
	s := shopSpec(h, shop(h))
	h.Install(s.in(h))
	h.Start()
	untilReady(h, "shop")
	resolved := func(status metav1.ConditionStatus, says ...string) {
		t.Helper()
		h.Eventually(func() error { return is(h, "shop", v1alpha1.ConditionTargetClusterResolved, status, "", says...) })
	}
	cut := time.Now()
	one.Cut()
	resolved(metav1.ConditionFalse)
	t.Logf("told after %s", time.Since(cut).Round(100*time.Millisecond))
	if err := is(h, "shop", v1alpha1.ConditionReady, metav1.ConditionFalse, ""); err != nil {
		t.Error(err)
	}
	h.Install(spec{name: "small", component: h.ID + "-small", profile: "two", namespace: h.ID + "-small", manifests: []string{small(h.ID)}}.in(h))
	untilReady(h, "small")
	one.Mend()
	untilReady(h, "shop")
	rests(t, h, one)
	for _, r := range one.Wrote(cut) {
		t.Errorf("a write to a member that was away for a while: %s", r)
	}

	cut = time.Now()
	one.Cut()
	resolved(metav1.ConditionFalse)
	s.manifests[0] = strings.ReplaceAll(shop(h), "color: blue", "color: green")
	h.Install(s.in(h))
	one.Mend()
	h.Eventually(func() error {
		return errors.Join(ready(h, "shop"), holds(h.One, "configmaps", s.namespace, "settings", "green", "data", "color"))
	})
	for _, r := range one.Wrote(cut) {
		if r.ObjectRef.Name != "settings" && r.ObjectRef.Namespace != harness.IsthmusNamespace {
			t.Errorf("a write that is not called for: %s", r)
		}
	}

	one.Publish("{type: ControlPlaneHealthy, status: 'False', reason: Down, message: no etcd, lastTransitionTime: '2026-01-01T00:00:00Z'}")
	resolved(metav1.ConditionFalse, "no etcd")
	one.Publish()
	untilReady(h, "shop")
	for _, name := range []string{"shop", "small"} {
		h.Delete(harness.Installations, h.ID, name)
		h.Eventually(func() error { return ended(h, name) })
	}
}

// What somebody deletes by hand comes back: an anchor, with all that its end took along, and the whole destination namespace.
func TestI4I8_AnchorAndNamespaceDeletedByHand(t *testing.T) {
	h := harness.NewHub(t)
	h.Reach(h.One, "one")
	before := h.One.AllObjects()
	s := shopSpec(h, shop(h))
	h.Install(s.in(h))
	h.Start()
	untilReady(h, "shop")
	back := func(resource, namespace, name string) {
		t.Helper()
		former := h.One.Get(resource, namespace, name).GetUID()
		deployed := h.One.Get(deployments, s.namespace, "shop").GetUID()
		h.One.Delete(resource, namespace, name)
		h.Eventually(func() error {
			if o := h.One.Get(resource, namespace, name); o == nil || o.GetUID() == former {
				return fmt.Errorf("%s %s is not back", resource, name)
			}
			if o := h.One.Get(deployments, s.namespace, "shop"); o == nil || o.GetUID() == deployed {
				return errors.New("the Deployment is the former one")
			}
			return errors.Join(owned(h, h.One, "shop"), ready(h, "shop"))
		})
		if want, have := int(h.Installation("shop").Status.Objects), len(installed(h, h.One)); have != want {
			t.Errorf("%d objects are there, expected %d", have, want)
		}
	}
	back("configmaps", s.namespace, install.AnchorName(s.component))
	back("namespaces", "", s.namespace)
	uninstall(h, "shop", h.One, before)
}
