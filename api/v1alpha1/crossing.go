package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// CrossingFinalizer keeps a Crossing until its twins are settled as onRemoval says, or ReleaseAnnotation lets it go.
const CrossingFinalizer = "isthmus.dev/crossing"

// The conditions of a Crossing.
const (
	// ConditionPermitted: no right is missing on either side.
	ConditionPermitted = "Permitted"
	// ConditionServed: both sides serve the kind.
	ConditionServed = "Served"
	// ConditionActive: objects cross.
	ConditionActive = "Active"
)

// Crossing is one kind that may cross between the offloaded namespaces and their counterparts, one direction, and how.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=isthmus,shortName=cx
// +kubebuilder:printcolumn:name=Resource,type=string,JSONPath=.spec.resource.resource
// +kubebuilder:printcolumn:name=Group,type=string,JSONPath=.spec.resource.group
// +kubebuilder:printcolumn:name=Direction,type=string,JSONPath=.spec.direction
// +kubebuilder:printcolumn:name=Policy,type=string,JSONPath=.spec.policy
// +kubebuilder:printcolumn:name=Active,type=string,JSONPath=.status.conditions[?(@.type=="Active")].status
// +kubebuilder:printcolumn:name=In step,type=integer,JSONPath=.status.inStep
// +kubebuilder:printcolumn:name=Reason,type=string,JSONPath=.status.conditions[?(@.type=="Active")].reason,priority=1
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=.metadata.creationTimestamp
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="the name is in the stamp of every twin: at most 63 characters"
type Crossing struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec CrossingSpec `json:"spec"`
	// +optional
	Status CrossingStatus `json:"status,omitempty"`
}

// CrossingDirection says on which side a Crossing's sources are.
//
// +kubebuilder:validation:Enum=ToRemote;FromRemote
type CrossingDirection string

// The directions.
const (
	// ToRemote: objects of offloaded namespaces get twins in the counterparts.
	ToRemote CrossingDirection = "ToRemote"
	// FromRemote: objects of the counterparts get read-only mirrors in the offloaded namespaces, status included.
	FromRemote CrossingDirection = "FromRemote"
)

// CrossingSpec says what crosses, and how.
//
// +kubebuilder:validation:XValidation:rule="self.resource == oldSelf.resource && self.direction == oldSelf.direction",message="resource and direction are immutable: create another Crossing, then delete this one"
// +kubebuilder:validation:XValidation:rule="self.direction == 'ToRemote' || !has(self.status)",message="a mirror has its source's status: status goes with direction: ToRemote alone"
// +kubebuilder:validation:XValidation:rule="self.direction == 'ToRemote' || self.deletionPolicy == 'Background'",message="deletionPolicy: Foreground goes with direction: ToRemote alone"
type CrossingSpec struct {
	// The kind that crosses. Immutable.
	// +required
	Resource GroupVersionResource `json:"resource"`
	// On which side the sources are: ToRemote, or FromRemote, which makes read-only mirrors. Immutable.
	// +optional
	// +kubebuilder:default=ToRemote
	Direction CrossingDirection `json:"direction,omitempty"`
	// Which objects cross. AllowList: those annotated isthmus.dev/allow-reflection: "true". DenyList: all but those
	// annotated isthmus.dev/skip-reflection: "true". All: all. The same keys under liqo.io/ count alike.
	// +optional
	// +kubebuilder:default=AllowList
	// +kubebuilder:validation:Enum=AllowList;DenyList;All
	Policy string `json:"policy,omitempty"`
	// Labels that objects must have besides.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// The RemoteClusters that it holds for, by their labels. Absent or empty: all.
	// +optional
	RemoteSelector *metav1.LabelSelector `json:"remoteSelector,omitempty"`
	// References to translate.
	// +optional
	// +listType=map
	// +listMapKey=path
	// +kubebuilder:validation:MaxItems=128
	Patches []Patch `json:"patches,omitempty"`
	// Fields that belong to the remote side: they are neither copied nor removed, and a change of them is not put back.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	RemoteOwnedFields []string `json:"remoteOwnedFields,omitempty"`
	// What becomes of what others add to a twin: Shared leaves it, Exclusive takes it out, once.
	// +optional
	// +kubebuilder:default=Shared
	// +kubebuilder:validation:Enum=Shared;Exclusive
	SpecOwnership string `json:"specOwnership,omitempty"`
	// How status returns to the sources.
	// +optional
	Status *StatusReturn `json:"status,omitempty"`
	// What a deleted source waits for: Background: nothing; Foreground: until its twin is gone.
	// +optional
	// +kubebuilder:default=Background
	// +kubebuilder:validation:Enum=Background;Foreground
	DeletionPolicy string `json:"deletionPolicy,omitempty"`
	// What becomes of the twins when the Crossing is deleted: Delete deletes them, Orphan leaves them and takes our marks off.
	// +optional
	// +kubebuilder:default=Delete
	// +kubebuilder:validation:Enum=Delete;Orphan
	OnRemoval string `json:"onRemoval,omitempty"`
	// Number of objects handled at once, for each remote.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Workers int32 `json:"workers,omitempty"`
}

// GroupVersionResource names a kind as the API serves it.
type GroupVersionResource struct {
	// API group; empty: the core group.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$`
	Group string `json:"group,omitempty"`
	// Version in which objects are read and written.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Version string `json:"version"`
	// Resource: the plural, in lower case.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Resource string `json:"resource"`
}

// Schema returns it as apimachinery has it.
func (r GroupVersionResource) Schema() schema.GroupVersionResource {
	return schema.GroupVersionResource(r)
}

// CarriesServices reports whether a Crossing takes Services to remotes, so that their endpoints follow where the controller
// of endpoints runs (E1).
func (c *Crossing) CarriesServices() bool {
	r := c.Spec.Resource
	return r.Group == "" && r.Resource == "services" && c.Spec.Direction != FromRemote
}

// Patch is a reference that is translated.
type Patch struct {
	// Where it is, like spec.rules[*].backendRefs[*].
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Path string `json:"path"`
	// What is there.
	// +required
	// +kubebuilder:validation:Enum=rewriteName;rewriteNamespace;rewriteRef;rewriteHostRef;rewriteLabelSelector;none
	Type string `json:"type"`
}

// StatusReturn says how status returns to the sources.
type StatusReturn struct {
	// Whether it returns. Absent: where both sides have a status subresource.
	// +optional
	Return *bool `json:"return,omitempty"`
	// The RemoteCluster whose status returns, where a namespace has several.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	From string `json:"from,omitempty"`
}

// CrossingStatus is how a Crossing stands.
type CrossingStatus struct {
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Permitted, Served and Active.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Objects in step, on all remotes.
	// +optional
	InStep int32 `json:"inStep"`
	// How it stands on each remote.
	// +optional
	// +listType=map
	// +listMapKey=cluster
	Remotes []CrossingRemote `json:"remotes,omitempty"`
}

// CrossingRemote is how a Crossing stands on one remote: numbers of objects, by state.
type CrossingRemote struct {
	// Name of the RemoteCluster.
	// +required
	Cluster string `json:"cluster"`
	// Objects whose twin, and returned status, are as they should be.
	InStep int32 `json:"inStep"`
	// Objects that are on their way, or that wait for something.
	Behind int32 `json:"behind"`
	// Objects whose place is taken by a foreign object or another source.
	Conflict int32 `json:"conflict"`
	// Objects that were refused, by the remote or by a rule of ours.
	Refused int32 `json:"refused"`
	// Deletes that are held until somebody confirms them.
	Paused int32 `json:"paused"`
	// Why nothing crosses; empty: it does.
	// +optional
	Reason string `json:"reason,omitempty"`
}

// CrossingList is a list of Crossings.
//
// +kubebuilder:object:root=true
type CrossingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Crossing `json:"items"`
}
