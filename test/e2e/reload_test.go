//go:build unix

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"isthmus.dev/isthmus/test/harness"
)

// inForce waits until so many configurations have been taken while the process ran, and everything is listed.
func inForce(e *harness.Env, p *harness.Isthmus, times int) {
	e.T.Helper()
	e.Eventually(func() error {
		if n := timesLogged(p, "The new configuration is in force"); n < times {
			return fmt.Errorf("%d configurations were taken", n)
		}
		return nil
	})
	p.WaitReady()
}

// lists returns the lists and watches of a resource since a time.
func lists(e *harness.Env, since time.Time, resource string) (found []harness.Request) {
	for _, r := range e.Listings(since) {
		if r.ObjectRef != nil && r.ObjectRef.Resource == resource {
			found = append(found, r)
		}
	}
	return found
}

func configMap(ns, name, labels string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: %s, labels: %s}\ndata: {k: v}\n", name, ns, labels)
}

// A configuration that changes while Isthmus runs: what did not change is neither listed again nor written, what changed
// follows, what is new starts.
func TestF2_ReloadTouchesOnlyWhatChanged(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	entry := "apiVersion: v1, kind: ConfigMap, selector: {matchLabels: {of: test}}"
	p := e.Start(rules(ns, "apiVersion: example.io/v1, kind: Widget, statusSync: true", entry))
	makeWidgets(e, ns, numbered(6)...)
	e.Local.Create(configMap(ns, "one", "{of: test}"))
	e.Eventually(func() error { return is(e.Remote.Get("configmaps", ns, "one"), "v", "data", "k") })
	before := uidsOf(e, ns)
	restsSince(e, time.Now())

	began := time.Now()
	p.Reconfigure(rules(ns, "apiVersion: v1, kind: Secret, selector: {matchLabels: {of: test}}",
		entry+", extraLabels: {more: label}", "apiVersion: example.io/v1, kind: Widget, statusSync: true"))
	inForce(e, p, 1)
	e.Eventually(func() error { return is(e.Remote.Get("configmaps", ns, "one"), "label", "metadata", "labels", "more") })
	e.Local.Create(fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: one, namespace: %s, labels: {of: test}}\nstringData: {k: v}\n", ns))
	e.Eventually(func() error { return is(e.Remote.Get("secrets", ns, "one"), "dg==", "data", "k") })
	e.Local.Patch(widgets, ns, "w00", "spec: {size: 9}")
	e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "w00"), 9, "spec", "size") })
	e.Remote.SetStatus(widgets, ns, "w00", "{ready: true}")
	e.Eventually(func() error { return is(e.Local.Get(widgets, ns, "w00"), true, "status", "ready") })

	if found := lists(e, began, "widgets"); len(found) > 0 {
		t.Errorf("a flow of which nothing changed listed or watched anew: %v", found)
	}
	if found := lists(e, began, "configmaps"); len(found) == 0 {
		t.Error("a flow that changed did not list anew")
	}
	stays(e, 300*time.Millisecond, ns, before)
	if writes := e.Writes(began); len(writes) != 4 {
		t.Errorf("expected writes of one label, one Secret, one change and one status, got %v", writes)
	}
	if err := logged(p, "The new configuration is in force", "started=2", "untouched=1"); err != nil {
		t.Error(err)
	}

	// The same again writes nothing, also when a signal asks for it, and leaves all flows alone.
	began = time.Now()
	p.Signal(syscall.SIGHUP)
	inForce(e, p, 2)
	restsSince(e, began)
	for _, resource := range []string{"widgets", "configmaps", "secrets"} {
		if found := lists(e, began, resource); len(found) > 0 {
			t.Errorf("listed or watched anew: %v", found)
		}
	}
	// A rule of another kind that comes and goes leaves all others alone.
	began = time.Now()
	of := "selector: {matchLabels: {of: test}}"
	three := []string{"apiVersion: v1, kind: Secret, " + of, entry + ", extraLabels: {more: label}", "apiVersion: example.io/v1, kind: Widget, statusSync: true"}
	p.Reconfigure(rules(ns, append(three, "apiVersion: v1, kind: Service, "+of)...))
	inForce(e, p, 3)
	if err := logged(p, "The new configuration is in force", "started=1", "untouched=3"); err != nil {
		t.Error(err)
	}
	p.Reconfigure(rules(ns, three...))
	inForce(e, p, 4)
	for _, resource := range []string{"widgets", "configmaps", "secrets"} {
		if found := lists(e, began, resource); len(found) > 0 {
			t.Errorf("listed or watched anew: %v", found)
		}
	}
	// And a restart finds all in step.
	content, err := os.ReadFile(p.Config)
	if err != nil {
		t.Fatal(err)
	}
	restartsAtRest(e, p, string(content))
}

// A rule that is removed while Isthmus runs is wound down as onRemoval says, and forgotten; other rules go on.
func TestD5_RulesRemovedWhileRunning(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"Delete", "Orphan"} {
		for _, alone := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, alone: %t", policy, alone), func(t *testing.T) {
				t.Parallel()
				e := harness.New(t)
				e.Both(harness.WidgetCRD("example.io"))
				ns := e.Namespace("a")
				stay := "name: stays, apiVersion: example.io/v1, kind: Widget, selector: {matchLabels: {of: stays}}"
				if alone {
					stay = "name: others, apiVersion: v1, kind: ConfigMap, selector: {matchLabels: {of: test}}"
				}
				goes := "name: goes, apiVersion: example.io/v1, kind: Widget, selector: {matchLabels: {of: goes}}, onRemoval: " + policy
				p := e.Start(rules(ns, goes, stay))
				for _, name := range numbered(6) { // more than the guard would let go by inference
					e.Local.Create(strings.Replace(widget(ns, name, "{size: 3}"), "metadata: {", "metadata: {labels: {of: goes}, ", 1))
				}
				if !alone {
					e.Local.Create(strings.Replace(widget(ns, "other", "{size: 3}"), "metadata: {", "metadata: {labels: {of: stays}, ", 1))
					crossed(e, ns, "other")
				}
				crossed(e, ns, numbered(6)...)
				before := uidsOf(e, ns)

				p.ReconfigureOnly(rules(ns, stay)) // RBAC outlives the rule
				inForce(e, p, 1)
				if policy == "Delete" {
					gone(e, ns, numbered(6)...)
				} else {
					e.Eventually(func() error {
						for _, name := range numbered(6) {
							twin := e.Remote.Get(widgets, ns, name)
							if len(twin.GetAnnotations()) > 0 || len(twin.GetManagedFields()) > 0 || twin.GetUID() != before[name] {
								return fmt.Errorf("%s was not let go: %v", name, twin.Object["metadata"])
							}
						}
						return nil
					})
				}
				ledgerForgets(e, `"goes"`)
				if err := active(p, "goes", ""); err != nil {
					t.Errorf("the metric still has the rule: %v", err)
				}

				// The rule comes back while the process runs: what was let go is foreign to it.
				p.ReconfigureOnly(rules(ns, goes, stay))
				inForce(e, p, 2)
				if policy == "Delete" {
					crossed(e, ns, numbered(6)...)
				} else {
					e.Eventually(func() error { return e.Local.HasEvent(ns, "w00", "Warning", "was not created by this Isthmus") })
				}
				if !alone {
					if twin := e.Remote.Get(widgets, ns, "other"); twin == nil || twin.GetUID() != before["other"] {
						t.Error("a twin of a rule that stayed did not stay")
					}
				}
			})
		}
	}
}

// What a changed rule does not select any more was not seen to go: the guard counts it.
func TestF8_ReloadThatDeselectsIsHeld(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	a, b := e.Namespace("a"), e.Namespace("b")
	p := e.Start(widgetRule(a))
	makeWidgets(e, a, numbered(6)...)
	before := uidsOf(e, a)

	p.Reconfigure(widgetRule(a, "selector: {matchLabels: {no: one}}"))
	inForce(e, p, 1)
	e.Eventually(func() error { return logged(p, "Deletes are paused", "6 of 6 twins") })
	stays(e, time.Second, a, before)
	// The file is put right: nothing has happened.
	began := time.Now()
	p.Reconfigure(widgetRule(a))
	inForce(e, p, 2)
	restsSince(e, began)
	stays(e, 300*time.Millisecond, a, before)

	// Another counterpart: the twins in the one before are held as well, until the file allows it.
	p.ReconfigureOnly(pairRule(a, b)) // with the rights on a, which the rights for b alone would not hold
	e.GrantRBAC(e.WriteConfig(pairRule(a, b)))
	inForce(e, p, 3)
	crossed(e, b, numbered(6)...)
	e.Eventually(func() error {
		if n := timesLogged(p, "Deletes are paused", "6 of 6 twins"); n < 2 {
			return fmt.Errorf("paused %d times", n)
		}
		return nil
	})
	stays(e, time.Second, a, before)
	p.ReconfigureOnly("massDeletion: Allow\n" + pairRule(a, b))
	inForce(e, p, 4)
	gone(e, a, numbered(6)...)
	ledgerForgets(e, `"`+a+`"`)
}

// A file that can't be used changes nothing, and is told of everywhere until it is put right.
func TestF5_ABadNewFileKeepsTheOldRunning(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	good := widgetRule(ns)
	p := e.Start(good)
	makeWidgets(e, ns, "one")
	at := p.Metric("isthmus_config_last_reload_success_timestamp_seconds")
	if at == "" || p.Metric("isthmus_config_last_reload_successful") != "1" {
		t.Errorf("the metrics before: %q", at)
	}
	for i, bad := range []string{
		strings.Replace(good, "direction: toHost", "direction: up", 1),
		"version: v1\nsyncResources: [",
		"",
	} {
		began := time.Now()
		p.ReconfigureOnly(bad)
		e.Eventually(func() error {
			if n := timesLogged(p, "The new configuration is refused, and the one before goes on", filepath.Base(p.Config)); n != i+1 {
				return fmt.Errorf("told %d times", n)
			}
			return nil
		})
		if code, body := p.Ready(); code != 200 || !strings.Contains(body, "the new configuration is refused, and the one before goes on: "+p.Config) {
			t.Errorf("/readyz: %d %s", code, body)
		}
		if p.Metric("isthmus_config_last_reload_successful") != "0" || p.Metric("isthmus_config_last_reload_success_timestamp_seconds") != at {
			t.Errorf("the metrics: %s", p.Metrics())
		}
		e.Local.Patch(widgets, ns, "one", fmt.Sprintf("spec: {size: %d}", 10+i))
		e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "one"), 10+i, "spec", "size") })
		if found := lists(e, began, "widgets"); len(found) > 0 {
			t.Errorf("listed anew: %v", found)
		}
	}
	// Gone altogether, and back.
	if err := os.Remove(p.Config); err != nil {
		t.Fatal(err)
	}
	e.Eventually(func() error { return logged(p, "The new configuration is refused", "no such file") })
	p.ReconfigureOnly(good)
	inForce(e, p, 1)
	if _, body := p.Ready(); body != "ok\n" {
		t.Errorf("/readyz: %s", body)
	}
	if now := p.Metric("isthmus_config_last_reload_success_timestamp_seconds"); p.Metric("isthmus_config_last_reload_successful") != "1" || now == at {
		t.Errorf("the metrics after: %s", now)
	}
}

// A mounted ConfigMap changes by a symbolic link that is replaced. The settings of the process follow the file as well.
func TestF5_ReloadOfAMountedConfigMap(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	dir := t.TempDir()
	mount := func(version, config string) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(dir, version), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, version, "sync.yaml"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(version, filepath.Join(dir, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	base := strings.Replace(widgetRule(ns), "log_level: trace\n", "log_level: warn\nevents_enabled: false\n", 1)
	mount("..1", base)
	if err := os.Symlink(filepath.Join("..data", "sync.yaml"), filepath.Join(dir, "sync.yaml")); err != nil {
		t.Fatal(err)
	}
	p := e.StartWith(base, harness.StartOptions{Config: filepath.Join(dir, "sync.yaml")})
	makeWidgets(e, ns, "quiet")
	e.GrantRBAC(e.WriteConfig(widgetRule(ns)))
	began := time.Now()
	mount("..2", widgetRule(ns))
	if err := os.RemoveAll(filepath.Join(dir, "..1")); err != nil {
		t.Fatal(err)
	}
	inForce(e, p, 1)
	makeWidgets(e, ns, "loud")
	e.Eventually(func() error { return e.Local.HasEvent(ns, "loud", "Normal", "Created") })
	e.Eventually(func() error { return logged(p, "Created the twin", ns+"/loud") })
	if logged(p, ns+"/quiet") == nil || len(e.Local.Events(ns, "quiet")) > 0 {
		t.Error("told of what was to be quiet")
	}
	if found := lists(e, began, "widgets"); len(found) > 0 {
		t.Errorf("the level of the log and Events concern no flow, but it listed anew: %v", found)
	}
}

// Without the local cluster the new configuration waits, and the one before goes on as far as it can.
func TestF1_ReloadWhileTheLocalClusterIsAway(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	proxy := e.Proxy(e.Local)
	p := e.StartWith(widgetRule(ns), harness.StartOptions{LocalKubeconfig: proxy.Kubeconfig})
	makeWidgets(e, ns, "one")
	before := uidsOf(e, ns)
	proxy.Cut()
	p.Reconfigure(widgetRule(ns, "extraLabels: {more: first}", "name: other")) // a name that the ledger has to learn
	e.Eventually(func() error { return logged(p, "The configuration was read again") })
	e.Eventually(func() error { return logged(p, "Waiting", "ledger") })
	p.Reconfigure(widgetRule(ns, "extraLabels: {more: second}", "name: other"))
	e.Eventually(func() error {
		if n := timesLogged(p, "The configuration was read again"); n != 2 {
			return fmt.Errorf("read %d times", n)
		}
		return nil
	})
	if _, body := p.Ready(); !strings.Contains(body, "local cluster is not reached") {
		t.Errorf("/readyz: %s", body)
	}
	stays(e, time.Second, ns, before)
	proxy.Mend()
	inForce(e, p, 1)
	e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "one"), "second", "metadata", "labels", "more") })
	stays(e, 300*time.Millisecond, ns, before)
}

// A counterpart that is mistyped for a while, where nothing can have been written, leaves nothing behind: neither a warning
// nor an entry in the ledger.
func TestF5_AMistypedCounterpartIsForgotten(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	good := rules(ns, widgetsWith())
	wrong := strings.Replace(good, "{"+ns+": "+ns+"}", "{"+ns+": "+ns+"-typo}", 1)
	p := e.Start(good)
	makeWidgets(e, ns, numbered(2)...)
	before := uidsOf(e, ns)
	p.ReconfigureOnly(wrong) // no right is given for it
	e.Eventually(func() error { return logged(p, "Watching failed", ns+"-typo") })
	p.ReconfigureOnly(good)
	inForce(e, p, 2)
	stays(e, 300*time.Millisecond, ns, before)
	if n := timesLogged(p, "Twins may be left"); n > 0 {
		t.Errorf("warned %d times of a namespace in which nothing was ever written", n)
	}
	if ledger := fmt.Sprint(e.Local.Get("configmaps", ledgerNamespace, "isthmus-"+e.ID).Object["data"]); strings.Contains(ledger, "typo") {
		t.Errorf("the ledger still knows the mistyped namespace: %s", ledger)
	}
}
