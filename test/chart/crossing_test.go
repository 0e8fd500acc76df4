//go:build unix

package chart

import (
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/controlplane"
	"isthmus.dev/isthmus/internal/rbac"
)

var (
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	services   = schema.GroupVersionResource{Version: "v1", Resource: "services"}
)

const first = least + `
replicas: 1
offloading:
  remoteClusters:
  - {name: provider, access: {kubeconfigSecretRef: {name: provider}}}
  reflection:
    customResources:
    - {version: v1, resource: configmaps, status: {return: false}}
`

// From nothing to an uninstall, with the controller that the chart runs, the rights that the chart gives it here, and those
// that isthmus rbac gives it there: objects cross, a kind is added and crosses too, and the uninstall takes the twins away.
func TestD5_InstallCrossUpgradeUninstall(t *testing.T) {
	client, helm, kubelet := start(t)
	provider, err := controlplane.Start(t.Context(), "provider", controlplane.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(provider.Stop)
	there, err := dynamic.NewForConfig(provider.Config())
	if err != nil {
		t.Fatal(err)
	}
	second := first + "    - {version: v1, resource: services, type: All, status: {return: false}}\n"
	grantThere(t, there, second)
	kubeconfig, err := provider.UserKubeconfig("consumer")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	here := kubernetes.NewForConfigOrDie(kubelet.cluster.Config()).CoreV1()
	for _, name := range []string{namespace, "team-a"} {
		if _, err := here.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "provider"}, Data: map[string][]byte{"kubeconfig": text}}
	if _, err := here.Secrets(namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	if err := helm.install(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	kubelet.runDeployment(t, "isthmus")
	create(t, client, schema.GroupVersionResource{Group: "isthmus.dev", Version: "v1alpha1", Resource: "namespaceoffloadings"}, `{"apiVersion":"isthmus.dev/v1alpha1","kind":"NamespaceOffloading","metadata":{"name":"offloading"}}`)
	create(t, client, configMaps, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"yes","annotations":{"isthmus.dev/allow-reflection":"true"}},"data":{"a":"b"}}`)
	create(t, client, configMaps, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"no"}}`)
	create(t, client, services, `{"apiVersion":"v1","kind":"Service","metadata":{"name":"web"},"spec":{"ports":[{"port":80}]}}`)
	stands := func(kind schema.GroupVersionResource, name string) bool {
		_, err := there.Resource(kind).Namespace("team-a-consumer").Get(t.Context(), name, metav1.GetOptions{})
		return err == nil
	}
	eventually(t, "the ConfigMap crosses", func() bool { return stands(configMaps, "yes") })
	if stands(configMaps, "no") || stands(services, "web") {
		t.Error("what was not asked for crossed")
	}

	if err := helm.upgrade(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Service crosses", func() bool { return stands(services, "web") })

	if err := helm.upgrade(t.Context(), second+"uninstall: {others: Delete}\n"); err != nil {
		t.Fatal(err)
	}
	if err := helm.uninstall(); err != nil {
		t.Fatal(err)
	}
	if stands(configMaps, "yes") || stands(services, "web") {
		t.Error("the uninstall left twins behind")
	}
	if left := released(t, client); len(left) > 0 {
		t.Errorf("left by the uninstall: %v", left)
	}
}

// grantThere gives the consumer what it needs on a provider that does not consent, for the Crossings that the chart makes.
func grantThere(t *testing.T, there dynamic.Interface, text string) {
	t.Helper()
	manifests, err := render(t, text)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := rbac.Controller(rbac.ControllerOptions{
		Crossings: fromObjects[v1alpha1.Crossing](t, ofKind(objectsIn(t, manifests), "Crossing")),
		Side:      rbac.Remote, Instance: "controller", Subject: rbac.Subject{User: "consumer"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range unstructuredOf(t, objects) {
		resource := schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: map[string]string{"ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings"}[u.GetKind()]}
		if _, err := there.Resource(resource).Create(t.Context(), u, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// create makes an object in team-a.
func create(t *testing.T, client dynamic.Interface, kind schema.GroupVersionResource, text string) {
	t.Helper()
	var u unstructured.Unstructured
	if err := u.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Resource(kind).Namespace("team-a").Create(t.Context(), &u, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
