package endpoints

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"isthmus.dev/isthmus/api/v1alpha1"
	mapping "isthmus.dev/isthmus/internal/endpoints"
)

// carriedLabels are those of a slice that say how it is used.
var carriedLabels = []string{discoveryv1.LabelServiceName, corev1.IsHeadlessService, labelProxyName}

// labelProxyName names the service proxy that a Service is for, if not the cluster's own.
const labelProxyName = "service.kubernetes.io/service-proxy-name"

// tally is what became of a slice.
type tally struct {
	// refused is why nothing is made of it, foreign that another's slice is in the way.
	refused string
	foreign bool
	// received are its endpoints by path, left out those that were refused, by reason, and first the first of each.
	received map[mapping.Path]int
	leftOut  map[mapping.Reason]int
	first    map[mapping.Reason]string
}

// become returns the EndpointSlice that a consumer's slice becomes on this cluster, and what became of its endpoints. An
// endpoint that is refused never keeps the others from crossing (E6).
func become(shadow *v1alpha1.ShadowEndpointSlice, consumer string, links *mapping.Links) (*discoveryv1.EndpointSlice, tally) {
	out := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: shadow.Namespace, Name: shadow.Name, Labels: map[string]string{discoveryv1.LabelManagedBy: v1alpha1.EndpointsManager},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: sliceKind, Name: shadow.Name, UID: shadow.UID, Controller: ptr.To(true)}},
		},
		AddressType: shadow.Spec.AddressType,
		Endpoints:   []discoveryv1.Endpoint{},
		Ports:       shadow.DeepCopy().Spec.Ports,
	}
	for _, key := range carriedLabels {
		if value, ok := shadow.Labels[key]; ok {
			out.Labels[key] = value
		}
	}
	for i := range out.Ports { // the server's defaults
		out.Ports[i].Name = ptr.To(ptr.Deref(out.Ports[i].Name, ""))
		out.Ports[i].Protocol = ptr.To(ptr.Deref(out.Ports[i].Protocol, corev1.ProtocolTCP))
	}
	t := tally{received: map[mapping.Path]int{}, leftOut: map[mapping.Reason]int{}, first: map[mapping.Reason]string{}}
	for _, e := range shadow.Spec.Endpoints {
		received, verdict := mapping.Receive(mapping.ReceiveInput{Consumer: consumer, Links: links, AddressType: out.AddressType, Endpoint: e})
		if !verdict.Crosses() {
			if t.leftOut[verdict.Reason]++; t.leftOut[verdict.Reason] == 1 {
				t.first[verdict.Reason] = verdict.Message
			}
			continue
		}
		t.received[received.Path]++
		out.Endpoints = append(out.Endpoints, received.Endpoint)
	}
	return out, t
}

// worst returns the reason for which endpoints are left out that matters most, and what to say; empty: none is.
func (t tally) worst(total int) (reason mapping.Reason, message string) {
	order := []mapping.Reason{mapping.ReasonOutside, mapping.ReasonInvalid, mapping.ReasonNoLink, mapping.ReasonNoWay}
	i := slices.IndexFunc(order, func(r mapping.Reason) bool { return t.leftOut[r] > 0 })
	if i < 0 {
		return "", ""
	}
	return order[i], fmt.Sprintf("%d of %d endpoints are left out: %s", t.leftOut[order[i]], total, t.first[order[i]])
}
