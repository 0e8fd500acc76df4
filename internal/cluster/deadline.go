package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// errMoved ends the requests that were in flight to a server that the configuration no longer names.
var errMoved = errors.New("the configuration names another server now")

// pinKey is the key of a context's pin to a server of one cluster.
type pinKey struct{ transport *reloading }

// Pin returns a context whose requests fail when the configuration names another server than server by then. Whoever
// has made sure who answers there keeps that so, although any request may read the configuration anew.
func (c *Cluster) Pin(ctx context.Context, server string) context.Context {
	return context.WithValue(ctx, pinKey{c.transport}, server)
}

func (t *reloading) pinned(ctx context.Context, conn *connection) bool {
	server, ok := ctx.Value(pinKey{t}).(string)
	return !ok || server == conn.server.String()
}

// timeoutError says that a server did not answer in time. It is a net.Error.
type timeoutError struct{ after time.Duration }

func (e *timeoutError) Error() string   { return fmt.Sprintf("no answer within %s", e.after) }
func (e *timeoutError) Timeout() bool   { return true }
func (e *timeoutError) Temporary() bool { return true }

// send sends the request over conn, with body for its body. A request ends when nothing comes for t.timeout, be it the
// answer or more of its body; a watch has that long until its first byte.
func (t *reloading) send(conn *connection, req *http.Request, body io.ReadCloser) (*http.Response, error) {
	if !t.pinned(req.Context(), conn) {
		return nil, errMoved
	}
	gate := t.gated(req)
	if gate != nil {
		if err := gate(); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	unhook := context.AfterFunc(conn.ctx, func() { cancel(errMoved) })
	timer := time.AfterFunc(t.timeout, func() { cancel(&timeoutError{t.timeout}) })
	finish := func() {
		timer.Stop()
		unhook()
		cancel(nil)
	}
	out := req.Clone(ctx)
	out.Body = body
	gateBody(out, gate)
	out.URL = t.address(conn, req.URL)
	if out.URL.Host != req.URL.Host {
		out.Host = out.URL.Host
	}
	resp, err := conn.rt.RoundTrip(out)
	if err != nil {
		if ours := ourCause(ctx); ours != nil {
			err = ours
		}
		finish()
		return nil, err
	}
	came := func() { timer.Reset(t.timeout) }
	if isWatch(req) {
		timer.Stop()
		came = func() {}
	}
	if resp.StatusCode != http.StatusSwitchingProtocols { // such a body is a connection
		resp.Body = &answerBody{ReadCloser: resp.Body, ctx: ctx, came: came, finish: sync.OnceFunc(finish), failed: func(err error) {
			t.health.observe(req.Context(), conn.server.Host, nil, err)
		}}
	}
	return resp, nil
}

// ourCause returns why we ended a request ourselves; nil if we did not.
func ourCause(ctx context.Context) error {
	cause := context.Cause(ctx)
	var timeout *timeoutError
	if errors.As(cause, &timeout) || errors.Is(cause, errMoved) {
		return cause
	}
	return nil
}

func isWatch(req *http.Request) bool {
	watch := req.URL.Query().Get("watch")
	return watch == "true" || watch == "1"
}

// answerBody lets go of the request's timer when the body is done, and says why it was cut off.
type answerBody struct {
	io.ReadCloser
	ctx    context.Context
	came   func()
	finish func()
	failed func(error)
}

func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == nil {
		b.came()
		return n, nil
	}
	if err != io.EOF {
		switch ours := ourCause(b.ctx); {
		case errors.Is(ours, errMoved):
			err = io.ErrUnexpectedEOF // to a watcher, an ordinary end
		case ours != nil:
			err = ours
			b.failed(err)
		}
	}
	b.finish()
	return n, err
}

func (b *answerBody) Close() error {
	err := b.ReadCloser.Close()
	b.finish()
	return err
}
