package v1alpha1

import (
	"cmp"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NamespaceRequestFinalizer keeps a NamespaceRequest until the namespace that it made, and the rights there, are gone.
const NamespaceRequestFinalizer = "isthmus.dev/namespace-request"

// AllResources, among the resources of an AllowedResources, stands for all of its group.
const AllResources = "*"

// ConsumerFinalizer keeps a Consumer until all its rights are removed: once it is gone, it is out.
const ConsumerFinalizer = "isthmus.dev/consumer"

// ConsumerNamespacePrefix and a consumer's name are the name of its own namespace on the provider, where its
// NamespaceRequests are.
const ConsumerNamespacePrefix = "isthmus-consumer-"

// GiveToAnnotation, on a namespace that its owner made, names the consumer that may have it (N4).
const GiveToAnnotation = "isthmus.dev/give-to"

// ConsentAnnotation, on a consumer's namespace on the provider, says how it became that: ConsentCreated or ConsentGiven.
const ConsentAnnotation = "isthmus.dev/consent"

// The values of ConsentAnnotation.
const (
	// ConsentCreated: the provider's controller created the namespace, and deletes it with its NamespaceRequest.
	ConsentCreated = "Created"
	// ConsentGiven: its owner gave it, and has it back when its NamespaceRequest goes.
	ConsentGiven = "Given"
)

// Consumer is somebody that a provider lets in: who it is, which kinds it may write, and in which namespaces. It is written
// by the provider's operator. Its name is the consumer's cluster ID.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=isthmus
// +kubebuilder:printcolumn:name=Subject,type=string,JSONPath=.spec.subject.name
// +kubebuilder:printcolumn:name=Namespaces,type=integer,JSONPath=.status.namespaces
// +kubebuilder:printcolumn:name=Ready,type=string,JSONPath=.status.conditions[?(@.type=="Ready")].status
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=.metadata.creationTimestamp
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([a-z0-9-]{0,43}[a-z0-9])?$')",message="the name is the consumer's cluster ID: at most 45 lower-case letters, digits and -"
type Consumer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec ConsumerSpec `json:"spec"`
	// +optional
	Status ConsumerStatus `json:"status,omitempty"`
}

// ConsumerSpec says who the consumer is, and what it may have.
type ConsumerSpec struct {
	// Who it is: the User, Group or ServiceAccount that its credential authenticates as.
	// +required
	Subject Subject `json:"subject"`
	// The kinds that it may have in its namespaces.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	Resources []AllowedResources `json:"resources"`
	// The namespaces that it may ask for.
	// +required
	Namespaces AllowedNamespaces `json:"namespaces"`
}

// Subject is a User, a Group, or a ServiceAccount.
//
// +kubebuilder:validation:XValidation:rule="(self.kind == 'ServiceAccount') == has(self.namespace)",message="namespace goes with kind: ServiceAccount, and with it alone"
type Subject struct {
	// +required
	// +kubebuilder:validation:Enum=User;Group;ServiceAccount
	Kind string `json:"kind"`
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Name string `json:"name"`
	// Namespace of a ServiceAccount.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace,omitempty"`
}

// RBAC returns the subject as RBAC's API has it.
func (s Subject) RBAC() rbacv1.Subject {
	subject := rbacv1.Subject{Kind: s.Kind, Name: s.Name, Namespace: s.Namespace}
	if s.Kind != rbacv1.ServiceAccountKind {
		subject.APIGroup = rbacv1.GroupName
	}
	return subject
}

// CrossingAccess says what a consumer may do with a kind.
//
// +kubebuilder:validation:Enum=Write;Read
type CrossingAccess string

// The accesses.
const (
	// AccessWrite: what a Crossing in direction ToRemote needs.
	AccessWrite CrossingAccess = "Write"
	// AccessRead: what a Crossing in direction FromRemote needs.
	AccessRead CrossingAccess = "Read"
)

// AllowedResources are kinds of one API group.
type AllowedResources struct {
	// API group; empty: the core group.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$`
	Group string `json:"group,omitempty"`
	// Plurals, in lower case, without subresources; "*" stands for all of the group. The core group's namespaces are never
	// given: who may change a namespace may change whose it is.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^(\*|[a-z]([-a-z0-9]*[a-z0-9])?)$`
	Resources []string `json:"resources"`
	// Write (which holds Read), or Read.
	// +optional
	// +kubebuilder:default=Write
	Access CrossingAccess `json:"access,omitempty"`
}

// AllowedNamespaces are the namespaces that a consumer may ask for.
type AllowedNamespaces struct {
	// Names, or globs with * and ?. Namespaces that start with kube- or isthmus-, and default, are never given.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9*?]([-a-z0-9*?]*[a-z0-9*?])?$`
	Patterns []string `json:"patterns"`
	// How many at once. A lower number takes none away: it bars new ones.
	// +optional
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=0
	Max int32 `json:"max,omitempty"`
}

// ConsumerStatus is what a consumer has.
type ConsumerStatus struct {
	// Ready: its own namespace and its rights there are made.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// How many namespaces it has.
	// +optional
	Namespaces int32 `json:"namespaces"`
	// Namespace in which it asks for them.
	// +optional
	RequestNamespace string `json:"requestNamespace,omitempty"`
}

// ConsumerList is a list of Consumers.
//
// +kubebuilder:object:root=true
type ConsumerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Consumer `json:"items"`
}

// NamespaceRequest asks the provider for a namespace. The consumer's Isthmus writes it, in the consumer's own namespace;
// its name is that of the namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=isthmus,shortName=nsr
// +kubebuilder:printcolumn:name=Ready,type=string,JSONPath=.status.conditions[?(@.type=="Ready")].status
// +kubebuilder:printcolumn:name=Reason,type=string,JSONPath=.status.conditions[?(@.type=="Ready")].reason
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=.metadata.creationTimestamp
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$')",message="the name is that of the namespace: at most 63 lower-case letters, digits and -"
type NamespaceRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec NamespaceRequestSpec `json:"spec"`
	// +optional
	Status NamespaceRequestStatus `json:"status,omitempty"`
}

// NamespaceRequestSpec says what is asked for.
type NamespaceRequestSpec struct {
	// The consumer's namespace that it is for.
	// +required
	Source SourceNamespace `json:"source"`
	// The kinds that are to cross.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Resources []RequestedResource `json:"resources,omitempty"`
}

// SourceNamespace is a namespace of a consumer.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="source is immutable: delete the NamespaceRequest and create another one"
type SourceNamespace struct {
	// Name of the namespace.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// UID of the consumer's namespace kube-system.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?$`
	ClusterUID string `json:"clusterUID"`
	// Instance of the Isthmus that asks, of which a cluster may have several.
	// +optional
	// +kubebuilder:default=controller
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Instance string `json:"instance,omitempty"`
}

// RequestedResource is a kind that is to cross.
type RequestedResource struct {
	// API group; empty: the core group.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$`
	Group string `json:"group,omitempty"`
	// Plural, in lower case, without a subresource.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Resource string `json:"resource"`
	// Write, for twins, or Read, for what is mirrored.
	// +optional
	// +kubebuilder:default=Write
	Access CrossingAccess `json:"access,omitempty"`
}

// Compare orders resources by group, plural and access.
func (r RequestedResource) Compare(o RequestedResource) int {
	return cmp.Or(cmp.Compare(r.Group, o.Group), cmp.Compare(r.Resource, o.Resource), cmp.Compare(r.Access, o.Access))
}

// The reasons of a NamespaceRequest's Ready.
const (
	ReasonGranted         = "Granted"
	ReasonNotAllowed      = "NameNotAllowed" // no pattern of the Consumer admits the name
	ReasonTooMany         = "TooManyNamespaces"
	ReasonTaken           = "NamespaceTaken" // it is somebody else's
	ReasonNoConsumer      = "NoConsumer"
	ReasonNoResources     = "NoResources" // nothing that is asked for is allowed
	ReasonNamespaceGoing  = "NamespaceTerminating"
	ReasonProviderFailure = "ProviderFailure"
)

// NamespaceRequestStatus is what was granted.
type NamespaceRequestStatus struct {
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Ready: the namespace is there, and so are the rights in it.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// The kinds that are granted.
	// +optional
	// +listType=atomic
	Granted []RequestedResource `json:"granted,omitempty"`
	// The kinds that are asked for and not allowed.
	// +optional
	// +listType=atomic
	Refused []RequestedResource `json:"refused,omitempty"`
}

// NamespaceRequestList is a list of NamespaceRequests.
//
// +kubebuilder:object:root=true
type NamespaceRequestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NamespaceRequest `json:"items"`
}
