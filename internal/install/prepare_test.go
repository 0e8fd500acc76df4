package install

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"isthmus.dev/isthmus/api/v1alpha1"
)

// fataler is a test, or a check of a property.
type fataler interface {
	Helper()
	Fatal(...any)
}

// options are those of an Installation that goes to the namespace there.
func options(change ...func(*v1alpha1.InstallationSpec)) Options {
	o := Options{Component: "x", Namespace: "there", Hub: "hub", InstallationNamespace: "apps", InstallationName: "inst", UID: "u1"}
	for _, f := range change {
		f(&o.Spec)
	}
	return o
}

func keeping(namespaces ...string) func(*v1alpha1.InstallationSpec) {
	return func(s *v1alpha1.InstallationSpec) { s.KeepNamespaces = namespaces }
}

func source(text string) []Source { return []Source{{Where: "m", Text: []byte(text)}} }

func prepare(t fataler, text string, o Options) *Bundle {
	t.Helper()
	b, err := Prepare(source(text), o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// the returns the object of a kind and name, without the stamp, as YAML.
func the(t fataler, b *Bundle, kind, name string) string {
	t.Helper()
	for _, phase := range b.Phases {
		for _, object := range phase.Objects {
			if object.GetKind() == kind && object.GetName() == name {
				return text(t, unstamped(object.Unstructured).Object)
			}
		}
	}
	t.Fatal(fmt.Sprintf("no %s %s", kind, name))
	return ""
}

func unstamped(u *unstructured.Unstructured) *unstructured.Unstructured {
	out := u.DeepCopy()
	labels, annotations := out.GetLabels(), out.GetAnnotations()
	delete(labels, v1alpha1.InstalledByLabel)
	delete(annotations, v1alpha1.InstallationAnnotation)
	for field, left := range map[string]map[string]string{"labels": labels, "annotations": annotations} {
		if len(left) == 0 {
			unstructured.RemoveNestedField(out.Object, "metadata", field)
		} else if err := unstructured.SetNestedStringMap(out.Object, left, "metadata", field); err != nil {
			panic(err) // metadata is an object
		}
	}
	return out
}

func text(t fataler, object map[string]any) string {
	t.Helper()
	out, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// sameYAML compares two texts as YAML.
func sameYAML(t *testing.T, want, got string) {
	t.Helper()
	var a, b any
	if err := yaml.Unmarshal([]byte(want), &a); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(got), &b); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// names lists the objects of a bundle, phase by phase.
func names(b *Bundle) (out []string) {
	for _, phase := range b.Phases {
		var in []string
		for _, o := range phase.Objects {
			in = append(in, strings.Trim(o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName(), "/"))
		}
		out = append(out, string(phase.Name)+": "+strings.Join(in, ", "))
	}
	return out
}

const everyPhase = `
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: hook}}
---
{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1.x.io}}
---
{apiVersion: example.io/v1, kind: Gadget, metadata: {name: g}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: b}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: r}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: sa}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: anything}}
---
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: gadgets.example.io}, spec: {group: example.io, scope: Cluster, names: {kind: Gadget}}}
`

// TestI8_Phases: what others need comes before them, whatever the order of the manifests; removal takes away first what would
// keep others from going.
func TestI8_Phases(t *testing.T) {
	b := prepare(t, everyPhase, options())
	want := []string{
		"Namespaces: Namespace /there", "CRDs: CustomResourceDefinition /gadgets.example.io",
		"RBAC: Role there/r, ServiceAccount there/sa, RoleBinding there/b", "Config: ConfigMap there/c", "Workloads: Deployment there/d",
		"Custom: Gadget /g", "Webhooks: ValidatingWebhookConfiguration /hook, APIService /v1.x.io",
	}
	if diff := cmp.Diff(want, names(b)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	var order []string
	for _, group := range Order("x", append(b.Inventory(), v1alpha1.InventoryEntry{Version: "v1", Kind: "Namespace", Name: "there"})) {
		var in []string
		for _, e := range group {
			in = append(in, e.Kind)
		}
		order = append(order, strings.Join(in, " "))
	}
	want = []string{
		"ValidatingWebhookConfiguration APIService", "Gadget", "CustomResourceDefinition", "Deployment",
		"Role ServiceAccount RoleBinding ConfigMap", "ConfigMap", "Namespace",
	}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("order of removal: -want +got:\n%s", diff)
	}
}

// TestI4_AnchorsAndStamps: every object carries the stamp, every namespace that is installed into has an anchor.
func TestI4_AnchorsAndStamps(t *testing.T) {
	b := prepare(t, everyPhase+"---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: kube-system, labels: {a: b}}}", options(keeping("kube-system")))
	const stamp = "hub/apps/inst/u1"
	all := append([]*unstructured.Unstructured{}, b.Anchors...)
	for _, phase := range b.Phases[1:] {
		for _, o := range phase.Objects {
			all = append(all, o.Unstructured)
		}
	}
	for _, u := range all {
		if u.GetAnnotations()[v1alpha1.InstallationAnnotation] != stamp || u.GetLabels()[v1alpha1.InstalledByLabel] != "hub" {
			t.Errorf("%s %s: annotations %v, labels %v", u.GetKind(), u.GetName(), u.GetAnnotations(), u.GetLabels())
		}
	}
	for _, o := range b.Phases[0].Objects {
		if !o.Shared || o.GetAnnotations() != nil {
			t.Errorf("Namespace %s: shared %t, annotations %v; expected one that may be another's, and no stamp", o.GetName(), o.Shared, o.GetAnnotations())
		}
	}
	var anchors []string
	for _, a := range b.Anchors {
		anchors = append(anchors, a.GetNamespace()+"/"+a.GetName())
	}
	if diff := cmp.Diff([]string{"there/isthmus-anchor-x", "kube-system/isthmus-anchor-x"}, anchors); diff != "" {
		t.Errorf("anchors: -want +got:\n%s", diff)
	}
	if got := len(b.Inventory()); got != len(all) {
		t.Errorf("the inventory has %d entries, expected %d", got, len(all))
	}
	owned := WithAnchor(all[len(all)-1], "isthmus-anchor-x", "u2").GetOwnerReferences()
	if len(owned) != 1 || owned[0].UID != "u2" || owned[0].Kind != "ConfigMap" || owned[0].Controller != nil || !*owned[0].BlockOwnerDeletion {
		t.Errorf("owners: %+v", owned)
	}
}

// TestI3_DestinationNamespace: labels and annotations of the manifests' Namespaces and of the Installation are put together.
func TestI3_DestinationNamespace(t *testing.T) {
	o := options(keeping("kept"), func(s *v1alpha1.InstallationSpec) {
		s.Namespace = &v1alpha1.NamespaceMetadata{Labels: map[string]string{"a": "own"}, Annotations: map[string]string{"o": "own"}}
	})
	b := prepare(t, `
{apiVersion: v1, kind: Namespace, metadata: {name: first, labels: {a: "1", b: "1", kubernetes.io/metadata.name: first}}, spec: {finalizers: [kubernetes]}, status: {phase: Active}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: second, labels: {b: "2", c: "2"}, annotations: {m: "2"}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: kept, labels: {k: "3"}}}
`, o)
	sameYAML(t, `{apiVersion: v1, kind: Namespace, metadata: {name: there, labels: {a: own, b: "1", c: "2"}, annotations: {o: own, m: "2"}}}`, the(t, b, "Namespace", "there"))
	sameYAML(t, `{apiVersion: v1, kind: Namespace, metadata: {name: kept, labels: {k: "3"}}}`, the(t, b, "Namespace", "kept"))
	if diff := cmp.Diff([]string{"there", "kept"}, b.Namespaces()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestI8_LeftOut: what the cluster or the component fills in is not ours.
func TestI8_LeftOut(t *testing.T) {
	tests := []struct{ name, manifest, kind, want string }{
		{"a server's metadata and the status", `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, uid: u, resourceVersion: "3", generation: 2, creationTimestamp: null, labels: {}, managedFields: [],
  annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}"}}, spec: {template: {metadata: {creationTimestamp: null, labels: {a: b}}}}, status: {replicas: 1}}`, "Deployment",
			`{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: there}, spec: {template: {metadata: {labels: {a: b}}}}}`},
		{"rules of an aggregated role", `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: d, namespace: ignored}, aggregationRule: {clusterRoleSelectors: []}, rules: []}`, "ClusterRole",
			`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: d}, aggregationRule: {clusterRoleSelectors: []}}`},
		{"rules of another role stay", `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: d}, rules: []}`, "ClusterRole",
			`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: d}, rules: []}`},
		{"empty CA bundles", `{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: d}, webhooks: [{clientConfig: {caBundle: ""}}, {clientConfig: {caBundle: Cg==}}, {clientConfig: {caBundle: null}}, {clientConfig: {caBundle: YQ==}}]}`, "MutatingWebhookConfiguration",
			`{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: d}, webhooks: [{clientConfig: {}}, {clientConfig: {}}, {clientConfig: {}}, {clientConfig: {caBundle: YQ==}}]}`},
		{"of conversion", `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: d}, spec: {conversion: {webhook: {clientConfig: {caBundle: ""}}}}}`, "CustomResourceDefinition",
			`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: d}, spec: {conversion: {webhook: {clientConfig: {}}}}}`},
		{"of APIServices", `{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: d}, spec: {caBundle: ""}}`, "APIService", `{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: d}, spec: {}}`},
		{"what is in clear is encoded", `{apiVersion: v1, kind: Secret, metadata: {name: d}, data: {a: YQ==, b: YQ==}, stringData: {b: b}}`, "Secret",
			`{apiVersion: v1, kind: Secret, metadata: {name: d, namespace: there}, data: {a: YQ==, b: Yg==}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sameYAML(t, tt.want, the(t, prepare(t, tt.manifest, options()), tt.kind, "d"))
		})
	}
}

// TestI8_Once: what runs to completion says so, and generateName gives a name by content.
func TestI8_Once(t *testing.T) {
	job := func(image string) string {
		return "{apiVersion: batch/v1, kind: Job, metadata: {generateName: migrate-}, spec: {template: {spec: {containers: [{name: c, image: " + image + "}]}}}}"
	}
	once := func(text string, o Options) []Object {
		for _, phase := range prepare(t, text, o).Phases {
			if phase.Name == PhaseWorkloads {
				return phase.Objects
			}
		}
		t.Fatal("no workloads")
		return nil
	}
	first := once(job("a"), options())[0]
	if name := first.GetName(); !first.Once || !strings.HasPrefix(name, "migrate-") || len(name) != len("migrate-")+10 || first.GetGenerateName() != "" {
		t.Errorf("got %q, once %t", name, first.Once)
	}
	other := options()
	other.UID, other.Hub = "another", "other"
	if again := once(job("a")+"\n---\n"+job("a"), other); len(again) != 1 || again[0].GetName() != first.GetName() {
		t.Errorf("the same content runs under other names: %v", again)
	}
	if both := once(job("a")+"\n---\n"+job("b"), options()); len(both) != 2 || both[0].GetName() == both[1].GetName() {
		t.Errorf("other content runs under the same name, or not: %v", both)
	}
	images := options(func(s *v1alpha1.InstallationSpec) { s.Images = []v1alpha1.ManifestImage{{Name: "a", NewTag: "2"}} })
	if changed := once(job("a"), images)[0]; changed.GetName() == first.GetName() {
		t.Error("another image runs under the same name")
	}
	if deployment := once("{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}}", options())[0]; deployment.Once {
		t.Error("a Deployment runs once")
	}
}

// TestI8_Revision: it changes with whatever is applied, and with nothing else.
func TestI8_Revision(t *testing.T) {
	base := prepare(t, everyPhase, options()).Revision
	if again := prepare(t, "# comment\n"+everyPhase, options()).Revision; again != base {
		t.Errorf("%s, then %s", base, again)
	}
	for name, other := range map[string]*Bundle{
		"a label":  prepare(t, strings.Replace(everyPhase, "{name: c}", "{name: c, labels: {a: b}}", 1), options()),
		"one less": prepare(t, strings.Replace(everyPhase, "{apiVersion: v1, kind: ServiceAccount, metadata: {name: sa}}", "", 1), options()),
		"a namespace": prepare(t, everyPhase, options(func(s *v1alpha1.InstallationSpec) {
			s.Namespace = &v1alpha1.NamespaceMetadata{Labels: map[string]string{"a": "b"}}
		})),
	} {
		if other.Revision == base {
			t.Errorf("%s changes nothing", name)
		}
	}
}

// TestI4_Scope: kinds are in namespaces or not as the manifests, Kubernetes, the cluster, or the objects themselves say.
func TestI4_Scope(t *testing.T) {
	served := options()
	served.Scoped = func(kind schema.GroupKind) (namespaced, known bool) {
		return kind.Kind == "Inside", kind.Group == "served.io"
	}
	b := prepare(t, `
{apiVersion: served.io/v1, kind: Inside, metadata: {name: a}}
---
{apiVersion: served.io/v1, kind: Outside, metadata: {name: b, namespace: ignored}}
---
{apiVersion: unknown.io/v1, kind: Told, metadata: {name: c, namespace: d}}
`, served)
	if diff := cmp.Diff([]string{"Namespaces: Namespace /there", "Custom: Inside there/a, Outside /b, Told there/c"}, names(b)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
