package boundary

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Evidence says how the present state of a source became known.
type Evidence int

// The kinds of evidence.
const (
	// Inferred: from a list, as after a start or a cut watch, or from changed configuration.
	Inferred Evidence = iota
	// Observed: by an event, live.
	Observed
)

// PlaceState is the state of the namespace that a twin belongs in.
type PlaceState struct {
	// Unknown: the other side has not told yet. Missing and Terminating namespaces are waited for, too.
	Unknown, Missing, Terminating bool
	// Creatable: the namespace is created when it is missing.
	Creatable bool
	// Origin is the cluster ID in the namespace's own stamp; empty: it belongs to nobody (N4).
	Origin string
	// Writer is the writer in the namespace's own stamp.
	Writer string
}

// OfAnother reports whether the namespace belongs to another origin, or to another writer of this one (N4).
func (p PlaceState) OfAnother(id Identity) bool {
	return p.Origin != "" && (p.Origin != id.Cluster || p.Writer != id.Writer())
}

// Guard is the state of the mass-deletion guard of a flow (F8).
type Guard struct {
	// Paused holds deletes that were inferred.
	Paused bool
	// Deletes is how many are held, Twins out of how many.
	Deletes, Twins int
}

// Memory is what is remembered of a source's last answer.
type Memory struct {
	// Crossed: the source under this UID has had a twin (D4).
	Crossed bool
	// FaultHash is the hash of the body that the server refused for a fault of its own, Fault what it said, and
	// RetryAt when to try the same body again.
	FaultHash, Fault string
	RetryAt          time.Time
	// Undeclared is what was told last of fields that the other side does not declare (O7).
	Undeclared string
	// Absent is what was told last of references to objects that no rule takes (X3), AbsentSince when a twin was first
	// written with others of that sort; zero: there are none, or they were told.
	Absent      string
	AbsentSince time.Time
	// Wrote is the hash of the body that was written last to the twin, unless that was deleted by us since (O6).
	Wrote string
	// StatusWritten is the hash of the status last written, to the source or to a mirror, of the UID StatusOf, and
	// StatusResult the hash of what the server made of it.
	StatusWritten, StatusResult string
	StatusOf                    types.UID
	// StatusFault identifies the status that the source's cluster refused, and StatusRetryAt says when to try it again.
	StatusFault   string
	StatusRetryAt time.Time
	// StatusContested: it was told that the status could be that of several twins (T5).
	StatusContested bool
	// TwinFight and SourceFight are fights with others who write to the twin and to the source (O6).
	TwinFight, SourceFight *Fight
	// TakenOut is what others had added to the twin (O4).
	TakenOut *TakenOut
}

// Input is everything that a decision depends on.
type Input struct {
	Identity Identity
	// Rules are the rules of the flow; Removed are those that the ledger knows and the configuration does not.
	Rules   []*Rule
	Removed []RemovedRule
	// Waiting names rules that stand, although what they carry can't be said for now.
	Waiting []string
	Naming  Naming

	// Key is the source's namespace and name.
	Key types.NamespacedName
	// Source is the source; nil: it is absent, or no rule selects it.
	Source *unstructured.Unstructured
	// Evidence says how that is known.
	Evidence Evidence
	// Withdrawn: the local namespace of the source, or of an import, was taken out of the pairs by somebody who was seen to
	// do so. It says nothing where the source's namespace has a place all the same.
	Withdrawn bool
	// Unready: the source's namespace and its counterpart are not to be touched for now, so nothing is written or deleted
	// for it on either side.
	Unready bool
	// Confirmed: the right cluster and the right CRD stood behind it, asked after the event (F7). Deletes wait for it.
	Confirmed bool

	// Stamped is the rule in the stamp of a twin of this source, wherever that is; empty: there is none.
	Stamped string
	// MoreTwins: the source has twins on this remote at other places, or may have.
	MoreTwins bool
	// Place is where Twin is, or would be.
	Place types.NamespacedName
	// Twin is the object at Place, with its managedFields; nil: there is none.
	Twin *unstructured.Unstructured
	// Namespace is the state of Place's namespace.
	Namespace PlaceState

	// Remote is the cluster ID of the twin's side. Elsewhere are those of the other remotes that hold a twin of this
	// source; ElsewhereUnknown: some have not told yet (T5).
	Remote           string
	Elsewhere        []string
	ElsewhereUnknown bool

	// Blind: the twins' side can't be looked at, so only what the source alone decides is decided (D3). Trouble says why,
	// or else why that side can't be reached at the moment; empty: nothing is wrong. KindGoing: the CRD of the source
	// is being deleted.
	Blind, KindGoing bool
	Trouble          string

	// Undeclared are the paths of the source that the remote schema does not declare (O7).
	Undeclared []Path
	// Resolve tells about the objects that references name (X3); nil: their kind alone does.
	Resolve Resolver
	// StatusSchema is what the side that status is written to declares of it; nil: anything.
	StatusSchema *Schema
	Memory       Memory
	Guard        Guard
	Now          time.Time
}

// Action is what a decision says to do.
type Action string

// The actions. Each is one write at most, but for a handover or a status that is cleared on the way.
const (
	Nothing Action = "nothing"
	Create  Action = "create"
	Apply   Action = "apply"
	// RemoveFields takes out of the twin what others added (O4).
	RemoveFields Action = "remove-fields"
	Delete       Action = "delete"
	Release      Action = "release"
	ReturnStatus Action = "return-status"
	ClearStatus  Action = "clear-status"
	// MirrorStatus writes a source's status to its mirror (M2).
	MirrorStatus Action = "mirror-status"
	// SetFinalizers sets the source's finalizers: what holds it until its twin is gone comes or goes (D3).
	SetFinalizers Action = "set-finalizers"
	Hold          Action = "hold"
	Refuse        Action = "refuse"
)

// Wait says what a held decision waits for.
type Wait string

// What a Hold or a Refuse waits for.
const (
	// UntilConfirmed: ask the source's cluster and CRD, then decide again.
	UntilConfirmed Wait = "confirmation"
	// UntilTwinGone: the twin is terminating; its deletion brings the next decision.
	UntilTwinGone Wait = "twin gone"
	// UntilPlaceFree: something else is at the twin's place; its deletion brings the next decision.
	UntilPlaceFree Wait = "place free"
	// UntilNamespace: the twin's namespace is missing, terminating or another's, or the pair is not ready.
	UntilNamespace Wait = "namespace"
	// UntilRetry: at Decision.RetryAt.
	UntilRetry Wait = "retry"
	// UntilCalm: at Decision.RetryAt, for others undo what is written (O6).
	UntilCalm Wait = "calm"
	// UntilChange: only a change of the source, the twin or the rules brings a next decision.
	UntilChange Wait = "change"
	// UntilReference: where an object belongs that the source refers to becomes known.
	UntilReference Wait = "reference"
	// UntilGuard: somebody lets the mass deletion go on, or the sources come back.
	UntilGuard Wait = "guard"
)

// Reason is a machine-readable reason of an Event or a refusal.
type Reason string

// The reasons, as Events show them.
const (
	ReasonCreated      Reason = "Created"
	ReasonUpdated      Reason = "Updated"
	ReasonDeleted      Reason = "Deleted"
	ReasonSyncFailed   Reason = "SyncFailed"
	ReasonPatchFailed  Reason = "PatchFailed"
	ReasonCreateFailed Reason = "CreateFailed"
	ReasonUpdateFailed Reason = "UpdateFailed"
	ReasonDeleteFailed Reason = "DeleteFailed"
	// ReasonContention: others write against us, or add again what was taken out.
	ReasonContention Reason = "Contention"
	// ReasonInvalidTargetName: what a source says about its twin's place can't be.
	ReasonInvalidTargetName Reason = "InvalidTargetName"
)

// Event is something to tell on the source.
type Event struct {
	Warning bool
	Reason  Reason
	Message string
}

// Decision is what to do next about one source and one place.
type Decision struct {
	Action Action
	// Rule is the rule that took the source; nil: none.
	Rule *Rule

	// Body is the apply body of Create and Apply; Hash is its hash, or identifies the Patch.
	Body map[string]any
	Hash string
	// Patch is the JSON patch of RemoveFields.
	Patch []map[string]any
	// Handover, when not nil, is applied first as HandoverManager, without force (O3).
	Handover map[string]any

	// Finalizers are all those that the source shall have, for SetFinalizers.
	Finalizers []string

	// UID and ResourceVersion bind Delete, Release, SetFinalizers and status writes to one object (P3).
	UID             types.UID
	ResourceVersion string

	// Status is the value for ReturnStatus and MirrorStatus; StatusHash its hash (also of a cleared one).
	Status     any
	StatusHash string
	// StatusRefused: the source has another status than it should, because its cluster refuses that one.
	StatusRefused bool
	// StatusContested: several twins could have the source's status, and no rule says which one does (T5).
	StatusContested bool
	// ClearFirst: before Delete, remove the status that was returned to the source, if the source still stands under
	// the UID in the twin's stamp (T2).
	ClearFirst bool

	// Until says what Hold and Refuse wait for. RetryAt, when not zero, is when to decide again whatever happens, also
	// after Nothing.
	Until   Wait
	RetryAt time.Time
	// Contended: a write, of the twin or of a status, waits because others undo it (O6).
	Contended bool
	// TwinFight, SourceFight and TakenOut are to be remembered once the action is done: a write to the twin or to the
	// source changes only its own.
	TwinFight, SourceFight *Fight
	TakenOut               *TakenOut
	// CreateNamespace: create the twin's namespace first (N4).
	CreateNamespace bool
	// Guarded: the decision is one that the mass-deletion guard counts (F8).
	Guarded bool
	// Blocked is the name of an object of another owner at the twin's place, for metrics and messages.
	Blocked bool

	// Absent says which references are to objects that no rule takes; empty: none. It becomes an Event when it still holds
	// AbsentGrace after the write.
	Absent string
	// Roaming are the objects that the source refers to and whose place is not told by their kind: when it is another one,
	// the source has to be looked at again.
	Roaming []Object
	// Abroad are the namespaces, other than the source's own, that its references name: when one of them gets another
	// counterpart, the source has to be looked at again.
	Abroad []string

	Events []Event
	// Reasons tell how the decision came about, in order.
	Reasons []string
}
