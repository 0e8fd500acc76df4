package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What Reason returns: words that fit a condition's reason.
const (
	ReasonDNS                = "DNS"
	ReasonTLS                = "TLS"
	ReasonCertificateExpired = "CertificateExpired"
	ReasonRefused            = "Refused"
	ReasonUnreachable        = "Unreachable"
	ReasonTimeout            = "Timeout"
	ReasonConnectionLost     = "ConnectionLost"
	ReasonCredentialPlugin   = "CredentialPlugin"
	ReasonUnauthorized       = "Unauthorized"
	ReasonForbidden          = "Forbidden"
	ReasonNotServed          = "NotServed"
	ReasonUnavailable        = "Unavailable"
	ReasonCanceled           = "Canceled"
	ReasonUnknown            = "Unknown"
)

// Reason says in a word why a request failed; an API server's own reason ("Conflict", "NotFound", …) is passed on. It
// is empty for nil.
func Reason(err error) string {
	var r *refusal
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return ""
	case errors.As(err, &r):
		return r.reason
	case errors.As(err, new(*pluginError)):
		return ReasonCredentialPlugin
	case errors.Is(err, ErrNotServed):
		return ReasonNotServed
	case errors.As(err, &status):
		return statusReason(status.Status())
	}
	if reason := tlsReason(err); reason != "" {
		return reason
	}
	return netReason(err)
}

func statusReason(s metav1.Status) string {
	switch {
	case s.Reason == metav1.StatusReasonServiceUnavailable:
		return ReasonUnavailable
	case s.Reason == metav1.StatusReasonServerTimeout:
		return ReasonTimeout
	case s.Reason == metav1.StatusReasonUnknown:
		return ReasonUnknown
	}
	return string(s.Reason)
}

func tlsReason(err error) string {
	var (
		invalid   x509.CertificateInvalidError
		alert     tls.AlertError
		verify    *tls.CertificateVerificationError
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		record    tls.RecordHeaderError
	)
	// TLS alert 45 is the server's word that our certificate has expired.
	const certificateExpired = tls.AlertError(45)
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired, errors.As(err, &alert) && alert == certificateExpired:
		return ReasonCertificateExpired
	case errors.As(err, &verify), errors.As(err, &invalid), errors.As(err, &alert), errors.As(err, &authority),
		errors.As(err, &host), errors.As(err, &record):
		return ReasonTLS
	}
	text := err.Error()
	switch {
	case strings.Contains(text, "tls: expired certificate"):
		return ReasonCertificateExpired
	case strings.Contains(text, "server gave HTTP response to HTTPS client"), strings.Contains(text, "remote error: tls: "):
		return ReasonTLS
	}
	return ""
}

func netReason(err error) string {
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case errors.As(err, &dns):
		return ReasonDNS
	case errors.Is(err, syscall.ECONNREFUSED):
		return ReasonRefused
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return ReasonUnreachable
	case errors.Is(err, context.Canceled):
		return ReasonCanceled
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return ReasonTimeout
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return ReasonConnectionLost
	}
	text := err.Error()
	switch {
	case strings.Contains(text, "http2: client connection lost"), strings.Contains(text, "http2: server sent GOAWAY"):
		return ReasonConnectionLost
	}
	return ReasonUnknown
}
