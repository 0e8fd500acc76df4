//go:build unix

package installation

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/install"
	"isthmus.dev/isthmus/test/harness"
)

const (
	crds        = "customresourcedefinitions.apiextensions.k8s.io"
	deployments = "deployments.apps"
	webhooks    = "validatingwebhookconfigurations.admissionregistration.k8s.io"
	release     = "metadata: {annotations: {isthmus.dev/release: 'true'}}"
)

// spec is an Installation that a test makes.
type spec struct {
	name, component string
	// profile and namespace are the destination; without them it is the local cluster.
	profile, namespace string
	// more are further fields of the spec, as YAML's flow style has them.
	more string
	// manifests go in as they are.
	manifests []string
}

// in returns the Installation's manifest, for a hub.
func (s spec) in(h *harness.Hub) string {
	var sources []map[string]string
	for _, text := range s.manifests {
		sources = append(sources, map[string]string{"inline": text})
	}
	inline, _ := json.Marshal(sources)
	destination := ""
	if s.profile != "" {
		destination = fmt.Sprintf("destination: {clusterProfileRef: {name: %s, namespace: %s}, namespace: %s}, ", s.profile, h.ID, s.namespace)
	}
	more := ""
	if s.more != "" {
		more = ", " + s.more
	}
	return fmt.Sprintf("{apiVersion: isthmus.dev/v1alpha1, kind: Installation, metadata: {name: %s, namespace: %s}, spec: {component: %s, %smanifests: %s%s}}",
		s.name, h.ID, s.component, destination, inline, more)
}

// shopSpec is an Installation of a shop, on the member that a profile one stands for.
func shopSpec(h *harness.Hub, manifests ...string) spec {
	return spec{name: "shop", component: h.ID, profile: "one", namespace: h.ID + "-shop", more: "deletionPolicy: {crds: Delete}", manifests: manifests}
}

// shop is a small component with something for each phase of an installation: a namespace, a CRD and an object of its kind
// in the same file, rights, configuration, a workload, and a webhook that the workload would serve. Cluster-scoped names begin
// with the test's.
func shop(h *harness.Hub) string {
	return strings.NewReplacer("ID", h.ID, "MARKED", harness.Marked).Replace(`
{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {example.io/team: shop}}}
---
` + harness.WidgetCRD("ID.example.io") + `
---
{apiVersion: ID.example.io/v1, kind: Widget, metadata: {name: window, namespace: shop}, spec: {size: 1}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: shop, namespace: shop}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: ID-shop}
rules: [{apiGroups: [ID.example.io], resources: [widgets], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: ID-shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: ID-shop}
subjects: [{kind: ServiceAccount, name: shop, namespace: shop}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: shop, namespace: shop}
rules: [{apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, create, update]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: shop, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: shop}
subjects: [{kind: ServiceAccount, name: shop, namespace: shop}]
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: shop}, data: {color: blue, size: small}}
---
{apiVersion: v1, kind: Secret, metadata: {name: till, namespace: shop}, stringData: {key: MARKED}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop, namespace: shop}
spec:
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      serviceAccountName: shop
      containers: [{name: shop, image: example.io/shop:v1}]
---
{apiVersion: v1, kind: Service, metadata: {name: shop, namespace: shop}, spec: {selector: {app: shop}, ports: [{port: 443}]}}
---
` + webhook("Ignore", "secrets"))
}

// webhook is the webhook configuration of a shop, which nobody answers: pods exist on paper.
func webhook(failurePolicy, resource string) string {
	return fmt.Sprintf(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: ID-shop}
webhooks:
- name: shop.ID.example.io
  admissionReviewVersions: [v1]
  sideEffects: None
  timeoutSeconds: 1
  failurePolicy: %s
  clientConfig: {service: {name: shop, namespace: shop}}
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ID-shop}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE, DELETE], resources: [%s]}]
`, failurePolicy, resource)
}

// holds says that a field of an object has another value than expected; nil means that it should not be there.
func holds(s *harness.Side, resource, namespace, name string, want any, path ...string) error {
	object := s.Get(resource, namespace, name)
	if object == nil {
		return s.There(resource, namespace, name)
	}
	got, _, err := unstructured.NestedFieldNoCopy(object.Object, path...)
	if err == nil && fmt.Sprint(got) != fmt.Sprint(want) {
		err = fmt.Errorf("%s of %s %s/%s on %s is %v, expected %v", strings.Join(path, "."), resource, namespace, name, s.Name(), got, want)
	}
	return err
}

// is says that an Installation's condition has another status or reason than expected, or lacks texts in its message.
func is(h *harness.Hub, name, condition string, status metav1.ConditionStatus, reason string, says ...string) error {
	i := h.Installation(name)
	if i == nil {
		return fmt.Errorf("there is no Installation %s", name)
	}
	c := meta.FindStatusCondition(i.Status.Conditions, condition)
	if c == nil {
		return fmt.Errorf("Installation %s has no condition %s: %+v", name, condition, i.Status.Conditions)
	}
	for _, text := range append(says, "") {
		if c.Status != status || reason != "" && c.Reason != reason || !strings.Contains(c.Message, text) || c.ObservedGeneration != i.Generation {
			return fmt.Errorf("%s of Installation %s is %s, %s: %q, of generation %d (now %d); expected %s, %s, %q", condition, name,
				c.Status, c.Reason, c.Message, c.ObservedGeneration, i.Generation, status, reason, says)
		}
	}
	return nil
}

// ready says that an Installation is not all True.
func ready(h *harness.Hub, name string) error {
	var errs []error
	for _, condition := range []string{v1alpha1.ConditionTargetClusterResolved, v1alpha1.ConditionApplied, v1alpha1.ConditionAvailable, v1alpha1.ConditionReady} {
		errs = append(errs, is(h, name, condition, metav1.ConditionTrue, ""))
	}
	return errors.Join(errs...)
}

// untilReady waits for it.
func untilReady(h *harness.Hub, name string) {
	h.T().Helper()
	h.Eventually(func() error { return ready(h, name) })
}

// ended says that an Installation is still there.
func ended(h *harness.Hub, name string) error {
	if i := h.Installation(name); i != nil {
		return fmt.Errorf("Installation %s is still there: %+v; the inventory: %v", name, i.Status.Conditions, i.Status.Inventory)
	}
	return nil
}

// uninstall deletes an Installation, and waits until it is gone and a member has what it had before.
func uninstall(h *harness.Hub, name string, member *harness.Side, before harness.Objects) {
	h.T().Helper()
	h.Delete(harness.Installations, h.ID, name)
	h.Eventually(func() error { return ended(h, name) })
	h.Eventually(func() error { return member.SameAs(before) })
}

// installed returns what a hub installed on a member, but for the lock.
func installed(h *harness.Hub, member *harness.Side) (all []*unstructured.Unstructured) {
	for _, thing := range member.AllObjects() {
		o := thing.Object
		// An EndpointSlice has the labels of its Service, a ReplicaSet the annotations of its Deployment.
		if o.GetLabels()[v1alpha1.InstalledByLabel] == h.ID && o.GetAnnotations()[v1alpha1.InstallationAnnotation] != "" && o.GetNamespace() != harness.IsthmusNamespace {
			all = append(all, o)
		}
	}
	return all
}

// owned says that something which is installed lacks the stamp of the Installation, or the ownership of the anchor in its
// namespace.
func owned(h *harness.Hub, member *harness.Side, name string) error {
	i := h.Installation(name)
	objects := installed(h, member)
	if i == nil || len(objects) == 0 {
		return fmt.Errorf("nothing is installed by %s", name)
	}
	var errs []error
	stamp := fmt.Sprintf("%s/%s/%s/%s", h.ID, i.Namespace, i.Name, i.UID)
	anchors := map[string]*unstructured.Unstructured{}
	for _, o := range objects {
		if got := o.GetAnnotations()[v1alpha1.InstallationAnnotation]; got != stamp {
			errs = append(errs, fmt.Errorf("%s %s/%s is stamped %q, expected %q", o.GetKind(), o.GetNamespace(), o.GetName(), got, stamp))
		}
		if o.GetNamespace() == "" {
			continue
		}
		if anchors[o.GetNamespace()] == nil {
			if anchors[o.GetNamespace()] = member.Get("configmaps", o.GetNamespace(), install.AnchorName(i.Spec.Component)); anchors[o.GetNamespace()] == nil {
				return fmt.Errorf("namespace %s has no anchor", o.GetNamespace())
			}
		}
		anchor, isOwned := anchors[o.GetNamespace()], false
		for _, owner := range o.GetOwnerReferences() {
			isOwned = isOwned || owner.UID == anchor.GetUID() && owner.Kind == "ConfigMap" && owner.Name == anchor.GetName()
		}
		if !isOwned && o.GetUID() != anchor.GetUID() {
			errs = append(errs, fmt.Errorf("%s %s/%s is not owned by the anchor: %v", o.GetKind(), o.GetNamespace(), o.GetName(), o.GetOwnerReferences()))
		}
	}
	return errors.Join(errs...)
}
