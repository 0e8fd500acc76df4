//go:build unix

package controller

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"isthmus.dev/isthmus/test/harness"
)

// What contradicts itself is refused by the API server, with what was expected.
func TestF5_ObjectsThatAreRefused(t *testing.T) {
	west := harness.NewFleet(t, "west").Member("west")
	object := func(kind, name, spec string) string {
		namespace := ""
		if kind == "NamespaceOffloading" {
			namespace = ", namespace: default"
		}
		return fmt.Sprintf("{apiVersion: isthmus.dev/v1alpha1, kind: %s, metadata: {name: %q%s}, spec: {%s}}", kind, name, namespace, spec)
	}
	const (
		access = "access: {kubeconfigSecretRef: {name: x}}"
		what   = "resource: {group: example.io, version: v1, resource: widgets}"
	)
	for name, test := range map[string]struct{ manifest, says string }{
		"an offloading of another name":     {object("NamespaceOffloading", "mine", ""), "the name must be offloading"},
		"a selected name that is missing":   {object("NamespaceOffloading", "offloading", "namespaceMappingStrategy: SelectedName"), "remoteNamespaceName goes with"},
		"a name that is not asked for":      {object("NamespaceOffloading", "offloading", "remoteNamespaceName: x"), "remoteNamespaceName goes with"},
		"a name of the remote's own":        {object("NamespaceOffloading", "offloading", selectedName+"kube-system"), "belong to the remote cluster itself"},
		"a name that is none":               {object("NamespaceOffloading", "offloading", selectedName+"Shop"), "remoteNamespaceName"},
		"an unknown strategy":               {object("NamespaceOffloading", "offloading", "namespaceMappingStrategy: AnyName"), "DefaultName"},
		"two ways to a remote":              {object("RemoteCluster", "east", "access: {kubeconfigSecretRef: {name: x}, clusterProfileRef: {name: x, namespace: fleet}}"), "exactly one of"},
		"no way to a remote":                {object("RemoteCluster", "east", "access: {}"), "exactly one of"},
		"a remote that is no label":         {object("RemoteCluster", "east.example", access), "the name is a cluster ID"},
		"a mirror that asks for status":     {object("Crossing", "widgets", what+", direction: FromRemote, status: {return: true}"), "status goes with direction: ToRemote"},
		"a mirror that holds sources":       {object("Crossing", "widgets", what+", direction: FromRemote, deletionPolicy: Foreground"), "deletionPolicy: Foreground goes with"},
		"an unknown policy":                 {object("Crossing", "widgets", what+", policy: Some"), "AllowList"},
		"too many workers":                  {object("Crossing", "widgets", what+", workers: 101"), "workers"},
		"a kind in the place of a resource": {object("Crossing", "widgets", "resource: {version: v1, resource: Widget}"), "resource"},
		"a name that is too long":           {object("Crossing", strings.Repeat("a", 64), what), "at most 63"},
		"an unknown patch":                  {object("Crossing", "widgets", what+", patches: [{path: spec.a, type: rewriteAll}]"), "rewriteName"},
	} {
		if _, err := west.TryCreate(test.manifest); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v; expected …%s…", name, err, test.says)
		}
	}

	west.Create(object("NamespaceOffloading", "offloading", selectedName+"x"))
	west.Create(object("Crossing", "widgets", what))
	for name, test := range map[string]struct{ resource, namespace, object, patch, says string }{
		"another strategy":    {offloadings, "default", "offloading", "{spec: {namespaceMappingStrategy: DefaultName, remoteNamespaceName: null}}", "is immutable"},
		"another counterpart": {offloadings, "default", "offloading", "{spec: {remoteNamespaceName: till}}", "is immutable"},
		"another resource":    {crossings, "", "widgets", "{spec: {resource: {resource: gadgets}}}", "resource and direction are immutable"},
		"another direction":   {crossings, "", "widgets", "{spec: {direction: FromRemote}}", "resource and direction are immutable"},
	} {
		patch, err := yaml.YAMLToJSON([]byte(test.patch))
		if err != nil {
			t.Fatal(err)
		}
		_, err = west.Client(test.resource, test.namespace).Patch(context.Background(), test.object, types.MergePatchType, patch, metav1.PatchOptions{})
		if err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v; expected …%s…", name, err, test.says)
		}
	}
}
