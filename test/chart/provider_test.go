//go:build unix

package chart

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

const asProvider = `replicas: 1
offloading: {enabled: false}
provider:
  enabled: true
  consumers:
  - name: west
    subject: {kind: User, name: west}
    resources: [{resources: [configmaps]}]
    namespaces: {patterns: ['*-west']}
`

// The provider's side of the chart, with the rights that it gives its controller: a consumer that it lets in gets the namespace
// that it asks for, and no other.
func TestN4_TheChartsProvider(t *testing.T) {
	_, helm, kubelet := start(t)
	if err := helm.install(t.Context(), asProvider); err != nil {
		t.Fatal(err)
	}
	kubelet.runDeployment(t, "isthmus")
	config, err := kubelet.cluster.UserConfig("west")
	if err != nil {
		t.Fatal(err)
	}
	west, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	requests := west.Resource(schema.GroupVersionResource{Group: "isthmus.dev", Version: "v1alpha1", Resource: "namespacerequests"}).Namespace("isthmus-consumer-west")
	for _, name := range []string{"shop-west", "other"} {
		request := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "isthmus.dev/v1alpha1", "kind": "NamespaceRequest", "metadata": map[string]any{"name": name},
			"spec": map[string]any{
				"source":    map[string]any{"name": "shop", "clusterUID": "west-uid"},
				"resources": []any{map[string]any{"resource": "configmaps"}},
			},
		}}
		eventually(t, "the consumer may ask", func() bool {
			_, err := requests.Create(t.Context(), request, metav1.CreateOptions{})
			return err == nil
		})
	}
	ready := func(name string) string {
		request, err := requests.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return ""
		}
		conditions, _, _ := unstructured.NestedSlice(request.Object, "status", "conditions")
		for _, c := range conditions {
			if c, ok := c.(map[string]any); ok && c["type"] == "Ready" {
				return c["reason"].(string)
			}
		}
		return ""
	}
	eventually(t, "the namespace is granted", func() bool { return ready("shop-west") == "Granted" })
	eventually(t, "the other one is refused", func() bool { return ready("other") == "NameNotAllowed" })
	if _, err := west.Resource(configMaps).Namespace("shop-west").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := west.Resource(configMaps).Namespace("other").List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("the consumer may list where it was refused")
	}
	admin := kubernetes.NewForConfigOrDie(kubelet.cluster.Config()).CoreV1().Namespaces()
	if _, err := admin.Get(t.Context(), "other", metav1.GetOptions{}); err == nil {
		t.Error("a namespace was made that is not allowed")
	}
}
