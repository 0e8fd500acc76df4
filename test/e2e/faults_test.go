//go:build unix

package e2e

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"isthmus.dev/isthmus/internal/controlplane"
	"isthmus.dev/isthmus/test/harness"
)

// A remote that comes late, goes, hangs, and refuses who we are or who it is: each is said, and over without a restart.
func TestF1_RemoteDownSlowExpired(t *testing.T) {
	t.Parallel()
	e := harness.NewOwn(t, controlplane.Options{})
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	kubeconfig := e.CopyKubeconfig(e.Remote)
	options := harness.StartOptions{RemoteKubeconfig: kubeconfig, NotReady: true}
	unready := func(p *harness.Isthmus, texts ...string) {
		t.Helper()
		e.Eventually(func() error {
			code, body := p.Ready()
			for _, text := range append(texts, "remote cluster") {
				if code != 503 || !strings.Contains(body, text) {
					return fmt.Errorf("expected %q, readyz says %d %s", text, code, body)
				}
			}
			return nil
		})
	}
	cross := func(p *harness.Isthmus, name string) {
		t.Helper()
		crossed(e, ns, name)
		p.WaitReady()
	}

	config := widgetRule(ns)
	e.GrantRBAC(e.WriteConfig(config))
	options.NoRBAC = true
	if err := e.Remote.Kill(controlplane.APIServer); err != nil {
		t.Fatal(err)
	}
	p := e.StartWith(config, options) // down from the start
	unready(p, "refused")
	e.Local.Create(widget(ns, "one", "{size: 1}"))
	if err := e.Remote.Restart(t.Context(), controlplane.APIServer); err != nil {
		t.Fatal(err)
	}
	cross(p, "one")

	if err := e.Remote.Kill(controlplane.APIServer); err != nil {
		t.Fatal(err)
	}
	e.Local.Create(widget(ns, "two", "{size: 1}"))
	unready(p, "refused")
	if value := p.Metric(`isthmus_cluster_reachable{side="remote"}`); value != "0" {
		t.Errorf("isthmus_cluster_reachable is %q", value)
	}
	if err := e.Remote.Restart(t.Context(), controlplane.APIServer); err != nil {
		t.Fatal(err)
	}
	cross(p, "two")

	// A server that hangs is noticed, and SIGTERM does not wait for it.
	if err := e.Remote.Pause(controlplane.APIServer); err != nil {
		t.Fatal(err)
	}
	e.Local.Create(widget(ns, "three", "{size: 1}"))
	unready(p)
	e.Local.Create(widget(ns, "four", "{size: 1}"))
	e.Eventually(func() error { return logged(p, `msg=Decided`, ns+"/four", "action=create") })
	p.Stop()
	if err := e.Remote.Resume(controlplane.APIServer); err != nil {
		t.Fatal(err)
	}

	// A credential expires, and is replaced in its file. Two objects cross before, on a busy machine too.
	expiry := time.Now().Add(15 * time.Second)
	expiring, err := e.Remote.UserKubeconfigExpiring(e.User(), expiry)
	if err != nil {
		t.Fatal(err)
	}
	e.ReplaceKubeconfig(kubeconfig, expiring)
	p = e.StartWith(config, options)
	cross(p, "three")
	cross(p, "four")
	e.Eventually(func() error {
		if left := time.Until(expiry.Add(time.Second)); left > 0 {
			return fmt.Errorf("the certificate is valid for %s", left)
		}
		return nil
	})
	e.Local.Create(widget(ns, "five", "{size: 1}"))
	unready(p, "credentials")
	if e.Remote.Get(widgets, ns, "five") != nil {
		t.Error("written with an expired credential")
	}
	fresh, err := e.Remote.UserKubeconfig(e.User())
	if err != nil {
		t.Fatal(err)
	}
	e.ReplaceKubeconfig(kubeconfig, fresh)
	cross(p, "five")

	// The server's certificate expires. Open connections live on, so they are ended.
	if err := e.Remote.ReplaceServingCert(t.Context(), time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := e.Remote.Restart(t.Context(), controlplane.APIServer); err != nil {
		t.Fatal(err)
	}
	unready(p, "expired")
	e.Local.Create(widget(ns, "six", "{size: 1}"))
	if err := e.Remote.ReplaceServingCert(t.Context(), time.Time{}); err != nil {
		t.Fatal(err)
	}
	cross(p, "six")
}

// The kubeconfig comes to name another cluster while changes cross: nothing reaches it.
func TestF7_KubeconfigThatNamesAnotherCluster(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	kubeconfig := e.CopyKubeconfig(e.Remote)
	config := widgetRule(ns)
	p := e.StartWith(config, harness.StartOptions{RemoteKubeconfig: kubeconfig})
	other := e.WithThird(config, harness.WidgetCRD("example.io"), "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+ns+"}\n")

	e.ReplaceKubeconfig(kubeconfig, other.Kubeconfig)
	n := 0
	e.Eventually(func() error { // it is read anew by one of the requests of these
		e.Local.Create(widget(ns, fmt.Sprintf("w%d", n), "{size: 1}"))
		n++
		return logged(p, "The configuration changed and was read again")
	})
	e.Eventually(func() error {
		if code, body := p.Ready(); code != 503 || !strings.Contains(body, "kube-system") {
			return fmt.Errorf("readyz says %d %s", code, body)
		}
		return nil
	})
	if twins := other.List(widgets, ns, ""); len(twins) > 0 {
		t.Errorf("%d twins were made on another cluster", len(twins))
	}
	e.ReplaceKubeconfig(kubeconfig, e.CopyKubeconfig(e.Remote))
	crossed(e, ns, "w0", fmt.Sprintf("w%d", n-1))
}

// At rest nothing is written, and neither a stop, nor kills, nor a start changes that.
func TestF2_RestartsWriteNothing(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	config := widgetRule(ns, "workers: 8")
	p := e.Start(config)
	const n = 200
	inParallel(n, func(i int) {
		e.Local.Create(widget(ns, fmt.Sprintf("w%03d", i), "{size: 1, ports: [{port: 80}], amount: 2}"))
	})
	e.Within(2*harness.Patience, func() error {
		if have := len(e.Remote.List(widgets, ns, "")); have != n {
			return fmt.Errorf("%d twins", have)
		}
		return nil
	})
	for i := range 5 {
		name := fmt.Sprintf("w%03d", i)
		e.Remote.SetStatus(widgets, ns, name, "{observedGeneration: 1, ready: true}")
		e.Eventually(func() error { return is(e.Local.Get(widgets, ns, name), true, "status", "ready") })
	}
	p.Stop()
	for range 3 {
		p = e.Start(config)
		e.Eventually(func() error {
			if have := p.Metric(`isthmus_objects{direction="ToRemote",kind="Widget",state="in_step"}`); have != fmt.Sprint(n) {
				return fmt.Errorf("%s objects are in step", have)
			}
			return nil
		})
		e.Quiet(500 * time.Millisecond)
		p.Kill()
	}
}

// Two kills in the midst of work lose and double nothing.
func TestF2_KillsInTheMidstOfWork(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	config := widgetRule(ns)
	p := e.Start(config)
	began := time.Now()
	const n = 60
	go inParallel(n, func(i int) { e.Local.Create(widget(ns, fmt.Sprintf("w%03d", i), "{size: 1}")) })
	for _, least := range []int{5, 20} {
		e.Eventually(func() error {
			if have := len(e.Remote.List(widgets, ns, "")); have < least {
				return fmt.Errorf("%d twins", have)
			}
			return nil
		})
		p.Kill()
		p = e.Start(config)
	}
	e.Eventually(func() error {
		if have := len(e.Remote.List(widgets, ns, "")); have != n {
			return fmt.Errorf("%d twins", have)
		}
		return nil
	})
	e.Quiet(500 * time.Millisecond)
	if writes := e.Writes(began); len(writes) > n+2*4 { // what was in flight at a kill may have been asked for again
		t.Errorf("%d writes for %d objects", len(writes), n)
	}
}

// SIGTERM lets the write in flight end, and ends the process in time also when both sides hang.
func TestF1_StopWhileBothSidesHang(t *testing.T) {
	t.Parallel()
	e := harness.NewOwn(t, controlplane.Options{})
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	p := e.Start(widgetRule(ns, "workers: 4"))
	makeWidgets(e, ns, numbered(4)...)
	for _, name := range numbered(4) {
		e.Remote.SetStatus(widgets, ns, name, "{ready: true}")
		e.Local.Patch(widgets, ns, name, "spec: {size: 2}")
	}
	e.Eventually(func() error { return logged(p, "Returned the status") })
	for _, side := range []*harness.Side{e.Remote, e.Local} {
		if err := side.Pause(controlplane.APIServer); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	p.Stop()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the stop took %s", took)
	}
	for _, side := range []*harness.Side{e.Remote, e.Local} {
		if err := side.Resume(controlplane.APIServer); err != nil {
			t.Fatal(err)
		}
	}
}

func TestF5_BadConfigurationEndsTheProcess(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	config := widgetRule(ns)
	e.Start(config).Stop()
	began := time.Now()
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	missing := e.CopyKubeconfig(e.Local) + "-not"
	notOne := e.WriteConfig("not a kubeconfig")
	for _, c := range []struct {
		name, config string
		options      harness.StartOptions
		says         []string
	}{
		{"unknown key", strings.Replace(config, "statusSync", "statusSink", 1), harness.StartOptions{}, []string{".yaml:8:3: syncResources[0].statusSink", "statusSync"}},
		{"wrong type", strings.Replace(config, "statusSync: true", "statusSync: maybe", 1), harness.StartOptions{}, []string{".yaml:8:15: syncResources[0].statusSync", "true or false"}},
		{"no YAML", "version: [", harness.StartOptions{}, []string{".yaml:1:"}},
		{"contradiction", config + "  extraLabels: {a: b}\n  hostOwnedFields: ['metadata.labels[\"a\"]']\n", harness.StartOptions{}, []string{".yaml:10:", "contradicts extraLabels"}},
		{"busy port", config, harness.StartOptions{Flags: []string{"--listen", busy.Addr().String()}}, []string{busy.Addr().String(), "in use", "--listen"}},
		{"unknown flag", config, harness.StartOptions{Flags: []string{"--lissen", "x"}}, []string{"--lissen", "--help"}},
		{"bad ID", config, harness.StartOptions{Flags: []string{"--cluster-id", "No_Label"}}, []string{"--cluster-id", "DNS label"}},
		{"same IDs", config, harness.StartOptions{Flags: []string{"--cluster-id", "remote"}}, []string{"--cluster-id", "--remote-id"}},
		{"no such kubeconfig", config, harness.StartOptions{LocalKubeconfig: missing}, []string{"local cluster", missing}},
		{"no kubeconfig", config, harness.StartOptions{RemoteKubeconfig: notOne}, []string{"remote cluster", notOne}},
		{"one cluster twice", config, harness.StartOptions{RemoteKubeconfig: e.CopyKubeconfig(e.Local)}, []string{"same one", "two clusters"}},
		{"another cluster ID", config, harness.StartOptions{Flags: []string{"--cluster-id", "other"}}, []string{"ledger", "--cluster-id " + e.ID, "delete the ledger"}},
		{"another remote ID", config, harness.StartOptions{Flags: []string{"--remote-id", "other"}}, []string{"ledger", "--remote-id remote", "--instance"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.options.NoRBAC, c.options.NotReady = true, true
			p := e.StartWith(c.config, c.options)
			if code := p.Wait(); code != 1 {
				t.Errorf("exit code %d", code)
			}
			for _, text := range c.says {
				if !strings.Contains(p.Log(), text) {
					t.Errorf("expected %q in %q", text, p.Log())
				}
			}
			if strings.Contains(p.Log(), "goroutine ") || strings.Contains(p.Log(), "Usage:") {
				t.Errorf("not for people: %s", p.Log())
			}
		})
	}
	for _, r := range e.Requests(began) {
		if r.IsWrite() {
			t.Errorf("written: %s", r)
		}
	}
	if _, err := os.Stat(missing); err == nil {
		t.Error("a kubeconfig was made")
	}
}
