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
	return r
}

// take brings the flows in line with the latest configuration: those of which nothing changed go on untouched.
func (r *run) take() error {
	c, removed, err := r.begin()
	if err != nil || r.ctx.Err() != nil {
		return err
	}
	var want []flow.Options
	for _, w := range r.ways(c, r.book.LocalUID(), r.book.RemoteUID()) {
		d := r.directions[w.direction]
		d.events.Enable(c.Events)
		d.namespaces.use(twinNamespaces(w.rules, w.naming))
		base := flow.Options{
			Ledger: r.book, Events: d.events, Namespaces: d.namespaces.get, Siblings: r.Siblings, References: d.references,
		}
		want = append(want, r.flowsOf(w, base, removed)...)
	}

	before := r.tasks()
	tasks := make([]*task, len(want)) // those that go on, and then the others too
	for i, o := range want {
		if at := slices.IndexFunc(before, func(t *task) bool { return t.runs() && same(t.Options, o) }); at >= 0 {
			tasks[i] = before[at]
		}
	}
	met := r.Siblings.Expect(r.RemoteID)
	stopped := slices.DeleteFunc(slices.Clone(before), func(t *task) bool { return slices.Contains(tasks, t) })
	r.stop(stopped, c)
	r.forgetUntouched(stopped)
	var fresh []*task
	for i, o := range want {
		if tasks[i] == nil {
			o.FormerNamespaces = recorded(o, r.book.Former)
			tasks[i] = newTask(r.ctx, o)
			fresh = append(fresh, tasks[i])
		}
	}
	r.mu.Lock()
	r.running, r.waiting = tasks, ""
	r.mu.Unlock()
	met()
	r.made()
	for _, t := range fresh {
		go t.run()
	}
	if before != nil {
		r.Logger.Info("The new configuration is in force", "started", len(fresh), "untouched", len(tasks)-len(fresh))
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

// forgetUntouched drops from the ledger the former namespaces that no twin was ever written in, such as those of a
// counterpart that was mistyped for a while.
func (r *run) forgetUntouched(stopped []*task) {
	for _, t := range stopped {
		for _, rule := range t.Rules {
			if err := r.book.ForgetUntouched(r.ctx, rule.Name, t.MayHaveWritten); err != nil {
				r.Logger.Warn("The ledger can't be written", "error", err)
				return
			}
		}
	}
}

// close ends everything.
func (r *run) close() {
	r.stop(r.tasks(), r.latest())
	r.mu.Lock()
	r.running, r.waiting = nil, "stopped"
	r.mu.Unlock()
	var closing sync.WaitGroup
	for _, d := range r.directions {
		closing.Go(d.events.Shutdown)
	}
	closing.Wait()
}

func newTask(ctx context.Context, o flow.Options) *task {
	t := &task{Flow: flow.New(o), done: make(chan struct{})}
	t.ctx, t.cancel = context.WithCancel(ctx)
	return t
}

func (t *task) run() {
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

// same reports whether a flow that runs is the one that is wanted. It may know of more removed rules and former
// namespaces: those are done with.
func same(running, want flow.Options) bool {
	byName := func(rules []*boundary.Rule) []*boundary.Rule {
		return slices.SortedFunc(slices.Values(rules), func(a, b *boundary.Rule) int { return cmp.Compare(a.Name, b.Name) })
	}
	return running.Direction == want.Direction && running.Kind == want.Kind &&
		reflect.DeepEqual(byName(running.Rules), byName(want.Rules)) && reflect.DeepEqual(running.Naming, want.Naming) &&
		running.CreateNamespaces == want.CreateNamespaces && running.MassDeletion == want.MassDeletion &&
		within(want.Removed, running.Removed) && within(want.FormerNamespaces, running.FormerNamespaces) &&
		within(want.HeldIn, running.HeldIn)
}

func within[T any](few, many []T) bool {
	return !slices.ContainsFunc(few, func(one T) bool {
		return !slices.ContainsFunc(many, func(other T) bool { return reflect.DeepEqual(one, other) })
	})
}
