package install

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"isthmus.dev/isthmus/api/v1alpha1"
)

// splitNamespaces takes the Namespaces out of the objects and returns the namespaces that are installed into: the
// destination first, then those that are kept. Labels and annotations of Namespaces whose objects go to the destination
// become the destination's: where two have a key, the first document's value counts, and the Installation's own over all.
func splitNamespaces(docs []*document, to target, own *v1alpha1.NamespaceMetadata) (rest []*document, namespaces []Object) {
	destination := newNamespace(to.namespace)
	if own != nil {
		addMissing(destination.Unstructured, own.Labels, own.Annotations)
	}
	kept := map[string]*Object{}
	keep := func(name string) *Object {
		if name == to.namespace {
			return destination
		}
		if kept[name] == nil {
			kept[name] = newNamespace(name)
		}
		return kept[name]
	}
	for _, d := range docs {
		u := d.u()
		switch {
		case d.namespaced:
			keep(u.GetNamespace())
			rest = append(rest, d)
		case PhaseOf(d.gvk().GroupKind()) == PhaseNamespaces:
			labels := u.GetLabels()
			delete(labels, "kubernetes.io/metadata.name") // the server's own
			namespace := keep(to.of(u.GetName()))
			namespace.Where = cmp.Or(namespace.Where, d.origin.String())
			addMissing(namespace.Unstructured, labels, u.GetAnnotations())
		default:
			rest = append(rest, d)
		}
	}
	namespaces = append(namespaces, *destination)
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		namespaces = append(namespaces, *kept[name])
	}
	return rest, namespaces
}

func newNamespace(name string) *Object {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
	u.SetName(name)
	return &Object{Unstructured: u}
}

// addMissing adds labels and annotations, except keys that are there.
func addMissing(u *unstructured.Unstructured, labels, annotations map[string]string) {
	if len(labels) > 0 {
		u.SetLabels(merged(u.GetLabels(), labels))
	}
	if len(annotations) > 0 {
		u.SetAnnotations(merged(u.GetAnnotations(), annotations))
	}
}

// merged returns both maps as one; first wins.
func merged(first, second map[string]string) map[string]string {
	out := make(map[string]string, len(first)+len(second))
	maps.Copy(out, second)
	maps.Copy(out, first)
	return out
}
