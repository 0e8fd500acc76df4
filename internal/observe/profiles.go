package observe

import (
	"context"
	"net"
	"net/http"
	"net/http/pprof"
)

// ListenProfiles takes the address that profiles are served on, as Listen does.
func ListenProfiles(address string) (net.Listener, error) {
	return listen("profiles", "--pprof-bind-address", address)
}

// ServeProfiles answers /debug/pprof/ on l until ctx ends: what net/http/pprof says of this process. It has an address of
// its own, since who may read metrics need not be one who may read memory addresses and stop the world. It closes l. A
// nil l serves nothing.
func ServeProfiles(ctx context.Context, l net.Listener) error {
	if l == nil {
		<-ctx.Done()
		return nil
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return serve(ctx, "profiles", l, mux)
}
