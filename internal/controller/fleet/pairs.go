package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/boundary"
)

// Remote is what matters of a RemoteCluster to what crosses there.
type Remote struct {
	Name   string
	Labels map[string]string
	// Leaving: its RemoteCluster is being deleted, and what is ours there goes.
	Leaving bool
	Consent v1alpha1.Consent
}

// Pair is a namespace and its counterpart on one remote.
type Pair struct {
	Local, Remote, Cluster string
	// Withdrawn: somebody took the pair out on purpose, so its twins go, however many they are.
	Withdrawn bool
	// Ungranted: the remote's provider, whose consent it takes, has never given the namespace: nothing can be there.
	Ungranted bool
	// Unready: nothing that is there is to be touched for now. It is not Withdrawn.
	Unready bool
}

// Offload is what a NamespaceOffloading comes to.
type Offload struct {
	// Counterpart is what the namespace is called on its remotes.
	Counterpart string
	// Pairs are those of the namespace, one a remote that is selected, in the order of the remotes.
	Pairs []Pair
	// Refused says, by remote, why there is no pair although the remote is selected.
	Refused map[string]string
	// Err says what is wrong with the object as a whole; nil: nothing.
	Err error
}

// Counterpart returns what the namespace of a NamespaceOffloading is called on its remotes; cluster is the ID of the
// cluster that it is in.
func Counterpart(o *v1alpha1.NamespaceOffloading, cluster string) string {
	switch o.Spec.NamespaceMappingStrategy {
	case v1alpha1.EnforceSameName:
		return o.Namespace
	case v1alpha1.SelectedName:
		return o.Spec.RemoteNamespaceName
	}
	return boundary.DefaultCounterpart(o.Namespace, cluster)
}

// Offloads works out what NamespaceOffloadings come to, by their namespaces. Where two namespaces would have one counterpart
// on a remote, the older NamespaceOffloading has it (N1, N4).
func Offloads(offloadings []v1alpha1.NamespaceOffloading, remotes []Remote, cluster string) map[string]Offload {
	byAge := make([]*v1alpha1.NamespaceOffloading, len(offloadings))
	for i := range offloadings {
		byAge[i] = &offloadings[i]
	}
	slices.SortFunc(byAge, func(a, b *v1alpha1.NamespaceOffloading) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace))
	})
	taken := map[Pair]string{} // remote namespace and cluster → local namespace
	all := map[string]Offload{}
	for _, o := range byAge {
		out := Offload{Counterpart: Counterpart(o, cluster), Refused: map[string]string{}}
		selector, err := selectorOf(o.Spec.ClusterSelector)
		switch {
		case err != nil:
			out.Err = fmt.Errorf("spec.clusterSelector: %w", err)
		case strings.HasPrefix(out.Counterpart, "kube-"):
			out.Err = fmt.Errorf("the counterpart would be %s, and namespaces that start with kube- belong to the remote cluster itself: choose another by namespaceMappingStrategy: SelectedName", out.Counterpart)
		}
		for _, remote := range remotes {
			if out.Err != nil || !selector.Matches(labels.Set(remote.Labels)) {
				continue
			}
			place := Pair{Remote: out.Counterpart, Cluster: remote.Name}
			if first, ok := taken[place]; ok {
				out.Refused[remote.Name] = fmt.Sprintf("%s is the counterpart of namespace %s already: choose another by namespaceMappingStrategy: SelectedName", out.Counterpart, first)
				continue
			}
			taken[place] = o.Namespace
			out.Pairs = append(out.Pairs, Pair{
				Local: o.Namespace, Remote: out.Counterpart, Cluster: remote.Name, Withdrawn: remote.Leaving || o.DeletionTimestamp != nil,
				Ungranted: remote.Consent == v1alpha1.ConsentProvider && !granted(o, remote.Name),
			})
		}
		all[o.Namespace] = out
	}
	return all
}

// PairsOf returns all pairs of offloaded namespaces.
func PairsOf(offloads map[string]Offload) (pairs []Pair) {
	for _, namespace := range slices.Sorted(maps.Keys(offloads)) {
		pairs = append(pairs, offloads[namespace].Pairs...)
	}
	return pairs
}

// granted reports whether a provider gave a namespace once, by the status.
func granted(o *v1alpha1.NamespaceOffloading, remote string) bool {
	return slices.ContainsFunc(o.Status.Remotes, func(r v1alpha1.RemoteNamespace) bool { return r.Cluster == remote && r.Granted })
}

// selectorOf compiles a selector of labels; absent or empty it selects all.
func selectorOf(s *metav1.LabelSelector) (labels.Selector, error) {
	if s == nil {
		return labels.Everything(), nil
	}
	return metav1.LabelSelectorAsSelector(s)
}
