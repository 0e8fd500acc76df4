//go:build unix

package installation

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/controlplane"
	"isthmus.dev/isthmus/internal/install"
	"isthmus.dev/isthmus/test/harness"
)

// Deleted while Isthmus does not run, and so finalized by one that has seen nothing yet; and deleted right after a restart.
func TestI5_DeletedAroundARestart(t *testing.T) {
	h := harness.NewHub(t)
	h.Reach(h.One, "one")
	before := h.One.AllObjects()
	s := shopSpec(h, shop(h))
	h.Install(s.in(h))
	p := h.Start()
	untilReady(h, "shop")
	p.Kill()
	h.Delete(harness.Installations, h.ID, "shop")
	p = h.Start()
	h.Eventually(func() error { return ended(h, "shop") })
	h.Eventually(func() error { return h.One.SameAs(before) })

	h.Install(s.in(h))
	untilReady(h, "shop")
	p.Kill()
	h.Start()
	uninstall(h, "shop", h.One, before)
}

// Deleted before the installation was complete, at whatever it waits for: cluster-scoped objects go too, and what others have
// stays.
func TestI4I5_DeletedHalfDone(t *testing.T) {
	h := harness.NewHub(t)
	h.Reach(h.One, "one")
	taken := h.ID + "-shop"
	h.One.Apply("{apiVersion: v1, kind: Namespace, metadata: {name: " + taken + ", labels: {a: b}}}")
	h.One.Apply("{apiVersion: v1, kind: Secret, metadata: {name: till, namespace: " + taken + "}, stringData: {key: others}}")
	h.Eventually(func() error { return h.One.There("configmaps", taken, "kube-root-ca.crt") })
	before := h.One.AllObjects()

	// What is in the way is named, and neither owned, nor written, nor deleted with the rest.
	h.Install(shopSpec(h, shop(h)).in(h))
	h.Start()
	h.Eventually(func() error {
		return is(h, "shop", v1alpha1.ConditionApplied, metav1.ConditionFalse, v1alpha1.ReasonObjectsExist, "Secret", taken, "till")
	})
	uninstall(h, "shop", h.One, before)

	// A kind that is not served is named.
	s := shopSpec(h, strings.ReplaceAll(shop(h), "name: till", "name: till-2"), "{apiVersion: "+h.ID+".example.io/v2, kind: Gadget, metadata: {name: lamp, namespace: shop}}")
	h.Install(s.in(h))
	h.Eventually(func() error { return is(h, "shop", v1alpha1.ConditionApplied, metav1.ConditionFalse, "", "Gadget") })
	uninstall(h, "shop", h.One, before)

	// Pods that do not start hold up the webhooks that they would serve.
	if err := h.One.Pause(controlplane.Scheduler); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.One.Resume(controlplane.Scheduler) })
	s = shopSpec(h, strings.ReplaceAll(shop(h), "name: till", "name: till-2"))
	h.Install(s.in(h))
	h.Eventually(func() error { return h.One.There(deployments, taken, "shop") })
	h.Eventually(func() error {
		return is(h, "shop", v1alpha1.ConditionAvailable, metav1.ConditionFalse, "", "Deployment", "shop")
	})
	if err := h.One.Gone(webhooks, "", h.ID+"-shop"); err != nil {
		t.Error(err)
	}
	uninstall(h, "shop", h.One, before)
}

// A component's own webhook that lets nothing pass any more, as nobody answers it, is taken away first.
func TestI5_ABlockingWebhook(t *testing.T) {
	h := harness.NewHub(t)
	h.Reach(h.One, "one")
	before := h.One.AllObjects()
	text := strings.NewReplacer("failurePolicy: Ignore", "failurePolicy: Fail", "resources: [secrets]", "resources: [configmaps, secrets, services]").Replace(shop(h))
	s := shopSpec(h, text)
	h.Install(s.in(h))
	h.Start()
	untilReady(h, "shop")
	s.manifests[0] = strings.ReplaceAll(text, "color: blue", "color: green")
	h.Install(s.in(h))
	h.Eventually(func() error {
		return is(h, "shop", v1alpha1.ConditionApplied, metav1.ConditionFalse, "", "settings", "shop."+h.ID+".example.io")
	})
	uninstall(h, "shop", h.One, before)
}

// CRDs stay by default, without our stamp, and with what others made of them. With crds: Delete an uninstallation waits until
// others' objects of the kind are gone, and takes nothing away before.
func TestI5_CRDsWithInstances(t *testing.T) {
	h := harness.NewHub(t)
	h.Reach(h.One, "one")
	before := h.One.AllObjects()
	crd, widgets, others := "widgets."+h.ID+".example.io", "widgets."+h.ID+".example.io", h.ID+"-others"
	s := shopSpec(h, shop(h))
	s.more = ""
	h.Install(s.in(h))
	h.Start()
	untilReady(h, "shop")
	h.One.Apply("{apiVersion: v1, kind: Namespace, metadata: {name: " + others + "}}")
	h.One.Apply("{apiVersion: " + h.ID + ".example.io/v1, kind: Widget, metadata: {name: theirs, namespace: " + others + "}, spec: {size: 3}}")
	theirs := h.One.Get(widgets, others, "theirs").GetUID()
	h.Delete(harness.Installations, h.ID, "shop")
	h.Eventually(func() error { return ended(h, "shop") })
	if left := installed(h, h.One); len(left) > 0 {
		t.Errorf("still stamped: %v", left)
	}
	definition := h.One.Get(crds, "", crd)
	if definition == nil || definition.GetAnnotations()[v1alpha1.InstallationAnnotation] != "" {
		t.Fatalf("the CRD: %v", definition)
	}
	if o := h.One.Get(widgets, others, "theirs"); o == nil || o.GetUID() != theirs {
		t.Error("somebody's widget was lost with the component")
	}

	// The CRD is not ours any more: without adoption it is in the way.
	s.more = "deletionPolicy: {crds: Delete}"
	h.Install(s.in(h))
	h.Eventually(func() error {
		return is(h, "shop", v1alpha1.ConditionApplied, metav1.ConditionFalse, "", "CustomResourceDefinition", crd)
	})
	s.more += ", adopt: [{group: apiextensions.k8s.io, kind: CustomResourceDefinition, name: " + crd + "}]"
	h.Install(s.in(h))
	untilReady(h, "shop")
	h.Delete(harness.Installations, h.ID, "shop")
	h.Eventually(func() error {
		return is(h, "shop", v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonInstancesLeft, "1 of "+crd)
	})
	if err := errors.Join(h.One.There(deployments, s.namespace, "shop"), h.One.There(webhooks, "", h.ID+"-shop"), h.One.There(widgets, s.namespace, "window")); err != nil {
		t.Error(err)
	}
	h.One.Delete(widgets, others, "theirs")
	h.Eventually(func() error { return ended(h, "shop") })
	h.One.Delete("namespaces", "", others)
	h.Eventually(func() error { return h.One.SameAs(before) })
}

// A member that can't be reached, or that nobody knows any more, holds up the deletion, which says so. One annotation abandons
// what is there, and an Event lists it.
func TestI5_AbandonedWhenTheMemberIsGone(t *testing.T) {
	h := harness.NewHub(t)
	w := h.Reach(h.One, "one")
	s := shopSpec(h, shop(h))
	h.Install(s.in(h))
	h.Start()
	untilReady(h, "shop")
	w.Cut()
	h.Delete(harness.Installations, h.ID, "shop")
	h.Eventually(func() error { return is(h, "shop", v1alpha1.ConditionTargetClusterResolved, metav1.ConditionFalse, "") })
	h.Delete(harness.ClusterProfiles, h.ID, "one")
	h.Eventually(func() error {
		return is(h, "shop", v1alpha1.ConditionTargetClusterResolved, metav1.ConditionFalse, "", "ClusterProfile", h.ID+"/one")
	})
	if i := h.Installation("shop"); len(i.Status.Inventory) < 10 {
		t.Errorf("the inventory is %v", i.Status.Inventory)
	}
	h.Patch(harness.Installations, h.ID, "shop", release)
	h.Eventually(func() error { return ended(h, "shop") })
	h.Eventually(func() error {
		return h.HasEvent(h.ID, "shop", "Abandoned", "Namespace "+s.namespace, "CustomResourceDefinition", "ClusterRole")
	})
	if err := h.One.There(deployments, s.namespace, "shop"); err != nil {
		t.Error(err)
	}

	// Its anchor and its lock let the member be cleaned up without any hub.
	h.One.Delete("configmaps", s.namespace, install.AnchorName(s.component))
	h.Eventually(func() error {
		for _, kind := range []string{deployments, "services", "secrets", "serviceaccounts", "widgets." + h.ID + ".example.io", "rolebindings.rbac.authorization.k8s.io"} {
			for _, o := range h.One.List(kind, s.namespace, v1alpha1.InstalledByLabel) {
				return fmt.Errorf("%s %s is still there", kind, o.GetName())
			}
		}
		return nil
	})
}
