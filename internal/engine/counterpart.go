package engine

import (
	"context"
	"fmt"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/config"
	"isthmus.dev/isthmus/internal/flow"
)

// The reasons of a remote namespace that is not ready.
const (
	// ReasonStarting: it is not known yet how it is.
	ReasonStarting = "Starting"
	// ReasonMissing: it does not exist. ReasonTerminating: it is on its way out. ReasonTaken: it belongs to another cluster, or
	// to another instance of this one (N4).
	ReasonMissing     = "NamespaceMissing"
	ReasonTerminating = "NamespaceTerminating"
	ReasonTaken       = "NamespaceTaken"
)

// Current returns the configuration that is to run. It must not be changed.
func (e *Engine) Current() *config.Config { return e.latest() }

// LookAgain has what was denied tried again soon: rights may have been given meanwhile.
func (e *Engine) LookAgain() {
	for _, t := range e.tasks() {
		t.LookAgain()
	}
	if n := e.knownNamespaces(); n != nil {
		n.LookAgain()
	}
}

// NamespaceReady says of a remote namespace, the counterpart of a local one, whether twins can be written there, and else why
// not. One that is nobody's is ready: it was there, and somebody gave it rights.
func (e *Engine) NamespaceReady(name string) (reason, message string, ready bool) {
	const is = "namespace %s on the other side "
	n := e.knownNamespaces()
	if n == nil {
		return ReasonStarting, fmt.Sprintf(is+"was not looked at yet", name), false
	}
	switch place := flow.PlaceState(n, name); {
	case place.Unknown && len(e.Current().Rules) == 0:
		return "NothingCrosses", "no Crossing carries anything there yet", true
	case place.Unknown:
		return ReasonStarting, fmt.Sprintf("how "+is+"is, is not known yet", name), false
	case place.Missing:
		return ReasonMissing, fmt.Sprintf(is+"does not exist", name), false
	case place.OfAnother(e.identity(boundary.ToRemote, e.localUID())):
		return ReasonTaken, fmt.Sprintf(is+"was created for cluster %s and belongs to it", name, place.Origin), false
	case place.Terminating:
		return ReasonTerminating, fmt.Sprintf(is+"is terminating", name), false
	}
	return "Ready", "", true
}

// MakeCounterpart makes a remote namespace that belongs to us (N4), unless there is one.
func (e *Engine) MakeCounterpart(ctx context.Context, name string) error {
	_, err := flow.CreateNamespace(ctx, e.Remote, e.identity(boundary.ToRemote, e.localUID()), name, nil)
	return err
}

// knownNamespaces returns what is known of the counterparts; nil: nothing yet.
func (e *Engine) knownNamespaces() *cluster.Namespaces {
	e.mu.Lock()
	n := e.counterparts
	e.mu.Unlock()
	if n == nil {
		return nil
	}
	return n.get()
}

// localUID returns the UID of the local cluster, by the ledger; empty: it is not open yet.
func (e *Engine) localUID() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.book == nil {
		return ""
	}
	return e.book.LocalUID()
}
