//go:build unix

package installation

import (
	"errors"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/install"
	"isthmus.dev/isthmus/test/harness"
)

// small is a component of one namespaced and one cluster-scoped object.
func small(prefix string) string {
	return `{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: small}, data: {color: blue}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: ` + prefix + `-small}, rules: []}`
}

// A member has a component once, whoever asks: the first one keeps it, others say who has it and install nothing, and go on by
// themselves when it is given back.
func TestI6_OneComponentIsInstalledOnce(t *testing.T) {
	h := harness.NewHub(t)
	h.Reach(h.One, "one")
	other := h.Another()
	other.Reach(other.One, "one")
	before := h.One.AllObjects()
	component, a, b, c := h.ID+"-c", h.ID+"-a", h.ID+"-b", other.ID+"-c"

	h.Install(spec{name: "first", component: component, profile: "one", namespace: a, manifests: []string{small(h.ID)}}.in(h))
	h.Start()
	untilReady(h, "first")
	h.Install(spec{name: "second", component: component, profile: "one", namespace: b, manifests: []string{small(h.ID)}}.in(h))
	other.Install(spec{name: "third", component: component, profile: "one", namespace: c, manifests: []string{small(h.ID)}}.in(other))
	other.Start()
	held := func(h *harness.Hub, name string, by ...string) func() error {
		return func() error {
			return is(h, name, v1alpha1.ConditionApplied, metav1.ConditionFalse, v1alpha1.ReasonLockHeld, by...)
		}
	}
	h.Eventually(held(h, "second", h.ID, "first"))
	other.Eventually(held(other, "third", h.ID, "first"))
	for _, namespace := range []string{b, c} {
		if err := h.One.Gone("namespaces", "", namespace); err != nil {
			t.Error(err)
		}
	}
	role := h.One.Get("clusterroles.rbac.authorization.k8s.io", "", h.ID+"-small").GetUID()
	if err := owned(h, h.One, "first"); err != nil {
		t.Error(err)
	}

	// One that has nothing goes without touching what the holder has.
	h.Delete(harness.Installations, h.ID, "second")
	h.Eventually(func() error { return ended(h, "second") })
	if o := h.One.Get("clusterroles.rbac.authorization.k8s.io", "", h.ID+"-small"); o == nil || o.GetUID() != role {
		t.Error("the holder's ClusterRole is not what it was")
	}
	if err := owned(h, h.One, "first"); err != nil {
		t.Error(err)
	}
	h.Delete(harness.Installations, h.ID, "first")
	h.Eventually(func() error { return ended(h, "first") })
	untilReady(other, "third")
	if err := owned(other, h.One, "third"); err != nil {
		t.Error(err)
	}
	uninstall(other, "third", h.One, before)
}

// A hub dies. Its anchors alone take everything namespaced along, and its lock is released on the member; what is cluster-scoped
// is found by its label. Another hub then has the component, and keeps it also when the first one comes back.
func TestI4I6_AHubsDeath(t *testing.T) {
	h := harness.NewHub(t)
	h.Reach(h.One, "one")
	other := h.Another()
	other.Reach(other.One, "one")
	before := h.One.AllObjects()
	s := shopSpec(h, shop(h))
	h.Install(s.in(h))
	dead := h.Start()
	untilReady(h, "shop")
	dead.Kill()

	s.name, s.namespace = "heir", other.ID+"-heir"
	other.Install(s.in(other))
	other.Start()
	other.Eventually(func() error {
		return is(other, "heir", v1alpha1.ConditionApplied, metav1.ConditionFalse, "", h.ID+"/shop")
	})
	h.One.Delete("configmaps", h.ID+"-shop", install.AnchorName(s.component))
	h.Eventually(func() error {
		var errs []error
		for _, o := range installed(h, h.One) {
			if o.GetNamespace() != "" {
				errs = append(errs, fmt.Errorf("%s %s is still there", o.GetKind(), o.GetName()))
			}
		}
		return errors.Join(errs...)
	})
	for _, kind := range []string{webhooks, crds, "clusterrolebindings.rbac.authorization.k8s.io", "clusterroles.rbac.authorization.k8s.io"} {
		for _, o := range h.One.List(kind, "", v1alpha1.InstalledByLabel+"="+h.ID) {
			h.One.Delete(kind, "", o.GetName())
		}
	}
	h.One.Delete("namespaces", "", h.ID+"-shop")
	h.Eventually(func() error { return h.One.Gone("namespaces", "", h.ID+"-shop") }) // not only terminating, when all is compared
	if err := is(other, "heir", v1alpha1.ConditionApplied, metav1.ConditionFalse, ""); err != nil {
		t.Error(err)
	}
	h.One.Patch("configmaps", harness.IsthmusNamespace, "isthmus-component-"+s.component, release)
	untilReady(other, "heir")
	if err := owned(other, h.One, "heir"); err != nil {
		t.Error(err)
	}
	had := h.One.AllObjects()
	h.Start()
	h.Eventually(func() error {
		return is(h, "shop", v1alpha1.ConditionApplied, metav1.ConditionFalse, "", other.ID+"/heir")
	})
	h.Delete(harness.Installations, h.ID, "shop")
	h.Eventually(func() error {
		return is(h, "shop", v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonLockLost, other.ID+"/heir")
	})
	h.Patch(harness.Installations, h.ID, "shop", release)
	h.Eventually(func() error { return ended(h, "shop") })
	if err := h.One.SameAs(had); err != nil {
		t.Errorf("the heir lost something: %v", err)
	}
	uninstall(other, "heir", h.One, before)
}
