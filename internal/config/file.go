package config

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus.dev/isthmus/internal/boundary"
)

// The tags of the types in this file, beside json: required, default (a value), computed (a default that depends on
// something else, in words), enum, later (values that a later version will have), min, max, minItems, pattern, example,
// and plugin (a key for vCluster plugins alone). See Fields.

// File is the whole file. Each of its rules names one kind that may cross; a kind that none names never does.
type File struct {
	// Version of the file format.
	Version string `json:"version" required:"true" enum:"v1"`
	// Level of the log; each level holds the ones before it.
	LogLevel LogLevel `json:"log_level" enum:"error,warn,info,debug,trace" default:"info"`
	// Whether Events are written on the sources to tell what happened to them.
	EventsEnabled bool `json:"events_enabled" default:"true"`
	// Number of objects that each rule handles at once, for the rules that do not set `workers`.
	MaxConcurrentReconciles int `json:"max_concurrent_reconciles" default:"2" min:"1" max:"100"`
	// What twins are called. `SameName` keeps names, and namespaces follow `namespaces`. `VirtualCluster` uses the scheme
	// of vCluster: all namespaces land in the virtual cluster's host namespace, under names that vCluster would give; in a
	// vCluster plugin it is the default.
	Naming Naming `json:"naming" enum:"SameName,VirtualCluster" default:"SameName"`
	// The virtual cluster that the local cluster is. Required for, and only with, `naming: VirtualCluster`; a vCluster
	// plugin knows it without being told.
	VirtualCluster VirtualCluster `json:"virtualCluster"`
	// Known from other plugins, and without effect: events that change nothing of what crosses are always left out.
	DisableEventFiltering bool `json:"disable_event_filtering" default:"false"`
	// Filters on namespaces for all rules.
	GlobalFilters GlobalFilters `json:"globalFilters"`
	// The counterparts of local namespaces: local name to remote name. Absent, every namespace has the counterpart of
	// the same name, except those that start with `kube-`. Present, only the namespaces listed have one, and nothing
	// else crosses. Two local namespaces may share a counterpart. A remote namespace can't start with `kube-`.
	// With `naming: VirtualCluster` it can't be set.
	Namespaces map[string]string `json:"namespaces" minItems:"1" example:"{team-a: tenant-42-team-a}"`
	// Whether a counterpart that does not exist is created. If false, objects wait until someone creates it. If true,
	// rights are needed in all remote namespaces, for none can be given in one that is not there yet.
	CreateNamespaces bool `json:"createNamespaces" default:"false"`
	// What happens when sources are found missing rather than seen being deleted, and their twins are more than half of
	// a rule's and at least five: `Pause` holds those deletes until someone confirms them, `Allow` carries them out.
	MassDeletion boundary.MassDeletion `json:"massDeletion" enum:"Pause,Allow" default:"Pause"`
	// Labels that every twin gets. A rule's `extraLabels` win over them.
	GlobalExtraLabels map[string]string `json:"globalExtraLabels" example:"{example.io/tenant: blue}"`
	// The rules.
	SyncResources []SyncResource `json:"syncResources"`
	// What happens when this configuration, or what vCluster says of itself, is faulty: with `Ignore` nothing crosses, which
	// is reported, and the tenant's control plane starts; with `Abort` it does not start. Only in a vCluster plugin.
	FailurePolicy FailurePolicy `json:"failurePolicy" enum:"Ignore,Abort" default:"Ignore" plugin:"true"`
	// Address for `/healthz`, `/readyz`, `/metrics` and `/status`. Only in a vCluster plugin; elsewhere it is the flag `--listen`.
	Listen string `json:"listen" default:":8082" example:"127.0.0.1:8082" plugin:"true"`
	// Name of the virtual cluster in stamps, a DNS label, the same for good. Only in a vCluster plugin; elsewhere it is the
	// flag `--cluster-id`.
	ClusterID string `json:"clusterID" computed:"the virtual cluster's name, and a hash of it and of the host namespace" example:"my-vcluster" plugin:"true"`
	// Name of the host cluster in stamps, a DNS label, the same for good. Only in a vCluster plugin; elsewhere it is the
	// flag `--remote-id`.
	RemoteID string `json:"remoteID" default:"host" plugin:"true"`
	// Tells several Isthmuses apart that serve one virtual cluster. Only in a vCluster plugin; elsewhere it is the flag
	// `--instance`.
	Instance string `json:"instance" default:"default" plugin:"true"`
}

// FailurePolicy says what a plugin does about a configuration that it can't run.
type FailurePolicy string

// The policies.
const (
	FailureIgnore FailurePolicy = "Ignore"
	FailureAbort  FailurePolicy = "Abort"
)

// Naming is a scheme of names.
type Naming string

// The schemes.
const (
	NamingSameName       Naming = "SameName"
	NamingVirtualCluster Naming = "VirtualCluster"
)

// VirtualCluster is a virtual cluster of vCluster.
type VirtualCluster struct {
	// Name of the virtual cluster, as vCluster knows it.
	Name string `json:"name" required:"true" example:"my-vcluster"`
	// Namespace of the host cluster in which it runs.
	HostNamespace string `json:"hostNamespace" required:"true" example:"vcluster-my-vcluster"`
}

// LogLevel is how much is logged.
type LogLevel string

// The log levels, each holding the ones before it.
const (
	LogError LogLevel = "error"
	LogWarn  LogLevel = "warn"
	LogInfo  LogLevel = "info"
	LogDebug LogLevel = "debug"
	LogTrace LogLevel = "trace"
)

// GlobalFilters are filters on namespaces that hold for all rules. What they exclude never crosses. What they include is
// what a rule without `matchNamespaces` of its own takes from. Kinds that have no namespace ignore them.
type GlobalFilters struct {
	// What may cross, for rules without `matchNamespaces`. Absent: everything that is not excluded.
	Include []GlobalFilter `json:"include" minItems:"1"`
	// What does not cross, whatever a rule says.
	Exclude []GlobalFilter `json:"exclude" minItems:"1"`
}

// GlobalFilter is a choice of kinds in namespaces. At least one of its fields must be there.
type GlobalFilter struct {
	// A namespace, or a glob with `*`, `?` and `[a-z]`.
	Namespace string `json:"namespace" default:"*" pattern:"^[-a-z0-9*?\\[\\]\\\\^]+$" example:"team-*"`
	// Kinds, each as `Kind` or `group/version/Kind`. Absent: all kinds.
	Resources []string `json:"resources" minItems:"1" example:"[Secret, example.io/v1/Widget]"`
}

// SyncResource is one rule: a kind that may cross, where to, and how. Several rules may name one kind if their
// selectors or namespaces keep them apart, but only in one version.
type SyncResource struct {
	// Name of the rule in stamps, metrics, Events and messages; unique in the file. Keep it when you change the rule:
	// a rule under a new name is another rule.
	Name string `json:"name" computed:"<kind>-<direction>" pattern:"^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$" example:"Widget-toHost"`
	// Group and version of the kind, in which it is read and written: `v1`, `apps/v1`, `example.io/v1alpha1`.
	APIVersion string `json:"apiVersion" required:"true" pattern:"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[a-z]([-a-z0-9]*[a-z0-9])?$" example:"example.io/v1"`
	// The kind, as manifests write it.
	Kind string `json:"kind" required:"true" pattern:"^[A-Za-z]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?$" example:"Widget"`
	// Where the objects go: `toHost` carries local objects to the remote cluster, `fromHost` copies remote objects to the
	// local one. Under `naming: VirtualCluster` the latter come from the virtual cluster's own host namespace.
	Direction string `json:"direction" required:"true" enum:"toHost,fromHost"`
	// How they go: in `sync` the source's side owns the object, and the twin follows it. In `mirror` the twin is a
	// read-only import, status included, that is made again when someone deletes it; with `toHost` that is `sync` without
	// status.
	Mode string `json:"mode" enum:"sync,mirror" default:"sync"`
	// Whether the twin's status is brought back to the source. The kind must have the status subresource. Only with
	// `direction: toHost`.
	StatusSync bool `json:"statusSync" default:"false"`
	// For objects that have twins on several remotes, by one `isthmus sync` for each: the remote whose twins' status
	// returns, by its `--remote-id`. Towards any other remote the rule returns no status. Only with `statusSync: true`.
	StatusFrom string `json:"statusFrom" computed:"the remote that it runs towards" pattern:"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$" example:"provider"`
	// Which objects cross. Absent: all of them.
	Selector Selector `json:"selector"`
	// What an object's annotations have to say about crossing. `All`: nothing. `AllowList`: only objects annotated
	// `isthmus.dev/allow-reflection: "true"` cross. `DenyList`: all cross but those annotated
	// `isthmus.dev/skip-reflection: "true"`.
	Policy boundary.Policy `json:"policy" enum:"All,AllowList,DenyList" default:"All"`
	// References in an object that are translated on the way, and back in its status. What no patch names crosses as it
	// is written.
	Patches []Patch `json:"patches" minItems:"1" example:"[{path: spec.secretName, type: rewriteName}]"`
	// The local namespace that imports go in, unless the remote object says otherwise by the annotations
	// `isthmus.dev/target-namespace` and `isthmus.dev/target-name` (or those under `kupe.cloud/`). It is created if need
	// be. Only with `direction: fromHost`.
	TargetNamespace string `json:"targetNamespace" example:"platform"`
	// Whether imports are labelled so that vCluster's own syncers leave them alone. Only with `direction: fromHost`.
	VirtualControlledBy bool `json:"virtualControlledBy" default:"false"`
	// Whether the kind is cluster-scoped. Such kinds cross as a mirror with `direction: fromHost`, or with
	// `naming: VirtualCluster`. `isthmus rbac` needs to be told where it can't ask a cluster.
	ClusterScoped bool `json:"clusterScoped" default:"false"`
	// A host namespace that several virtual clusters share, in which the rule's twins go instead of the virtual cluster's
	// own. It must exist. RBAC can't tell its objects apart: whoever may read one tenant's may read them all, so do not
	// put Secrets there. Only with `naming: VirtualCluster`.
	HostNamespace string `json:"hostNamespace" example:"argocd"`
	// Whether the project that an object names is always the tenant's: `spec.project` of an Argo CD Application,
	// `data.project` of an Argo CD repository Secret. The tenant is read from the host namespace's name, which must be
	// `vcluster-<tenant>--<cluster>` with no further `--`. Only with `naming: VirtualCluster`.
	EnforceTenantProject bool `json:"enforceTenantProject" default:"false"`
	// Known from other plugins: whether translated label selectors also ask for the labels of their owner. They always
	// do, for otherwise they would select other tenants' objects.
	SelectorIncludeOwnerLabels bool `json:"selectorIncludeOwnerLabels" default:"true"`
	// Whether objects cross that other systems (vCluster, Liqo, the kupe plugin) marked as copies of theirs.
	IncludeForeignCopies bool `json:"includeForeignCopies" default:"false"`
	// Fields that belong to the remote side, beside those that do so by default: they are neither copied nor removed,
	// and a change of them is not put back. A path is a top-level field or deeper, `metadata.labels["key"]` or
	// `metadata.annotations["key"]`; not `apiVersion`, `kind`, other metadata, `status`, or `spec` as a whole.
	HostOwnedFields []string `json:"hostOwnedFields" computed:"by kind, e.g. operation for an Argo CD Application" example:"[spec.replicas]"`
	// What becomes of fields that others add to a twin beside the source's. `Shared` leaves them. `Exclusive` takes them
	// out, once; what comes back is left, and reported. Labels and annotations of others, `status`, and what belongs to
	// the remote side (`hostOwnedFields`, and by default) stay in any case.
	SpecOwnership boundary.SpecOwnership `json:"specOwnership" enum:"Shared,Exclusive" default:"Shared"`
	// Label and annotation keys that do not cross, beside those that never do. An entry is a key, or `prefix/*`.
	DropKeys []string `json:"dropKeys" example:"[example.io/*]"`
	// Label and annotation keys that cross although they do not by default. An entry is a key, or `prefix/*`. Keys
	// under `isthmus.dev/`, `vcluster.loft.sh/`, `kupe.cloud/` and `offloading.liqo.io/` never cross.
	KeepKeys []string `json:"keepKeys" example:"[meta.helm.sh/*]"`
	// What happens to the rule's twins when the rule is removed from the file. `Delete` deletes them, `Orphan` leaves
	// them and takes Isthmus's marks off.
	OnRemoval boundary.RemovalPolicy `json:"onRemoval" enum:"Delete,Orphan" default:"Delete"`
	// What a deleted source waits for. `Background`: nothing, its twin goes after it. `Foreground`: a finalizer holds it
	// until its twin is gone; the annotation `isthmus.dev/release: "true"` lets it go at once. Only with
	// `direction: toHost`. The right to patch the sources is needed.
	DeletionPolicy boundary.DeletionPolicy `json:"deletionPolicy" enum:"Background,Foreground" default:"Background"`
	// Finalizers of sources whose controller is on the remote side: twins carry them, and a deleted source that has one
	// waits until its twin is gone, and loses it then. Only with `direction: toHost`. The right to patch the sources is
	// needed.
	CarryFinalizers []string `json:"carryFinalizers" minItems:"1" example:"[resources-finalizer.argocd.argoproj.io]"`
	// What happens when someone else deletes a twin whose source stands. `Recreate` creates it again, `Hold` leaves it.
	OnTwinDeleted boundary.TwinDeletedPolicy `json:"onTwinDeleted" enum:"Recreate,Hold" computed:"by kind: Hold for kinds that run to completion, such as Job, otherwise Recreate"`
	// Number of the rule's objects handled at once.
	Workers int `json:"workers" min:"1" max:"100" computed:"max_concurrent_reconciles"`
	// Labels that the rule's twins get. They win over `globalExtraLabels` and over the source's own labels. Keys under
	// `isthmus.dev/`, `vcluster.loft.sh/`, `kupe.cloud/` and `offloading.liqo.io/` are reserved.
	ExtraLabels map[string]string `json:"extraLabels" example:"{example.io/tenant: green}"`
}

// Patch is a reference that is translated. Of several patches that hold for a place the one with the most specific path
// wins.
type Patch struct {
	// Where the reference is: fields with dots, `[*]` for every item of a list, `[0]` for one, `["key"]` for a field whose
	// name holds a dot. Of metadata only `metadata.annotations["key"]`. A path under `status` holds on the way back.
	Path string `json:"path" required:"true" example:"spec.rules[*].backendRefs[*]"`
	// What is there. `rewriteName`: the name of an object in the source's namespace, or in the one that a field
	// `namespace` beside it names. `rewriteNamespace`: the name of a namespace. `rewriteRef`: an object with `name`, and
	// where present `namespace`, `kind`, and `group` or `apiVersion`. `rewriteHostRef`: a reference to something of the
	// remote side's own: its name stays, a namespace becomes the twin's. `rewriteLabelSelector`: a label selector, or a map
	// of labels. `none`: nothing to translate, also where a broader patch says otherwise.
	Type boundary.PatchType `json:"type" required:"true" enum:"rewriteName,rewriteNamespace,rewriteRef,rewriteHostRef,rewriteLabelSelector,none"`
}

// Selector is the choice of the objects that a rule takes: those that match all of its fields.
type Selector struct {
	// Labels that an object must have, with these values.
	MatchLabels map[string]string `json:"matchLabels" example:"{example.io/share: \"true\"}"`
	// Further requirements on an object's labels.
	MatchExpressions []SelectorRequirement `json:"matchExpressions"`
	// Namespaces to take objects from, as names or globs with `*`, `?` and `[a-z]`; this overrides
	// `globalFilters.include`. Absent: what the global filter includes, or else all namespaces.
	MatchNamespaces []string `json:"matchNamespaces" minItems:"1" example:"[team-a, dev-*]"`
	// Namespaces to take nothing from, as names or globs. Exclusion wins over inclusion.
	ExcludeNamespaces []string `json:"excludeNamespaces" minItems:"1" example:"[dev-scratch]"`
}

// SelectorRequirement is a requirement on one label.
type SelectorRequirement struct {
	// Key of the label.
	Key string `json:"key" required:"true" example:"example.io/tier"`
	// How the label relates to the values.
	Operator metav1.LabelSelectorOperator `json:"operator" required:"true" enum:"In,NotIn,Exists,DoesNotExist"`
	// The values. At least one for `In` and `NotIn`, none for `Exists` and `DoesNotExist`.
	Values []string `json:"values" example:"[web, api]"`
}
