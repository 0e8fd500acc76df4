package flow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/store"
)

// namespacesWait is how long a View waits for the namespaces of the twins' side; without them it says of new twins that
// they wait for their namespace, as a run does.
const namespacesWait = 5 * time.Second

// View is what one look at both sides showed. It decides as a run that starts now would, and writes nothing: what a
// server would make of a write, its own dry run tells.
type View struct {
	*Flow
	// Source and Twin are how both sides serve the kind.
	Source, Twin cluster.Resource
	// Schema is what the twins' side declares; nil: anything.
	Schema *boundary.Schema
	// Unlisted are what a run would wait for, for it can't be listed, why, and what to do.
	Unlisted []string
	// Notes are what a run would warn of.
	Notes []string

	e *epoch
	// skipped are the sources that no rule takes, if they were asked for.
	skipped map[types.NamespacedName]*unstructured.Unstructured
	// planned are the places where something is to change: what will be there; nil: nothing.
	planned map[types.NamespacedName]*unstructured.Unstructured
}

// Look lists both sides. skipped: also what no rule takes. An error says why the flow could not run; IsConnection tells
// whether a side just could not be reached. All flows of a direction, towards all remotes, have to look before the
// first one rehearses: what one refers to may be another's, and so may be a twin of the same source.
func (f *Flow) Look(ctx context.Context, skipped bool) (*View, error) {
	p, err := f.prepare(ctx)
	if err != nil {
		f.setState(f.waiting(err), nil) // as far as is known, its remote holds no twins (T5)
		return nil, err
	}
	e := f.newEpoch(ctx, func(error) {}, p)
	e.dry = []string{metav1.DryRunAll}
	e.queue.ShutDown() // nobody works
	v := &View{
		Flow: f, Source: p.source, Twin: p.twin, Schema: p.schema, e: e,
		planned: map[types.NamespacedName]*unstructured.Unstructured{},
	}
	if skipped {
		v.skipped = map[types.NamespacedName]*unstructured.Unstructured{}
	}
	if err := v.list(ctx); err != nil {
		f.setState(f.waiting(err), nil)
		return nil, err
	}
	if p.twin.Namespaced {
		namespaces := f.Namespaces()
		_ = wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, namespacesWait, true, func(context.Context) (bool, error) {
			return namespaces.Synced(), nil
		})
	}
	f.mu.Lock()
	f.state, f.epoch = State{Active: true}, e
	f.mu.Unlock()
	e.guard.recount()
	if e.guard.get().Paused && e.synced() {
		e.guard.release(ctx)
	}
	if crd := p.sourceCRD; crd != nil {
		if before := f.Ledger.CRD(f.Direction, p.source.GroupResource()); before != "" && before != crd.UID {
			v.Notes = append(v.Notes, fmt.Sprintf("the sources' CRD is another one than before (UID %s, now %s): what is absent counts as inferred", before, crd.UID))
		}
	}
	v.Notes = append(v.Notes, e.unseen()...)
	for _, rule := range f.Rules {
		if gaps := p.gaps[rule.Name]; len(gaps) > 0 {
			v.Notes = append(v.Notes, fmt.Sprintf("rule %s: the twins' side does not declare these fields, so they do not cross: %s", rule.Name, boundary.GapsMessage(gaps)))
		}
	}
	return v, nil
}

// list fills the stores as watches do, from one complete list a scope.
func (v *View) list(ctx context.Context) error {
	e, p := v.e, v.e.plan
	selector := e.sourceSelector()
	if v.skipped != nil {
		selector = ""
	}
	want := e.scopes(p, e.Extent())
	for i, scope := range slices.Concat(want.sources, want.held) {
		feed := e.sources.Feed(scope)
		if err := v.fill(ctx, e.from, p.source, scope, selector, feed, i >= len(want.sources)); err != nil {
			return err
		}
	}
	for i, scope := range slices.Concat(want.twins, want.former) {
		feed := e.twins.Feed(scope)
		if err := v.fill(ctx, e.to, p.twin, scope, e.twinSelector(), feed, i >= len(want.twins)); err != nil {
			return err
		}
	}
	return nil
}

// fill fills one feed. What RBAC does not let us list is noted: a run would wait for it, unless it is passable.
func (v *View) fill(ctx context.Context, s *side, r cluster.Resource, scope, selector string, feed *store.Feed, passable bool) error {
	ctx, err := s.trust(ctx)
	if err != nil {
		return err
	}
	objects, resourceVersion, err := s.List(ctx, r, scope, metav1.ListOptions{LabelSelector: selector})
	if apierrors.IsForbidden(err) && passable {
		feed.Pass()
		return nil
	}
	if apierrors.IsForbidden(err) {
		v.Unlisted = append(v.Unlisted, Remedied(err, s.Role()).Error())
		return nil
	}
	if err != nil {
		return err
	}
	items := make([]any, len(objects))
	for i, object := range objects {
		items[i] = object
		if v.skipped != nil && s == v.e.from && !boundary.Keeps(v.Rules, object.Head, v.Extent().Naming) {
			skipped := object.Decode()
			skipped.SetManagedFields(nil)
			v.skipped[nameOf(skipped)] = skipped
		}
	}
	return feed.Replace(items, resourceVersion)
}

// Keys returns the sources that a run would look at, those of twins included, and those that no rule takes if Look was
// asked for them. Those that have a twin come first, so that it is known which places they leave.
func (v *View) Keys() []types.NamespacedName {
	with, without := map[types.NamespacedName]bool{}, map[types.NamespacedName]bool{}
	v.e.twins.EachIndexed(func(source types.NamespacedName, _ store.Item) { with[source] = true })
	v.e.sources.Each("", func(source store.Item) bool {
		without[source.Key()] = true
		return true
	})
	for key := range v.skipped {
		without[key] = true
	}
	maps.DeleteFunc(without, func(key types.NamespacedName, _ bool) bool { return with[key] })
	sorted := func(keys map[types.NamespacedName]bool) []types.NamespacedName {
		return slices.SortedFunc(maps.Keys(keys), compareNames)
	}
	return append(sorted(with), sorted(without)...)
}

// SourceAt returns a source as it was listed, whether or not a rule takes it; nil: there is none.
func (v *View) SourceAt(key types.NamespacedName) *unstructured.Unstructured {
	if source := v.e.sources.Get(key); source != nil {
		return source
	}
	return v.skipped[key]
}

// TwinAt returns a twin as it was listed; nil: there is none.
func (v *View) TwinAt(place types.NamespacedName) *unstructured.Unstructured {
	return v.e.twins.Get(place)
}

// Twins returns the places of our twins as they were listed, and their sources.
func (v *View) Twins() map[types.NamespacedName]types.NamespacedName {
	twins := map[types.NamespacedName]types.NamespacedName{}
	v.e.twins.EachIndexed(func(source types.NamespacedName, twin store.Item) { twins[twin.Key()] = source })
	return twins
}

// ReadSource reads, live, an object that no list showed because no rule takes from its namespace, and keeps it with those
// that no rule takes. found: it is there.
func (v *View) ReadSource(ctx context.Context, key types.NamespacedName) (found bool, err error) {
	source, err := decoded(v.e.readSource(ctx, key))
	if source == nil || err != nil {
		return false, err
	}
	source.SetManagedFields(nil)
	v.skipped[key] = source
	return true, nil
}

// Remedied adds to an error that says that a right is missing how to get it: on a side, or "" for both.
func Remedied(err error, side string) error {
	command := "isthmus rbac"
	if side != "" {
		command += " --side " + side
	}
	return RemediedBy(err, command)
}

// lacking marks an error that says that a right is missing, without a server's having refused anything.
type lacking struct{ error }

// Unwrap returns the error itself.
func (l lacking) Unwrap() error { return l.error }

// RemediedBy adds to an error that says that a right is missing the command that prints it; an empty one adds nothing.
func RemediedBy(err error, command string) error {
	if command == "" || !apierrors.IsForbidden(err) && !errors.As(err, new(lacking)) {
		return err
	}
	return fmt.Errorf("%w: apply the output of %s", err, command)
}

// IsConnection reports whether an error of Look is about reaching a server rather than an answer.
func IsConnection(err error) bool { return isConnection(err) }

// IsReplaced reports whether an error of Look says that a cluster is another one than before.
func IsReplaced(err error) bool {
	var replaced *replacedError
	return errors.As(err, &replaced)
}
