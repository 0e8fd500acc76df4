package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus.dev/isthmus/internal/install"
)

// special is the table of what the API server asks of whoever writes objects of some kinds, besides the right to do so.
// Where a row gives no name, and no place, it is the object's.
var special = map[schema.GroupKind]func(object *unstructured.Unstructured) []need{
	// Whoever writes a role holds all that it gives, or may escalate it.
	{Group: rbacv1.GroupName, Kind: "Role"}:        escalates("roles"),
	{Group: rbacv1.GroupName, Kind: "ClusterRole"}: escalates("clusterroles"),
	// Whoever binds a role holds all that it gives, or may bind it.
	{Group: rbacv1.GroupName, Kind: "RoleBinding"}:        binds,
	{Group: rbacv1.GroupName, Kind: "ClusterRoleBinding"}: binds,
	// Whoever writes a policy may read all of its parameters.
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicy"}: readsParameters,
	{Group: "admissionregistration.k8s.io", Kind: "MutatingAdmissionPolicy"}:   readsParameters,
}

func specialNeeds(object *unstructured.Unstructured) []need {
	if of := special[object.GroupVersionKind().GroupKind()]; of != nil {
		return of(object)
	}
	return nil
}

func escalates(resource string) func(*unstructured.Unstructured) []need {
	return func(object *unstructured.Unstructured) []need {
		return []need{{group: rbacv1.GroupName, resource: resource, names: []string{object.GetName()}, verbs: []string{"escalate"}}}
	}
}

func binds(object *unstructured.Unstructured) []need {
	kind, _, _ := unstructured.NestedString(object.Object, "roleRef", "kind")
	name, _, _ := unstructured.NestedString(object.Object, "roleRef", "name")
	if name == "" {
		return nil // the server refuses it
	}
	resource := Guess(rbacv1.SchemeGroupVersion.WithKind(kind)).Name
	return []need{{group: rbacv1.GroupName, resource: resource, names: []string{name}, verbs: []string{"bind"}}}
}

func readsParameters(object *unstructured.Unstructured) []need {
	apiVersion, _, _ := unstructured.NestedString(object.Object, "spec", "paramKind", "apiVersion")
	kind, _, _ := unstructured.NestedString(object.Object, "spec", "paramKind", "kind")
	if kind == "" {
		return nil
	}
	gvk := schema.FromAPIVersionAndKind(apiVersion, kind)
	return []need{{group: gvk.Group, resource: Guess(gvk).Name, verbs: []string{"get"}}}
}

// resourceIn returns the resource of a kind: as the manifests define it, or as a function finds it. Built-in kinds have
// regular names.
func resourceIn(b *install.Bundle, gvk schema.GroupVersionKind, find func(schema.GroupVersionKind) (Resource, error)) (Resource, error) {
	if resource, ok := definedIn(b)[gvk.GroupKind()]; ok {
		return resource, nil
	}
	if install.PhaseOf(gvk.GroupKind()) != install.PhaseCustom {
		return Guess(gvk), nil
	}
	return find(gvk)
}

// definedIn returns the resources of the kinds that a bundle defines.
func definedIn(b *install.Bundle) map[schema.GroupKind]Resource {
	defined := map[schema.GroupKind]Resource{}
	for _, phase := range b.Phases {
		if phase.Name != install.PhaseCRDs {
			continue
		}
		for _, object := range phase.Objects {
			if kind, resource, ok := ResourceOf(object.Unstructured); ok {
				defined[kind] = resource
			}
		}
	}
	return defined
}

// ResourceOf returns the kind that a CustomResourceDefinition defines, and its resource.
func ResourceOf(crd *unstructured.Unstructured) (kind schema.GroupKind, resource Resource, ok bool) {
	field := func(path ...string) string {
		value, _, _ := unstructured.NestedString(crd.Object, path...)
		return value
	}
	kind = schema.GroupKind{Group: field("spec", "group"), Kind: field("spec", "names", "kind")}
	resource = Resource{Name: field("spec", "names", "plural"), ClusterScoped: field("spec", "scope") == "Cluster"}
	return kind, resource, kind.Kind != "" && resource.Name != ""
}
