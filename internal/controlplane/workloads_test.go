//go:build unix

package controlplane_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus.dev/isthmus/internal/controlplane"
)

const webApp = `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: web}]
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec:
  selector: {app: web}
  ports: [{port: 80}]
`

func TestWorkloadsRunOnDemand(t *testing.T) {
	c := start(t, "workloads", controlplane.Options{})
	admin := client(t, c.Config())
	if err := c.Apply(t.Context(), []byte(webApp)); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := c.StartComponent(t.Context(), everything...); err != nil {
		t.Fatal(err)
	}
	t.Logf("%v ready in %s", everything, time.Since(began).Round(time.Millisecond))
	if err := c.AddNode(t.Context(), "node-1"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Deployment", func(ctx context.Context) error {
		web, err := admin.AppsV1().Deployments("shop").Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range web.Status.Conditions {
			if condition.Type == appsv1.DeploymentAvailable && condition.Status == corev1.ConditionTrue && web.Status.AvailableReplicas == 2 {
				return nil
			}
		}
		return fmt.Errorf("not available: %+v", web.Status)
	})
	eventually(t, "the Service's endpoints", func(ctx context.Context) error {
		slices, err := admin.DiscoveryV1().EndpointSlices("shop").List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=web"})
		if err != nil {
			return err
		}
		if len(slices.Items) != 1 || len(slices.Items[0].Endpoints) != 2 {
			return fmt.Errorf("slices: %+v", slices.Items)
		}
		return nil
	})
	// The controller manager also finishes what is being deleted.
	if err := admin.CoreV1().Namespaces().Delete(t.Context(), "shop", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace's end", func(ctx context.Context) error {
		_, err := admin.CoreV1().Namespaces().Get(ctx, "shop", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("still there (%v)", err)
	})
}

func TestAdmissionPoliciesAct(t *testing.T) {
	t.Parallel()
	c := controlplane.Shared(t, "shared")
	const policy = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: mark}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps], resourceNames: [to-be-marked]}]
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: 'Object{data: {"marked": "yes"}}'}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: mark}
spec: {policyName: mark}
`
	if err := c.Apply(t.Context(), []byte(policy)); err != nil {
		t.Fatal(err)
	}
	configMaps := client(t, c.Config()).CoreV1().ConfigMaps("default")
	eventually(t, "the policy", func(ctx context.Context) error {
		_ = configMaps.Delete(ctx, "to-be-marked", metav1.DeleteOptions{})
		created, err := configMaps.Create(ctx, configMap("to-be-marked"), metav1.CreateOptions{})
		if err != nil {
			return err
		}
		if created.Data["marked"] != "yes" {
			return fmt.Errorf("data %v", created.Data)
		}
		return nil
	})
}
