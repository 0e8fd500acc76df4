package engine

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/ledger"
)

// tellEvery is how long changes share one call of Options.Changed.
const tellEvery = 100 * time.Millisecond

// Drained returns how many twins sources of a local namespace have on the remote cluster. known is false while that can't
// be told: the latest configuration is not in force, the remote cluster is not reached, or not every namespace is listed
// in which twins could be.
func (e *Engine) Drained(localNamespace string) (left int, known bool) {
	tasks, known := e.settled()
	for _, t := range tasks {
		if t.Direction != boundary.ToRemote {
			continue
		}
		n, ok := t.left(func(source types.NamespacedName, _ string) bool { return source.Namespace == localNamespace })
		left, known = left+n, known && ok
	}
	return left, known
}

// RuleDrained returns how many twins a rule has. Of a rule that is not configured any more, known is true only once it is
// wound down, so that the ledger has forgotten it, or its kind is not served where its twins would be.
func (e *Engine) RuleDrained(rule string) (left int, known bool) {
	tasks, known := e.settled()
	served := false
	for _, t := range tasks {
		if !t.Concerns(rule) {
			continue
		}
		n, ok := t.left(func(_ types.NamespacedName, by string) bool { return by == rule })
		left, known = left+n, known && ok
		served = served || !t.State().TwinsNotServed
	}
	return left, known && (left > 0 || !served || !e.windsDown(func(name string) bool { return name == rule }))
}

// RemoteDrained returns how many twins there are, on either side, by any rule. known is as that of Drained; of rules that
// are not configured any more, as that of RuleDrained.
func (e *Engine) RemoteDrained() (left int, known bool) {
	tasks, known := e.settled()
	served := map[string]bool{}
	for _, t := range tasks {
		n, ok := t.left(nil)
		left, known = left+n, known && ok
		for _, removed := range t.Removed {
			served[removed.Name] = !t.State().TwinsNotServed
		}
	}
	return left, known && (left > 0 || !e.windsDown(func(name string) bool { return served[name] }))
}

// settled returns the flows, and whether they are those of the latest configuration.
func (e *Engine) settled() (tasks []*task, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.running, e.book != nil && e.inForce == e.wanted
}

// windsDown reports whether the ledger still has a rule of a name that matches, which is not configured any more.
func (e *Engine) windsDown(match func(name string) bool) bool {
	e.mu.Lock()
	book, c := e.book, e.inForce
	e.mu.Unlock()
	return book == nil || c == nil || slices.ContainsFunc(book.Rules(), func(r ledger.Rule) bool {
		return match(r.Name) && !slices.ContainsFunc(c.Rules, func(rule *boundary.Rule) bool {
			return rule.Name == r.Name && rule.Direction == r.Direction && rule.Kind.GroupKind() == r.GroupVersionKind().GroupKind()
		})
	})
}

// left is flow.Left of a task; one that has ended by itself has nothing left.
func (t *task) left(match func(source types.NamespacedName, rule string) bool) (left int, known bool) {
	if !t.runs() {
		return 0, true
	}
	return t.Left(match)
}

// told notes that something changed that Options.Changed is to tell.
func (e *Engine) told() {
	if e.Changed == nil {
		return
	}
	select {
	case e.news <- struct{}{}:
	default: // one is waiting already
	}
}

// tell calls Options.Changed until ctx ends.
func (e *Engine) tell(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.news:
			e.Changed()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(tellEvery):
		}
	}
}

// HasTwin tells whether a source of a kind on the local cluster has a twin on the remote one. known is false while that
// can't be told: the latest configuration is not in force, or not every namespace was listed in which a twin could be.
func (e *Engine) HasTwin(kind schema.GroupKind, source types.NamespacedName) (has, known bool) {
	tasks, known := e.settled()
	for _, t := range tasks {
		if t.Direction != boundary.ToRemote || t.Kind.GroupKind() != kind || !t.runs() {
			continue
		}
		one, ok := t.HasTwin(source)
		has, known = has || one, known && ok
	}
	return has, known
}
