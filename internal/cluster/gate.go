package cluster

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

// shutError says that a write was not sent, because Options.Gate is shut.
type shutError struct{ cause error }

func (e *shutError) Error() string { return fmt.Sprintf("the write is not sent: %v", e.cause) }
func (e *shutError) Unwrap() error { return e.cause }

type ungatedKey struct{}

// Ungated returns a context whose requests pass Options.Gate: those that change no object that crosses.
func Ungated(ctx context.Context) context.Context { return context.WithValue(ctx, ungatedKey{}, true) }

// gated returns the gate of a request; nil: it has none.
func (t *reloading) gated(req *http.Request) func() error {
	if t.gate == nil || req.Method == http.MethodGet || req.Method == http.MethodHead || req.Context().Value(ungatedKey{}) != nil {
		return nil
	}
	return func() error {
		if err := t.gate(); err != nil {
			return &shutError{err}
		}
		return nil
	}
}

// gateBody lets the gate have the last word when out's body is sent, also when the transport sends it again.
func gateBody(out *http.Request, gate func() error) {
	if gate == nil || out.Body == nil || out.Body == http.NoBody {
		return
	}
	out.Body = &gatedBody{out.Body, gate}
	if again := out.GetBody; again != nil {
		out.GetBody = func() (io.ReadCloser, error) {
			body, err := again()
			if err != nil {
				return nil, err
			}
			return &gatedBody{body, gate}, nil
		}
	}
}

// gatedBody can't be read once its gate is shut.
type gatedBody struct {
	io.ReadCloser
	gate func() error
}

func (b *gatedBody) Read(p []byte) (int, error) {
	if err := b.gate(); err != nil {
		return 0, err
	}
	return b.ReadCloser.Read(p)
}
