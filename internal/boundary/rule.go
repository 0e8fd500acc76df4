package boundary

import (
	"path"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Direction says which side a rule's sources live on.
type Direction string

// The directions.
const (
	// ToRemote carries objects of the local cluster to the remote one ("toHost" in a file).
	ToRemote Direction = "ToRemote"
	// FromRemote copies objects of the remote cluster to the local one ("fromHost" in a file).
	FromRemote Direction = "FromRemote"
)

// Mode says what a twin is to its source.
type Mode string

// The modes (M).
const (
	// ModeSync: the source's side owns the object, and the twin follows it (M1).
	ModeSync Mode = "Sync"
	// ModeMirror: the twin is a read-only import, status included (M2).
	ModeMirror Mode = "Mirror"
)

// Policy says which of the objects that the selectors admit may cross (S3).
type Policy string

// The policies of S3.
const (
	// PolicyAll lets every selected object cross.
	PolicyAll Policy = "All"
	// PolicyAllowList lets only objects cross that are annotated to allow it.
	PolicyAllowList Policy = "AllowList"
	// PolicyDenyList lets all objects cross but those that are annotated to skip it.
	PolicyDenyList Policy = "DenyList"
)

// RemovalPolicy says what becomes of a rule's twins when the rule is removed (D5).
type RemovalPolicy string

// What a removed rule does with its twins.
const (
	RemovalDelete RemovalPolicy = "Delete"
	RemovalOrphan RemovalPolicy = "Orphan"
)

// TwinDeletedPolicy says what happens when others delete a twin while its source stands (D4).
type TwinDeletedPolicy string

// What follows the deletion of a twin by others.
const (
	TwinDeletedRecreate TwinDeletedPolicy = "Recreate"
	TwinDeletedHold     TwinDeletedPolicy = "Hold"
)

// SpecOwnership says what becomes of what others add to a twin in the source's fields (O4).
type SpecOwnership string

// What becomes of what others add.
const (
	// OwnershipShared leaves it.
	OwnershipShared SpecOwnership = "Shared"
	// OwnershipExclusive takes it out, once.
	OwnershipExclusive SpecOwnership = "Exclusive"
)

// MassDeletion says what the guard does when inference would delete most twins of a flow (F8).
type MassDeletion string

// The settings of the guard.
const (
	MassDeletionPause MassDeletion = "Pause"
	MassDeletionAllow MassDeletion = "Allow"
)

// Rule is one kind that may cross, one direction, and how. The zero value of no field is valid unless it says so:
// internal/config fills in the defaults.
type Rule struct {
	// Name names the rule in stamps, the ledger, metrics and messages; unique among all rules of an Isthmus.
	Name string
	// Kind is the kind that crosses, in the version in which it is read and written.
	Kind schema.GroupVersionKind
	// Direction says where the sources live.
	Direction Direction
	// Mode is what a twin is to its source; a mirror only in direction FromRemote.
	Mode Mode
	// Policy is the opt-in or opt-out by annotation.
	Policy Policy
	// Selector selects sources by label; labels.Everything() selects all.
	Selector labels.Selector
	// Namespaces filters the sources' namespaces.
	Namespaces NamespaceFilter
	// ReturnStatus brings the twin's status back to the source.
	ReturnStatus bool
	// StatusFrom is the cluster ID of the remote whose twins' status returns, where a source has twins on several (T5);
	// empty: of the only one.
	StatusFrom string
	// SpecOwnership says what becomes of what others add to the twin; empty: Shared.
	SpecOwnership SpecOwnership
	// RemoteOwned lists paths that belong to the target side beside those of the table of defaults (O3).
	RemoteOwned []Path
	// ExtraLabels are set on the twin and win over the source's (O2).
	ExtraLabels map[string]string
	// DropKeys and KeepKeys change the list of label and annotation keys that do not cross (P2). An entry is a key or
	// a prefix that ends in "/*".
	DropKeys, KeepKeys []string
	// Patches translate the references in a source, and back in its status (X1); nil: none.
	Patches *Patches
	// HostNamespace is a host namespace that several virtual clusters share and in which the twins go; empty: the
	// virtual cluster's own. Only under VirtualCluster naming.
	HostNamespace string
	// TargetNamespace is the local namespace that imports go into, unless their sources say otherwise.
	TargetNamespace string
	// VirtualControlledBy marks imports so that vCluster's own syncers leave them alone.
	VirtualControlledBy bool
	// ClusterScoped lets a cluster-scoped kind cross under vCluster's names (S6).
	ClusterScoped bool
	// TenantProject, when not empty, is written last to where the kind names its project, whatever the source says there
	// (the table of kinds knows where).
	TenantProject string
	// IncludeForeignCopies takes what other systems marked as their copies for sources all the same (S4).
	IncludeForeignCopies bool
	// OnRemoval says what becomes of the twins when the rule is removed.
	OnRemoval RemovalPolicy
	// DeletionPolicy says whether a deleted source waits until its twin is gone (D3); empty: it does not.
	DeletionPolicy DeletionPolicy
	// CarryFinalizers are the finalizers of sources that their twins carry. They hold a deleted source until its twin
	// is gone (D3).
	CarryFinalizers []string
	// OnTwinDeleted says what follows when others delete a twin; empty: the default of the kind.
	OnTwinDeleted TwinDeletedPolicy
	// Workers is the number of objects handled at once; at least 1.
	Workers int
}

// RemovedRule is what the ledger remembers of a rule that is no longer configured (D5).
type RemovedRule struct {
	Name      string
	OnRemoval RemovalPolicy
	// CarryFinalizers are those of the rule.
	CarryFinalizers []string
}

// NamespaceFilter admits namespaces by glob, in the syntax of path.Match. Exclusion wins (S2).
type NamespaceFilter struct {
	// Include admits only what one of its globs matches; empty admits all.
	Include []string
	// Exclude lists globs of namespaces that are not admitted.
	Exclude []string
}

// Admits reports whether objects of the namespace may cross. Cluster-scoped objects are never filtered.
func (f NamespaceFilter) Admits(namespace string) bool {
	if namespace == "" {
		return true
	}
	if matchesAny(f.Exclude, namespace) {
		return false
	}
	return len(f.Include) == 0 || matchesAny(f.Include, namespace)
}

// Literal returns the namespaces that the filter admits when these can be listed: an Include without wildcards,
// less what is excluded. Otherwise ok is false.
func (f NamespaceFilter) Literal() (namespaces []string, ok bool) {
	if len(f.Include) == 0 {
		return nil, false
	}
	for _, glob := range f.Include {
		if hasMeta(glob) {
			return nil, false
		}
		if !matchesAny(f.Exclude, glob) {
			namespaces = append(namespaces, glob)
		}
	}
	return namespaces, true
}

func hasMeta(glob string) bool {
	for _, r := range glob {
		switch r {
		case '*', '?', '[', '\\':
			return true
		}
	}
	return false
}

func matchesAny(globs []string, name string) bool {
	for _, glob := range globs {
		if ok, err := path.Match(glob, name); ok && err == nil {
			return true
		}
	}
	return false
}

// NamespacePairs maps a local namespace to its counterpart on the remote side. Nil gives every namespace the
// counterpart of the same name; otherwise only the namespaces listed have one.
type NamespacePairs map[string]string

// Remote returns the counterpart of a local namespace.
func (p NamespacePairs) Remote(local string) (remote string, ok bool) {
	if p == nil {
		return local, true
	}
	remote, ok = p[local]
	return remote, ok
}

// locals returns the namespaces that have a counterpart, which may be none; nil: any may have one.
func (p NamespacePairs) locals() []string {
	if p == nil {
		return nil
	}
	return append([]string{}, sortedKeys(p)...)
}

// Identity is who decides: it goes into the stamp of every twin (P1).
type Identity struct {
	// Cluster is the cluster ID of the source's cluster, Home that of the writing Isthmus: the same in direction ToRemote.
	Cluster, Home string
	// Instance tells several Isthmuses of one cluster apart.
	Instance string
	// ClusterUID is the UID of the namespace kube-system of the source's cluster.
	ClusterUID string
}

// Writer returns the value of the stamp's annotation "writer".
func (id Identity) Writer() string {
	return id.Home + "/" + id.Instance + "/" + id.ClusterUID
}

// Inverse returns the pairs seen from the other side: remote to local. Where two local namespaces share a counterpart,
// the first by name has it.
func (p NamespacePairs) Inverse() NamespacePairs {
	if p == nil {
		return nil
	}
	inverse := NamespacePairs{}
	for _, local := range sortedKeys(p) {
		if _, taken := inverse[p[local]]; !taken {
			inverse[p[local]] = local
		}
	}
	return inverse
}
