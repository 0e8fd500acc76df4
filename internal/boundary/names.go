package boundary

import "k8s.io/apimachinery/pkg/types"

// TwinName returns where the twin of a source belongs (N1, N3 SameName): the same name in the namespace's counterpart.
func TwinName(source types.NamespacedName, pairs NamespacePairs) (types.NamespacedName, bool) {
	namespace, ok := pairs.Remote(source.Namespace)
	return types.NamespacedName{Namespace: namespace, Name: source.Name}, ok
}
