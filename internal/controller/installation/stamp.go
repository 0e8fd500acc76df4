package installation

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/install"
)

// stamp says which Installation something is of: hub/namespace/name/uid (I4).
type stamp string

// stampOf returns the stamp of what an Installation installs.
func stampOf(hub string, i *v1alpha1.Installation) stamp {
	return stamp(install.StampOf(hub, i.Namespace, i.Name, string(i.UID)))
}

// stampOn returns the stamp that an object has; empty: none.
func stampOn(object *unstructured.Unstructured) stamp {
	if object == nil {
		return ""
	}
	return stamp(object.GetAnnotations()[v1alpha1.InstallationAnnotation])
}

// on reports whether an object is ours: its stamp is ours exactly.
func (s stamp) on(object *unstructured.Unstructured) bool {
	return object != nil && stampOn(object) == s
}

// installation returns the namespace and name of the Installation in a stamp of a hub; ok is false for any other stamp.
func (s stamp) installation(hub string) (name types.NamespacedName, ok bool) {
	parts := strings.Split(string(s), "/")
	if len(parts) != 4 || parts[0] != hub {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: parts[1], Name: parts[2]}, true
}

// String says who it is, for people.
func (s stamp) String() string {
	parts := strings.Split(string(s), "/")
	if len(parts) != 4 {
		return "something without a readable stamp"
	}
	return "Installation " + parts[1] + "/" + parts[2] + " of " + parts[0]
}
