package flow

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/store"
	"isthmus.dev/isthmus/internal/wire"
)

// counted is a flow of widgets whose objects are brought by hand.
type counted struct {
	*epoch
	t               testing.TB
	naming          boundary.Naming
	source, twin    *store.Feed
	resourceVersion int
}

// newCounted makes one that carries namespace shop into a remote namespace.
func newCounted(t testing.TB, into string) *counted {
	kind := schema.GroupVersionKind{Group: "example.io", Version: "v1", Kind: "Widget"}
	rule := &boundary.Rule{Name: "widgets", Kind: kind, Direction: boundary.ToRemote, Policy: boundary.PolicyAll, Selector: labels.Everything(), Workers: 1}
	f := &Flow{name: "widget", log: slog.New(slog.NewTextHandler(io.Discard, nil)), Options: Options{
		Identity: boundary.Identity{Cluster: "west", Instance: "main", Home: "west", ClusterUID: "uid-west"},
		Kind:     kind, Rules: []*boundary.Rule{rule}, Direction: boundary.ToRemote,
	}}
	c := &counted{t: t, naming: namingInto(into), resourceVersion: 100}
	f.extents.set(&Extent{Naming: c.naming})
	ctx, end := context.WithCancelCause(t.Context())
	c.epoch = f.newEpoch(ctx, end, &plan{})
	t.Cleanup(func() { c.queue.ShutDown(); end(nil) })
	c.source, c.twin = c.sources.Feed(""), c.twins.Feed("")
	return c
}

func namingInto(namespace string) boundary.Naming {
	return boundary.SameName{Pairs: boundary.NamespacePairs{"shop": namespace}}
}

// version is the next resourceVersion.
func (c *counted) version() string {
	c.resourceVersion++
	return fmt.Sprint(c.resourceVersion)
}

// widget makes a source.
func (c *counted) widget(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.io/v1", "kind": "Widget",
		"metadata": map[string]any{"namespace": "shop", "name": name, "uid": "uid-" + name, "resourceVersion": c.version(), "generation": int64(1)},
		"spec":     map[string]any{"size": int64(1)},
	}}
}

// twinOf makes the twin that a source has in a remote namespace.
func (c *counted) twinOf(source *unstructured.Unstructured, into string) *unstructured.Unstructured {
	c.t.Helper()
	place := types.NamespacedName{Namespace: into, Name: source.GetName()}
	d := boundary.Decide(boundary.Input{Identity: c.Identity, Rules: c.Rules, Naming: namingInto(into), Key: nameOf(source), Source: source, Place: place, Now: time.Now()})
	if d.Action != boundary.Create {
		c.t.Fatalf("the decision about a new source: %s, %q", d.Action, d.Reasons)
	}
	twin := &unstructured.Unstructured{Object: d.Body}
	twin.SetUID(types.UID("uid-" + into + "-" + source.GetName()))
	twin.SetResourceVersion(c.version())
	return twin
}

// sent returns an object as a server sends it.
func sent(t testing.TB, o *unstructured.Unstructured) *wire.Object {
	t.Helper()
	object, err := wire.Of(o)
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// list brings what both sides hold.
func (c *counted) list(sources, twins []any) {
	c.t.Helper()
	for feed, all := range map[*store.Feed][]any{c.source: sources, c.twin: twins} {
		came := make([]any, len(all))
		for i, o := range all {
			came[i] = sent(c.t, o.(*unstructured.Unstructured))
		}
		if err := feed.Replace(came, c.version()); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *counted) expect(when string, deletes, twins int, held bool) {
	c.t.Helper()
	c.guard.recount()
	if g := c.guard.get(); g.Deletes != deletes || g.Twins != twins || g.Paused != held {
		c.t.Errorf("%s: %d of %d twins would go, held is %t; expected %d of %d, %t", when, g.Deletes, g.Twins, g.Paused, deletes, twins, held)
	}
}

// Twins that are made while deletes are held do not make these few, whichever comes first: the answer to a create, its
// event, or a count.
func TestF8_TwinsThatAreMadeMeanwhileDoNotCount(t *testing.T) {
	c := newCounted(t, "there")
	var sources, old, fresh []any
	for i := range 6 {
		source := c.widget(fmt.Sprint("w", i))
		sources, old, fresh = append(sources, source), append(old, c.twinOf(source, "here")), append(fresh, c.twinOf(source, "there"))
	}
	lost := apierrors.NewTimeoutError("the answer was lost", 1)
	refused := apierrors.NewForbidden(schema.GroupResource{}, "w", nil)
	create := func(i int) (twin *unstructured.Unstructured, event func(), answered func(metav1.Object, error)) {
		twin = fresh[i].(*unstructured.Unstructured)
		twin.SetResourceVersion(c.version())
		stamp, _ := c.Identity.StampOf(twin)
		return twin, func() {
			if err := c.twin.Add(sent(t, twin)); err != nil {
				t.Fatal(err)
			}
		}, c.guard.creating(stamp.Source, nameOf(twin))
	}
	c.list(sources, old)
	c.expect("all twins are where they do not belong any more", 6, 6, true)

	twin, event, answered := create(0)
	event()
	c.expect("the event came before the answer", 6, 6, true)
	answered(twin, nil)
	c.expect("and now the answer", 6, 6, true)
	twin, event, answered = create(1)
	answered(twin, nil)
	c.twins.Put(sent(t, twin))
	c.expect("the answer came before the event", 6, 6, true)
	event()
	c.expect("and now the event", 6, 6, true)
	_, event, answered = create(2)
	answered(nil, lost)
	event()
	c.expect("the answer was lost, and the event came", 6, 6, true)
	for i := 3; i < 6; i++ {
		_, event, _ = create(i)
		event()
	}
	c.expect("all are made, and some not answered yet", 6, 6, true)

	// What was there already when it was asked for is none of those.
	c = newCounted(t, "there")
	c.list(sources, old)
	_, event, answered = create(0)
	answered(nil, refused)
	event()
	c.expect("a create was refused, and a twin is there", 6, 7, true)

	// Once the deletes are let go, all count.
	c.guard.allowed = true
	c.expect("somebody let them go", 6, 7, false)
	twin, event, answered = create(1)
	event()
	answered(twin, nil)
	c.expect("one was made since", 6, 8, false)
}
