package endpoints

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/boundary"
	mapping "isthmus.dev/isthmus/internal/endpoints"
)

// directConnections is the key, under each prefix that counts, of v1alpha1.DirectConnectionsAnnotation.
var directConnections = strings.TrimPrefix(v1alpha1.DirectConnectionsAnnotation, boundary.Prefix)

// anySource takes every object that is no copy itself (S4).
var anySource = &boundary.Rule{Name: "endpoints", Policy: boundary.PolicyAll, Selector: labels.Everything()}

// isSource reports whether endpoints of a slice may cross: it is a Service's, has IP addresses, and is no copy itself, nor
// made of one.
func isSource(slice *discoveryv1.EndpointSlice) bool {
	if slice == nil || slice.Labels[discoveryv1.LabelServiceName] == "" || slice.Labels[discoveryv1.LabelManagedBy] == v1alpha1.EndpointsManager {
		return false
	}
	if slice.AddressType != discoveryv1.AddressTypeIPv4 && slice.AddressType != discoveryv1.AddressTypeIPv6 {
		return false
	}
	u := &unstructured.Unstructured{}
	u.SetNamespace(slice.Namespace)
	u.SetLabels(slice.Labels)
	u.SetAnnotations(slice.Annotations)
	return anySource.Selects(u, boundary.SameName{}).Verdict == boundary.Selected
}

// sliceOf returns the name of the EndpointSlice that a ShadowEndpointSlice was made of; empty: it was made by others.
func sliceOf(shadow metav1.Object) string {
	owner := metav1.GetControllerOfNoCopy(shadow)
	if owner == nil || owner.Kind != "EndpointSlice" || owner.APIVersion != discoveryv1.SchemeGroupVersion.String() || shadow.GetLabels()[v1alpha1.DestinationLabel] == "" {
		return ""
	}
	return owner.Name
}

// maxName is how long the name of an object may be.
const maxName = 253

// shadowName is what the ShadowEndpointSlice of a slice for a destination is called: cluster IDs have no dots, so no two have
// one name. What is too long is shortened with a hash of the whole (N1).
func shadowName(slice, destination string) string {
	name := slice + "." + destination
	if len(name) <= maxName {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	hash := hex.EncodeToString(sum[:5])
	return strings.TrimRight(name[:maxName-1-len(hash)], ".-") + "-" + hash
}

// nodesOf returns the nodes that a slice's endpoints are on.
func nodesOf(slice *discoveryv1.EndpointSlice) (names []string) {
	for i := range slice.Endpoints {
		if name := slice.Endpoints[i].NodeName; name != nil {
			names = append(names, *name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// nodeHome is which cluster a node says that its pods live on.
type nodeHome struct {
	cluster string
	err     error
}

// clusterOf reads the labels by which a node says so; empty: it says nothing.
func clusterOf(node metav1.Object) (cluster string, err error) {
	for _, key := range []string{v1alpha1.RemoteClusterIDLabel, "liqo.io/" + strings.TrimPrefix(v1alpha1.RemoteClusterIDLabel, boundary.Prefix)} {
		switch value := node.GetLabels()[key]; {
		case value == "" || value == cluster:
		case cluster != "":
			return "", fmt.Errorf("node %s says that its pods live on %s, and that they live on %s", node.GetName(), cluster, value)
		default:
			cluster = value
		}
	}
	return cluster, nil
}

// shadow returns what crosses of the slice to a destination. What is left out although it should cross is noted as a fault.
func (w *work) shadow(destination string) *v1alpha1.ShadowEndpointSlice {
	out := &v1alpha1.ShadowEndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.slice.Namespace, Name: shadowName(w.slice.Name, destination),
			Labels: map[string]string{v1alpha1.DestinationLabel: destination},
			// The slice's end is this one's, also while nothing of ours runs.
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: discoveryv1.SchemeGroupVersion.String(), Kind: "EndpointSlice", Name: w.slice.Name, UID: w.slice.UID, Controller: ptr.To(true),
			}},
		},
		Spec: v1alpha1.ShadowEndpointSliceSpec{AddressType: w.slice.AddressType, Ports: w.slice.Ports},
	}
	for _, key := range carriedLabels {
		if value, set := w.slice.Labels[key]; set {
			out.Labels[key] = value
		}
	}
	links := w.Links()
	for i := range w.slice.Endpoints {
		endpoint := &w.slice.Endpoints[i]
		home := w.clusters[ptr.Deref(endpoint.NodeName, "")]
		if home.err != nil {
			w.leftOut(endpoint, home.err.Error())
			continue
		}
		sent, verdict := mapping.Send(mapping.SendInput{
			Self: w.ClusterID, Destination: destination, Links: links, Direct: w.direct,
			AddressType: w.slice.AddressType, Endpoint: *endpoint, NodeCluster: home.cluster,
		})
		switch {
		case verdict.Crosses():
			out.Spec.Endpoints = append(out.Spec.Endpoints, sent)
		case verdict.Reason != mapping.ReasonDestination:
			w.leftOut(endpoint, verdict.Message)
		}
	}
	return out
}

// leftOut notes that an endpoint does not cross although it should.
func (w *work) leftOut(endpoint *discoveryv1.Endpoint, why string) {
	w.fault(fmt.Sprintf("endpoint %s of EndpointSlice %s does not cross: %s", strings.Join(endpoint.Addresses, ","), w.slice.Name, why))
}
