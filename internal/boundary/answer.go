package boundary

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Answer is what a server's answer to a write means (docs/contract.md, "What an answer means").
type Answer string

// The meanings.
const (
	// Done: the write happened.
	Done Answer = "done"
	// Exists: a create-only apply found something of that name; read it and decide again.
	Exists Answer = "exists"
	// Stale: the object changed since we looked; its watch brings the change.
	Stale Answer = "stale"
	// Gone: the object is not there any more; decide again.
	Gone Answer = "gone"
	// NamespaceMissing: wait for the namespace.
	NamespaceMissing Answer = "namespace missing"
	// NamespaceTerminating: wait for the namespace.
	NamespaceTerminating Answer = "namespace terminating"
	// NotServed: the kind is not served (any more); the flow waits.
	NotServed Answer = "not served"
	// Fault: the object itself is refused; trying the same again soon is no use.
	Fault Answer = "fault"
	// NotPermitted: RBAC lacks a verb.
	NotPermitted Answer = "not permitted"
	// QuotaExceeded: a quota refuses it.
	QuotaExceeded Answer = "quota exceeded"
	// Denied: admission refuses it.
	Denied Answer = "denied"
	// Unauthenticated: the credential is not accepted, also after it was read again.
	Unauthenticated Answer = "unauthenticated"
	// Unknown: whether it happened is not known; read again before writing again.
	Unknown Answer = "unknown"
)

// Operation is a kind of write, as far as answers to it differ.
type Operation string

// The operations.
const (
	OpCreate Operation = "create" // a create-only apply
	OpUpdate Operation = "update" // an apply bound by UID and resourceVersion
	OpPatch  Operation = "patch"  // a JSON patch with a test, of status or metadata
	OpDelete Operation = "delete" // a delete with preconditions
)

// Classify says what the error of an operation means, and how long the server asked to wait.
func Classify(op Operation, err error) (Answer, time.Duration) {
	if err == nil {
		return Done, 0
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || errors.Is(err, context.DeadlineExceeded) {
		return Unknown, 0
	}
	s := status.Status()
	retryAfter := time.Duration(0)
	if s.Details != nil {
		retryAfter = time.Duration(s.Details.RetryAfterSeconds) * time.Second
	}
	if denied(s) {
		return Denied, retryAfter
	}
	switch s.Code {
	case http.StatusConflict:
		if op == OpCreate {
			return Exists, 0
		}
		return Stale, 0
	case http.StatusNotFound:
		return notFound(s), 0
	case http.StatusUnauthorized:
		return Unauthenticated, retryAfter
	case http.StatusForbidden:
		return forbidden(s), retryAfter
	case http.StatusUnprocessableEntity:
		if hasCause(s, "metadata.uid") || op == OpPatch && (s.Details == nil || len(s.Details.Causes) == 0) {
			return Stale, 0
		}
		return Fault, 0
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType:
		return Fault, 0
	case http.StatusMethodNotAllowed:
		return NotServed, 0
	case http.StatusInternalServerError:
		if strings.Contains(s.Message, "failed to create typed patch object") || tooLarge(s) {
			return Fault, 0
		}
	}
	return Unknown, retryAfter
}

// tooLarge reports whether the server's storage found the object too large, or its client did: the server passes that
// on as a fault of its own.
func tooLarge(s metav1.Status) bool {
	return strings.Contains(s.Message, "etcdserver: request is too large") ||
		strings.Contains(s.Message, "trying to send message larger than max")
}

// denied reports whether admission refused the write. A webhook or a policy chooses the code of its denial, so the
// words tell.
func denied(s metav1.Status) bool {
	return strings.Contains(s.Message, "admission webhook ") && strings.Contains(s.Message, " denied the request") ||
		strings.Contains(s.Message, "ValidatingAdmissionPolicy ") && strings.Contains(s.Message, " denied request")
}

// notFound tells a missing namespace, a missing object and a missing kind apart: the server names the first two. To a
// path that it does not serve it answers without a Status; what details there are then, client-go made up.
func notFound(s metav1.Status) Answer {
	switch {
	case s.Details == nil || s.Details.Name == "" || hasCauseType(s, metav1.CauseTypeUnexpectedServerResponse):
		return NotServed
	case s.Details.Kind == "namespaces":
		return NamespaceMissing
	}
	return Gone
}

// forbidden tells the reasons of a 403 apart by its body.
func forbidden(s metav1.Status) Answer {
	switch {
	case hasCauseType(s, "NamespaceTerminating"):
		return NamespaceTerminating
	case strings.Contains(s.Message, "because it is being terminated"):
		return NamespaceTerminating
	case strings.Contains(s.Message, "exceeded quota"), strings.Contains(s.Message, "failed quota"):
		return QuotaExceeded
	case strings.Contains(s.Message, `User "`) && strings.Contains(s.Message, "cannot "),
		strings.Contains(s.Message, "attempting to grant RBAC permissions not currently held"):
		return NotPermitted
	}
	return Denied
}

func hasCause(s metav1.Status, field string) bool {
	return s.Details != nil && slices.ContainsFunc(s.Details.Causes, func(c metav1.StatusCause) bool { return c.Field == field })
}

func hasCauseType(s metav1.Status, t metav1.CauseType) bool {
	return s.Details != nil && slices.ContainsFunc(s.Details.Causes, func(c metav1.StatusCause) bool { return c.Type == t })
}

// ErrorType is the answer as the label error_type of metrics knows it.
func (a Answer) ErrorType() string {
	switch a {
	case Exists, Stale:
		return "conflict"
	case Gone, NamespaceMissing, NotServed:
		return "not_found"
	case Fault:
		return "validation"
	case NotPermitted, QuotaExceeded, Denied, NamespaceTerminating, Unauthenticated:
		return "forbidden"
	case Unknown:
		return "transient"
	}
	return "unknown"
}
