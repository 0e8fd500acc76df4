//go:build unix

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"isthmus.dev/isthmus/test/harness"
)

// pairs is a configuration for the namespaces given, each with its counterpart of the same name.
func pairs(namespaces []string, entries ...string) string {
	var texts []string
	for _, ns := range namespaces {
		texts = append(texts, ns+": "+ns)
	}
	one := namespaces[0]
	return strings.Replace(rules(one, entries...), fmt.Sprintf("{%[1]s: %[1]s}", one), "{"+strings.Join(texts, ", ")+"}", 1)
}

// seeAll lets a test's Isthmus list and watch widgets in all namespaces of both sides.
func seeAll(e *harness.Env) {
	e.T.Helper()
	e.Both(fmt.Sprintf(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: %[1]s-all}, rules: [{apiGroups: [example.io], resources: [widgets], verbs: [list, watch]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: %[1]s-all}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[1]s-all}, subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: %[2]s}]}
`, e.ID, e.User()))
}

// elsewhere returns the requests since a time that concern widgets, or a namespace's own state, of another namespace than
// the one given.
func elsewhere(e *harness.Env, since time.Time, ns string) (found []harness.Request) {
	for _, r := range append(e.Listings(since), e.Requests(since)...) {
		if r.ObjectRef == nil || r.Verb == "watch" && r.Stage == "ResponseComplete" { // one that was there before
			continue
		}
		switch r.ObjectRef.Resource {
		case "widgets":
			if r.ObjectRef.Namespace != ns {
				found = append(found, r)
			}
		case "namespaces":
			if r.ObjectRef.Name != ns && !strings.Contains(r.RequestURI, "metadata.name%3D"+ns) {
				found = append(found, r)
			}
		}
	}
	return found
}

// Ways in which RBAC lets namespaces be watched.
var sights = []struct {
	name   string
	others int
	see    func(*harness.Env)
}{
	{"one by one", 2, func(*harness.Env) {}},
	{"all at once", 9, seeAll},
}

// A namespace that gets a counterpart while Isthmus runs is taken in alone: no other is listed, watched, read or written.
func TestF2_AddingANamespaceTouchesNoOther(t *testing.T) {
	t.Parallel()
	for _, sight := range sights {
		t.Run(sight.name, func(t *testing.T) {
			t.Parallel()
			e, started := harness.New(t), time.Now()
			e.Both(harness.WidgetCRD("example.io"))
			var others []string
			for i := range sight.others {
				others = append(others, e.Namespace(fmt.Sprintf("o%d", i)))
			}
			added := e.Namespace("added")
			sight.see(e)
			entry := widgetsWith("statusSync: true")
			p := e.Start(pairs(others, entry))
			for _, ns := range others {
				makeWidgets(e, ns, "one", "two")
			}
			e.Local.Create(widget(added, "early", "{size: 1}"))
			restsSince(e, time.Now())
			before := uidsOf(e, others[0])

			e.GrantRBAC(e.WriteConfig(pairs(append(others, added), entry)))
			began := time.Now()
			p.ReconfigureOnly(pairs(append(others, added), entry))
			inForce(e, p, 1)
			crossed(e, added, "early")
			if found := elsewhere(e, began, added); len(found) > 0 {
				t.Errorf("other namespaces were asked for: %v", found)
			}
			if writes := e.Writes(began); len(writes) != 1 {
				t.Errorf("expected one write, got %v", writes)
			}
			if err := logged(p, "The new configuration is in force", "started=0", "followed=1", "untouched=0"); err != nil {
				t.Error(err)
			}
			// Both it and the others are followed from then on.
			makeWidgets(e, added, "late")
			makeWidgets(e, others[0], "late")
			e.Local.Patch(widgets, added, "early", "spec: {size: 7}")
			e.Eventually(func() error { return is(e.Remote.Get(widgets, added, "early"), 7, "spec", "size") })
			e.Remote.SetStatus(widgets, added, "early", "{ready: true}")
			e.Eventually(func() error { return is(e.Local.Get(widgets, added, "early"), true, "status", "ready") })
			e.Local.Delete(widgets, added, "early")
			gone(e, added, "early")
			stays(e, 300*time.Millisecond, others[0], before)

			// It goes again: its twins go, and again no other is concerned.
			began = time.Now()
			p.ReconfigureOnly(pairs(others, entry))
			inForce(e, p, 2)
			gone(e, added, "late")
			ledgerForgets(e, `"`+added+`"`)
			if found := elsewhere(e, began, added); len(found) > 0 {
				t.Errorf("other namespaces were asked for: %v", found)
			}
			e.Local.Create(widget(added, "after", "{size: 1}"))
			restsSince(e, time.Now())
			if twins := uidsOf(e, added); len(twins) > 0 {
				t.Errorf("a namespace without counterpart has twins: %v", twins)
			}
			if sight.others < 9 { // its watches ended, on both sides
				e.Eventually(func() error {
					for _, side := range []string{"local", "remote"} {
						if !slices.ContainsFunc(e.Requests(started), func(r harness.Request) bool {
							return r.Side == side && r.Verb == "watch" && r.ObjectRef.Resource == "widgets" && r.ObjectRef.Namespace == added
						}) {
							return fmt.Errorf("the watch on the %s side goes on", side)
						}
					}
					return nil
				})
			}
			// And comes back, with what came meanwhile.
			p.ReconfigureOnly(pairs(append(others, added), entry))
			inForce(e, p, 3)
			crossed(e, added, "late", "after")
			config := pairs(append(others, added), entry)
			restartsAtRest(e, p, config)
		})
	}
}

// A pair that is removed, or gets another counterpart, while Isthmus runs leaves no twins behind; the guard counts them.
func TestF8_RemovedPairIsHeld(t *testing.T) {
	t.Parallel()
	for _, sight := range sights {
		t.Run(sight.name, func(t *testing.T) {
			t.Parallel()
			e := harness.New(t)
			e.Both(harness.WidgetCRD("example.io"))
			big, few := e.Namespace("big"), e.Namespace("few")
			namespaces := []string{few, big}
			for i := range sight.others - 2 {
				namespaces = append(namespaces, e.Namespace(fmt.Sprintf("o%d", i)))
			}
			without := slices.Delete(slices.Clone(namespaces), 1, 2)
			sight.see(e)
			entry := widgetsWith("statusSync: true")
			p := e.Start(pairs(namespaces, entry))
			makeWidgets(e, big, numbered(6)...)
			makeWidgets(e, few, "one", "two", "three")
			before := uidsOf(e, big)

			p.ReconfigureOnly(pairs(without, entry))
			inForce(e, p, 1)
			e.Eventually(func() error { return logged(p, "Deletes are paused", "6 of 9 twins") })
			stays(e, time.Second, big, before)
			// Observed deletions go on meanwhile.
			e.Local.Delete(widgets, few, "three")
			gone(e, few, "three")
			// It was a mistake: nothing has happened.
			began := time.Now()
			p.ReconfigureOnly(pairs(namespaces, entry))
			inForce(e, p, 2)
			restsSince(e, began)
			stays(e, 300*time.Millisecond, big, before)
			e.Local.Patch(widgets, big, "w00", "spec: {size: 9}")
			e.Eventually(func() error { return is(e.Remote.Get(widgets, big, "w00"), 9, "spec", "size") })

			p.ReconfigureOnly(pairs(without, entry))
			inForce(e, p, 3)
			e.Eventually(func() error {
				if n := timesLogged(p, "Deletes are paused", "6 of 8 twins"); n < 1 {
					return fmt.Errorf("paused %d times", n)
				}
				return nil
			})
			stays(e, time.Second, big, before)
			allowDeletes(e, "Widget-toHost")
			gone(e, big, numbered(6)...)
			ledgerForgets(e, `"`+big+`"`)
			crossed(e, few, "one", "two")
		})
	}
}

// A reference into a namespace follows when that gets a counterpart, though the source itself stays as it is.
func TestX2_ReferencesFollowANewPair(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	a, other := e.Namespace("a"), e.Namespace("other")
	entry := "apiVersion: v1, kind: ConfigMap, selector: {matchLabels: {of: test}}, patches: [{path: data.k, type: rewriteNamespace}]"
	p := e.Start(pairs([]string{a}, entry))
	e.Local.Create(strings.Replace(configMap(a, "refers", "{of: test}"), "k: v", "k: "+other, 1))
	e.Local.Create(configMap(a, "not", "{of: test}"))
	withoutPair := func() error { // the name that the counterpart would have, which may be too long for the whole of it
		k := fmt.Sprint(field(e.Remote.Get("configmaps", a, "refers"), "data", "k"))
		if !strings.HasPrefix(k, other+"-") {
			return fmt.Errorf("it refers to %s", k)
		}
		return nil
	}
	e.Eventually(withoutPair)
	p.Reconfigure(pairs([]string{a, other}, entry))
	inForce(e, p, 1)
	e.Eventually(func() error { return is(e.Remote.Get("configmaps", a, "refers"), other, "data", "k") })
	p.ReconfigureOnly(pairs([]string{a}, entry))
	inForce(e, p, 2)
	e.Eventually(withoutPair)
}

// A flow that comes to watch many namespaces one by one changes over to one watch of all where it may, once.
func TestF2_ManyNamespacesAreWatchedAtOnce(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	var all []string
	for i := range 20 {
		all = append(all, e.Namespace(fmt.Sprintf("n%02d", i)))
	}
	seeAll(e)
	e.GrantRBAC(e.WriteConfig(pairs(all, widgetsWith("statusSync: true"))))
	p := e.Start(pairs(all[:2], widgetsWith("statusSync: true")))
	e.GrantRBAC(e.WriteConfig(pairs(all, widgetsWith("statusSync: true"))))
	makeWidgets(e, all[0], "one")
	makeWidgets(e, all[1], "one")
	wide := func(since time.Time) (n int) {
		for _, r := range lists(e, since, "widgets") {
			if r.Side == "local" && r.Verb == "watch" && r.ObjectRef.Namespace == "" {
				n++
			}
		}
		return n
	}
	began, before := time.Now(), uidsOf(e, all[0])
	for i, n := range []int{16, 17, 20} {
		p.ReconfigureOnly(pairs(all[:n], widgetsWith("statusSync: true")))
		inForce(e, p, i+1)
		if n == 16 && wide(began) > 0 {
			t.Error("all namespaces are watched although they are few")
		}
	}
	e.Eventually(func() error {
		if n := wide(began); n != 1 {
			return fmt.Errorf("all namespaces are watched %d times", n)
		}
		return nil
	})
	p.WaitReady()
	makeWidgets(e, all[19], "one")
	stays(e, 300*time.Millisecond, all[0], before)
	if writes := e.Writes(began); len(writes) != 1 {
		t.Errorf("expected one write, got %v", writes)
	}
}

// Sources that are held lose what holds them when their namespace is taken out while Isthmus runs, and its twins are gone.
func TestD3_RemovedPairLetsGoOfItsSources(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	a, b := e.Namespace("a"), e.Namespace("b")
	entry := widgetsWith("deletionPolicy: Foreground")
	p := e.Start(pairs([]string{a, b}, entry))
	makeWidgets(e, a, "one")
	makeWidgets(e, b, "one", "two")
	held := func(ns, name string, yes bool) error {
		if have := len(e.Local.Get(widgets, ns, name).GetFinalizers()) > 0; have != yes {
			return fmt.Errorf("%s/%s is held: %t", ns, name, have)
		}
		return nil
	}
	e.Eventually(func() error { return held(b, "one", true) })
	p.ReconfigureOnly(pairs([]string{a}, entry)) // the rights outlive it
	inForce(e, p, 1)
	gone(e, b, "one", "two")
	e.Eventually(func() error { return held(b, "one", false) })
	e.Eventually(func() error { return held(b, "two", false) })
	if err := held(a, "one", true); err != nil {
		t.Error(err)
	}
	ledgerForgets(e, `"`+b+`"`)
	p.ReconfigureOnly(pairs([]string{a, b}, entry))
	inForce(e, p, 2)
	crossed(e, b, "one", "two")
	e.Eventually(func() error { return held(b, "one", true) })
}
