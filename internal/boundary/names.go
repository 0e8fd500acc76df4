package boundary

import "k8s.io/apimachinery/pkg/types"

// TwinName returns where the twin of a source belongs (N1, N3 SameName): the same name in the namespace's counterpart.
func TwinName(source types.NamespacedName, pairs NamespacePairs) (types.NamespacedName, bool) {
	namespace, ok := pairs.Remote(source.Namespace)
	return types.NamespacedName{Namespace: namespace, Name: source.Name}, ok
}

// SourceNamespaces returns the local namespaces that a rule's sources can be in, where these can be listed: from the
// pairs, or from an inclusion without wildcards.
func (r *Rule) SourceNamespaces(pairs NamespacePairs) (namespaces []string, ok bool) {
	candidates, ok := r.Namespaces.Literal()
	if pairs != nil {
		candidates, ok = sortedKeys(pairs), true
	}
	if !ok {
		return nil, false
	}
	namespaces = []string{}
	for _, name := range candidates {
		if _, paired := pairs.Remote(name); paired && r.Namespaces.Admits(name) {
			namespaces = append(namespaces, name)
		}
	}
	return namespaces, true
}
