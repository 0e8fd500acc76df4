package flow

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/store"
)

// References lead from the objects of one flow to those of another of the same direction and remote: what they become only
// the other knows (X3). Flows join when they are made, and leave when their Run
// ends. A nil *References leads nowhere.
type References struct {
	mu    sync.Mutex
	flows []*Flow
}

func (r *References) join(f *Flow) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flows = append(r.flows, f)
}

func (r *References) leave(f *Flow) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flows = slices.DeleteFunc(r.flows, func(other *Flow) bool { return other == f })
}

// resolve implements boundary.Resolver.
func (r *References) resolve(object boundary.Object) boundary.Resolution {
	for _, e := range r.epochs() {
		if e.Kind.GroupKind() == object.Kind && len(e.Rules) > 0 {
			return e.resolve(object.Name)
		}
	}
	return boundary.Resolution{}
}

// epochs returns those of the flows that run.
func (r *References) epochs() []*epoch {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var epochs []*epoch
	for _, f := range r.flows {
		f.mu.Lock()
		if f.epoch != nil {
			epochs = append(epochs, f.epoch)
		}
		f.mu.Unlock()
	}
	return epochs
}

// moved lets everything be looked at again that refers to an object of a kind, and whose place that changes.
func (r *References) moved(kind schema.GroupKind, match func(types.NamespacedName) bool, l lane) {
	for _, e := range r.epochs() {
		for _, source := range e.roaming.referrers(kind, match) {
			e.queue.add(source, l)
		}
	}
}

// resolve tells about an object of the flow's kind.
func (e *epoch) resolve(key types.NamespacedName) boundary.Resolution {
	if !e.plan.source.Namespaced {
		key.Namespace = ""
	}
	if !e.ready(key) {
		return boundary.Resolution{}
	}
	found := boundary.Resolution{Known: true}
	if source := e.sources.Get(key); source != nil {
		found.Place, found.Crosses = e.placeOf(source)
	}
	return found
}

// placeOf returns where the twin of a source is or belongs. One that no rule takes, though several select it, keeps the
// twin that it has.
func (e *epoch) placeOf(source *unstructured.Unstructured) (place types.NamespacedName, ok bool) {
	twins := e.twins.Named(types.NamespacedName{Namespace: source.GetNamespace(), Name: source.GetName()})
	place, ok = boundary.Belongs(e.Rules, source, e.Extent().Naming, stampedRule(twins))
	if !ok && len(twins) == 1 {
		return twins[0].Key(), true
	}
	return place, ok
}

// spread reports whether the rules put their twins in several host namespaces, so that a reference to one has to follow
// it when it moves.
func (f *Flow) spread() bool {
	for _, rule := range f.Rules {
		if rule.HostNamespace != f.Rules[0].HostNamespace {
			return true
		}
	}
	return false
}

// sourceMoved tells those that refer to a source when it has another place than before, or none.
func (e *epoch) sourceMoved(c store.Change) {
	if !e.spread() {
		return
	}
	var places [2]types.NamespacedName
	for i, source := range []store.Item{c.Old, c.New} {
		if source.Exists() {
			places[i], _ = e.placeOf(source.Head())
		}
	}
	if places[0] != places[1] {
		e.References.moved(e.Kind.GroupKind(), func(name types.NamespacedName) bool { return name == c.Key }, laneOf(c))
	}
}

// listedAgain tells those that refer to objects of the kind that more is known of these.
func (e *epoch) listedAgain() {
	if e.spread() {
		e.References.moved(e.Kind.GroupKind(), func(types.NamespacedName) bool { return true }, resyncs)
	}
}

// roaming remembers which sources refer to which objects whose place is not told by their kind.
type roaming struct {
	mu      sync.Mutex
	objects map[types.NamespacedName][]boundary.Object // by source
}

// set replaces what a source refers to, and reports whether anything is new.
func (r *roaming) set(source types.NamespacedName, objects []boundary.Object) (more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.objects[source]
	if len(objects) == 0 {
		delete(r.objects, source)
		return false
	}
	if r.objects == nil {
		r.objects = map[types.NamespacedName][]boundary.Object{}
	}
	r.objects[source] = objects
	for _, object := range objects {
		more = more || !slices.Contains(before, object)
	}
	return more
}

// referrers returns the sources that refer to an object of a kind that matches.
func (r *roaming) referrers(kind schema.GroupKind, match func(types.NamespacedName) bool) (sources []types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for source, objects := range r.objects {
		if slices.ContainsFunc(objects, func(o boundary.Object) bool { return o.Kind == kind && match(o.Name) }) {
			sources = append(sources, source)
		}
	}
	return sources
}

// follow remembers what a source refers to, as a decision about it found. What moved while it was decided may have been
// missed, so a source that refers to more than before is looked at once more.
func (e *epoch) follow(in boundary.Input, d boundary.Decision) {
	if d.Rule == nil && in.Source != nil {
		return // the decision was not about what the source's twin should be
	}
	further := e.abroad.set(in.Key, d.Abroad)
	if e.roaming.set(in.Key, d.Roaming) || further {
		e.queue.add(in.Key, resyncs)
	}
}

// abroad remembers which sources refer into other namespaces than their own, whose counterparts may change.
type abroad struct {
	mu         sync.Mutex
	namespaces map[types.NamespacedName][]string // by source
}

// set replaces the namespaces that a source refers into, and reports whether any is new.
func (a *abroad) set(source types.NamespacedName, namespaces []string) (more bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.namespaces[source]
	if len(namespaces) == 0 {
		delete(a.namespaces, source)
		return false
	}
	if a.namespaces == nil {
		a.namespaces = map[types.NamespacedName][]string{}
	}
	a.namespaces[source] = namespaces
	return slices.ContainsFunc(namespaces, func(name string) bool { return !slices.Contains(before, name) })
}

// referrers returns the sources that refer into any of the namespaces.
func (a *abroad) referrers(namespaces map[string]bool) (sources []types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for source, into := range a.namespaces {
		if slices.ContainsFunc(into, func(name string) bool { return namespaces[name] }) {
			sources = append(sources, source)
		}
	}
	return sources
}

// rememberAbsent remembers what was told on the source of references to objects that no rule takes, and lets a source
// that was written with others of that sort be looked at again when these have had time to come (X3).
func (e *epoch) rememberAbsent(in boundary.Input, d boundary.Decision, wrote bool) {
	told := slices.ContainsFunc(d.Events, func(event boundary.Event) bool { return event.Message == d.Absent })
	switch {
	case d.Absent == "" && in.Memory.Absent == "" && in.Memory.AbsentSince.IsZero():
	case d.Absent == "" || told || d.Absent == in.Memory.Absent:
		e.states.with(in.Key, func(s *state) { s.memory.Absent, s.memory.AbsentSince = d.Absent, time.Time{} })
	case wrote && in.Memory.AbsentSince.IsZero():
		e.states.with(in.Key, func(s *state) { s.memory.AbsentSince = time.Now() })
		e.queue.AddAfter(in.Key, boundary.AbsentGrace)
	}
}
