package v1alpha1

import (
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConditionConnected of a ClusterLink: packets go through. A link without the condition is taken to be up.
const ConditionConnected = "Connected"

// ConditionAccepted of a ClusterLink: it is in use. One that contradicts itself, or a link that was there before, is not.
const ConditionAccepted = "Accepted"

// The reasons of a ClusterLink's Accepted.
const (
	ReasonAccepted = "Accepted"
	// ReasonInvalidLink: what it says can't be.
	ReasonInvalidLink = "Invalid"
	// ReasonLinksOverlap: a link that was there before claims a network of it.
	ReasonLinksOverlap = "Overlap"
	// ReasonOwnCluster: it is named as the cluster that it is on.
	ReasonOwnCluster = "OwnCluster"
)

// The reasons of a ClusterLink's Connected where spec.probe finds it out.
const (
	ReasonProbeSucceeded = "ProbeSucceeded"
	ReasonProbeFailed    = "ProbeFailed"
)

// DirectConnectionsAnnotation on a Service, with the value "true", lets its endpoints on third clusters be reached over
// the providers' own links. The same key under liqo.io/ counts alike.
const DirectConnectionsAnnotation = "isthmus.dev/use-direct-connections"

// RemoteClusterIDLabel on a node says which cluster the pods of that node live on. The same key under liqo.io/ counts alike.
const RemoteClusterIDLabel = "isthmus.dev/remote-cluster-id"

// DestinationLabel on a ShadowEndpointSlice of a consumer is the cluster ID of the remote that it is for.
const DestinationLabel = "isthmus.dev/destination"

// EndpointsManager is the value of endpointslice.kubernetes.io/managed-by on EndpointSlices that are made of
// ShadowEndpointSlices.
const EndpointsManager = "endpoints.isthmus.dev"

// ClusterLink says how this cluster reaches the pods of another one. Its name is that cluster's ID.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=isthmus,shortName=cl
// +kubebuilder:printcolumn:name=Accepted,type=string,JSONPath=.status.conditions[?(@.type=="Accepted")].status
// +kubebuilder:printcolumn:name=Connected,type=string,JSONPath=.status.conditions[?(@.type=="Connected")].status
// +kubebuilder:printcolumn:name=Pods,type=string,JSONPath=.spec.podCIDRs[*].native
// +kubebuilder:printcolumn:name=Seen As,type=string,JSONPath=.spec.podCIDRs[*].seenAs
// +kubebuilder:printcolumn:name=Direct,type=string,JSONPath=.spec.directConnections
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=.metadata.creationTimestamp
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$')",message="the name is a cluster ID: at most 63 lower-case letters, digits and -"
type ClusterLink struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec ClusterLinkSpec `json:"spec"`
	// +optional
	Status ClusterLinkStatus `json:"status,omitempty"`
}

// ClusterLinkSpec maps the other cluster's networks to what this cluster sees them as.
//
// +kubebuilder:validation:XValidation:rule="[(has(self.podCIDRs) ? self.podCIDRs.map(c, c.native) : []) + (has(self.externalCIDRs) ? self.externalCIDRs.map(c, c.native) : [])].all(all, !all.all(a, isCIDR(a)) || all.all(a, all.filter(b, cidr(a).containsIP(cidr(b).ip()) || cidr(b).containsIP(cidr(a).ip())).size() == 1))",message="the native networks overlap: expected each address in one of podCIDRs and externalCIDRs"
// +kubebuilder:validation:XValidation:rule="[(has(self.podCIDRs) ? self.podCIDRs.map(c, has(c.seenAs) ? c.seenAs : c.native) : []) + (has(self.externalCIDRs) ? self.externalCIDRs.map(c, has(c.seenAs) ? c.seenAs : c.native) : [])].all(all, !all.all(a, isCIDR(a)) || all.all(a, all.filter(b, cidr(a).containsIP(cidr(b).ip()) || cidr(b).containsIP(cidr(a).ip())).size() == 1))",message="the seenAs networks overlap: expected each address in one of podCIDRs and externalCIDRs"
// +kubebuilder:validation:XValidation:rule="!has(self.transit) || !self.transit.all(a, isCIDR(a.from)) || self.transit.all(a, self.transit.filter(b, cidr(a.from).containsIP(cidr(b.from).ip()) || cidr(b.from).containsIP(cidr(a.from).ip())).size() == 1)",message="the from networks of transit overlap: expected each address in one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.transit) || !self.transit.all(a, isCIDR(a.external)) || self.transit.all(a, self.transit.filter(b, cidr(a.external).containsIP(cidr(b.external).ip()) || cidr(b.external).containsIP(cidr(a.external).ip())).size() == 1)",message="the external networks of transit overlap: expected each address in one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.transit) || self.transit.all(t, !isCIDR(t.from) || has(self.podCIDRs) && self.podCIDRs.map(c, has(c.seenAs) ? c.seenAs : c.native).exists(p, isCIDR(p) && cidr(p).containsCIDR(cidr(t.from))))",message="from in transit: expected a part of what this cluster sees the other one's pods as, of a seenAs in podCIDRs"
type ClusterLinkSpec struct {
	// The networks of the other cluster's pods.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	PodCIDRs []CIDRMapping `json:"podCIDRs,omitempty"`
	// The networks by which the other cluster itself reaches what is not its own, as pods of third clusters.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	ExternalCIDRs []CIDRMapping `json:"externalCIDRs,omitempty"`
	// On a consumer: which ranges of this cluster's own external network lead to what it sees the other cluster's pods as.
	// Other clusters reach those pods through it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Transit []TransitMapping `json:"transit,omitempty"`
	// On a provider: whether pods of the other cluster are reached over this link on behalf of a consumer. Deny leaves the
	// way through the consumer.
	// +optional
	// +kubebuilder:default=Allow
	DirectConnections DirectConnections `json:"directConnections,omitempty"`
	// How it is found out whether the link is up; without it, whoever runs the network says so by the condition Connected.
	// +optional
	Probe *LinkProbe `json:"probe,omitempty"`
}

// DirectConnections says whether a link is used for direct connections.
//
// +kubebuilder:validation:Enum=Allow;Deny
type DirectConnections string

// Whether a link is used.
const (
	DirectConnectionsAllow DirectConnections = "Allow"
	DirectConnectionsDeny  DirectConnections = "Deny"
)

// CIDRMapping is a network, and what it is seen as.
//
// +kubebuilder:validation:XValidation:rule="!has(self.seenAs) || !isCIDR(self.native) || !isCIDR(self.seenAs) || cidr(self.native).prefixLength() == cidr(self.seenAs).prefixLength() && cidr(self.native).ip().family() == cidr(self.seenAs).ip().family()",message="seenAs must have the family and the prefix length of native"
type CIDRMapping struct {
	// As the other cluster has it.
	// +required
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self) == cidr(self).masked()",message="expected a CIDR without host bits, as 10.0.0.0/16 or fd00:1::/64"
	Native string `json:"native"`
	// As this cluster sees it; without it, as it is.
	// +optional
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self) == cidr(self).masked()",message="expected a CIDR without host bits, as 10.0.0.0/16 or fd00:1::/64"
	SeenAs string `json:"seenAs,omitempty"`
}

// TransitMapping is a range of this cluster's external network, and where it leads.
//
// +kubebuilder:validation:XValidation:rule="!isCIDR(self.from) || !isCIDR(self.external) || cidr(self.from).prefixLength() == cidr(self.external).prefixLength() && cidr(self.from).ip().family() == cidr(self.external).ip().family()",message="external must have the family and the prefix length of from"
type TransitMapping struct {
	// What this cluster sees the other cluster's pods as.
	// +required
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self) == cidr(self).masked()",message="expected a CIDR without host bits, as 10.0.0.0/16 or fd00:1::/64"
	From string `json:"from"`
	// The range of this cluster's external network that leads there.
	// +required
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self) == cidr(self).masked()",message="expected a CIDR without host bits, as 10.0.0.0/16 or fd00:1::/64"
	External string `json:"external"`
}

// LinkProbe is a TCP port of the other cluster that answers when the link is up.
type LinkProbe struct {
	// Address and port, as this cluster sees them: 10.71.0.1:80 or [fd00::1]:80.
	// +required
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="isIP(self.substring(0, self.lastIndexOf(':')).replace('[', '').replace(']', '')) && int(self.substring(self.lastIndexOf(':') + 1)) > 0 && int(self.substring(self.lastIndexOf(':') + 1)) < 65536",message="expected an address and a port from 1 to 65535, as 10.71.0.1:80 or [fd00::1]:80"
	// +kubebuilder:validation:Pattern=`^(\d+\.\d+\.\d+\.\d+|\[[0-9a-fA-F:.]+\]):\d{1,5}$`
	TCP string `json:"tcp"`
	// Seconds between two probes.
	// +optional
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=300
	PeriodSeconds int32 `json:"periodSeconds,omitempty"`
	// How many probes in a row have to say otherwise before the condition changes.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	Threshold int32 `json:"threshold,omitempty"`
}

// ClusterLinkStatus is whether the link is used, and up.
type ClusterLinkStatus struct {
	// Connected, set by whoever runs the network, or by the probe; Accepted: whether the link is used.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ClusterLinkList is a list of ClusterLinks.
//
// +kubebuilder:object:root=true
type ClusterLinkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterLink `json:"items"`
}

// ShadowEndpointSlice carries the endpoints of a Service from a consumer to a provider, in addresses that are not the
// provider's own yet. The consumer's Isthmus writes it on the consumer, it crosses as any object does, and the provider's
// Isthmus makes an EndpointSlice of it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=isthmus,shortName=ses
// +kubebuilder:printcolumn:name=Service,type=string,JSONPath=.metadata.labels.kubernetes\.io/service-name
// +kubebuilder:printcolumn:name=Destination,type=string,JSONPath=.metadata.labels.isthmus\.dev/destination
// +kubebuilder:printcolumn:name=Type,type=string,JSONPath=.spec.addressType
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=.metadata.creationTimestamp
type ShadowEndpointSlice struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec ShadowEndpointSliceSpec `json:"spec"`
}

// ShadowEndpointSliceSpec is an EndpointSlice (discovery.k8s.io/v1) whose endpoints say where they live.
type ShadowEndpointSliceSpec struct {
	// +required
	// +kubebuilder:validation:Enum=IPv4;IPv6
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="addressType is immutable"
	AddressType discoveryv1.AddressType `json:"addressType"`
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Ports []discoveryv1.EndpointPort `json:"ports,omitempty"`
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	Endpoints []ShadowEndpoint `json:"endpoints,omitempty"`
}

// ShadowEndpoint is an endpoint, by where it lives and by how it is reached through the consumer.
//
// +kubebuilder:validation:XValidation:rule="has(self.origin) || has(self.via)",message="expected origin, via or both"
// +kubebuilder:validation:XValidation:rule="!has(self.origin) || !has(self.via) || self.origin.addresses.size() == self.via.addresses.size()",message="origin and via must have as many addresses"
type ShadowEndpoint struct {
	// The cluster that hosts it, and its addresses in that cluster's own pod network.
	// +optional
	Origin *EndpointOrigin `json:"origin,omitempty"`
	// Addresses in the consumer's own network that lead to it.
	// +optional
	Via *EndpointVia `json:"via,omitempty"`
	// +optional
	Conditions discoveryv1.EndpointConditions `json:"conditions,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Hostname *string `json:"hostname,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Zone *string `json:"zone,omitempty"`
	// +optional
	Hints *discoveryv1.EndpointHints `json:"hints,omitempty"`
}

// EndpointOrigin is where an endpoint lives.
type EndpointOrigin struct {
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	ClusterID string `json:"clusterID"`
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=45
	Addresses []string `json:"addresses"`
}

// EndpointVia is how an endpoint is reached through the consumer.
type EndpointVia struct {
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=45
	Addresses []string `json:"addresses"`
}

// ShadowEndpointSliceList is a list of ShadowEndpointSlices.
//
// +kubebuilder:object:root=true
type ShadowEndpointSliceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ShadowEndpointSlice `json:"items"`
}
