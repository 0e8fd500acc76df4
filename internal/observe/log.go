package observe

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"strings"
	"time"

	"k8s.io/klog/v2"
)

// Level is how much is logged.
type Level = slog.Level

// The levels.
const (
	LevelError = slog.LevelError
	LevelWarn  = slog.LevelWarn
	LevelInfo  = slog.LevelInfo
	LevelDebug = slog.LevelDebug
	// LevelTrace tells of every step of every decision.
	LevelTrace = slog.LevelDebug - 4
)

// ParseLevel reads the name of a level: error, warn (or warning), info, debug, trace, in any case.
func ParseLevel(name string) (Level, error) {
	switch strings.ToLower(strings.TrimSpace(name)) {
	case "error":
		return LevelError, nil
	case "warn", "warning":
		return LevelWarn, nil
	case "info":
		return LevelInfo, nil
	case "debug":
		return LevelDebug, nil
	case "trace":
		return LevelTrace, nil
	}
	return LevelInfo, fmt.Errorf("unknown log level %q: expected error, warn, info, debug or trace", name)
}

// NewLogger returns a logger that writes what is of level or above to w, as JSON or as text. A slog.LevelVar lets the
// level be changed later.
func NewLogger(w io.Writer, level slog.Leveler, json bool) *slog.Logger {
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if l, ok := a.Value.Any().(slog.Level); ok && len(groups) == 0 && a.Key == slog.LevelKey && l == LevelTrace {
			a.Value = slog.StringValue("TRACE")
		}
		if texts, ok := a.Value.Any().([]string); ok && !json { // as text they would run into each other
			a.Value = slog.StringValue(strings.Join(texts, "; "))
		}
		return a
	}}
	if json {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// RouteClientLogs sends what the Kubernetes client libraries log to log, for the whole process.
func RouteClientLogs(log *slog.Logger) {
	klog.SetSlogLogger(slog.New(ClientHandler(log)).With("library", "client-go"))
}

// ClientHandler takes what the Kubernetes libraries log, and sends it to log. Their verbosity stays zero whatever log's level
// is: at a higher one they log bodies of requests and answers, which may be Secrets.
func ClientHandler(log *slog.Logger) slog.Handler { return clientHandler{log.Handler()} }

// clientHandler lets nothing verbose pass, and of what passes no whole objects.
type clientHandler struct{ slog.Handler }

// Enabled is false for the levels that klog's V(1) and up are translated to.
func (h clientHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo && h.Handler.Enabled(ctx, level)
}

func (h clientHandler) Handle(ctx context.Context, r slog.Record) error {
	if !h.Enabled(ctx, r.Level) {
		return nil
	}
	out := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(plain(a))
		return true
	})
	return h.Handler.Handle(ctx, out)
}

func (h clientHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	out := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		out[i] = plain(a)
	}
	return clientHandler{h.Handler.WithAttrs(out)}
}

func (h clientHandler) WithGroup(name string) slog.Handler {
	return clientHandler{h.Handler.WithGroup(name)}
}

// plain replaces a value that has an inner structure by its type's name.
func plain(a slog.Attr) slog.Attr {
	if a.Value.Kind() != slog.KindAny {
		return a
	}
	switch v := a.Value.Any().(type) {
	case nil, error, time.Time, time.Duration, klog.ObjectRef:
		return a
	default:
		switch reflect.TypeOf(v).Kind() {
		case reflect.Struct, reflect.Pointer, reflect.Map, reflect.Slice, reflect.Array, reflect.Interface, reflect.Func, reflect.Chan:
			return slog.String(a.Key, fmt.Sprintf("(%T)", v))
		}
		return a
	}
}
