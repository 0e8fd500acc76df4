package boundary

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// X3: a reference to a Secret that no rule carries comes with the rule that would carry it.
func TestX3_WhatVClusterCarriesForPodsAlone(t *testing.T) {
	acme := VirtualNames{Cluster: VirtualCluster{Name: "acme", HostNamespace: "host-acme"}}
	core := func(kind string) Reference {
		return Reference{Kind: kind, GroupKnown: true, Namespace: "shop", Name: "db"}
	}
	for _, kind := range []string{"Secret", "ConfigMap"} {
		if !acme.Object(core(kind)).ForPods {
			t.Errorf("a %s that no rule carries goes unnoticed", kind)
		}
	}
	carried := acme
	carried.Kinds = Kinds{schema.GroupKind{Kind: "Secret"}: {}}
	for name, target := range map[string]Target{
		"a Service": acme.Object(core("Service")), "a Secret by a rule": carried.Object(core("Secret")), "an unknown kind": acme.Object(Reference{Namespace: "shop", Name: "db"}),
	} {
		if target.ForPods {
			t.Errorf("%s is told of", name)
		}
	}
	d := &decider{}
	d.want.refs = []Translated{{Path: "spec.ref", From: core("Secret"), To: core("Secret"), ForPods: true}}
	d.reportForPods()
	if len(d.out.Events) != 1 || !strings.Contains(d.out.Events[0].Message, "spec.ref refers to Secret shop/db") ||
		!strings.Contains(d.out.Events[0].Message, `add a rule like {apiVersion: v1, kind: Secret, direction: toHost}, or annotate the object vcluster.loft.sh/force-sync: "true"`) {
		t.Errorf("it says %v", d.out.Events)
	}
}
