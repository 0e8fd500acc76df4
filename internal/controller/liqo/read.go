// Package liqo reads from Liqo's own objects which namespaces it offloads, and where to. It writes nothing.
package liqo

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus.dev/isthmus/internal/controller/fleet"
)

// Kind is how the API server calls NamespaceMaps; the version is found by discovery.
var Kind = schema.GroupResource{Group: "offloading.liqo.io", Resource: "namespacemaps"}

// The labels of a NamespaceMap, as Liqo sets them (pkg/consts of github.com/liqotech/liqo v1.0.1). The one of a consumer is
// to be replicated to the provider; the copy that Liqo makes there is not, and names the consumer.
const (
	labelReplication   = "liqo.io/replication"
	labelRemoteCluster = "liqo.io/remote-cluster-id"
)

// ReadMap reads a NamespaceMap; ours is false for the copy of another cluster's, which says what that one offloads to here.
// An error names the field.
func ReadMap(u *unstructured.Unstructured) (m fleet.NamespaceMap, ours bool, err error) {
	m = fleet.NamespaceMap{
		Name: u.GetNamespace() + "/" + u.GetName(), Cluster: u.GetLabels()[labelRemoteCluster], Going: u.GetDeletionTimestamp() != nil,
		Current: map[string]fleet.Mapping{},
	}
	if u.GetLabels()[labelReplication] != "true" {
		return m, false, nil
	}
	if m.Cluster == "" {
		return m, true, fmt.Errorf("NamespaceMap %s: label %s: expected the ID of the remote cluster", m.Name, labelRemoteCluster)
	}
	if m.Desired, _, err = unstructured.NestedStringMap(u.Object, "spec", "desiredMapping"); err != nil {
		return m, true, fmt.Errorf("NamespaceMap %s: %w", m.Name, err)
	}
	current, _, err := unstructured.NestedMap(u.Object, "status", "currentMapping")
	if err != nil {
		return m, true, fmt.Errorf("NamespaceMap %s: %w", m.Name, err)
	}
	for local, value := range current {
		one, ok := value.(map[string]any)
		if !ok {
			return m, true, fmt.Errorf("NamespaceMap %s: status.currentMapping.%s: expected an object, got %T", m.Name, local, value)
		}
		remote, _, _ := unstructured.NestedString(one, "remoteNamespace")
		phase, _, _ := unstructured.NestedString(one, "phase")
		if remote == "" {
			continue // Liqo has not got to it yet
		}
		m.Current[local] = fleet.Mapping{Remote: remote, Phase: phase}
	}
	return m, true, nil
}
