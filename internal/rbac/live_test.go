//go:build unix

package rbac_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/controlplane"
	"isthmus.dev/isthmus/internal/install"
	"isthmus.dev/isthmus/internal/rbac"
	"isthmus.dev/isthmus/test/harness"
)

func TestMain(m *testing.M) { controlplane.Main(m) }

const patience = 2 * time.Minute

// holder is a user who has the printed rights and no others.
type holder struct {
	t      *testing.T
	client dynamic.Interface
	served discovery.DiscoveryInterface
	known  map[schema.GroupVersionKind]*meta.RESTMapping
}

// on returns where objects of a kind are, once they are served.
func (h holder) on(gvk schema.GroupVersionKind, namespace string) dynamic.ResourceInterface {
	h.t.Helper()
	controlplane.Eventually(h.t, patience, func() error {
		if h.known[gvk] != nil {
			return nil
		}
		groups, err := restmapper.GetAPIGroupResources(h.served)
		if err != nil {
			return err
		}
		h.known[gvk], err = restmapper.NewDiscoveryRESTMapper(groups).RESTMapping(gvk.GroupKind(), gvk.Version)
		return err
	})
	resource := h.client.Resource(h.known[gvk].Resource)
	if h.known[gvk].Scope.Name() == meta.RESTScopeNameNamespace {
		return resource.Namespace(namespace)
	}
	return resource
}

// create applies an object that is not there yet. Rights that were given just now are waited for.
func (h holder) create(object *unstructured.Unstructured) (applied *unstructured.Unstructured) {
	h.t.Helper()
	body := object.DeepCopy()
	body.SetResourceVersion("1")
	resource := h.on(object.GroupVersionKind(), object.GetNamespace())
	controlplane.Eventually(h.t, patience, func() (err error) {
		applied, err = resource.Apply(h.t.Context(), object.GetName(), body, metav1.ApplyOptions{FieldManager: "isthmus", Force: true})
		return err
	})
	return applied
}

// TestI6_RightsOnMemberSuffice: who has the printed rights alone installs, watches, reads, changes and removes all of a real
// release, its roles included, and may not touch what is not in its manifests.
func TestI6_RightsOnMemberSuffice(t *testing.T) {
	cp := controlplane.Shared(t, "rights")
	i := &v1alpha1.Installation{Spec: v1alpha1.InstallationSpec{
		Component: "knative", Destination: &v1alpha1.Destination{Namespace: "elsewhere"}, DeletionPolicy: v1alpha1.InstallationDeletionPolicy{CRDs: v1alpha1.CRDsDelete},
	}}
	var sources []install.Source
	for _, file := range []string{"knative-serving/1.20.3/1-serving-crds.yaml", "knative-serving/1.20.3/2-serving-core.yaml", "ingress/1.20/kourier/kourier.yaml"} {
		sources = append(sources, install.Source{Where: file, Text: []byte(harness.ModuleFile(t, "knative.dev/operator@v0.48.1", filepath.Join("cmd/operator/kodata", file)))})
	}
	bundle, err := install.Prepare(sources, install.Options{Component: "knative", Namespace: "elsewhere", Hub: "hub", InstallationNamespace: "apps", InstallationName: "x", UID: "u", Spec: i.Spec})
	if err != nil {
		t.Fatal(err)
	}
	rights, err := rbac.Installations(rbac.InstallationOptions{
		Side: rbac.Remote, Instance: "rights", Subject: rbac.Subject{User: "hub-rights"}, Targets: []rbac.InstallationTarget{{Installation: i, Bundle: bundle}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := rbac.Print(&text, nil, rights); err != nil {
		t.Fatal(err)
	}
	if err := cp.Apply(t.Context(), text.Bytes()); err != nil {
		t.Fatal(err)
	}
	h := userOf(t, cp)
	lock := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
	lock.SetNamespace(install.SystemNamespace)
	lock.SetName(install.LockName("knative"))
	h.create(lock)

	owners := map[string]*unstructured.Unstructured{}
	for _, phase := range bundle.Phases {
		for _, object := range phase.Objects {
			u := object.Unstructured
			if owner := owners[u.GetNamespace()]; owner != nil {
				u = install.WithAnchor(u, owner.GetName(), owner.GetUID())
			}
			h.create(u)
		}
		if phase.Name == install.PhaseNamespaces {
			for _, anchor := range bundle.Anchors {
				owners[anchor.GetNamespace()] = h.create(anchor)
			}
		}
	}
	h.mayNot(t.Context())
	// Webhooks, which nobody answers here, go first.
	for _, group := range install.Order("knative", append(bundle.Inventory(), install.EntryOf(lock), install.EntryOf(bundle.Phases[0].Objects[0].Unstructured))) {
		for _, entry := range group {
			h.uses(t.Context(), entry)
			gvk := schema.GroupVersionKind{Group: entry.Group, Version: entry.Version, Kind: entry.Kind}
			if err := h.on(gvk, entry.Namespace).Delete(t.Context(), entry.Name, metav1.DeleteOptions{}); err != nil {
				t.Errorf("deleting %s %s/%s: %v", entry.Kind, entry.Namespace, entry.Name, err)
			}
		}
	}
}

func userOf(t *testing.T, cp *controlplane.Cluster) holder {
	t.Helper()
	config, err := cp.UserConfig("hub-rights")
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	served, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return holder{t, client, served, map[schema.GroupVersionKind]*meta.RESTMapping{}}
}

// uses reads, lists, watches and changes an object.
func (h holder) uses(ctx context.Context, entry v1alpha1.InventoryEntry) {
	h.t.Helper()
	resource := h.on(schema.GroupVersionKind{Group: entry.Group, Version: entry.Version, Kind: entry.Kind}, entry.Namespace)
	selected := metav1.ListOptions{LabelSelector: v1alpha1.InstalledByLabel + "=hub"}
	if entry.Kind == "Namespace" { // each is watched by its name
		selected = metav1.ListOptions{FieldSelector: "metadata.name=" + entry.Name}
	}
	fail := func(what string, err error) {
		if err != nil {
			h.t.Errorf("%s %s %s/%s: %v", what, entry.Kind, entry.Namespace, entry.Name, err)
		}
	}
	object, err := resource.Get(ctx, entry.Name, metav1.GetOptions{})
	fail("reading", err)
	_, err = resource.List(ctx, selected)
	fail("listing", err)
	watch, err := resource.Watch(ctx, selected)
	fail("watching", err)
	if err == nil {
		watch.Stop()
	}
	if object != nil {
		_, err = resource.Patch(ctx, entry.Name, "application/json-patch+json", fmt.Appendf(nil, `[{"op":"replace","path":"/metadata/resourceVersion","value":%q},{"op":"replace","path":"/metadata/managedFields","value":[{}]}]`, object.GetResourceVersion()), metav1.PatchOptions{})
		fail("letting go of", err)
	}
}

// mayNot tries what is not among the rights.
func (h holder) mayNot(ctx context.Context) {
	h.t.Helper()
	role := schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}
	secret := schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	other := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "other"}}}
	other.SetGroupVersionKind(role)
	tries := map[string]func() error{
		"another role":    func() error { _, err := h.on(role, "").Create(ctx, other, metav1.CreateOptions{}); return err },
		"a built-in role": func() error { return h.on(role, "").Delete(ctx, "view", metav1.DeleteOptions{}) },
		"another Secret":  func() error { _, err := h.on(secret, "kube-system").Get(ctx, "other", metav1.GetOptions{}); return err },
		"another namespace": func() error {
			return h.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Delete(ctx, "default", metav1.DeleteOptions{})
		},
		"rights for himself": func() error { return h.on(role, "").Delete(ctx, "isthmus-rights-member", metav1.DeleteOptions{}) },
	}
	for name, try := range tries {
		if err := try(); !apierrors.IsForbidden(err) {
			h.t.Errorf("%s: got %v, expected that it is forbidden", name, err)
		}
	}
}
