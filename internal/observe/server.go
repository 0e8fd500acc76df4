package observe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Listen takes the address that health and metrics are served on. The error says what to do about it. An empty address
// means not to serve: it gives nil, which Serve accepts.
func Listen(address string) (net.Listener, error) {
	return listen("health and metrics", "--listen", address)
}

func listen(what, flag, address string) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("serving %s: %s is in use by another process; name a free address with %s (an empty one serves none): %w", what, address, flag, err)
	case err != nil:
		return nil, fmt.Errorf("serving %s on %q; name another address with %s (an empty one serves none): %w", what, address, flag, err)
	}
	return l, nil
}

// Serve answers /healthz (we run), /readyz (503 with the error of ready in the body until there is none, then 200 with
// the notes that ready has, a line each) /metrics, and /status (what status returns, as JSON) on l until ctx ends, then lets requests finish for a moment. It closes l. A nil l serves nothing.
func Serve(ctx context.Context, l net.Listener, metrics prometheus.Gatherer, ready func() (notes []string, err error), status func() any) error {
	if l == nil {
		<-ctx.Done()
		return nil
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		notes, err := ready()
		if err != nil {
			say(w, http.StatusServiceUnavailable, "not ready: "+err.Error())
			return
		}
		say(w, http.StatusOK, strings.Join(append([]string{"ok"}, notes...), "\n"))
	})
	mux.HandleFunc("/status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(status())
	})
	mux.Handle("/metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	return serve(ctx, "health and metrics", l, mux)
}

// serve answers on l by handler until ctx ends, then lets requests finish for a moment. It closes l.
func serve(ctx context.Context, what string, l net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       time.Minute,
		ErrorLog:          log.New(io.Discard, "", 0), // what a peer of this port does wrong is of no interest
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serving %s on %s: %w", what, l.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		server.Close()
	}
	<-failed
	return nil
}

func say(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text+"\n")
}
