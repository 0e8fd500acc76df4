package observe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const marked = "s3cretvalue"

func TestF4_Redact(t *testing.T) {
	gr := schema.GroupResource{Resource: "secrets"}
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "db", field.ErrorList{
		field.Invalid(field.NewPath("data").Key("password"), marked, "must be "+marked),
		field.Invalid(field.NewPath("type"), "x", marked),
	})
	typed := &apierrors.StatusError{ErrStatus: metav1.Status{Code: 500, Message: "failed to create typed patch object: .data.password: got " + marked}}
	for name, tc := range map[string]struct {
		err  error
		want []string
	}{
		"invalid":         {invalid, []string{"422", "Invalid", "data[password]", "type"}},
		"wrapped":         {fmt.Errorf("applying Secret a/b: %w", invalid), []string{"applying Secret a/b: ", "422"}},
		"joined":          {errors.Join(errors.New("first"), fmt.Errorf("second: %w", typed)), []string{"first", "second: ", "500"}},
		"wrapped oddly":   {odd{typed}, []string{"500"}},
		"message only":    {fmt.Errorf("the server said %s: %w", typed.ErrStatus.Message, typed), []string{"500"}},
		"forbidden":       {apierrors.NewForbidden(gr, "db", errors.New(marked)), []string{"403", "Forbidden"}},
		"conflict":        {apierrors.NewConflict(gr, "db", errors.New(marked)), []string{"409", "Conflict"}},
		"one in the next": {fmt.Errorf("a %w, b %w", typed, invalid), []string{"a the server answered 500", "b the server answered 422"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Redact(tc.err, true)
			if strings.Contains(got, marked) {
				t.Errorf("the value is in %q", got)
			}
			for _, want := range tc.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q lacks %q", got, want)
				}
			}
			if plain := Redact(tc.err, false); plain != tc.err.Error() {
				t.Errorf("an error of another kind was changed to %q", plain)
			}
		})
	}
}

func TestRedactKeepsWhatHasNotSeenTheObject(t *testing.T) {
	network := &url.Error{Op: "Patch", URL: "https://127.0.0.1:6443/api/v1", Err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}}
	for _, err := range []error{network, fmt.Errorf("writing: %w", network), context.DeadlineExceeded} {
		if got := Redact(err, true); got != err.Error() {
			t.Errorf("Redact changed %q to %q", err, got)
		}
	}
	if got := Redact(nil, true); got != "" {
		t.Errorf("Redact(nil) = %q", got)
	}
}

// odd wraps an error and says the same in words of its own.
type odd struct{ inner *apierrors.StatusError }

func (o odd) Error() string { return "ODD: " + strings.ToUpper(o.inner.Error()) + marked }
func (o odd) Unwrap() error { return o.inner }
