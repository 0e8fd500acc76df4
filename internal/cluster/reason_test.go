package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus.dev/isthmus/internal/observe/logtest"
)

func TestReason(t *testing.T) {
	viaHTTP := func(err error) error {
		return fmt.Errorf("reading: %w", &url.Error{Op: "Get", URL: "https://a", Err: err})
	}
	dial := func(errno syscall.Errno) error {
		return viaHTTP(&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", errno)})
	}
	gr := schema.GroupResource{Resource: "secrets"}
	for _, tc := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{errors.New("odd"), ReasonUnknown},
		{dial(syscall.ECONNREFUSED), ReasonRefused},
		{dial(syscall.EHOSTUNREACH), ReasonUnreachable},
		{dial(syscall.ENETUNREACH), ReasonUnreachable},
		{dial(syscall.ETIMEDOUT), ReasonTimeout},
		{viaHTTP(&net.OpError{Op: "dial", Err: &net.DNSError{Name: "a", IsNotFound: true}}), ReasonDNS},
		{viaHTTP(&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}), ReasonConnectionLost},
		{viaHTTP(io.EOF), ReasonConnectionLost},
		{viaHTTP(io.ErrUnexpectedEOF), ReasonConnectionLost},
		{viaHTTP(errors.New("http2: client connection lost")), ReasonConnectionLost},
		{viaHTTP(context.DeadlineExceeded), ReasonTimeout},
		{viaHTTP(&timeoutError{time.Second}), ReasonTimeout},
		{viaHTTP(context.Canceled), ReasonCanceled},
		{viaHTTP(&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}), ReasonTLS},
		{viaHTTP(&tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: &x509.Certificate{}, Host: "a"}}), ReasonTLS},
		{viaHTTP(&tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired}}), ReasonCertificateExpired},
		{viaHTTP(&net.OpError{Op: "remote error", Err: tls.AlertError(45)}), ReasonCertificateExpired},
		{viaHTTP(&net.OpError{Op: "remote error", Err: tls.AlertError(42)}), ReasonTLS},
		{viaHTTP(errors.New("http: server gave HTTP response to HTTPS client")), ReasonTLS},
		{viaHTTP(&pluginError{errors.New("no such file")}), ReasonCredentialPlugin},
		{apierrors.NewUnauthorized("no"), ReasonUnauthorized},
		{fmt.Errorf("x: %w", apierrors.NewForbidden(gr, "a", nil)), ReasonForbidden},
		{apierrors.NewConflict(gr, "a", nil), "Conflict"},
		{apierrors.NewServiceUnavailable("no"), ReasonUnavailable},
		{apierrors.NewTimeoutError("no", 1), ReasonTimeout},
		{&apierrors.StatusError{ErrStatus: metav1.Status{Code: 500}}, ReasonUnknown},
		{fmt.Errorf("x: %w", ErrNotServed), ReasonNotServed},
		{&refusal{503, ReasonUnavailable}, ReasonUnavailable},
	} {
		if got := Reason(tc.err); got != tc.want {
			t.Errorf("Reason(%v) = %q, want %q", tc.err, got, tc.want)
		}
	}
}

func TestHealthTellsChangesOnly(t *testing.T) {
	log := &logtest.Log{}
	var told []Health
	h := newHealth(Options{Role: "remote", OnHealth: func(n Health) { told = append(told, n) }}, textLogger(log))
	answer := func(code int, audit string) *http.Response {
		header := http.Header{}
		if audit != "" {
			header.Set("Audit-Id", audit)
		}
		return &http.Response{StatusCode: code, Header: header}
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	refusedErr := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for i, step := range []struct {
		ctx    context.Context
		resp   *http.Response
		err    error
		reason string // "": reached
		told   int
	}{
		{t.Context(), answer(200, "a"), nil, "", 1},
		{t.Context(), answer(404, "a"), nil, "", 1},
		{t.Context(), nil, refusedErr, ReasonRefused, 2},
		{t.Context(), nil, refusedErr, ReasonRefused, 2},
		{canceled, nil, context.Canceled, ReasonRefused, 2},
		{t.Context(), nil, errMoved, ReasonRefused, 2},
		{t.Context(), answer(401, "a"), nil, ReasonUnauthorized, 3},
		{t.Context(), answer(403, "a"), nil, "", 4},
		{t.Context(), answer(503, "a"), nil, "", 4},
		{t.Context(), answer(503, ""), nil, ReasonUnavailable, 5},
		{t.Context(), answer(500, ""), nil, "", 6},
	} {
		h.observe(step.ctx, "host", step.resp, step.err)
		got := h.get()
		if got.Reached != (step.reason == "") || Reason(got.Err) != step.reason || len(told) != step.told {
			t.Errorf("step %d: %+v (%s), told %d times; want %q, %d", i, got, Reason(got.Err), len(told), step.reason, step.told)
		}
	}
}
