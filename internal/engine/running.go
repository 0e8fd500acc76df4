package engine

import (
	"cmp"
	"context"
	"reflect"
	"slices"
	"sync"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/config"
	"isthmus.dev/isthmus/internal/flow"
	"isthmus.dev/isthmus/internal/ledger"
	"isthmus.dev/isthmus/internal/observe"
)

// run is what runs between two clusters from the opening of the ledger to a stop.
type run struct {
	*Engine
	ctx        context.Context
	book       *ledger.Ledger
	directions map[boundary.Direction]*direction
}

// direction is what all flows of one direction share, whatever the configuration.
type direction struct {
	events     *observe.Events
	namespaces *namespaces
	references *flow.References
}

// task is a flow that runs.
type task struct {
	*flow.Flow
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}
	// changed tells that it ended.
	changed func()
}

func (e *Engine) newRun(ctx context.Context, book *ledger.Ledger) *run {
	r := &run{Engine: e, ctx: ctx, book: book, directions: map[boundary.Direction]*direction{}}
	for _, w := range e.ways(e.latest(), book.LocalUID(), book.RemoteUID()) {
		d := &direction{
			events:     observe.NewEvents(w.from.Clientset(), observe.Component, false),
			references: &flow.References{},
		}
		d.namespaces = e.namespacesOf(ctx, w, func(name string) {
			for _, t := range e.tasks() {
				if t.Direction == w.direction {
					t.NamespaceChanged(name)
				}
			}
		})
		d.events.LogTo(e.Logger)
		r.directions[w.direction] = d
	}
	e.mu.Lock()
	e.counterparts = r.directions[boundary.ToRemote].namespaces
	e.mu.Unlock()
	return r
}

// take brings the flows in line with the latest configuration. Those of which nothing changed go on untouched; those of
// which only namespaces changed follow.
func (r *run) take() error {
	c, removed, err := r.begin()
	if err != nil || r.ctx.Err() != nil {
		return err
	}
	var want []flow.Options
	for _, w := range r.ways(c, r.book.LocalUID(), r.book.RemoteUID()) {
		d := r.directions[w.direction]
		d.events.Enable(c.Events)
		d.namespaces.use(boundary.TwinNamespaces(w.rules, w.extent.Naming))
		base := flow.Options{
			Ledger: r.book, Events: d.events, Namespaces: d.namespaces.get, Siblings: r.Siblings, References: d.references, Rights: r.Rights,
		}
		want = append(want, r.flowsOf(w, base, removed)...)
	}

	before := r.tasks()
	tasks := make([]*task, len(want)) // those that go on, and then the others too
	for i, o := range want {
		if at := slices.IndexFunc(before, func(t *task) bool { return t.runs() && same(t.options(), o) }); at >= 0 {
			tasks[i] = before[at]
		}
	}
	met := func() {}
	if slices.Contains(tasks, nil) { // what goes on is known to the siblings, who would look at everything again
		met = r.Siblings.Expect(r.RemoteID)
	}
	stopped := slices.DeleteFunc(slices.Clone(before), func(t *task) bool { return slices.Contains(tasks, t) })
	r.stop(stopped, c)
	for _, t := range stopped {
		t.ForgetUntouched(r.ctx)
	}
	var fresh []*task
	followed := 0
	for i, o := range want {
		if tasks[i] == nil {
			tasks[i] = newTask(r.ctx, o)
			fresh = append(fresh, tasks[i])
		} else if tasks[i].Follow(r.ctx, o.Extent) {
			followed++
		}
	}
	r.mu.Lock()
	r.running, r.waiting, r.Engine.book, r.inForce = tasks, "", r.book, c
	r.mu.Unlock()
	r.told()
	met()
	r.made()
	for _, t := range fresh {
		go t.run()
	}
	if before != nil {
		r.Logger.Info("The new configuration is in force", "started", len(fresh), "followed", followed, "untouched", len(tasks)-len(fresh)-followed)
	}
	return nil
}

// begin records the latest rules in the ledger and returns those that were removed since.
func (r *run) begin() (c *config.Config, removed []ledger.Rule, err error) {
	err = r.retry(r.ctx, func() error {
		c = r.latest()
		var err error
		removed, err = r.book.Begin(r.ctx, r.ledgerRules(c))
		return err
	})
	return c, removed, err
}

// stop ends flows, all at once, and takes what they measured out of the metrics, but for the rules of c.
func (r *run) stop(tasks []*task, c *config.Config) {
	for _, t := range tasks {
		t.cancel()
	}
	for _, t := range tasks {
		<-t.done
		for _, rule := range t.Rules {
			if !slices.ContainsFunc(c.Rules, func(n *boundary.Rule) bool {
				return n.Name == rule.Name && n.Direction == rule.Direction && n.Kind.Kind == rule.Kind.Kind
			}) {
				r.Metrics.RemoveRule(rule.Name, string(rule.Direction), rule.Kind.Kind)
			}
		}
	}
}

// close ends everything.
func (r *run) close() {
	r.stop(r.tasks(), r.latest())
	r.mu.Lock()
	r.running, r.waiting, r.Engine.book, r.inForce = nil, "stopped", nil, nil
	r.mu.Unlock()
	var closing sync.WaitGroup
	for _, d := range r.directions {
		closing.Go(d.events.Shutdown)
	}
	closing.Wait()
}

func newTask(ctx context.Context, o flow.Options) *task {
	t := &task{Flow: flow.New(o), done: make(chan struct{}), changed: o.Changed}
	t.ctx, t.cancel = context.WithCancel(ctx)
	return t
}

func (t *task) run() {
	defer t.changed()
	defer close(t.done)
	t.Run(t.ctx)
}

// runs reports whether the flow has not ended by itself, as one does that had only to wind rules down.
func (t *task) runs() bool {
	select {
	case <-t.done:
		return false
	default:
		return true
	}
}

// options returns what the flow runs with now.
func (t *task) options() flow.Options {
	o := t.Options
	o.Extent = *t.Extent()
	return o
}

// same reports whether a flow that runs is the one that is wanted, or can follow to it. It may know of more removed rules:
// those are done with.
func same(running, want flow.Options) bool {
	byName := func(rules []*boundary.Rule) []*boundary.Rule {
		return slices.SortedFunc(slices.Values(rules), func(a, b *boundary.Rule) int { return cmp.Compare(a.Name, b.Name) })
	}
	return running.Direction == want.Direction && running.Kind == want.Kind &&
		reflect.DeepEqual(byName(running.Rules), byName(want.Rules)) && want.Extent.Follows(running.Extent) &&
		running.CreateNamespaces == want.CreateNamespaces && running.MassDeletion == want.MassDeletion &&
		within(want.Removed, running.Removed) && slices.Equal(running.Waiting, want.Waiting)
}

func within[T any](few, many []T) bool {
	return !slices.ContainsFunc(few, func(one T) bool {
		return !slices.ContainsFunc(many, func(other T) bool { return reflect.DeepEqual(one, other) })
	})
}
