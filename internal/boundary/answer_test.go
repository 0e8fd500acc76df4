package boundary

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	widgets  = schema.GroupResource{Group: "example.io", Resource: "widgets"}
	everyOp  = []Operation{OpCreate, OpUpdate, OpPatch, OpDelete}
	writeOps = []Operation{OpCreate, OpUpdate, OpPatch}
)

// status is an answer as it arrives: a Status with a code and words.
func status(code int32, reason metav1.StatusReason, message string, causes ...metav1.StatusCause) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message,
		Details: &metav1.StatusDetails{Group: "example.io", Kind: "widgets", Name: "blue", Causes: causes},
	}}
}

func withRetryAfter(err error, seconds int32) error {
	err.(*apierrors.StatusError).ErrStatus.Details.RetryAfterSeconds = seconds
	return err
}

// coded is a denial with another code, as a webhook or a policy may choose.
func coded(code int32, message string) error { return status(code, "", message) }

func TestF6_WhatAnAnswerMeans(t *testing.T) {
	invalid := func(path string) error {
		return apierrors.NewInvalid(schema.GroupKind{Group: "example.io", Kind: "Widget"}, "blue", field.ErrorList{field.Invalid(field.NewPath(path), "x", "no")})
	}
	const webhook, policy = `admission webhook "v.example.io" denied the request: not on Fridays`,
		`widgets.example.io "blue" is forbidden: ValidatingAdmissionPolicy 'no-blue' with binding 'all' denied request: failed expression`
	// What a server says of a path that it does not serve, by the dynamic and by a typed client.
	notServed := apierrors.NewGenericServerResponse(404, "PATCH", schema.GroupResource{}, "", "404 page not found", 0, true)
	notServedTyped := apierrors.NewGenericServerResponse(404, "PATCH", widgets, "blue", "404 page not found", 0, true)
	for _, test := range []struct {
		name string
		ops  []Operation
		err  error
		want Answer
		wait time.Duration
	}{
		{"no error", everyOp, nil, Done, 0},

		{"409: the object exists", []Operation{OpCreate}, apierrors.NewConflict(widgets, "blue", errors.New("the object has been modified")), Exists, 0},
		{"409: the object exists, by POST", []Operation{OpCreate}, apierrors.NewAlreadyExists(widgets, "blue"), Exists, 0},
		{"409: another resourceVersion", []Operation{OpUpdate, OpPatch, OpDelete}, apierrors.NewConflict(widgets, "blue", errors.New("the object has been modified")), Stale, 0},
		{"409: uid mismatch, no object", []Operation{OpUpdate}, apierrors.NewConflict(widgets, "blue", errors.New("uid mismatch: the provided object specified uid u, and no existing object was found")), Stale, 0},
		{"409: precondition of a delete", []Operation{OpDelete}, apierrors.NewConflict(widgets, "blue", errors.New("Precondition failed: UID in precondition: a, UID in object meta: b")), Stale, 0},
		{"409: a handover meets another manager", []Operation{OpUpdate}, apierrors.NewApplyConflict([]metav1.StatusCause{{Type: metav1.CauseTypeFieldManagerConflict, Field: ".spec.replicas"}}, "Apply failed with 1 conflict"), Stale, 0},
		{"422: another UID", []Operation{OpUpdate}, invalid("metadata.uid"), Stale, 0},
		{"422: failed JSON-patch test", []Operation{OpPatch}, apierrors.NewGenericServerResponse(422, "", schema.GroupResource{}, "", "testing value /metadata/uid failed", 0, false), Stale, 0},
		{"422: a patch of an invalid value", []Operation{OpPatch}, invalid("status.phase"), Fault, 0},
		{"422: invalid", []Operation{OpCreate, OpUpdate}, invalid("spec.size"), Fault, 0},
		{"422: without causes", []Operation{OpCreate, OpUpdate}, status(422, metav1.StatusReasonInvalid, "is invalid"), Fault, 0},

		{"404: missing namespace", []Operation{OpCreate}, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "shop"), NamespaceMissing, 0},
		{"404: missing object", everyOp, apierrors.NewNotFound(widgets, "blue"), Gone, 0},
		{"404: missing kind", everyOp, notServed, NotServed, 0},
		{"404: missing kind, named by the client", everyOp, notServedTyped, NotServed, 0},
		{"404: no details", everyOp, &apierrors.StatusError{ErrStatus: metav1.Status{Code: 404}}, NotServed, 0},
		{"405", everyOp, apierrors.NewMethodNotSupported(widgets, "patch"), NotServed, 0},

		{"500: typed patch", []Operation{OpCreate, OpUpdate}, apierrors.NewInternalError(errors.New("failed to create typed patch object (/x1; example.io/v1, Kind=Widget): .spec.unknownField: field not declared in schema")), Fault, 0},
		{"400", writeOps, apierrors.NewBadRequest("error decoding patch"), Fault, 0},
		{"413", writeOps, apierrors.NewRequestEntityTooLargeError("limit is 3145728"), Fault, 0},
		{"415", writeOps, coded(415, "the body of the request was in an unknown format"), Fault, 0},

		{"401", everyOp, apierrors.NewUnauthorized("Unauthorized"), Unauthenticated, 0},
		{"403: RBAC", everyOp, apierrors.NewForbidden(widgets, "blue", errors.New(`User "x" cannot create resource "widgets" in API group "example.io" in the namespace "shop"`)), NotPermitted, 0},
		{"403: RBAC, roles that grant more", everyOp, coded(403, `clusterroles.rbac.authorization.k8s.io "r" is forbidden: user "x" (groups=["y"]) is attempting to grant RBAC permissions not currently held:`), NotPermitted, 0},
		{"403: RBAC, without a name", everyOp, coded(403, `widgets.example.io is forbidden: User "system:serviceaccount:a:b" cannot patch resource "widgets" in API group "example.io" in the namespace "shop"`), NotPermitted, 0},
		{"403: quota", []Operation{OpCreate}, apierrors.NewForbidden(widgets, "blue", errors.New("exceeded quota: q, requested: count/widgets.example.io=1, used: count/widgets.example.io=5, limited: count/widgets.example.io=5")), QuotaExceeded, 0},
		{"403: quota that needs limits", []Operation{OpCreate}, apierrors.NewForbidden(widgets, "blue", errors.New("failed quota: q: must specify limits.cpu")), QuotaExceeded, 0},
		{"403: terminating namespace", []Operation{OpCreate}, status(403, metav1.StatusReasonForbidden, `widgets.example.io "blue" is forbidden: unable to create new content in namespace shop because it is being terminated`, metav1.StatusCause{Type: "NamespaceTerminating", Field: "metadata.namespace"}), NamespaceTerminating, 0},
		{"403: terminating namespace, without a cause", []Operation{OpCreate}, coded(403, "unable to create new content in namespace shop because it is being terminated"), NamespaceTerminating, 0},
		{"403: Pod Security", []Operation{OpCreate}, coded(403, `pods "blue" is forbidden: violates PodSecurity "restricted:latest": …`), Denied, 0},
		{"403: a webhook", everyOp, coded(403, webhook), Denied, 0},
		{"403: a webhook that talks of users", everyOp, coded(403, `admission webhook "v.example.io" denied the request: User "x" cannot do that`), Denied, 0},
		{"400: a webhook", everyOp, coded(400, webhook), Denied, 0},
		{"404: a webhook", everyOp, coded(404, webhook), Denied, 0},
		{"409: a webhook", everyOp, coded(409, webhook), Denied, 0},
		{"422: a webhook", everyOp, coded(422, webhook), Denied, 0},
		{"500: too large for the storage", everyOp, apierrors.NewInternalError(errors.New("etcdserver: request is too large")), Fault, 0},
		{"500: too large for the storage's client", everyOp, coded(500, "rpc error: code = ResourceExhausted desc = trying to send message larger than max (2097300 vs. 2097152)"), Fault, 0},
		{"500: a webhook", everyOp, coded(500, webhook), Denied, 0},
		{"422: a policy", everyOp, status(422, metav1.StatusReasonInvalid, policy, metav1.StatusCause{Message: "failed expression"}), Denied, 0},
		{"403: a policy", everyOp, coded(403, policy), Denied, 0},
		{"413: a policy", everyOp, coded(413, policy), Denied, 0},
		{"401: a policy", everyOp, coded(401, policy), Denied, 0},

		{"429", everyOp, apierrors.NewTooManyRequests("slow down", 7), Unknown, 7 * time.Second},
		{"429: without Retry-After", everyOp, apierrors.NewTooManyRequestsError("slow down"), Unknown, 0},
		{"500", everyOp, apierrors.NewInternalError(errors.New("etcdserver: leader changed")), Unknown, 0},
		{"500: a webhook that can't be called", everyOp, apierrors.NewInternalError(errors.New(`failed calling webhook "v.example.io": connection refused`)), Unknown, 0},
		{"503", everyOp, withRetryAfter(status(503, metav1.StatusReasonServiceUnavailable, "unavailable"), 3), Unknown, 3 * time.Second},
		{"504", everyOp, apierrors.NewTimeoutError("timed out", 2), Unknown, 2 * time.Second},
		{"504: a proxy", everyOp, apierrors.NewGenericServerResponse(504, "PATCH", widgets, "blue", "<html>", 0, true), Unknown, 0},
		{"410", everyOp, apierrors.NewResourceExpired("too old"), Unknown, 0},
		{"an unknown code", everyOp, coded(599, "?"), Unknown, 0},
		{"cut connection", everyOp, &url.Error{Op: "Patch", URL: "https://x", Err: io.ErrUnexpectedEOF}, Unknown, 0},
		{"refused connection", everyOp, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, Unknown, 0},
		{"deadline", everyOp, fmt.Errorf("apply: %w", context.DeadlineExceeded), Unknown, 0},
		{"canceled", everyOp, context.Canceled, Unknown, 0},
		{"deadline over an answer", everyOp, errors.Join(apierrors.NewConflict(widgets, "blue", errors.New("x")), context.DeadlineExceeded), Unknown, 0},
	} {
		for _, op := range test.ops {
			for _, err := range []error{test.err, wrap(test.err)} {
				got, wait := Classify(op, err)
				if got != test.want || wait != test.wait {
					t.Errorf("%s, to %s: got %q after %v, want %q after %v", test.name, op, got, wait, test.want, test.wait)
				}
			}
		}
	}
}

func wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("writing shop/blue: %w", err)
}

func TestF6_EveryAnswerHasAnErrorType(t *testing.T) {
	known := map[string]bool{"conflict": true, "not_found": true, "validation": true, "forbidden": true, "transient": true}
	for _, a := range []Answer{Exists, Stale, Gone, NamespaceMissing, NamespaceTerminating, NotServed, Fault, NotPermitted, QuotaExceeded, Denied, Unauthenticated, Unknown} {
		if !known[a.ErrorType()] {
			t.Errorf("%s: %s", a, a.ErrorType())
		}
	}
	if got := Answer("?").ErrorType(); got != "unknown" {
		t.Errorf("got %s", got)
	}
}
