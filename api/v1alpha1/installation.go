package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The conditions of an Installation. Ready, their sum, is ConditionReady.
const (
	// ConditionTargetClusterResolved: it is known which cluster the manifests go to, and that cluster answers.
	ConditionTargetClusterResolved = "TargetClusterResolved"
	// ConditionApplied: everything in the manifests is there as they say, and nothing of former ones is left.
	ConditionApplied = "Applied"
	// ConditionAvailable: all that was installed is up, as kstatus sees it.
	ConditionAvailable = "Available"
)

// ReasonProfileMissing of TargetClusterResolved: there is no ClusterProfile of that name. Its other reasons are those of
// ConditionReachable of a RemoteCluster.
const ReasonProfileMissing = "ProfileMissing"

// The reasons of Applied, and of Ready where nothing else is in the way.
const (
	// ReasonApplied: everything is there as the manifests say.
	ReasonApplied = "Applied"
	// ReasonLooking: it is not known yet what is on the cluster.
	ReasonLooking = "Looking"
	// ReasonTargetNotResolved: the cluster can't be asked, so that nothing is known of what is there.
	ReasonTargetNotResolved = "TargetClusterNotResolved"
	// ReasonManifestsMissing: a ConfigMap, a Secret or a key that has manifests does not exist. Nothing is removed because of that.
	ReasonManifestsMissing = "ManifestsMissing"
	// ReasonManifestsInvalid: the manifests can't be understood.
	ReasonManifestsInvalid = "ManifestsInvalid"
	// ReasonLockHeld: another Installation, maybe of another hub, has the component on this cluster.
	ReasonLockHeld = "LockHeld"
	// ReasonLockLost: the component was this Installation's, and is another one's now, or was released by hand.
	ReasonLockLost = "LockLost"
	// ReasonObjectsExist: something of these names is there already, and not ours.
	ReasonObjectsExist = "ObjectsExist"
	// ReasonWaiting: something has to be established, available or gone before it goes on.
	ReasonWaiting = "Waiting"
	// ReasonApplyFailed: the cluster refused something, or did not answer.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonContention: another writer undoes what is written.
	ReasonContention = "Contention"
)

// The reasons of Available.
const (
	// ReasonAvailable: all that was installed is up.
	ReasonAvailable = "Available"
	// ReasonProgressing: something is not up yet.
	ReasonProgressing = "Progressing"
	// ReasonFailed: something will not come up as it is.
	ReasonFailed = "Failed"
	// ReasonNotApplied: not everything is there.
	ReasonNotApplied = "NotApplied"
)

// The reasons of Ready beside those of the other conditions.
const (
	// ReasonReady: it is known where it goes, all is there, and all is up.
	ReasonReady = "Ready"
	// ReasonUninstalling: it is being deleted, and so is what was installed.
	ReasonUninstalling = "Uninstalling"
	// ReasonInstancesLeft: it is being deleted with its CustomResourceDefinitions, of which others have objects.
	ReasonInstancesLeft = "InstancesLeft"
)

// InstallationFinalizer keeps an Installation until nothing of it is left on its cluster, or ReleaseAnnotation lets it go.
const InstallationFinalizer = "isthmus.dev/installation"

// InstallationAnnotation on an installed object says which Installation it is of: the hub's cluster ID, the Installation's
// namespace and name, and its UID, separated by "/".
const InstallationAnnotation = "isthmus.dev/installation"

// InstalledByLabel on an installed object is the hub's cluster ID. Watches select on it.
const InstalledByLabel = "isthmus.dev/installed-by"

// InstalledContentAnnotation on an installed object is a hash of what was applied.
const InstalledContentAnnotation = "isthmus.dev/installed-content"

// NamespaceDeletion says what becomes of a namespace when nothing of the Installation is left in it.
//
// +kubebuilder:validation:Enum=DeleteIfCreated;Keep
type NamespaceDeletion string

// What becomes of a namespace.
const (
	NamespaceDeleteIfCreated NamespaceDeletion = "DeleteIfCreated"
	NamespaceKeep            NamespaceDeletion = "Keep"
)

// CRDDeletion says what becomes of CustomResourceDefinitions that were installed.
//
// +kubebuilder:validation:Enum=Keep;Delete
type CRDDeletion string

// What becomes of CustomResourceDefinitions.
const (
	CRDsKeep   CRDDeletion = "Keep"
	CRDsDelete CRDDeletion = "Delete"
)

// Installation puts manifests on the cluster that a ClusterProfile names, in a namespace of its own there, keeps them as
// they are written, and takes all of it away again when it is deleted.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=isthmus,shortName=inst
// +kubebuilder:printcolumn:name=Component,type=string,JSONPath=.spec.component
// +kubebuilder:printcolumn:name=Profile,type=string,JSONPath=.spec.destination.clusterProfileRef.name
// +kubebuilder:printcolumn:name=Target Namespace,type=string,JSONPath=.status.namespace
// +kubebuilder:printcolumn:name=Ready,type=string,JSONPath=.status.conditions[?(@.type=="Ready")].status
// +kubebuilder:printcolumn:name=Reason,type=string,JSONPath=.status.conditions[?(@.type=="Ready")].reason
// +kubebuilder:printcolumn:name=Objects,type=integer,JSONPath=.status.objects,priority=1
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=.metadata.creationTimestamp
type Installation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec InstallationSpec `json:"spec"`
	// +optional
	Status InstallationStatus `json:"status,omitempty"`
}

// InstallationSpec says what is installed where.
//
// +kubebuilder:validation:XValidation:rule="has(self.destination) == has(oldSelf.destination)",message="destination is immutable, its addition and removal included: delete the Installation and create another one"
// +kubebuilder:validation:XValidation:rule="!has(self.clusterProfileRef)",message="clusterProfileRef is not taken here: write destination: {clusterProfileRef: {name: …, namespace: …}, namespace: …}"
type InstallationSpec struct {
	// Component is what is installed; a cluster has each component once. Immutable.
	// +required
	// +kubebuilder:validation:MaxLength=52
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="component is immutable: delete the Installation and create another one"
	Component string `json:"component"`
	// Destination is where the manifests go; without it to this cluster, and the Installation's own namespace. Immutable.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="destination is immutable: delete the Installation and create another one"
	Destination *Destination `json:"destination,omitempty"`
	// Labels and annotations for the destination namespace. What others put there stays.
	// +optional
	Namespace *NamespaceMetadata `json:"namespace,omitempty"`
	// Manifests, in order.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Manifests []ManifestSource `json:"manifests"`
	// Namespaces whose objects stay there, instead of going to the destination namespace.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	KeepNamespaces []string `json:"keepNamespaces,omitempty"`
	// Patches to the manifests, as the field of this name of a kustomization: strategic merge or JSON 6902. They see the
	// manifests' own namespaces.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Patches []ManifestPatch `json:"patches,omitempty"`
	// Images that the manifests name and others that are used instead, as the field of this name of a kustomization.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	Images []ManifestImage `json:"images,omitempty"`
	// How many replicas workloads have, as the field of this name of a kustomization.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Replicas []ManifestReplicas `json:"replicas,omitempty"`
	// What is left when the Installation is deleted.
	// +optional
	// +kubebuilder:default={namespace: DeleteIfCreated, crds: Keep}
	DeletionPolicy InstallationDeletionPolicy `json:"deletionPolicy,omitempty"`
	// Existing objects that may be taken over. Without being listed, an object that exists already is refused.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Adopt []AdoptRef `json:"adopt,omitempty"`
	// Not taken: the former place of destination.clusterProfileRef, declared so that it is refused with what to write instead.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	ClusterProfileRef *LegacyClusterProfileRef `json:"clusterProfileRef,omitempty"`
}

// LegacyClusterProfileRef is what stood where destination stands now.
type LegacyClusterProfileRef struct{}

// Destination is a namespace of the cluster that a ClusterProfile names.
type Destination struct {
	// A ClusterProfile of the Cluster Inventory API (KEP-4322).
	// +required
	ClusterProfileRef ClusterProfileRef `json:"clusterProfileRef"`
	// Namespace there. It is created if need be.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace"`
}

// NamespaceMetadata is what a namespace is given.
type NamespaceMetadata struct {
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Labels map[string]string `json:"labels,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Annotations map[string]string `json:"annotations,omitempty"`
}

// ManifestSource is where manifests are: YAML or JSON, many documents.
//
// +kubebuilder:validation:XValidation:rule="[has(self.configMapRef), has(self.secretRef), has(self.inline)].filter(x, x).size() == 1",message="expected exactly one of configMapRef, secretRef and inline"
type ManifestSource struct {
	// A ConfigMap in the Installation's namespace.
	// +optional
	ConfigMapRef *ManifestKeyRef `json:"configMapRef,omitempty"`
	// A Secret in the Installation's namespace.
	// +optional
	SecretRef *ManifestKeyRef `json:"secretRef,omitempty"`
	// The manifests themselves.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=524288
	Inline *string `json:"inline,omitempty"`
}

// ManifestKeyRef names a key of a ConfigMap or Secret, or all of its keys.
type ManifestKeyRef struct {
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`
	// Key in it; without it all keys, sorted. A key's text may be gzipped (in binaryData, or in a Secret).
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// ManifestPatch changes objects of the manifests.
type ManifestPatch struct {
	// The patch: a part of an object (strategic merge), or a list of operations (JSON 6902, RFC 6902).
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Patch string `json:"patch"`
	// What is patched; without it the object that a strategic merge patch names itself.
	// +optional
	Target *PatchTarget `json:"target,omitempty"`
}

// PatchTarget selects objects. Group, version, kind, namespace and name are regular expressions that match as a whole.
type PatchTarget struct {
	// +optional
	Group string `json:"group,omitempty"`
	// +optional
	Version string `json:"version,omitempty"`
	// +optional
	Kind string `json:"kind,omitempty"`
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// +optional
	Name string `json:"name,omitempty"`
	// +optional
	LabelSelector string `json:"labelSelector,omitempty"`
	// +optional
	AnnotationSelector string `json:"annotationSelector,omitempty"`
}

// ManifestImage says which image is used instead of one that the manifests name.
//
// +kubebuilder:validation:XValidation:rule="has(self.newName) || has(self.newTag) || has(self.digest)",message="expected newName, newTag or digest"
// +kubebuilder:validation:XValidation:rule="!(has(self.newTag) && has(self.digest))",message="expected newTag or digest, not both"
type ManifestImage struct {
	// Name as the manifests have it, without tag and digest.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Name string `json:"name"`
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	NewName string `json:"newName,omitempty"`
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	NewTag string `json:"newTag,omitempty"`
	// +optional
	// +kubebuilder:validation:Pattern=`^[a-z0-9]+:[a-f0-9]{32,}$`
	// +kubebuilder:validation:MaxLength=256
	Digest string `json:"digest,omitempty"`
}

// ManifestReplicas says how many replicas the workloads of a name have.
type ManifestReplicas struct {
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// +required
	// +kubebuilder:validation:Minimum=0
	Count int64 `json:"count"`
}

// InstallationDeletionPolicy says what is left when an Installation is deleted.
type InstallationDeletionPolicy struct {
	// The destination namespace, and others that were created: gone when the Installation created them, or kept.
	// +optional
	// +kubebuilder:default=DeleteIfCreated
	Namespace NamespaceDeletion `json:"namespace,omitempty"`
	// CustomResourceDefinitions: kept, or deleted once no object of theirs is left that others made.
	// +optional
	// +kubebuilder:default=Keep
	CRDs CRDDeletion `json:"crds,omitempty"`
}

// AdoptRef names an object on the destination cluster.
type AdoptRef struct {
	// Empty for the core group.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// Namespace there; empty for what is cluster-scoped.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// InstallationStatus is how an Installation stands.
type InstallationStatus struct {
	// TargetClusterResolved, Applied, Available and Ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// The generation that the conditions speak of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Namespace that the manifests go to.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// UID of the destination cluster's namespace kube-system, by which the cluster is told from another one.
	// +optional
	ClusterUID string `json:"clusterUID,omitempty"`
	// Server is the URL that the destination cluster is reached at.
	// +optional
	Server string `json:"server,omitempty"`
	// Revision is a hash of what was applied in full last.
	// +optional
	Revision string `json:"revision,omitempty"`
	// How many objects the inventory has.
	// +optional
	Objects int32 `json:"objects,omitempty"`
	// What is, or may be, on the destination cluster; the lock there has the same.
	// +optional
	// +listType=atomic
	Inventory []InventoryEntry `json:"inventory,omitempty"`
	// What the component made itself in the destination namespace, and nobody owns. It goes with the namespace, or is left.
	// +optional
	// +listType=atomic
	Leftovers []InventoryEntry `json:"leftovers,omitempty"`
}

// InventoryEntry names an object on the destination cluster.
type InventoryEntry struct {
	// +optional
	Group string `json:"group,omitempty"`
	// +required
	Version string `json:"version"`
	// +required
	Kind string `json:"kind"`
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// +required
	Name string `json:"name"`
}

// InstallationList is a list of Installations.
//
// +kubebuilder:object:root=true
type InstallationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Installation `json:"items"`
}
