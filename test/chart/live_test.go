//go:build unix

package chart

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"isthmus.dev/isthmus/internal/controlplane"
)

const oneKind = least + `
offloading:
  reflection:
    customResources:
    - {version: v1, resource: configmaps}
  remoteClusters:
  - {name: provider, access: {kubeconfigSecretRef: {name: provider}}}
`

// start makes a cluster, Helm for it, and the stand-in for its kubelets.
func start(t *testing.T) (dynamic.Interface, *helm, *kubelet) {
	t.Helper()
	cluster, err := controlplane.Start(t.Context(), "chart", controlplane.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Stop)
	client, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	return client, newHelm(t, cluster.Kubeconfig()), runKubelet(t, cluster)
}

var (
	crossings = schema.GroupVersionResource{Group: "isthmus.dev", Version: "v1alpha1", Resource: "crossings"}
	kinds     = []schema.GroupVersionResource{
		crossings,
		{Group: "isthmus.dev", Version: "v1alpha1", Resource: "remoteclusters"},
		{Group: "apps", Version: "v1", Resource: "deployments"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
		{Version: "v1", Resource: "serviceaccounts"},
		{Version: "v1", Resource: "services"},
		{Version: "v1", Resource: "configmaps"},
		{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
		{Group: "batch", Version: "v1", Resource: "jobs"},
	}
)

// identity is what changes when an object is written, or made anew.
type identity struct{ UID, ResourceVersion string }

// release lists the objects of the release.
func released(t *testing.T, client dynamic.Interface) map[string]identity {
	t.Helper()
	found := map[string]identity{}
	for _, kind := range kinds {
		list, err := client.Resource(kind).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=Helm"})
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range list.Items {
			found[kind.Resource+"/"+u.GetName()] = identity{string(u.GetUID()), u.GetResourceVersion()}
		}
	}
	return found
}

// hold puts the finalizer of a controller that has yet to wind it down on a Crossing.
func hold(t *testing.T, client dynamic.Interface, name string) (letGo func()) {
	t.Helper()
	patch := func(body string) {
		if _, err := client.Resource(crossings).Patch(context.Background(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{}); err != nil {
			t.Error(err)
		}
	}
	patch(`{"metadata":{"finalizers":["isthmus.dev/crossing"]}}`)
	return func() { patch(`{"metadata":{"finalizers":null}}`) }
}

// A kind that is added to the values starts without anything else being written, and one that is removed is wound down before its rights go; an
// uninstall winds down what is left before the controller goes, and leaves the CRDs.
func TestD5_TheChartWindsDownBeforeRightsGo(t *testing.T) {
	client, helm, kubelet := start(t)
	if err := helm.install(t.Context(), oneKind); err != nil {
		t.Fatal(err)
	}
	before := released(t, client)
	if _, ok := before["crossings/configmaps"]; !ok {
		t.Fatalf("no Crossing after the install: %v", before)
	}

	// An upgrade brings the CRDs to what the image has.
	definitions := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	old := `[{"op":"remove","path":"/spec/versions/0/additionalPrinterColumns"}]`
	if _, err := definitions.Patch(t.Context(), "crossings.isthmus.dev", types.JSONPatchType, []byte(old), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}

	const added = "    - {group: example.io, version: v1, resource: widgets, workers: 4, type: DenyList}\n"
	more := strings.Replace(oneKind, "  remoteClusters:", added+"  remoteClusters:", 1)
	if err := helm.upgrade(t.Context(), more); err != nil {
		t.Fatal(err)
	}
	after := released(t, client)
	for name, was := range before {
		if is := after[name]; is != was {
			t.Errorf("%s was written by an upgrade that adds a kind: %v, now %v", name, was, is)
		}
		delete(after, name)
	}
	if diff := cmp.Diff([]string{"clusterrolebindings/isthmus:crossing:widgets.example.io", "clusterroles/isthmus:crossing:widgets.example.io", "crossings/widgets.example.io"}, slices.Sorted(maps.Keys(after))); diff != "" {
		t.Errorf("new objects: -want +got:\n%s", diff)
	}
	definition, err := definitions.Get(t.Context(), "crossings.isthmus.dev", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	version := definition.Object["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)
	if columns, _ := version["additionalPrinterColumns"].([]any); len(columns) == 0 {
		t.Error("the upgrade left an old CRD as it was")
	}
	widgets, err := client.Resource(crossings).Get(t.Context(), "widgets.example.io", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	spec := widgets.Object["spec"].(map[string]any)
	if spec["policy"] != "DenyList" || spec["workers"] != int64(4) {
		t.Errorf("the entry's Crossing: %v", spec)
	}

	// The kind is removed again, and does not wind down in time: the upgrade fails with what to do, and its rights stay.
	letGo := hold(t, client, "widgets.example.io")
	if err := helm.upgrade(t.Context(), oneKind+"uninstall: {timeout: 3s}\n"); err == nil {
		t.Error("the upgrade did not wait for the Crossing that it removes")
	}
	for _, want := range []string{"crossings.isthmus.dev/widgets.example.io waits for its finalizers: isthmus.dev/crossing", "kubectl annotate crossings.isthmus.dev NAME isthmus.dev/release=true"} {
		if !strings.Contains(kubelet.output.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, kubelet.output.String())
		}
	}
	if _, still := released(t, client)["clusterroles/isthmus:crossing:widgets.example.io"]; !still {
		t.Error("the failed upgrade took the rights away")
	}

	// With more time it does, and the rights stay as long as the Crossing.
	done := make(chan error, 1)
	go func() { done <- helm.upgrade(t.Context(), oneKind) }()
	eventually(t, "the Job of the upgrade waits", func() bool { return strings.Count(kubelet.output.String(), "widgets.example.io: waits for") > 1 })
	if _, still := released(t, client)["clusterroles/isthmus:crossing:widgets.example.io"]; !still {
		t.Error("the rights were gone before the Crossing")
	}
	letGo()
	if err := <-done; err != nil {
		t.Fatalf("%v\n%s", err, kubelet.output.String())
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(released(t, client)))); diff != "" {
		t.Errorf("after the removal: -want +got:\n%s", diff)
	}

	// An uninstall stops at what is not of the release and would never end.
	offloading := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "isthmus.dev/v1alpha1", "kind": "NamespaceOffloading",
		"metadata": map[string]any{"name": "offloading", "finalizers": []any{"isthmus.dev/offloading"}},
	}}
	offloadings := client.Resource(schema.GroupVersionResource{Group: "isthmus.dev", Version: "v1alpha1", Resource: "namespaceoffloadings"}).Namespace("default")
	if _, err := offloadings.Create(t.Context(), offloading, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := helm.uninstall(); err == nil || !strings.Contains(kubelet.output.String(), "namespaceoffloadings.isthmus.dev/offloading in namespace default") {
		t.Errorf("the uninstall went on over a NamespaceOffloading: %v\n%s", err, kubelet.output.String())
	}
	if diff := cmp.Diff(before["crossings/configmaps"], released(t, client)["crossings/configmaps"]); diff != "" {
		t.Errorf("the refused uninstall changed the Crossing: %s", diff)
	}
	if _, err := offloadings.Patch(t.Context(), "offloading", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}

	letGo = hold(t, client, "configmaps")
	go func() { done <- helm.uninstall() }()
	terminating(t, client, "configmaps")
	standing := released(t, client)
	for _, name := range []string{"clusterroles/isthmus:crossing:configmaps", "clusterroles/isthmus", "deployments/isthmus", "remoteclusters/provider"} {
		if standing[name] == (identity{}) {
			t.Errorf("%s was gone before the Crossing", name)
		}
	}
	letGo()
	if err := <-done; err != nil {
		t.Fatalf("%v\n%s", err, kubelet.output.String())
	}
	if left := released(t, client); len(left) > 0 {
		t.Errorf("left by the uninstall: %v", left)
	}
	if _, err := client.Resource(crossings).List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("the CRDs went with the release: %v", err)
	}
}

// terminating waits until a Crossing is being deleted.
func terminating(t *testing.T, client dynamic.Interface, name string) {
	t.Helper()
	eventually(t, "Crossing "+name+" is being deleted", func() bool {
		u, err := client.Resource(crossings).Get(t.Context(), name, metav1.GetOptions{})
		return err == nil && u.GetDeletionTimestamp() != nil
	})
}

// eventually waits, on however slow a machine.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}
