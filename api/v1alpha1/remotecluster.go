package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The conditions of a RemoteCluster.
const (
	// ConditionReachable: the remote answers, with the credential that we have, and is the cluster that it was.
	ConditionReachable = "Reachable"
	// ConditionKindsServed: it serves all kinds that Crossings carry there.
	ConditionKindsServed = "KindsServed"
)

// The reasons of Reachable.
const (
	ReasonReached      = "Reached"
	ReasonAccess       = "AccessUnusable" // the Secret, the profile or the provider file is missing or says nothing usable
	ReasonDNS          = "DNS"
	ReasonTLS          = "TLS"
	ReasonUnauthorized = "Unauthorized"
	ReasonForbidden    = "Forbidden"
	ReasonTimeout      = "Timeout"
	ReasonRefused      = "ConnectionRefused"
	ReasonUnreachable  = "Unreachable"
	ReasonSameCluster  = "SameCluster" // another RemoteCluster is this physical cluster, or it is the local one
	ReasonReplaced     = "Replaced"    // another cluster answers than the one that was known
	ReasonUnhealthy    = "ControlPlaneUnhealthy"
	ReasonLost         = "ConnectionLost"
	ReasonPlugin       = "CredentialPlugin" // the access plugin failed, or returned nothing usable
	ReasonUnavailable  = "Unavailable"      // something answers, but no API server behind it
	ReasonUnknown      = "Unknown"
	ReasonConnecting   = "Connecting" // not known yet
)

// The reasons of KindsServed.
const (
	ReasonAllServed = "AllServed"
	ReasonNotServed = "NotServed"
)

// RemoteClusterFinalizer keeps a RemoteCluster until nothing of ours is left there, or ReleaseAnnotation lets it go.
const RemoteClusterFinalizer = "isthmus.dev/remote-cluster"

// ReleaseAnnotation, with the value "true", lets an object go although its remote side can't be tidied up.
const ReleaseAnnotation = "isthmus.dev/release"

// RemoteCluster is a cluster that objects may cross to. Its name is that cluster's ID, the same for good: it is part of
// the stamps of what comes from there.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=isthmus,shortName=rc
// +kubebuilder:printcolumn:name=Reachable,type=string,JSONPath=.status.conditions[?(@.type=="Reachable")].status
// +kubebuilder:printcolumn:name=Reason,type=string,JSONPath=.status.conditions[?(@.type=="Reachable")].reason
// +kubebuilder:printcolumn:name=Kinds,type=string,JSONPath=.status.conditions[?(@.type=="KindsServed")].status
// +kubebuilder:printcolumn:name=Version,type=string,JSONPath=.status.kubernetesVersion
// +kubebuilder:printcolumn:name=Server,type=string,JSONPath=.status.server,priority=1
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=.metadata.creationTimestamp
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$')",message="the name is a cluster ID: at most 63 lower-case letters, digits and -"
type RemoteCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec RemoteClusterSpec `json:"spec"`
	// +optional
	Status RemoteClusterStatus `json:"status,omitempty"`
}

// RemoteClusterSpec says how the cluster is reached.
type RemoteClusterSpec struct {
	// Access says where the address and the credential come from. What changes there is used without a restart.
	// +required
	Access Access `json:"access"`
}

// Access is where the address of a cluster and the credential for it come from.
//
// +kubebuilder:validation:XValidation:rule="has(self.kubeconfigSecretRef) != has(self.clusterProfileRef)",message="expected exactly one of kubeconfigSecretRef and clusterProfileRef"
type Access struct {
	// A Secret, in the namespace that Isthmus runs in, that holds a kubeconfig.
	// +optional
	KubeconfigSecretRef *SecretKeyRef `json:"kubeconfigSecretRef,omitempty"`
	// A ClusterProfile of the Cluster Inventory API (KEP-4322), and by its access providers (KEP-5339) and the file of
	// --clusterprofile-provider-file the credential.
	// +optional
	ClusterProfileRef *ClusterProfileRef `json:"clusterProfileRef,omitempty"`
}

// SecretKeyRef names a key of a Secret.
type SecretKeyRef struct {
	// Name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Key in it.
	// +optional
	// +kubebuilder:default=kubeconfig
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// ClusterProfileRef names a ClusterProfile.
type ClusterProfileRef struct {
	// Namespace of the ClusterProfile.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace"`
	// Name of the ClusterProfile.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`
}

// RemoteClusterStatus is how the cluster is reached.
type RemoteClusterStatus struct {
	// Reachable and KindsServed.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// UID of the cluster's namespace kube-system, by which the cluster is told from another one.
	// +optional
	ClusterUID string `json:"clusterUID,omitempty"`
	// KubernetesVersion that its API server says it is.
	// +optional
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// Server is the URL that it is reached at.
	// +optional
	Server string `json:"server,omitempty"`
	// Consent says who makes namespaces there: Provider where it serves NamespaceRequests, else Consumer.
	// +optional
	// +kubebuilder:validation:Enum=Provider;Consumer
	Consent Consent `json:"consent,omitempty"`
}

// Consent says who makes a remote's namespaces.
type Consent string

// Who makes namespaces.
const (
	// ConsentProvider: the provider does, on request, and grants what it allows.
	ConsentProvider Consent = "Provider"
	// ConsentConsumer: we do, by our own rights there.
	ConsentConsumer Consent = "Consumer"
)

// RemoteClusterList is a list of RemoteClusters.
//
// +kubebuilder:object:root=true
type RemoteClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RemoteCluster `json:"items"`
}
