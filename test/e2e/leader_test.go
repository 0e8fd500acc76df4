//go:build unix

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"isthmus.dev/isthmus/test/harness"
)

const leaseDuration = 4 * time.Second

// elected are the options of an instance of several.
func elected(flags ...string) harness.StartOptions {
	return harness.StartOptions{Flags: append([]string{
		"--leader-elect", "--leader-elect-lease-duration=" + leaseDuration.String(), "--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=500ms",
	}, flags...)}
}

// identity returns the name of an instance, as its log has it.
func identity(p *harness.Isthmus) string {
	_, rest, _ := strings.Cut(p.Log(), "identity=")
	return strings.Fields(rest + " ?")[0]
}

func leads(p *harness.Isthmus) error {
	if value := p.Metric("isthmus_leader"); value != "1" {
		return fmt.Errorf("isthmus_leader is %q", value)
	}
	if code, body := p.Ready(); code != http.StatusOK || strings.Contains(body, "standby") {
		return fmt.Errorf("readyz: %d %s", code, body)
	}
	return nil
}

func standsBy(p, behind *harness.Isthmus) error {
	if value := p.Metric("isthmus_leader"); value != "0" {
		return fmt.Errorf("isthmus_leader is %q", value)
	}
	if code, body := p.Ready(); code != http.StatusOK || !strings.Contains(body, "standby: "+identity(behind)+" holds the lease") {
		return fmt.Errorf("readyz: %d %s", code, body)
	}
	return nil
}

// pair starts a leader and one that stands by.
func pair(e *harness.Env, config string) (first, second *harness.Isthmus) {
	e.T.Helper()
	first = e.StartWith(config, elected())
	e.Eventually(func() error { return leads(first) })
	second = e.StartWith(config, elected())
	e.Eventually(func() error { return standsBy(second, first) })
	return first, second
}

// by returns the requests, or writes, that an instance made since a time.
func by(p *harness.Isthmus, all []harness.Request) (found []harness.Request) {
	for _, r := range all {
		if strings.Contains(r.UserAgent, identity(p)) {
			found = append(found, r)
		}
	}
	return found
}

// resized changes a source and waits for its twin.
func resized(e *harness.Env, ns, name string, size int) {
	e.T.Helper()
	e.Local.Patch(widgets, ns, name, fmt.Sprintf("spec: {size: %d}", size))
	e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, name), size, "spec", "size") })
}

// One that stands by lists and writes nothing, takes over within the lease time from one that is killed, at once from one
// that is told to stop, and finds everything in step.
func TestF2_ASecondInstanceTakesOver(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	began := time.Now()
	config := widgetRule(ns)
	first, second := pair(e, config)
	makeWidgets(e, ns, numbered(3)...)
	for _, r := range by(second, append(e.Writes(began), e.Listings(began)...)) {
		t.Errorf("one that stands by asks: %s", r)
	}
	out, code := harness.Run(t, "status", "--address", second.Address())
	if code != 0 || !strings.Contains(out, "standby: "+identity(second)+"; "+identity(first)+" holds the lease") {
		t.Errorf("status of one that stands by: %d %s", code, out)
	}
	if out, _ := harness.Run(t, "status", "--address", first.Address()); !strings.Contains(out, "leader: "+identity(first)) {
		t.Errorf("status of the leader: %s", out)
	}

	killed := time.Now()
	first.Kill()
	e.Eventually(func() error { return leads(second) })
	t.Logf("killed: the other leads after %.1f of the lease duration", time.Since(killed).Seconds()/leaseDuration.Seconds())
	restsSince(e, killed)
	resized(e, ns, "w00", 5)

	third := e.StartWith(config, elected())
	e.Eventually(func() error { return standsBy(third, second) })
	stopped := time.Now()
	second.Stop()
	e.Eventually(func() error { return leads(third) })
	took := time.Since(stopped)
	t.Logf("told to stop: the other leads after %.1f of the lease duration", took.Seconds()/leaseDuration.Seconds())
	lease := e.Local.Get("leases.coordination.k8s.io", "isthmus-system", "isthmus-"+e.ID)
	if err := is(lease, identity(third), "spec", "holderIdentity"); err != nil {
		t.Error(err)
	}
	if strings.Contains(second.Log(), "is not released") {
		t.Errorf("the lease was not released")
	}
	resized(e, ns, "w01", 6)
}

// A leader that was stopped for longer than its lease and comes back writes nothing, while another one leads, and may
// lead again later.
func TestP3_AStoppedLeaderComesBack(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	first, second := pair(e, widgetRule(ns))
	names := numbered(12)
	makeWidgets(e, ns, names...)
	for round := range 2 {
		paused := time.Now()
		first.Pause()
		for _, name := range names[:6] { // what the first will hear of when it comes back
			e.Local.Patch(widgets, ns, name, fmt.Sprintf("spec: {size: %d}", 100*round+10))
		}
		e.Eventually(func() error { return leads(second) })
		t.Logf("stopped: the other leads after %.1f of the lease duration", time.Since(paused).Seconds()/leaseDuration.Seconds())
		for _, name := range names {
			resized(e, ns, name, 100*round+11)
		}
		resumed := time.Now()
		first.Resume()
		for i, name := range names { // for either to write, if it could
			e.Local.Patch(widgets, ns, name, fmt.Sprintf("spec: {size: %d}", 100*round+12))
			e.Remote.SetStatus(widgets, ns, names[i], fmt.Sprintf("{ready: true, observedSize: %d}", round))
			e.Remote.Patch(widgets, ns, name, "spec: {size: 1}")
		}
		e.Eventually(func() error { return standsBy(first, second) })
		for _, name := range names {
			e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, name), 100*round+12, "spec", "size") })
			e.Eventually(func() error { return is(e.Local.Get(widgets, ns, name), true, "status", "ready") })
		}
		for _, r := range by(first, e.Writes(paused)) {
			if r.RequestReceived.After(resumed) {
				t.Errorf("one that was stopped for longer than its lease writes: %s", r)
			}
		}
		if len(by(second, e.Writes(resumed))) == 0 {
			t.Error("no write of the new leader was found")
		}
		first, second = second, first
		e.Eventually(func() error { return leads(first) })
	}
}
