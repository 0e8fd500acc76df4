package install

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/api/v1alpha1"
)

// SystemNamespace is the namespace of a cluster that has the locks of what is installed there.
const SystemNamespace = "isthmus-system"

// AnchorName is the name of a component's anchor, a ConfigMap in each namespace that it is installed into.
func AnchorName(component string) string { return anchorPrefix + component }

// LockName is the name of a component's lock, a ConfigMap in SystemNamespace.
func LockName(component string) string { return lockPrefix + component }

// What the names of all anchors and locks begin with. Manifests have no ConfigMaps of such names: they would take the place of
// another component's.
const (
	anchorPrefix = "isthmus-anchor-"
	lockPrefix   = "isthmus-component-"
)

// StampOf is the value of v1alpha1.InstallationAnnotation for an Installation: whatever has it is ours.
func StampOf(hub, namespace, name, uid string) string {
	return strings.Join([]string{hub, namespace, name, uid}, "/")
}

// Stamp is the value of v1alpha1.InstallationAnnotation on what is installed.
func (o Options) Stamp() string {
	return StampOf(o.Hub, o.InstallationNamespace, o.InstallationName, o.UID)
}

// SetStamp marks an object as the Installation's.
func SetStamp(u *unstructured.Unstructured, hub, stamp string) {
	u.SetLabels(merged(map[string]string{v1alpha1.InstalledByLabel: hub}, u.GetLabels()))
	u.SetAnnotations(merged(map[string]string{v1alpha1.InstallationAnnotation: stamp}, u.GetAnnotations()))
}

// WithAnchor makes the anchor the owner of a copy of an object in its namespace, so that the cluster's garbage collector
// takes the object away when the anchor goes. The anchor is no controller: a controller could not adopt what it selects, and
// a component that makes itself the controller of what it finds could not start.
func WithAnchor(object *unstructured.Unstructured, anchor string, uid types.UID) *unstructured.Unstructured {
	out := object.DeepCopy()
	block := true
	out.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: "v1", Kind: "ConfigMap", Name: anchor, UID: uid, BlockOwnerDeletion: &block,
	}})
	return out
}

// newAnchor returns a component's anchor in a namespace.
func newAnchor(namespace string, o Options) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"data": map[string]any{
			"component": o.Component,
			"about":     "Everything of the component in this namespace is owned by this ConfigMap, and goes when it is deleted.",
		},
	}}
	u.SetNamespace(namespace)
	u.SetName(AnchorName(o.Component))
	SetStamp(u, o.Hub, o.Stamp())
	return u
}
