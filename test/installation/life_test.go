//go:build unix

package installation

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus.dev/isthmus/internal/install"
	"isthmus.dev/isthmus/test/harness"
)

// A component on one member, from its installation to its end: in the namespace that is named, stamped and owned, on no other
// cluster; drift put back, an upgrade that prunes, nothing written or read while it is in step, and nothing left.
func TestF2I1I3I4I5I7I8_AComponentsLife(t *testing.T) {
	h := harness.NewHub(t)
	one := h.Reach(h.One, "one")
	kept := h.ID + "-kept"
	h.One.Apply("{apiVersion: v1, kind: Namespace, metadata: {name: " + kept + "}}")
	h.Eventually(func() error { return h.One.There("configmaps", kept, "kube-root-ca.crt") })
	before, elsewhere := h.One.AllObjects(), h.Two.AllObjects()

	s := shopSpec(h, shop(h), `
{apiVersion: v1, kind: ConfigMap, metadata: {name: elsewhere, namespace: `+kept+`}, data: {a: b}}
---
apiVersion: batch/v1
kind: Job
metadata: {generateName: prepare-, namespace: shop}
spec:
  ttlSecondsAfterFinished: 1
  template: {spec: {restartPolicy: Never, containers: [{name: prepare, image: example.io/prepare:v1}]}}
`)
	s.more += ", keepNamespaces: [" + kept + "], namespace: {labels: {example.io/plan: gold}, annotations: {example.io/owner: till}}"
	h.Install(s.in(h))
	first := h.Start()
	untilReady(h, "shop")

	namespace := s.namespace
	for _, check := range []error{
		owned(h, h.One, "shop"),
		holds(h.One, "namespaces", "", namespace, "gold", "metadata", "labels", "example.io/plan"),
		holds(h.One, "namespaces", "", namespace, "shop", "metadata", "labels", "example.io/team"),
		holds(h.One, "namespaces", "", namespace, "till", "metadata", "annotations", "example.io/owner"),
		h.One.There("configmaps", kept, "elsewhere"),
		h.One.There("configmaps", kept, install.AnchorName(s.component)),
		h.One.There("widgets."+h.ID+".example.io", namespace, "window"),
		holds(h.One, "clusterrolebindings.rbac.authorization.k8s.io", "", h.ID+"-shop", "[map[kind:ServiceAccount name:shop namespace:"+namespace+"]]", "subjects"),
		h.One.Gone("namespaces", "", "shop"),
		h.Side.Gone("namespaces", "", namespace),
		h.Two.SameAs(elsewhere),
	} {
		if check != nil {
			t.Error(check)
		}
	}
	if hooks := h.One.Get(webhooks, "", h.ID+"-shop"); !strings.Contains(fmt.Sprint(hooks.Object["webhooks"]), "namespace:"+namespace) {
		t.Errorf("the webhook calls %v", hooks.Object["webhooks"])
	}
	status := h.Installation("shop").Status
	if status.ClusterUID != string(h.One.UID()) || status.Namespace != namespace || int(status.Objects) != len(status.Inventory) || len(status.Inventory) < 15 {
		t.Errorf("the status is %+v", status)
	}

	// The Job runs and goes, which is no drift; and what follows happens without a read.
	h.Eventually(func() error {
		if jobs := h.One.List("jobs.batch", namespace, ""); len(jobs) > 0 {
			return fmt.Errorf("%s is there", jobs[0].GetName())
		}
		return nil
	})
	rests(t, h, one)

	// Drift is put back, what others add stays, and the same after a restart, which writes nothing else.
	h.One.Patch("configmaps", namespace, "settings", "{metadata: {labels: {added: by-others}}, data: {more: by-others}}")
	drift := func() {
		t.Helper()
		h.One.Patch("configmaps", namespace, "settings", "{data: {color: red}}")
		h.One.Delete("services", namespace, "shop")
		h.Eventually(func() error {
			return errors.Join(holds(h.One, "configmaps", namespace, "settings", "blue", "data", "color"), h.One.There("services", namespace, "shop"))
		})
	}
	drift()
	untilReady(h, "shop")
	first.Stop()
	restarted := time.Now()
	h.Start()
	drift()
	untilReady(h, "shop")
	for _, r := range one.Wrote(restarted) {
		if name := r.ObjectRef.Name; name != "settings" && name != "shop" || r.ObjectRef.Namespace != namespace {
			t.Errorf("a write of a restart that is not called for: %s", r)
		}
	}
	if err := holds(h.One, "configmaps", namespace, "settings", "by-others", "data", "more"); err != nil {
		t.Error(err)
	}

	// An upgrade changes, adds and prunes; patches, images and replicas are kustomize's.
	s.manifests = []string{strings.NewReplacer("color: blue", "color: green", "shop:v1", "shop:v2",
		"{apiVersion: v1, kind: Secret, metadata: {name: till, namespace: shop}, stringData: {key: "+harness.Marked+"}}", "").Replace(shop(h))}
	s.more += ", images: [{name: example.io/shop, newName: mirror.example.io/shop}], replicas: [{name: shop, count: 2}], patches: [{patch: '[{\"op\": \"add\", \"path\": \"/data/patched\", \"value\": \"yes\"}]', target: {kind: ConfigMap, name: settings}}]"
	h.Install(s.in(h))
	untilReady(h, "shop")
	for _, check := range []error{
		owned(h, h.One, "shop"),
		holds(h.One, "configmaps", namespace, "settings", "green", "data", "color"),
		holds(h.One, "configmaps", namespace, "settings", "yes", "data", "patched"),
		holds(h.One, deployments, namespace, "shop", 2, "status", "availableReplicas"),
		h.One.Gone("secrets", namespace, "till"),
		h.One.Gone("configmaps", kept, "elsewhere"),
		h.One.Gone("configmaps", kept, install.AnchorName(s.component)),
	} {
		if check != nil {
			t.Error(check)
		}
	}
	if text := fmt.Sprint(h.One.Get(deployments, namespace, "shop").Object["spec"]); !strings.Contains(text, "mirror.example.io/shop:v2") {
		t.Errorf("the image is another one: %s", text)
	}
	uninstall(h, "shop", h.One, before)
	if err := h.HasEvent(h.ID, "shop", "Normal"); err != nil {
		t.Error(err)
	}
}

// rests checks that a hub's Isthmus comes to rest, and then neither reads nor writes on a member, nor writes on the hub.
func rests(t *testing.T, h *harness.Hub, w *harness.Way) {
	t.Helper()
	asked := func(since time.Time) (all []harness.Request) {
		for _, r := range append(w.Asked(since), h.WroteHere(since)...) {
			if r.ObjectRef.Name != metav1.NamespaceSystem { // whose UID tells which cluster answers, now and then
				all = append(all, r)
			}
		}
		return all
	}
	h.Eventually(func() error {
		if last := asked(time.Now().Add(-2 * time.Second)); len(last) > 0 {
			return fmt.Errorf("it does not come to rest: %v", last)
		}
		return nil
	})
	began := time.Now()
	time.Sleep(2 * time.Second)
	for _, r := range asked(began) {
		t.Errorf("a request at rest: %s", r)
	}
}

// Without a destination the manifests go to the hub itself, in the Installation's own namespace, which stays.
func TestI1I5_WithoutDestination(t *testing.T) {
	h := harness.NewHub(t)
	h.Eventually(func() error { return h.Side.There("configmaps", h.ID, "kube-root-ca.crt") })
	before := h.AllObjects()
	h.Install(spec{name: "local", component: h.ID, manifests: []string{`
{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: shop}, data: {a: b}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: ` + h.ID + `-local}, rules: []}`}}.in(h))
	h.Start()
	untilReady(h, "local")
	if err := errors.Join(h.Side.There("configmaps", h.ID, "settings"), h.Side.There("configmaps", h.ID, install.AnchorName(h.ID)), owned(h, h.Side, "local"),
		h.Side.There("configmaps", harness.IsthmusNamespace, "isthmus-component-"+h.ID), h.Side.Gone("namespaces", "", "shop")); err != nil {
		t.Error(err)
	}
	h.Delete(harness.Installations, h.ID, "local")
	h.Eventually(func() error { return ended(h, "local") })
	h.Eventually(func() error { return h.SameAs(before) })
	if status := h.Get("namespaces", "", h.ID); status == nil || status.GetDeletionTimestamp() != nil {
		t.Error("the Installation's own namespace was deleted")
	}
}
