//go:build unix

package e2e

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"isthmus.dev/isthmus/internal/config"
	"isthmus.dev/isthmus/internal/engine"
	"isthmus.dev/isthmus/internal/observe"
	"isthmus.dev/isthmus/test/harness"
)

// inProcess runs an engine in this process, as one who has many of them does.
type inProcess struct {
	*engine.Engine
	e      *harness.Env
	remote string // its kubeconfig
	// told is called when the engine says that something changed.
	told atomic.Pointer[func()]
	end  func()
}

// load reads a configuration, after granting what it needs.
func load(e *harness.Env, text string) *config.Config {
	e.T.Helper()
	e.GrantRBAC(e.WriteConfig(text))
	return parse(e, text)
}

// parse reads a configuration, and leaves the rights as they are.
func parse(e *harness.Env, text string) *config.Config {
	e.T.Helper()
	e.Allow(text)
	c, err := config.Load(e.WriteConfig(text))
	if err != nil {
		e.T.Fatal(err)
	}
	return c
}

// begin runs it with a configuration until the test ends or end is called.
func (p *inProcess) begin(t *testing.T, c *config.Config) {
	t.Helper()
	if p.remote == "" {
		p.remote = p.e.RemoteKubeconfig()
	}
	name := "isthmus-" + p.e.ID + "-there"
	p.e.Local.Apply(fmt.Sprintf(`{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: %[1]s, namespace: isthmus-system}, rules: [{apiGroups: [""], resources: [configmaps], resourceNames: [%[1]s], verbs: [get, create, patch, update]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: %[1]s, namespace: isthmus-system}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: %[1]s}, subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: %[2]s}]}
`, name, p.e.User()))
	p.Engine = engine.New(engine.Options{
		Config: c, ClusterID: p.e.ID, RemoteID: "remote", Instance: p.e.ID, Namespace: ledgerNamespace, LedgerName: name,
		Local: connect(t, "local", p.e.LocalKubeconfig()), Remote: connect(t, "remote", p.remote),
		Metrics: observe.NewMetrics("test"), Logger: slog.New(slog.DiscardHandler),
		Changed: func() {
			if told := p.told.Load(); told != nil {
				(*told)()
			}
		},
	})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	p.end = func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		p.end = func() {}
	}
	t.Cleanup(func() { p.end() })
}

// counts returns nil when what is left is as expected.
func counts(left int, known bool, wantLeft int, wantKnown bool) error {
	if left != wantLeft || known != wantKnown {
		return fmt.Errorf("%d twins are left, known: %t; expected %d, %t", left, known, wantLeft, wantKnown)
	}
	return nil
}

// A namespace that was taken out on purpose loses its twins, however many they are, also when that happened while nothing
// ran; how many are left is told without asking again and again.
func TestF8_WithdrawnNamespaceIsNotHeld(t *testing.T) {
	t.Parallel()
	for _, down := range []bool{false, true} {
		t.Run(fmt.Sprintf("down: %t", down), func(t *testing.T) {
			t.Parallel()
			e := harness.New(t)
			e.Both(harness.WidgetCRD("example.io"))
			big, few := e.Namespace("big"), e.Namespace("few")
			with, without := load(e, pairs([]string{few, big}, widgetsWith())), parse(e, pairs([]string{few}, widgetsWith()))
			p := &inProcess{e: e}
			p.begin(t, with)
			makeWidgets(e, big, numbered(6)...)
			makeWidgets(e, few, "one", "two")
			before := uidsOf(e, few)
			e.Eventually(func() error {
				left, known := p.Drained(big)
				return counts(left, known, 6, true)
			})
			if e.Local.Get("configmaps", ledgerNamespace, "isthmus-"+e.ID+"-there") == nil {
				t.Error("the ledger has another name than it was given")
			}

			p.Reload(without) // by mistake, for all that one knows
			e.Eventually(func() error {
				for _, rule := range p.Status("test").Rules {
					if rule.Paused == nil || rule.Paused.Deletes != 6 {
						return fmt.Errorf("not paused: %v", rule.Paused)
					}
				}
				return nil
			})
			left, known := p.Drained(big)
			if err := counts(left, known, 6, true); err != nil {
				t.Error(err)
			}
			drained := make(chan struct{}, 100)
			told := func() {
				if left, known := p.Drained(big); left == 0 && known {
					select {
					case drained <- struct{}{}:
					default:
					}
				}
			}
			p.told.Store(&told)
			withdrawn := *without
			withdrawn.Withdrawn = []string{big}
			if down {
				p.end()
				p.begin(t, &withdrawn)
			} else {
				p.Reload(&withdrawn)
			}
			gone(e, big, numbered(6)...)
			select {
			case <-drained:
			case <-time.After(harness.Patience):
				t.Error("nobody was told that no twin is left")
			}
			stays(e, 300*time.Millisecond, few, before)
			// It is offloaded anew, under the name that was withdrawn before.
			p.Reload(with)
			crossed(e, big, numbered(6)...)
			e.Eventually(func() error {
				left, known := p.Drained(big)
				return counts(left, known, 6, true)
			})
		})
	}
}

// What is left of a rule, or at all, is known only when everything is listed; a rule that is wound down is drained when it
// is forgotten.
func TestD5_WhatIsLeftOfARule(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns, other := e.Namespace("a"), e.Namespace("b")
	proxy := e.Proxy(e.Remote)
	both := []string{"name: goes, apiVersion: example.io/v1, kind: Widget", "name: stays, apiVersion: v1, kind: ConfigMap, selector: {matchLabels: {of: test}}"}
	p := &inProcess{e: e, remote: proxy.Kubeconfig}
	p.begin(t, load(e, pairs([]string{ns}, both...)))
	makeWidgets(e, ns, "one", "two")
	e.Local.Create(configMap(ns, "one", "{of: test}"))
	left := func(goes, stays, all int, known bool) error {
		goesLeft, goesKnown := p.RuleDrained("goes")
		staysLeft, staysKnown := p.RuleDrained("stays")
		allLeft, allKnown := p.RemoteDrained()
		return errors.Join(counts(goesLeft, goesKnown, goes, known), counts(staysLeft, staysKnown, stays, known), counts(allLeft, allKnown, all, known))
	}
	e.Eventually(func() error { return left(2, 1, 3, true) })
	none, known := p.RuleDrained("never")
	if err := counts(none, known, 0, true); err != nil {
		t.Error(err)
	}
	// A namespace that can't be listed on the remote side could hold twins.
	p.Reload(parse(e, pairs([]string{ns, other}, both...)))
	e.Eventually(func() error { return left(2, 1, 3, false) })
	p.Reload(parse(e, pairs([]string{ns}, both...)))
	e.Eventually(func() error { return left(2, 1, 3, true) })

	proxy.Cut()
	e.Eventually(func() error { return left(2, 1, 3, false) })
	p.Reload(parse(e, pairs([]string{ns}, both[1])))
	e.Eventually(func() error {
		if _, known := p.RuleDrained("goes"); known {
			return errors.New("it is known of a remote that is away")
		}
		return nil
	})
	proxy.Mend()
	e.Eventually(func() error { return left(0, 1, 1, true) })
	gone(e, ns, "one", "two")
	nothing := *parse(e, pairs([]string{ns}, both[1]))
	nothing.Rules = nil
	p.Reload(&nothing)
	e.Eventually(func() error { return left(0, 0, 0, true) })
	if twin := e.Remote.Get("configmaps", ns, "one"); twin != nil {
		t.Errorf("a twin is left: %v", twin.Object["metadata"])
	}
}
