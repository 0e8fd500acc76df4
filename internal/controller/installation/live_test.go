//go:build unix

package installation

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/install"
)

const shop = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: carts.%[1]s.example.io}
spec:
  group: %[1]s.example.io
  scope: Namespaced
  names: {plural: carts, singular: cart, kind: Cart, listKind: CartList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {color: red}
---
apiVersion: %[1]s.example.io/v1
kind: Cart
metadata: {name: first}
spec: {size: 1}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: %[1]s-shop}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get]}]
`

// I4, I5, I6, I8: everything is owned, put back, and gone again.
func TestI8_InstalledPutBackAndGone(t *testing.T) {
	e := newEnv(t, "hub-a")
	e.installs("shop", "shop", "", fmt.Sprintf(shop, "shop"))
	e.stands("shop", "Ready", "True", "Ready")

	anchor := e.there("v1/ConfigMap", "shop", install.AnchorName("shop"))
	settings := e.there("v1/ConfigMap", "shop", "settings")
	if owners := settings.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != anchor.GetUID() {
		t.Errorf("the owners of what was installed are %v, expected the anchor", owners)
	}
	e.there("v1/ConfigMap", install.SystemNamespace, install.LockName("shop"))

	e.change("v1/ConfigMap", "shop", "settings", `{"data":{"color":"blue"}}`)
	e.eventually(func() error {
		o, err := e.get("v1/ConfigMap", "shop", "settings")
		if color, _, _ := unstructured.NestedString(o.Object, "data", "color"); color != "red" {
			return fmt.Errorf("the color is %q (%v)", color, err)
		}
		return nil
	})
	if err := e.client.Delete(t.Context(), e.there("rbac.authorization.k8s.io/v1/ClusterRole", "", "shop-shop")); err != nil {
		t.Fatal(err)
	}
	e.there("rbac.authorization.k8s.io/v1/ClusterRole", "", "shop-shop")

	e.remove("shop")
	e.gone("isthmus.dev/v1alpha1/Installation", "shop", "it")
	e.gone("v1/ConfigMap", "shop", "settings")
	e.gone("v1/ConfigMap", "shop", install.AnchorName("shop"))
	e.gone("v1/ConfigMap", install.SystemNamespace, install.LockName("shop"))
	e.gone("rbac.authorization.k8s.io/v1/ClusterRole", "", "shop-shop")
	e.gone("shop.example.io/v1/Cart", "shop", "first")
	crd := e.there("apiextensions.k8s.io/v1/CustomResourceDefinition", "", "carts.shop.example.io")
	if stampOn(crd) != "" {
		t.Errorf("the definition that is kept is still stamped: %v", crd.GetAnnotations())
	}
}

// rehearse says what the Installation in a namespace would change.
func (e *env) rehearse(namespace string) *Plan {
	e.Helper()
	log := slog.New(slog.DiscardHandler)
	local, err := cluster.Connect(cluster.Options{Role: "local", Kubeconfig: e.cp.Kubeconfig(), Logger: log, UserAgent: "plan"})
	if err != nil {
		e.Fatal(err)
	}
	defer local.Close()
	p, err := Rehearse(e.Context(), Options{Hub: "hub-a", Local: local, UserAgent: "plan", Logger: log}, typesName(namespace, "it"))
	if err != nil {
		e.Fatal(err)
	}
	return p
}

// change patches an object as somebody else.
func (e *env) change(kind, namespace, name, patch string) {
	e.Helper()
	if err := e.client.Patch(e.Context(), e.there(kind, namespace, name), client.RawPatch("application/merge-patch+json", []byte(patch)), client.FieldOwner("somebody")); err != nil {
		e.Fatal(err)
	}
}

// I4, I6: what is there already is refused, and goes on when it goes; the other one of two waits for the lock.
func TestI6_TwoInstallationsOfOneComponent(t *testing.T) {
	e := newEnv(t, "hub-a")
	e.apply("{apiVersion: v1, kind: Namespace, metadata: {name: first}}")
	e.apply("{apiVersion: v1, kind: Secret, metadata: {name: there-before, namespace: first}, stringData: {a: theirs}}")
	const manifests = "apiVersion: v1\nkind: Secret\nmetadata: {name: there-before}\nstringData: {a: ours}"
	e.installs("first", "pair", "", manifests)
	e.stands("first", "Applied", "False", "ObjectsExist", "Secret first/there-before")
	e.installs("second", "pair", "", manifests)
	e.stands("second", "Applied", "False", "LockHeld", "Installation first/it of hub-a")

	secret := e.there("v1/Secret", "first", "there-before")
	if stampOn(secret) != "" || len(secret.GetOwnerReferences()) > 0 {
		t.Errorf("what was there before is touched: %v", secret.Object["metadata"])
	}
	if err := e.client.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	e.stands("first", "Ready", "True", "Ready")

	e.remove("first")
	e.gone("isthmus.dev/v1alpha1/Installation", "first", "it")
	e.stands("second", "Ready", "True", "Ready")
	e.gone("v1/Secret", "first", "there-before")
	e.remove("second")
	e.gone("isthmus.dev/v1alpha1/Installation", "second", "it")
}

// F2: a restart in step writes nothing.
func TestF2_ARestartInStepWritesNothing(t *testing.T) {
	e := newEnv(t, "hub-a")
	e.installs("quiet", "quiet", "namespace: {labels: {team: red}}", fmt.Sprintf(shop, "quiet"))
	e.stands("quiet", "Ready", "True", "Ready")
	before, err := e.installation("quiet")
	if err != nil {
		t.Fatal(err)
	}
	e.stop()
	if p := e.rehearse("quiet"); p.Changes || p.Stopped != "" || p.Unchanged < 5 {
		t.Errorf("a plan in step: %+v", p)
	}
	e.change("v1/ConfigMap", "quiet", "settings", `{"data":{"color":"green"}}`)
	if p := e.rehearse("quiet"); len(p.Entries) != 1 || p.Entries[0].Action != "update" || p.Entries[0].Object.Name != "settings" || p.Entries[0].Refused != "" {
		t.Errorf("a plan for one change: %+v", p)
	}
	began := time.Now()
	// It looks at all again before it answers the change.
	e.start("hub-a", e.client.Scheme())
	e.eventually(func() error {
		if o, err := e.get("v1/ConfigMap", "quiet", "settings"); err != nil || o.Object["data"].(map[string]any)["color"] != "red" {
			return fmt.Errorf("not put back: %v %v", o.Object["data"], err)
		}
		return nil
	})
	events, err := e.cp.AuditSince(began)
	if err != nil {
		t.Fatal(err)
	}
	for _, event := range events {
		writes := event.Verb == "patch" || event.Verb == "create" || event.Verb == "update" || event.Verb == "delete"
		if !writes || event.UserAgent != "hub-a" || event.ObjectRef == nil || event.Stage != "ResponseComplete" {
			continue
		}
		if event.ObjectRef.Resource != "events" && event.ObjectRef.Name != "settings" && event.ObjectRef.Namespace == "quiet" {
			t.Errorf("a write after a restart: %s %s", event.Verb, event.RequestURI)
		}
	}
	after, err := e.installation("quiet")
	if err != nil || after.Status.Revision != before.Status.Revision {
		t.Errorf("revision %q before, %q after (%v)", before.Status.Revision, after.Status.Revision, err)
	}
	e.remove("quiet")
	e.gone("isthmus.dev/v1alpha1/Installation", "quiet", "it")
	if labels := e.there("v1/Namespace", "", "quiet").GetLabels(); labels["team"] != "" {
		t.Errorf("the namespace that was there before keeps what was put on it: %v", labels)
	}
}

// I5, I8, F4: manifests that are missing remove nothing; what a server says of a Secret is not quoted; definitions of which
// others have objects keep everything.
func TestI5_NothingGoesByAccident(t *testing.T) {
	e := newEnv(t, "hub-a")
	e.apply("{apiVersion: v1, kind: Namespace, metadata: {name: careful}}")
	source := func(kind, key, text string) {
		e.apply(fmt.Sprintf("apiVersion: v1\nkind: %s\nmetadata: {name: source, namespace: careful}\n%s:\n  all: |\n%s", kind, key, indent(text, "    ")))
	}
	source("ConfigMap", "data", fmt.Sprintf(shop, "careful"))
	e.apply(`{apiVersion: isthmus.dev/v1alpha1, kind: Installation, metadata: {name: it, namespace: careful}, spec: {
		component: careful, manifests: [{configMapRef: {name: source}}], deletionPolicy: {crds: Delete}}}`)
	e.stands("careful", "Ready", "True", "Ready")

	if err := e.client.Delete(t.Context(), e.there("v1/ConfigMap", "careful", "source")); err != nil {
		t.Fatal(err)
	}
	e.stands("careful", "Applied", "False", "ManifestsMissing", "ConfigMap careful/source")
	e.there("careful.example.io/v1/Cart", "careful", "first")

	const secret = "s3cr3t-in-a-label-!"
	source("Secret", "stringData", fmt.Sprintf(shop, "careful")+"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: bad, labels: {a: '"+secret+"'}}\n")
	e.change("isthmus.dev/v1alpha1/Installation", "careful", "it", `{"spec":{"manifests":[{"secretRef":{"name":"source"}}]}}`)
	e.stands("careful", "Applied", "False", "ApplyFailed", "ConfigMap careful/bad", "422")
	if i, err := e.installation("careful"); err != nil || strings.Contains(fmt.Sprint(i.Status), secret) || strings.Contains(e.log.String(), secret) {
		t.Errorf("a value of a Secret is told (%v): %+v", err, i.Status.Conditions)
	}

	e.apply("{apiVersion: careful.example.io/v1, kind: Cart, metadata: {name: theirs, namespace: default}, spec: {size: 2}}")
	// Manifests without the definition do not take it from others either.
	e.change("isthmus.dev/v1alpha1/Installation", "careful", "it", `{"spec":{"manifests":[{"inline":"{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {color: red}}"}]}}`)
	e.stands("careful", "Applied", "False", "Waiting", "1 of carts.careful.example.io")
	e.remove("careful")
	e.stands("careful", "Ready", "False", "InstancesLeft", "1 of carts.careful.example.io")
	e.there("careful.example.io/v1/Cart", "careful", "first")
	if err := e.client.Delete(t.Context(), e.there("careful.example.io/v1/Cart", "default", "theirs")); err != nil {
		t.Fatal(err)
	}
	e.gone("isthmus.dev/v1alpha1/Installation", "careful", "it")
	e.gone("apiextensions.k8s.io/v1/CustomResourceDefinition", "", "carts.careful.example.io")
}
