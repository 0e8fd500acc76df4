package installation

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/install"
)

func nowTime() metav1.Time { return metav1.Now() }

// lose takes a path out of what the first manager owns.
func lose(o *unstructured.Unstructured, path ...string) {
	entry := o.Object["metadata"].(map[string]any)["managedFields"].([]any)[0].(map[string]any)
	fields := make([]string, len(path))
	for i, field := range path {
		fields[i] = "f:" + field
	}
	unstructured.RemoveNestedField(entry["fieldsV1"].(map[string]any), fields...)
}

func complete(o *unstructured.Unstructured) *unstructured.Unstructured {
	return conditioned(o, "Complete")
}
func failed(o *unstructured.Unstructured) *unstructured.Unstructured { return conditioned(o, "Failed") }

func conditioned(o *unstructured.Unstructured, condition string) *unstructured.Unstructured {
	out := o.DeepCopy()
	_ = unstructured.SetNestedSlice(out.Object, []any{map[string]any{"type": condition, "status": "True"}}, "status", "conditions")
	return out
}

func TestI6_WhoseTheLockIs(t *testing.T) {
	const them = stamp("other/apps/it/uid-9")
	held := func(by stamp, release string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: readLock(nil).body("thing", "hub", by, nil, nil)}
		o.SetUID("lock")
		o.SetResourceVersion("3")
		if release != "" {
			o.SetAnnotations(map[string]string{v1alpha1.InstallationAnnotation: string(by), v1alpha1.ReleaseAnnotation: release})
		}
		return o
	}
	for name, c := range map[string]struct {
		object *unstructured.Unstructured
		holding
	}{
		"there is none":        {nil, lockFree},
		"ours":                 {held(us, ""), lockOurs},
		"ours, but released":   {held(us, "true"), lockGivenUp},
		"another's":            {held(them, ""), lockOthers},
		"another's, released":  {held(them, "true"), lockLetGo},
		"released for another": {held(us, "false"), lockOurs},
		"unstamped":            {parse(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: l}}`), lockOthers},
	} {
		if got := readLock(c.object).held(us); got != c.holding {
			t.Errorf("%s: %s, expected %s", name, got, c.holding)
		}
	}
}

func TestI6_TheLockIsTakenCreateOnlyAndBound(t *testing.T) {
	entries := []v1alpha1.InventoryEntry{{Version: "v1", Kind: "ConfigMap", Namespace: "apps", Name: "a"}}
	body := readLock(nil).body("thing", "hub", us, entries, map[string]string{"Job apps/j": "h"})
	o := &unstructured.Unstructured{Object: body}
	if o.GetResourceVersion() != "1" || o.GetName() != install.LockName("thing") || o.GetNamespace() != install.SystemNamespace {
		t.Errorf("a lock that is not create-only: %v", body["metadata"])
	}
	o.SetUID("lock")
	o.SetResourceVersion("3")
	l := readLock(o)
	if l.err != nil || !l.knows(entries, map[string]string{"Job apps/j": "h"}) || l.knows(nil, nil) {
		t.Errorf("what was written is not read back: %+v", l)
	}
	taken := &unstructured.Unstructured{Object: l.body("thing", "bub", "bub/x/y/z", nil, nil)}
	if taken.GetUID() != "lock" || taken.GetResourceVersion() != "3" {
		t.Errorf("a takeover that is not bound: %v", taken.Object["metadata"])
	}
	if former := taken.Object["data"].(map[string]any)[lockFormer]; !strings.Contains(fmt.Sprint(former), `"name":"a"`) {
		t.Errorf("what the former holder has left is lost: %v", former)
	}
}

func TestI5_InventoriesAreSets(t *testing.T) {
	a := v1alpha1.InventoryEntry{Group: "g", Version: "v1", Kind: "K", Namespace: "n", Name: "a"}
	old := a
	old.Version = "v1beta1"
	b := v1alpha1.InventoryEntry{Version: "v1", Kind: "Namespace", Name: "n"}
	if got := union([]v1alpha1.InventoryEntry{a}, []v1alpha1.InventoryEntry{b, old}); len(got) != 2 || got[0] != b || got[1] != a {
		t.Errorf("union: %v", got)
	}
	if got := without([]v1alpha1.InventoryEntry{old, b}, []v1alpha1.InventoryEntry{a}); len(got) != 1 || got[0] != b {
		t.Errorf("without: %v: an object in another version is the same object", got)
	}
	if text := named([]v1alpha1.InventoryEntry{a, b}); text != "K.g n/a, Namespace n" {
		t.Errorf("named: %q", text)
	}
}

func TestI5_WhatIsLeftIsListedWhole(t *testing.T) {
	entry := func(kind, namespace, name string) v1alpha1.InventoryEntry {
		return v1alpha1.InventoryEntry{Version: "v1", Kind: kind, Namespace: namespace, Name: name}
	}
	few := listed(union([]v1alpha1.InventoryEntry{entry("ConfigMap", "n", "a"), entry("ConfigMap", "n", "b"), entry("Secret", "n", "c"), entry("Namespace", "", "n")}, nil))
	if len(few) != 1 || few[0] != "Namespace n; ConfigMap n/a, b; Secret n/c" {
		t.Errorf("%q", few)
	}
	var many []v1alpha1.InventoryEntry
	for n := range 300 {
		many = append(many, entry("ConfigMap", "n", fmt.Sprintf("name-%03d", n)))
	}
	parts := listed(many)
	for _, part := range parts {
		if len(part) > partMost || !strings.HasPrefix(part, "ConfigMap n/name-") {
			t.Errorf("a part of %d bytes: %s", len(part), part)
		}
	}
	if whole := strings.Join(parts, " "); strings.Count(whole, "name-") != 300 {
		t.Errorf("%d of 300 names in %d parts", strings.Count(whole, "name-"), len(parts))
	}
}

func TestI4_StampsNameTheInstallation(t *testing.T) {
	if name, ok := us.installation("hub"); !ok || name != (types.NamespacedName{Namespace: "apps", Name: "it"}) {
		t.Errorf("%v %v", name, ok)
	}
	for _, s := range []stamp{"", "bub/apps/it/uid-1", "hub/apps/it", "hub/apps/it/uid/1"} {
		if name, ok := s.installation("hub"); ok {
			t.Errorf("%q is of %v", s, name)
		}
	}
}

func TestI8_FailedAndFoughtOverObjectsWait(t *testing.T) {
	all, key := tries{}, objectKey{kind: "K", name: "a"}
	if _, _, due := all.barred(key, "body", nil); due > 0 {
		t.Fatal("what was never tried waits")
	}
	first := all.failed(key, "body", nil, "no", boundary.NotPermitted, 0)
	if second := all.failed(key, "body", nil, "no", boundary.NotPermitted, 0); second <= first {
		t.Errorf("it waits %s after the first failure, and %s after the second", first, second)
	}
	if text, answer, due := all.barred(key, "body", nil); due <= 0 || text != "no" || answer != boundary.NotPermitted {
		t.Errorf("after a failure: %q %s", text, due)
	}
	if _, _, due := all.barred(key, "other", nil); due > 0 {
		t.Error("other content waits for what failed with the former")
	}
	all.wrote(key)
	for range fightMost {
		if _, _, due := all.barred(key, "body", nil); due > 0 {
			break
		}
		all.wrote(key)
	}
	if text, _, due := all.barred(key, "body", nil); due <= fightSpan || text != "" {
		t.Errorf("after %d writes in a row: %q, due in %s", fightMost, text, due)
	}
	all[key] = try{writes: []time.Time{time.Now().Add(-2 * fightPause)}}
	if all.calm(key); len(all) != 0 {
		t.Error("what is over is remembered")
	}
}

func TestI7_ReadyIsTheSum(t *testing.T) {
	yes := func(reason string) verdict { return verdict{metav1.ConditionTrue, reason, ""} }
	no := func(reason string) verdict { return verdict{metav1.ConditionFalse, reason, "why"} }
	all := standing{resolved: yes("Reached"), applied: yes("Applied"), available: yes("Available")}
	for name, c := range map[string]struct {
		change func(*standing)
		status metav1.ConditionStatus
		reason string
	}{
		"all":           {func(*standing) {}, metav1.ConditionTrue, v1alpha1.ReasonReady},
		"unresolved":    {func(s *standing) { s.resolved, s.applied, s.available = no("Timeout"), unknownTarget, unknownTarget }, metav1.ConditionFalse, "Timeout"},
		"not applied":   {func(s *standing) { s.applied = no("ObjectsExist") }, metav1.ConditionFalse, "ObjectsExist"},
		"not available": {func(s *standing) { s.available = no("Progressing") }, metav1.ConditionFalse, "Progressing"},
		"leaving":       {func(s *standing) { s.leaving = no("Uninstalling") }, metav1.ConditionFalse, "Uninstalling"},
	} {
		s := all
		c.change(&s)
		if r := s.ready(); r.status != c.status || r.reason != c.reason {
			t.Errorf("%s: %+v", name, r)
		}
		i := &v1alpha1.Installation{}
		i.Generation = 3
		if changed := s.apply(i); len(changed) != 4 || changed[3].ObservedGeneration != 3 {
			t.Errorf("%s: changed %v", name, changed)
		}
		if changed := s.apply(i); len(changed) != 0 {
			t.Errorf("%s: the same again is a change: %v", name, changed)
		}
	}
}

const webhookAndWhatItCalls = `
apiVersion: v1
kind: Service
metadata: {name: hook, namespace: sys}
spec: {selector: {app: hook}, ports: [{port: 443}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: hook, namespace: sys}
spec: {selector: {matchLabels: {app: hook}}, template: {metadata: {labels: {app: hook, more: x}}, spec: {containers: [{name: a, image: b}]}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: other, namespace: sys}
spec: {selector: {matchLabels: {app: other}}, template: {metadata: {labels: {app: other}}, spec: {containers: [{name: a, image: b}]}}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: hook}
webhooks: [{name: hook.example.io, admissionReviewVersions: [v1], sideEffects: None, clientConfig: {service: {name: hook, namespace: sys}}}]
`

func TestI8_WebhooksWaitForWhatTheyCall(t *testing.T) {
	b, err := install.Prepare([]install.Source{{Where: "test", Text: []byte(webhookAndWhatItCalls)}}, install.Options{
		Component: "thing", Namespace: "apps", Hub: "hub", InstallationNamespace: "apps", InstallationName: "it", UID: "uid-1",
	})
	if err != nil {
		t.Fatal(err)
	}
	last := b.Phases[len(b.Phases)-1]
	if last.Name != install.PhaseWebhooks {
		t.Fatalf("the last phase is %s", last.Name)
	}
	services := servicesOf(last.Objects[0].Unstructured)
	if len(services) != 1 || services[0] != (objectKey{"", "Service", "apps", "hook"}) {
		t.Fatalf("services: %v", services)
	}
	if workloads := backing(b, services[0]); len(workloads) != 1 || workloads[0].GetName() != "hook" {
		t.Errorf("workloads: %v", workloads)
	}
	if !calledIn(last.Objects[0].Unstructured, `Internal error occurred: failed calling webhook "hook.example.io": no endpoints`) || calledIn(last.Objects[0].Unstructured, `failed calling webhook "other.example.io"`) {
		t.Error("it is not told whose webhook does not answer")
	}
}
