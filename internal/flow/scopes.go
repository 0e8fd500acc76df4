package flow

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/ledger"
)

// fewNamespaces is how many watches of one namespace each are taken for less than one of the whole cluster.
const fewNamespaces = 8

// scopes are the namespaces that are watched, each by itself; "": all at once.
type scopes struct {
	// sources are those that rules take sources from; held are watched besides for sources that carry our finalizer, where
	// RBAC still allows it.
	sources, held []string
	// twins are those that twins belong in; former are watched besides for twins that are left, where RBAC still allows it.
	twins, former []string
	// unseen: there may be twins in namespaces that nobody knows and RBAC does not let us look for.
	unseen bool
}

// scopes returns what is to be watched under an extent, in the way that a plan found.
func (f *Flow) scopes(p *plan, x *Extent) (s scopes) {
	if p.watched {
		s.sources, s.held = []string{""}, nil
		if !p.sourcesWide {
			s.sources, _ = boundary.SourceNamespaces(f.Rules, x.Naming)
			s.held = besides(f.heldIn(), s.sources)
		}
	}
	if p.twin.Resource == "" {
		return s // it is not known how they are served
	}
	s.twins = []string{""}
	if !p.twinsWide {
		s.twins, _ = boundary.TwinNamespaces(f.Rules, x.Naming)
		former := f.former()
		s.former, s.unseen = besides(former, s.twins), slices.Contains(former, ledger.Anywhere)
	}
	return s
}

// besides returns the namespaces that are not among others.
func besides(namespaces, others []string) []string {
	known := setOf(others)
	known[ledger.Anywhere] = true
	return slices.DeleteFunc(namespaces, func(name string) bool { return known[name] })
}

// scopeSources finds out how to watch sources: with one watch where RBAC allows it, else, or where the rules stay in a
// few namespaces, with one a namespace.
func (f *Flow) scopeSources(ctx context.Context, p *plan) (err error) {
	if p.watched = true; !p.source.Namespaced {
		p.sourcesWide = true
		return nil
	}
	namespaces, listable := boundary.SourceNamespaces(f.Rules, f.Extent().Naming)
	if !listable || len(namespaces) > fewNamespaces {
		if p.sourcesWide, err = f.wide(ctx, f.From.Cluster, p.source, listable); err != nil {
			return err
		}
	}
	if !p.sourcesWide && slices.Contains(f.heldIn(), ledger.Anywhere) {
		p.sourcesWide, err = f.wide(ctx, f.From.Cluster, p.source, true)
		p.heldUnseen = !p.sourcesWide
	}
	return err
}

// scopeTwins finds out how to watch twins: with one watch where RBAC allows it, else with one a namespace.
func (f *Flow) scopeTwins(ctx context.Context, p *plan) (err error) {
	if !p.twin.Namespaced {
		p.twinsWide = true
		return nil
	}
	_, listable := boundary.TwinNamespaces(f.Rules, f.Extent().Naming)
	p.twinsWide, err = f.wide(ctx, f.To.Cluster, p.twin, listable)
	return err
}

// wide reports whether RBAC allows to watch all namespaces at once. That it does not is an error where it is not known
// which ones would do.
func (f *Flow) wide(ctx context.Context, c *cluster.Cluster, r cluster.Resource, listable bool) (bool, error) {
	for _, verb := range []string{"list", "watch"} {
		switch ok, err := c.Can(ctx, verb, r.GroupVersionResource, "", ""); {
		case err != nil:
			return false, err
		case !ok && !listable:
			return false, lacking{fmt.Errorf("%s cluster: RBAC lacks the verb %s on %s in all namespaces, and the rules do not say in which namespaces it would do", c.Role(), verb, r.GroupResource())}
		case !ok:
			return false, nil
		}
	}
	return true, nil
}

// watches are those of one side of an epoch, by scope.
type watches struct {
	mu  sync.RWMutex
	all map[string]*watcher
}

// list returns them in the order of their scopes.
func (w *watches) list() (all []*watcher) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for _, scope := range slices.Sorted(maps.Keys(w.all)) {
		all = append(all, w.all[scope])
	}
	return all
}

// needed returns those that are not spare: what they show is waited for.
func (w *watches) needed() []*watcher {
	return slices.DeleteFunc(w.list(), func(one *watcher) bool { return one.spare.Load() })
}

// get returns the one of a scope; nil: there is none.
func (w *watches) get(scope string) *watcher {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.all[scope]
}

// open makes sure that there is one for each scope, and returns those that are new, to be run. Of an old one that was
// spare, what it shows is waited for again. spare are the scopes that nobody waits for.
func (w *watches) open(needed, spare []string, make func(scope string) *watcher) (fresh []*watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = map[string]*watcher{}
	}
	for i, scope := range slices.Concat(needed, spare) {
		one := w.all[scope]
		if one == nil {
			one = make(scope)
			one.spare.Store(i >= len(needed))
			w.all[scope] = one
			fresh = append(fresh, one)
		} else if i < len(needed) && one.spare.CompareAndSwap(true, false) {
			one.feed.Await()
			one.hurry()
		}
	}
	return fresh
}

// close leaves those for the scopes given, and returns the others, which are to be stopped.
func (w *watches) close(needed, spare []string) (closed []*watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	wanted := setOf(needed)
	for _, scope := range spare {
		wanted[scope] = true
		if one := w.all[scope]; one != nil && one.spare.CompareAndSwap(false, true) {
			one.hurry() // one that fails is not waited for any more
		}
	}
	for scope, one := range w.all {
		if !wanted[scope] {
			delete(w.all, scope)
			closed = append(closed, one)
		}
	}
	return closed
}
