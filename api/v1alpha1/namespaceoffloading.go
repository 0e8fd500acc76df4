package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OffloadingName is the only name that a NamespaceOffloading may have: a namespace has one.
const OffloadingName = "offloading"

// OffloadingFinalizer keeps a NamespaceOffloading until nothing of its namespace is left on a remote, or
// ReleaseAnnotation lets it go.
const OffloadingFinalizer = "isthmus.dev/offloading"

// NamespaceMappingStrategy says what the counterpart of a namespace is called.
//
// +kubebuilder:validation:Enum=DefaultName;EnforceSameName;SelectedName
type NamespaceMappingStrategy string

// The strategies.
const (
	// DefaultName: the namespace's name, a hyphen, and the local cluster's ID; shortened with a hash where that is too long.
	DefaultName NamespaceMappingStrategy = "DefaultName"
	// EnforceSameName: the namespace's own name.
	EnforceSameName NamespaceMappingStrategy = "EnforceSameName"
	// SelectedName: the name in remoteNamespaceName.
	SelectedName NamespaceMappingStrategy = "SelectedName"
)

// OffloadingPhase sums up how the namespace stands on all its remotes.
type OffloadingPhase string

// The phases.
const (
	OffloadingReady             OffloadingPhase = "Ready"
	OffloadingNoClusterSelected OffloadingPhase = "NoClusterSelected"
	OffloadingInProgress        OffloadingPhase = "InProgress"
	OffloadingSomeFailed        OffloadingPhase = "SomeFailed"
	OffloadingAllFailed         OffloadingPhase = "AllFailed"
	OffloadingTerminating       OffloadingPhase = "Terminating"
)

// The conditions of a namespace on one remote.
const (
	// ConditionOffloadingRequired: the selector picks the remote.
	ConditionOffloadingRequired = "OffloadingRequired"
	// ConditionReady: the namespace is there and ours, and objects cross.
	ConditionReady = "Ready"
)

// NamespaceOffloading gives its namespace a counterpart on remote clusters. What crosses then is up to Crossings.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=isthmus,shortName=nso
// +kubebuilder:printcolumn:name=Strategy,type=string,JSONPath=.spec.namespaceMappingStrategy
// +kubebuilder:printcolumn:name=Remote,type=string,JSONPath=.status.remoteNamespaceName
// +kubebuilder:printcolumn:name=Phase,type=string,JSONPath=.status.phase
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=.metadata.creationTimestamp
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'offloading'",message="the name must be offloading: a namespace has one NamespaceOffloading"
type NamespaceOffloading struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	// +kubebuilder:default={namespaceMappingStrategy: DefaultName}
	Spec NamespaceOffloadingSpec `json:"spec,omitempty"`
	// +optional
	Status NamespaceOffloadingStatus `json:"status,omitempty"`
}

// NamespaceOffloadingSpec says where the counterparts are, and what they are called.
//
// +kubebuilder:validation:XValidation:rule="(self.namespaceMappingStrategy == 'SelectedName') == has(self.remoteNamespaceName)",message="remoteNamespaceName goes with namespaceMappingStrategy: SelectedName, and with it alone"
// +kubebuilder:validation:XValidation:rule="has(self.remoteNamespaceName) == has(oldSelf.remoteNamespaceName) && (!has(self.remoteNamespaceName) || self.remoteNamespaceName == oldSelf.remoteNamespaceName)",message="remoteNamespaceName is immutable: delete the NamespaceOffloading and create another one"
type NamespaceOffloadingSpec struct {
	// What the counterpart is called: DefaultName (the namespace's name, -, and the local cluster's ID), EnforceSameName,
	// or SelectedName (remoteNamespaceName). Immutable.
	// +optional
	// +kubebuilder:default=DefaultName
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="namespaceMappingStrategy is immutable: delete the NamespaceOffloading and create another one"
	NamespaceMappingStrategy NamespaceMappingStrategy `json:"namespaceMappingStrategy,omitempty"`
	// The counterpart's name, with SelectedName. Immutable.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('kube-')",message="namespaces that start with kube- belong to the remote cluster itself"
	RemoteNamespaceName string `json:"remoteNamespaceName,omitempty"`
	// The RemoteClusters to offload to, by their labels. Absent or empty: all.
	// +optional
	ClusterSelector *metav1.LabelSelector `json:"clusterSelector,omitempty"`
}

// NamespaceOffloadingStatus is how the namespace stands on its remotes.
type NamespaceOffloadingStatus struct {
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Ready, NoClusterSelected, InProgress, SomeFailed, AllFailed or Terminating.
	// +optional
	Phase OffloadingPhase `json:"phase,omitempty"`
	// The counterpart's name.
	// +optional
	RemoteNamespaceName string `json:"remoteNamespaceName,omitempty"`
	// Ready: the namespace is there on all remotes that are selected.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// How the namespace stands on each remote.
	// +optional
	// +listType=map
	// +listMapKey=cluster
	Remotes []RemoteNamespace `json:"remotes,omitempty"`
}

// RemoteNamespace is how a namespace stands on one remote.
type RemoteNamespace struct {
	// Name of the RemoteCluster.
	// +required
	Cluster string `json:"cluster"`
	// Granted: a provider gave the namespace once, so that something may be there. Nothing crosses before.
	// +optional
	Granted bool `json:"granted,omitempty"`
	// OffloadingRequired, and Ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NamespaceOffloadingList is a list of NamespaceOffloadings.
//
// +kubebuilder:object:root=true
type NamespaceOffloadingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NamespaceOffloading `json:"items"`
}
