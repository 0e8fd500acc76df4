//go:build unix

package installation

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/test/harness"
)

// A Secret in the manifests, and manifests in a Secret: whatever is wrong with them is told by place, and never by value. The
// audit at the end looks for the values in the log, at its most detailed, in Events and in statuses; here also in metrics.
func TestF4_ValuesOfSecretsAreToldNowhere(t *testing.T) {
	h := harness.NewHub(t)
	h.Reach(h.One, "one")
	before := h.One.AllObjects()
	const marked = harness.Marked
	secret := func(name, fields string) string {
		return "{apiVersion: v1, kind: Secret, metadata: {name: " + name + ", namespace: small}, " + fields + "}"
	}
	good := secret("till", "stringData: {key: "+marked+"}")
	s := spec{name: "safe", component: h.ID, profile: "one", namespace: h.ID + "-safe", manifests: []string{small(h.ID)}}
	source := func(text string) string {
		lines := strings.Split(text, "\n")
		return "apiVersion: v1\nkind: Secret\nmetadata: {name: manifests, namespace: " + h.ID + "}\nstringData:\n  manifests.yaml: |\n    " + strings.Join(lines, "\n    ")
	}
	manifest := strings.Replace(s.in(h), "manifests: [", "manifests: [{secretRef: {name: manifests}}, ", 1)
	h.Install(source(good) + "\n---\n" + manifest)
	p := h.Start()
	untilReady(h, "safe")
	if err := holds(h.One, "secrets", s.namespace, "till", "map[key:bWFya2VkLXNvLXRoYXQtaXQtaXMtZm91bmQ=]", "data"); err != nil {
		t.Error(err)
	}
	for _, bad := range []struct{ text, says string }{
		{secret("till", "data: {key: "+marked+"}"), "500"},                                // no base64: the server refuses it, and quotes it
		{secret("till", "stringData: {key: {"+marked+": 1}}"), "till"},                    // a wrong type
		{secret("till", "stringData: {key: "+marked+"}, unheard: "+marked), "till"},       // an unknown field
		{good + "\n---\n" + secret("till", "stringData: {key: "+marked+"-2}"), "till"},    // two that differ
		{"apiVersion: v1\nkind: Secret\n" + marked + "\n: {", "manifests"},                // no YAML
		{secret("till", "type: example.io/other, stringData: {key: "+marked+"}"), "till"}, // a field that is immutable
	} {
		h.Apply(source(bad.text))
		h.Eventually(func() error {
			return is(h, "safe", v1alpha1.ConditionApplied, metav1.ConditionFalse, "", bad.says)
		})
		h.Apply(source(good))
		untilReady(h, "safe")
	}
	h.Apply(strings.Replace(manifest, "component:", "patches: [{patch: '[{\"op\": \"test\", \"path\": \"/stringData/key\", \"value\": \""+marked+"-2\"}]', target: {kind: Secret}}], component:", 1))
	h.Eventually(func() error { return is(h, "safe", v1alpha1.ConditionApplied, metav1.ConditionFalse, "") })
	h.Apply(manifest)
	untilReady(h, "safe")
	if strings.Contains(p.Metrics()+p.StatusText(), marked) {
		t.Error("a value of a Secret is in the metrics or the status text")
	}
	h.Delete("secrets", h.ID, "manifests")
	h.Eventually(func() error {
		return is(h, "safe", v1alpha1.ConditionApplied, metav1.ConditionFalse, "", "Secret", h.ID+"/manifests")
	})
	if err := h.One.There("secrets", s.namespace, "till"); err != nil {
		t.Errorf("a missing source is no reason to take anything away: %v", err)
	}
	uninstall(h, "safe", h.One, before)
}

// What was there before keeps its owner: a Secret and a CRD of the same name are named, and neither written, owned nor deleted,
// also not with the namespace that they are in. With adopt they are taken over, as they are written in the manifests.
func TestI4_WhatWasThereBefore(t *testing.T) {
	h := harness.NewHub(t)
	h.Reach(h.One, "one")
	namespace, crd := h.ID+"-shop", "widgets."+h.ID+".example.io"
	h.One.Apply("{apiVersion: v1, kind: Namespace, metadata: {name: " + namespace + "}}")
	h.One.Apply("{apiVersion: v1, kind: Secret, metadata: {name: till, namespace: " + namespace + "}, stringData: {key: others}}")
	h.One.Apply(harness.WidgetCRD(h.ID + ".example.io"))
	h.One.Apply("{apiVersion: " + h.ID + ".example.io/v1, kind: Widget, metadata: {name: theirs, namespace: " + namespace + "}, spec: {size: 3}}")
	h.Eventually(func() error { return h.One.There("configmaps", namespace, "kube-root-ca.crt") })
	before := h.One.AllObjects()
	s := shopSpec(h, shop(h))
	h.Install(s.in(h))
	h.Start()
	refused := func(says ...string) {
		t.Helper()
		h.Eventually(func() error {
			return is(h, "shop", v1alpha1.ConditionApplied, metav1.ConditionFalse, "", says...)
		})
	}
	refused("CustomResourceDefinition", crd)
	s.more += ", adopt: [{group: apiextensions.k8s.io, kind: CustomResourceDefinition, name: " + crd + "}]"
	h.Install(s.in(h))
	refused("Secret", "till")
	if changed := h.One.AllObjects().Since(before); strings.Contains(strings.Join(changed, "\n"), "Secret "+namespace+"/till") {
		t.Errorf("the Secret was touched: %q", changed)
	}
	// Somebody makes room.
	h.One.Delete("secrets", namespace, "till")
	untilReady(h, "shop")
	h.Delete(harness.Installations, h.ID, "shop")
	h.Eventually(func() error {
		return is(h, "shop", v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonInstancesLeft, "1 of "+crd)
	})
	h.One.Delete("widgets."+h.ID+".example.io", namespace, "theirs")
	h.Eventually(func() error { return ended(h, "shop") })
	if err := h.One.There("namespaces", "", namespace); err != nil {
		t.Errorf("a namespace that was there before: %v", err)
	}
}
