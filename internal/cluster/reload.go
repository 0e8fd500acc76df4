package cluster

import (
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The configuration is read again on the first request after lookEvery, and on a refused credential or certificate, the
// latter at most once in failureGap.
const (
	lookEvery  = 10 * time.Second
	failureGap = time.Second
)

// reloading is the RoundTripper that all clients of a Cluster share. It sends requests over the connection of the
// configuration as it is now, and repeats a request once when a refusal turns out to be due to an outdated one.
type reloading struct {
	source  *source
	base    *url.URL // what the clients believe the server to be
	log     *slog.Logger
	health  *health
	now     func() time.Time
	timeout time.Duration
	gate    func() error // nil: there is none
	current atomic.Pointer[connection]
	epoch   atomic.Int64

	mu          sync.Mutex // held while reading the configuration
	looked      time.Time
	afterRefuse time.Time
	broken      string // the error of the last reading, told once
}

func newReloading(s *source, log *slog.Logger, h *health) (*reloading, error) {
	first, err := s.read(false)
	if err != nil {
		return nil, err
	}
	conn, err := newConnection(first)
	if err != nil {
		return nil, s.name(err)
	}
	t := &reloading{source: s, base: first.server, log: log, health: h, now: time.Now, timeout: requestTimeout}
	t.looked = t.now()
	t.current.Store(conn)
	return t, nil
}

// RoundTrip sends the request. See reloading.
func (t *reloading) RoundTrip(req *http.Request) (*http.Response, error) {
	t.look()
	conn := t.current.Load()
	resp, err := t.send(conn, req, req.Body)
	if refused(resp, err) && req.Context().Err() == nil {
		if next, again := t.afterRefusal(conn); again {
			if body, ok := replay(req); ok {
				if resp != nil {
					_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
					resp.Body.Close()
				}
				resp, err = t.send(next, req, body)
			}
		}
	}
	t.health.observe(req.Context(), t.current.Load().server.Host, resp, err)
	return resp, err
}

// CloseIdleConnections lets http.Client.CloseIdleConnections reach the connection in use.
func (t *reloading) CloseIdleConnections() { t.current.Load().closeIdle() }

// refused: the server did not accept who we are, or we did not accept who it is.
func refused(resp *http.Response, err error) bool {
	if err != nil {
		reason := Reason(err)
		return reason == ReasonTLS || reason == ReasonCertificateExpired
	}
	return resp.StatusCode == http.StatusUnauthorized
}

// replay returns the request's body from its start, if it can be had once more.
func replay(req *http.Request) (io.ReadCloser, bool) {
	if req.Body == nil || req.Body == http.NoBody {
		return req.Body, true
	}
	if req.GetBody == nil {
		return nil, false
	}
	body, err := req.GetBody()
	return body, err == nil
}

// look reads the configuration again if that is due; a request never waits for another one's look.
func (t *reloading) look() {
	if !t.mu.TryLock() {
		return
	}
	defer t.mu.Unlock()
	if now := t.now(); now.Sub(t.looked) >= lookEvery {
		t.read(now, false)
	}
}

// lookNow reads the configuration whether that is due or not.
func (t *reloading) lookNow() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.read(t.now(), false)
}

// afterRefusal returns the connection to repeat a refused request on, and whether there is any point in it.
func (t *reloading) afterRefusal(used *connection) (*connection, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if conn := t.current.Load(); conn != used {
		return conn, true // another request was faster
	}
	if now.Sub(t.afterRefuse) >= failureGap {
		t.afterRefuse = now
		t.read(now, true)
	}
	conn := t.current.Load()
	return conn, conn != used
}

// read reads the configuration and changes over if it differs. One that can't be read leaves everything as it is: it
// may be half-written. The caller holds the lock.
func (t *reloading) read(now time.Time, refused bool) {
	t.looked = now
	old := t.current.Load()
	next, err := t.source.read(refused)
	var conn *connection
	if err == nil {
		if next.digest == old.digest {
			t.broken = ""
			return
		}
		conn, err = newConnection(next)
	}
	if err != nil {
		if t.broken != err.Error() {
			t.broken = err.Error()
			t.log.Warn("The configuration can't be read again; the one read before stays in use", "error", err)
		}
		return
	}
	t.broken = ""
	t.current.Store(conn)
	t.epoch.Add(1)
	moved := conn.destination() != old.destination()
	old.retire(moved)
	t.log.Info("The configuration changed and was read again", "server", conn.server.String(), "serverChanged", moved)
}

// address returns where a request that was made for base goes on conn.
func (t *reloading) address(conn *connection, u *url.URL) *url.URL {
	out := *u
	if *conn.server == *t.base {
		return &out
	}
	out.Scheme, out.Host = conn.server.Scheme, conn.server.Host
	out.Path = conn.server.Path + strings.TrimPrefix(u.Path, t.base.Path)
	if u.RawPath != "" {
		out.RawPath = conn.server.EscapedPath() + strings.TrimPrefix(u.RawPath, t.base.EscapedPath())
	}
	return &out
}
