//go:build unix

package e2e

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/config"
	"isthmus.dev/isthmus/internal/engine"
	"isthmus.dev/isthmus/internal/flow"
	"isthmus.dev/isthmus/internal/observe"
	"isthmus.dev/isthmus/test/harness"
)

// remotes are one local cluster and two remotes, a and b, each with an environment, and so a user and an audit, of its
// own.
type remotes struct {
	t    *testing.T
	ns   string
	a, b *harness.Env
	// kubeconfig replaces that of remote b.
	kubeconfig string
}

func newRemotes(t *testing.T) *remotes {
	a := harness.New(t)
	a.Both(harness.WidgetCRD("example.io"))
	r := &remotes{t: t, ns: a.Namespace("a"), a: a, b: a.Toward("second")}
	r.b.Remote.Apply(harness.WidgetCRD("example.io"))
	r.b.Remote.Apply("{apiVersion: v1, kind: Namespace, metadata: {name: " + r.ns + "}}")
	return r
}

// running is one process that runs towards both remotes.
type running struct {
	stop context.CancelFunc
	done chan error
	on   map[*harness.Env]*engine.Engine
}

// run starts both, or only those given, in this process. Towards b only what is labelled so crosses.
func (r *remotes) run(more string, envs ...*harness.Env) *running {
	r.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	p := &running{stop: stop, done: make(chan error, 2), on: map[*harness.Env]*engine.Engine{}}
	r.t.Cleanup(p.end)
	siblings := &flow.Siblings{}
	for _, e := range envs {
		text := rules(r.ns, widgetsWith("name: widgets", "statusSync: true"+more))
		if e == r.b {
			text = rules(r.ns, widgetsWith("name: widgets", "statusSync: true"+more, `selector: {matchLabels: {b: "yes"}}`))
		}
		path := e.WriteConfig(text)
		e.Allow(text)
		e.GrantRBAC(path)
		file, err := config.Load(path)
		if err != nil {
			r.t.Fatal(err)
		}
		kubeconfig := e.RemoteKubeconfig()
		if e == r.b && r.kubeconfig != "" {
			kubeconfig = r.kubeconfig
		}
		p.on[e] = engine.New(engine.Options{
			Config: file, ClusterID: r.a.ID, RemoteID: r.id(e), Instance: e.ID, Namespace: "isthmus-system",
			Local: connect(r.t, "local", e.LocalKubeconfig()), Remote: connect(r.t, "remote", kubeconfig),
			Siblings: siblings, Metrics: observe.NewMetrics("test"), Logger: slog.New(slog.DiscardHandler),
		})
	}
	for _, one := range p.on {
		go func() { p.done <- one.Run(ctx) }()
	}
	return p
}

// connect connects this process to a cluster.
func connect(t *testing.T, role, kubeconfig string) *cluster.Cluster {
	t.Helper()
	c, err := cluster.Connect(cluster.Options{Role: role, Kubeconfig: kubeconfig, UserAgent: "isthmus/test"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// end stops what runs, and waits for that.
func (p *running) end() {
	p.stop()
	for range p.on {
		<-p.done
	}
	p.on = nil
}

func (p *running) ready(e *harness.Env) error {
	_, err := p.on[e].Ready()
	return err
}

func (r *remotes) id(e *harness.Env) string {
	if e == r.a {
		return "a"
	}
	return "b"
}

// create makes a source that crosses to a, and its twin there tells a status.
func (r *remotes) create(name string) {
	r.t.Helper()
	r.a.Local.Create(widget(r.ns, name, "{size: 1}"))
	r.answer(r.a, name)
	r.a.Eventually(func() error { return r.status(name, "a") })
}

// answer waits for a twin on a remote and sets its status.
func (r *remotes) answer(e *harness.Env, name string) {
	r.t.Helper()
	e.Eventually(func() error { return is(e.Remote.Get(widgets, r.ns, name), 1, "spec", "size") })
	e.Remote.SetStatus(widgets, r.ns, name, "{from: "+r.id(e)+"}")
}

// toB lets a source cross to b too, or no longer.
func (r *remotes) toB(name string, yes bool) {
	r.t.Helper()
	label := "null"
	if yes {
		label = `"yes"`
	}
	r.a.Local.Patch(widgets, r.ns, name, "metadata: {labels: {b: "+label+"}}")
	r.a.Eventually(func() error {
		if there := r.b.Remote.Get(widgets, r.ns, name) != nil; there != yes {
			return fmt.Errorf("a twin on b: %t", there)
		}
		return nil
	})
}

// status returns nil when the status of a source is that from a remote; nil: there is none.
func (r *remotes) status(name string, from any) error {
	return is(r.a.Local.Get(widgets, r.ns, name), from, "status", "from")
}

func TestT5_StatusFromOneOfSeveralRemotes(t *testing.T) {
	t.Parallel()
	r := newRemotes(t)
	told := func(name string) error {
		return r.a.Local.HasEvent(r.ns, name, "Warning SyncFailed has twins on the remotes a, b, and its rule has no statusFrom")
	}

	p := r.run("", r.a)
	r.create("one")
	r.create("two")
	p.end()
	r.a.Local.Patch(widgets, r.ns, "one", `metadata: {labels: {b: "yes"}}`)
	p = r.run("", r.a, r.b) // the second remote appears
	r.a.Eventually(func() error { return r.status("one", nil) })
	r.a.Eventually(func() error { return told("one") })
	r.answer(r.b, "one")
	r.a.Remote.SetStatus(widgets, r.ns, "one", "{from: a, again: true}")
	r.a.Always(time.Second, func() error { return errors.Join(r.status("one", nil), r.status("two", "a")) })
	if told("two") == nil {
		t.Error("a source with one twin is said to have two")
	}

	// At rest nothing is written, also after a restart, when the remotes become known one after the other.
	p.end()
	began := time.Now()
	p = r.run("", r.a, r.b)
	r.a.Eventually(func() error { return errors.Join(p.ready(r.a), p.ready(r.b)) })
	r.a.Quiet(500 * time.Millisecond)
	if writes := append(r.a.Writes(began), r.b.Writes(began)...); len(writes) > 0 {
		t.Errorf("a restart at rest wrote %v", writes)
	}
	// It goes both ways while all run.
	r.toB("one", false)
	r.a.Eventually(func() error { return r.status("one", "a") })
	r.toB("two", true)
	r.a.Eventually(func() error { return r.status("two", nil) })
	r.a.Eventually(func() error { return told("two") })
	r.toB("two", false)
	r.a.Eventually(func() error { return r.status("two", "a") })
	r.toB("two", true)
	r.a.Eventually(func() error { return r.status("two", nil) })
	p.end()

	t.Run("with statusFrom", func(t *testing.T) {
		p = r.run(", statusFrom: b", r.a, r.b)
		r.answer(r.b, "two")
		r.a.Eventually(func() error { return r.status("two", "b") })
		r.a.Remote.SetStatus(widgets, r.ns, "two", "{from: a, again: false}")
		r.a.Always(500*time.Millisecond, func() error { return r.status("two", "b") })
		r.toB("two", false) // the one that it had
		r.a.Eventually(func() error { return r.status("two", nil) })
		r.toB("two", true)
		r.answer(r.b, "two")
		r.a.Eventually(func() error { return r.status("two", "b") })
		p.end()
		p = r.run(", statusFrom: a", r.a, r.b)
		r.a.Eventually(func() error { return r.status("two", "a") })
		r.toB("two", false) // the one that it does not have
		r.a.Always(500*time.Millisecond, func() error { return r.status("two", "a") })
		r.toB("two", true)
		p.end()
	})

	t.Run("two processes with one file", func(t *testing.T) {
		file := rules(r.ns, widgetsWith("name: widgets", "statusSync: true", "statusFrom: a"))
		r.a.StartWith(file, harness.StartOptions{Flags: []string{"--remote-id", "a"}})
		r.b.StartWith(file, harness.StartOptions{Flags: []string{"--remote-id", "b", "--cluster-id", r.a.ID}})
		r.a.Local.Create(widget(r.ns, "three", "{size: 1}"))
		r.answer(r.b, "three")
		r.answer(r.a, "three")
		r.a.Eventually(func() error { return r.status("three", "a") })
		r.b.Remote.SetStatus(widgets, r.ns, "three", "{from: b, again: true}")
		r.a.Quiet(time.Second)
		if err := r.status("three", "a"); err != nil {
			t.Error(err)
		}
		for _, w := range r.b.Writes(began) {
			if w.Side == "local" && w.ObjectRef.Name == "three" {
				t.Errorf("towards b a status is written: %s", w)
			}
		}
	})
}

// A remote that can't be reached does not keep the status of the others from returning (F1).
func TestT5_ARemoteThatIsAway(t *testing.T) {
	t.Parallel()
	r := newRemotes(t)
	p := r.run("", r.a, r.b)
	r.create("one")
	r.toB("one", true)
	r.a.Eventually(func() error { return r.status("one", nil) })
	p.end()
	proxy := r.b.Proxy(r.b.Remote)
	proxy.Cut()
	r.kubeconfig = proxy.Kubeconfig
	r.run("", r.a, r.b)
	r.a.Eventually(func() error { return r.status("one", "a") })
	proxy.Mend()
	r.a.Eventually(func() error { return r.status("one", nil) })
	// Once it is known to hold a twin, that is remembered while it is away.
	proxy.Cut()
	r.a.Remote.SetStatus(widgets, r.ns, "one", "{from: a, again: true}")
	r.a.Always(time.Second, func() error { return r.status("one", nil) })
	proxy.Mend()
	r.toB("one", false)
	r.a.Eventually(func() error { return r.status("one", "a") })
}
