package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// Health is what the latest requests told about the connection to a cluster.
type Health struct {
	// Reached: the server answered, and knows who we are. Before the first answer it is false.
	Reached bool
	// Since is when Reached, or the reason in Err, changed last; zero before the first answer.
	Since time.Time
	// Seen is when a request told something about the connection last.
	Seen time.Time
	// Err says why the cluster is not reached; nil if it is, and before the first answer. Reason tells its kind.
	Err error
}

type health struct {
	role   string
	log    *slog.Logger
	notify func(Health)
	now    func() time.Time

	telling sync.Mutex // held while a change is told, so that changes are told in their order
	mu      sync.Mutex
	last    Health
}

func newHealth(o Options, log *slog.Logger) *health {
	return &health{role: o.Role, log: log, notify: o.OnHealth, now: time.Now}
}

func (h *health) get() Health {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

// observe takes in the outcome of a request to host. Outcomes that say nothing of the connection are passed over.
func (h *health) observe(ctx context.Context, host string, resp *http.Response, err error) {
	switch {
	case err != nil:
		if errors.Is(ctx.Err(), context.Canceled) || errors.Is(err, errMoved) || errors.As(err, new(*shutError)) {
			return // the caller's doing, or ours
		}
	case resp.StatusCode == http.StatusUnauthorized:
		err = &refusal{resp.StatusCode, ReasonUnauthorized}
	case gatewayTrouble(resp):
		err = &refusal{resp.StatusCode, ReasonUnavailable}
	}
	next := Health{Reached: err == nil}
	if err != nil {
		next.Err = fmt.Errorf("%s cluster at %s: %w", h.role, host, err)
	}
	h.telling.Lock()
	defer h.telling.Unlock()
	last := h.get()
	first := last.Since.IsZero()
	now := h.now()
	if !first && next.Reached == last.Reached && Reason(next.Err) == Reason(last.Err) {
		h.mu.Lock()
		h.last.Seen = now
		h.mu.Unlock()
		return
	}
	next.Since, next.Seen = now, now
	h.mu.Lock()
	h.last = next
	h.mu.Unlock()
	switch {
	case err != nil:
		h.log.Warn("The cluster can't be reached", "server", host, "reason", Reason(err), "error", err)
	case first:
		h.log.Debug("The cluster is reached", "server", host)
	default:
		h.log.Info("The cluster is reached again", "server", host)
	}
	if h.notify != nil {
		h.notify(next)
	}
}

// gatewayTrouble: something in front of the API server says that there is none behind it. What an API server says
// itself carries an audit ID.
func gatewayTrouble(resp *http.Response) bool {
	switch resp.StatusCode {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return resp.Header.Get("Audit-Id") == ""
	}
	return false
}

// refusal is an answer that means that there is no talking to the cluster.
type refusal struct {
	code   int
	reason string
}

func (r *refusal) Error() string {
	if r.code == http.StatusUnauthorized {
		return "the server does not accept our credentials (401)"
	}
	return fmt.Sprintf("no API server answers (%d %s)", r.code, http.StatusText(r.code))
}
