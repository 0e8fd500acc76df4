//go:build unix

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"isthmus.dev/isthmus/test/harness"
)

// imports is a configuration of a virtual cluster that runs in a host namespace, with rules in YAML's flow form, without
// braces.
func imports(host string, rules ...string) string {
	text := fmt.Sprintf("version: v1\nlog_level: trace\nnaming: VirtualCluster\nvirtualCluster: {name: vc, hostNamespace: %s}\nsyncResources:\n", host)
	for _, rule := range rules {
		text += "- {" + rule + "}\n"
	}
	return text
}

// secretsIn is a rule that imports the Secrets that are labelled share: "yes".
const secretsIn = `apiVersion: v1, kind: Secret, direction: fromHost, selector: {matchLabels: {share: "yes"}}`

// shared is a Secret that secretsIn selects, with annotations in YAML's flow form, without braces.
func shared(namespace, name, annotations, value string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: %s, namespace: %s, labels: {share: 'yes'}, annotations: {%s}}, stringData: {key: %q}}",
		name, namespace, annotations, value)
}

// onlyCopies returns nil when these Secrets, and no others, are in a local namespace.
func onlyCopies(e *harness.Env, namespace string, names ...string) error {
	return present(e.Local, "secrets", namespace, names...)
}

func TestN3_ImportsGoWhereTheirSourcesSay(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	host, elsewhere, target, other := e.Namespace("host"), e.Namespace("elsewhere"), e.ID+"-target", e.ID+"-other"
	config := imports(host, secretsIn+", targetNamespace: "+target)
	p := e.Start(config)
	copied := func(ns, name, value string) {
		t.Helper()
		e.Eventually(func() error { return secretHas(e.Local, ns, name, "key", value) })
	}
	annotate := func(name, annotations string) {
		e.Remote.Patch("secrets", host, name, "metadata: {annotations: {"+annotations+"}}")
	}
	writer := e.ID + "/" + e.ID + "/" + string(e.Remote.UID())

	t.Run("the rule's namespace, which is made", func(t *testing.T) {
		source := e.Remote.Create(shared(host, "plain", "note: theirs", "one"))
		e.Remote.Create(secretIn(host, "unlabelled"))
		e.Remote.Create(shared(elsewhere, "elsewhere", "", "no"))
		copied(target, "plain", "one")
		twin := e.Local.Get("secrets", target, "plain")
		for key, want := range map[string]string{
			"isthmus.dev/writer": writer, "isthmus.dev/rule": "Secret-fromHost", "isthmus.dev/source": host + "/plain",
			"isthmus.dev/source-uid": string(source.GetUID()), "isthmus.dev/twin": target + "/plain", "note": "theirs",
		} {
			if have := twin.GetAnnotations()[key]; have != want {
				t.Errorf("%s is %q, expected %q", key, have, want)
			}
		}
		for _, obj := range []string{"isthmus.dev/origin", "share"} {
			if twin.GetLabels()[obj] == "" {
				t.Errorf("the copy lacks the label %s: %v", obj, twin.GetLabels())
			}
		}
		made := e.Local.Get("namespaces", "", target)
		if made.GetLabels()["isthmus.dev/origin"] != "remote" || made.GetAnnotations()["isthmus.dev/writer"] != writer {
			t.Errorf("the namespace does not say whose it is: %v", made.Object["metadata"])
		}
		e.Remote.Patch("secrets", host, "plain", "stringData: {key: two}")
		copied(target, "plain", "two")
	})
	t.Run("their annotations", func(t *testing.T) {
		e.Remote.Create(shared(host, "both", fmt.Sprintf("isthmus.dev/target-namespace: %s, isthmus.dev/target-name: renamed", other), "a"))
		e.Remote.Create(shared(host, "named", "kupe.cloud/target-name: by-name", "b"))
		e.Remote.Create(shared(host, "placed", "kupe.cloud/target-namespace: "+other, "c"))
		e.Remote.Create(shared(host, "agreed", "isthmus.dev/target-name: same, kupe.cloud/target-name: same", "d"))
		copied(other, "renamed", "a")
		copied(target, "by-name", "b")
		copied(other, "placed", "c")
		copied(target, "same", "d")
	})
	t.Run("a change moves the copy", func(t *testing.T) {
		annotate("both", "isthmus.dev/target-namespace: null, isthmus.dev/target-name: moved")
		copied(target, "moved", "a")
		e.Eventually(func() error { return absent(e.Local.Get("secrets", other, "renamed")) })
		annotate("both", "isthmus.dev/target-name: null")
		copied(target, "both", "a")
		e.Eventually(func() error { return absent(e.Local.Get("secrets", target, "moved")) })
	})
	t.Run("a place that can't be", func(t *testing.T) {
		for name, c := range map[string][2]string{
			"upper":   {"isthmus.dev/target-name: Upper", `target name "Upper"`},
			"slash":   {"isthmus.dev/target-namespace: a/b", `target namespace "a/b"`},
			"system":  {"kupe.cloud/target-namespace: kube-system", "start with kube-"},
			"empty":   {"isthmus.dev/target-name: ''", "is empty"},
			"against": {"isthmus.dev/target-name: a, kupe.cloud/target-name: b", "contradict each other"},
		} {
			e.Remote.Create(shared(host, name, c[0], "no"))
			e.Eventually(func() error { return e.Remote.HasEvent(host, name, "Warning", "InvalidTargetName", c[1]) })
		}
		// A copy that is there stays as it is.
		before := e.Local.Get("secrets", target, "plain")
		annotate("plain", "isthmus.dev/target-name: No-Name")
		e.Eventually(func() error {
			return e.Remote.HasEvent(host, "plain", "Warning", "InvalidTargetName", "No-Name")
		})
		e.Remote.Patch("secrets", host, "plain", "stringData: {key: three}")
		e.Quiet(500 * time.Millisecond)
		if err := untouched(e.Local, "secrets", before); err != nil {
			t.Error(err)
		}
	})
	p = restartsAtRest(e, p, config)
	annotate("plain", "isthmus.dev/target-name: null")
	copied(target, "plain", "three")
	// D2: a move while it is down.
	p.Stop()
	annotate("plain", "isthmus.dev/target-name: late")
	e.Start(config)
	copied(target, "late", "three")
	e.Eventually(func() error { return onlyCopies(e, target, "late", "both", "by-name", "same") })
	if err := onlyCopies(e, other, "placed"); err != nil {
		t.Error(err)
	}
}

func TestN3_ImportsWithoutATarget(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	host, target := e.Namespace("host"), e.Namespace("target")
	e.Start(imports(host, secretsIn))
	e.Remote.Create(shared(host, "one", "", "a"))
	e.Eventually(func() error {
		return e.Remote.HasEvent(host, "one", "Warning", "InvalidTargetName", "it has no target", "isthmus.dev/target-namespace")
	})
	e.Quiet(300 * time.Millisecond)
	e.Remote.Patch("secrets", host, "one", "metadata: {annotations: {isthmus.dev/target-namespace: "+target+"}}")
	e.Eventually(func() error { return onlyCopies(e, target, "one") })
	// A namespace that was there is not taken over.
	if labels := e.Local.Get("namespaces", "", target).GetLabels(); labels["isthmus.dev/origin"] != "" {
		t.Errorf("the namespace was stamped: %v", labels)
	}
}

func TestN1_TwoImportsInOnePlace(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	host, target := e.Namespace("host"), e.Namespace("target")
	config := imports(host, secretsIn+", targetNamespace: "+target)
	p := e.Start(config)
	place := "isthmus.dev/target-name: place"
	holds := func(value string) error { return secretHas(e.Local, target, "place", "key", value) }
	refused := func(name, first string) {
		t.Helper()
		e.Eventually(func() error {
			return e.Remote.HasEvent(host, name, "Warning", "CreateFailed", target+"/place", "twin of "+host+"/"+first)
		})
	}
	e.Remote.Create(shared(host, "first", place, "a"))
	e.Eventually(func() error { return holds("a") })
	uid := e.Local.Get("secrets", target, "place").GetUID()
	e.Remote.Create(shared(host, "second", place, "b"))
	refused("second", "first")
	e.Remote.Create(shared(host, "place", "", "c")) // by its own name
	refused("place", "first")
	p.Stop()
	e.Start(config)
	e.Remote.Patch("secrets", host, "second", "stringData: {key: bb}")
	e.Quiet(300 * time.Millisecond)
	if err := holds("a"); err != nil || e.Local.Get("secrets", target, "place").GetUID() != uid {
		t.Errorf("the first copy did not stay: %v", err)
	}
	e.Remote.Delete("secrets", host, "place")
	e.Remote.Patch("secrets", host, "first", "metadata: {annotations: {isthmus.dev/target-name: aside}}")
	e.Within(10*time.Second, func() error { return holds("bb") })
	e.Eventually(func() error { return onlyCopies(e, target, "aside", "place") })
	e.Remote.Patch("secrets", host, "first", "metadata: {annotations: {"+place+"}}")
	refused("first", "second")
	e.Remote.Delete("secrets", host, "second")
	e.Within(10*time.Second, func() error { return holds("a") })
	e.Eventually(func() error { return onlyCopies(e, target, "place") })
}

func TestD1_ImportsGoWithTheirSources(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	host, target := e.Namespace("host"), e.Namespace("target")
	config := imports(host, secretsIn+", targetNamespace: "+target)
	p := e.Start(config)
	e.Local.Create(secretIn(target, "theirs"))
	names := []string{"deselected", "deleted", "late", "stays"}
	for _, name := range names {
		e.Remote.Create(shared(host, name, "", "a"))
	}
	e.Eventually(func() error { return onlyCopies(e, target, append(names, "theirs")...) })
	e.Remote.Patch("secrets", host, "deselected", "metadata: {labels: {share: 'no'}}")
	e.Remote.Delete("secrets", host, "deleted")
	e.Eventually(func() error { return onlyCopies(e, target, "late", "stays", "theirs") })
	p.Stop()
	e.Remote.Delete("secrets", host, "late")
	e.Start(config)
	e.Eventually(func() error { return onlyCopies(e, target, "stays", "theirs") })
}

func TestD4_AnImportThatOthersDeleteComesAgain(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	host, target := e.Namespace("host"), e.Namespace("target")
	e.Start(imports(host, secretsIn+", targetNamespace: "+target))
	e.Remote.Create(shared(host, "one", "", "a"))
	e.Eventually(func() error { return onlyCopies(e, target, "one") })
	uid := e.Local.Get("secrets", target, "one").GetUID()
	e.Local.Delete("secrets", target, "one")
	e.Eventually(func() error { return otherThan(e.Local.Get("secrets", target, "one"), uid) })
}

func TestD5_ImportsOfARemovedRule(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	host, gone, kept := e.Namespace("host"), e.Namespace("gone"), e.Namespace("kept")
	rule := func(name, target string) string {
		return fmt.Sprintf(`name: %[1]s, apiVersion: v1, kind: Secret, direction: fromHost, selector: {matchLabels: {into: %[1]s}}, targetNamespace: %[2]s`, name, target)
	}
	p := e.Start(imports(host, rule("gone", gone), rule("kept", kept)+", onRemoval: Orphan"))
	for _, rule := range []string{"gone", "kept"} {
		e.Remote.Create(fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: %[1]s, namespace: %[2]s, labels: {into: %[1]s}}, stringData: {key: a}}", rule, host))
	}
	e.Eventually(func() error { return onlyCopies(e, gone, "gone") })
	e.Eventually(func() error { return onlyCopies(e, kept, "kept") })
	p.Stop()
	e.StartWith(imports(host)+"  []\n", harness.StartOptions{NoRBAC: true})
	e.Eventually(func() error { return onlyCopies(e, gone) })
	e.Eventually(func() error {
		left := e.Local.Get("secrets", kept, "kept")
		if left == nil || left.GetLabels()["isthmus.dev/origin"] != "" {
			return fmt.Errorf("expected the copy without its stamp, got %v", left)
		}
		return nil
	})
	for _, name := range []string{"gone", "kept"} {
		if e.Remote.Get("secrets", host, name) == nil {
			t.Errorf("the source %s went", name)
		}
	}
}

func TestO4_EditsOfAnImportArePutBack(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	host, target := e.Namespace("host"), e.Namespace("target")
	config := imports(host, secretsIn+", targetNamespace: "+target)
	p := e.Start(config)
	source := e.Remote.Create(shared(host, "one", "note: theirs", "a"))
	e.Eventually(func() error { return onlyCopies(e, target, "one") })
	copied := func() error { return secretHas(e.Local, target, "one", "key", "a") }
	for _, patch := range []string{
		"stringData: {key: b}", "data: {key: null}", "metadata: {labels: {share: 'no'}}", "metadata: {annotations: {note: null}}",
		"stringData: {key: c}\nmetadata: {annotations: {isthmus.dev/target-name: away}}",
	} {
		e.Local.Patch("secrets", target, "one", patch)
		e.Eventually(func() error {
			twin := e.Local.Get("secrets", target, "one")
			if twin.GetLabels()["share"] != "yes" || twin.GetAnnotations()["note"] != "theirs" {
				return fmt.Errorf("after %s: %v", patch, twin.Object["metadata"])
			}
			return copied()
		})
	}
	// What others add stays theirs.
	began := time.Now()
	e.Local.Patch("secrets", target, "one", "stringData: {more: local}")
	restsSince(e, began)
	if err := secretHas(e.Local, target, "one", "more", "local"); err != nil {
		t.Error(err)
	}
	if err := untouched(e.Remote, "secrets", source); err != nil {
		t.Errorf("something flowed back: %v", err)
	}
	restartsAtRest(e, p, config)
}

func TestP4_ForeignObjectInTheWayOfAnImport(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	host, target := e.Namespace("host"), e.Namespace("target")
	e.Start(imports(host, secretsIn+", targetNamespace: "+target))
	foreign := e.Local.Create(secretIn(target, "one"))
	e.Remote.Create(shared(host, "one", "", "a"))
	e.Eventually(func() error {
		return e.Remote.HasEvent(host, "one", "Warning", "CreateFailed", target+"/one", "was not created by this Isthmus")
	})
	e.Remote.Patch("secrets", host, "one", "stringData: {key: b}")
	e.Quiet(500 * time.Millisecond)
	e.Remote.Delete("secrets", host, "one")
	e.Remote.Create(shared(host, "one", "", "c"))
	e.Eventually(func() error {
		for _, r := range e.Writes(time.Time{}) {
			if strings.Contains(string(r.RequestObject), string(e.Remote.Get("secrets", host, "one").GetUID())) {
				return nil
			}
		}
		return fmt.Errorf("the new one was not tried yet")
	})
	if err := untouched(e.Local, "secrets", foreign); err != nil {
		t.Fatal(err)
	}
	e.Local.Delete("secrets", target, "one")
	e.Within(5*time.Second, func() error { return secretHas(e.Local, target, "one", "key", "c") })
}

// P1: vCluster's own syncers leave alone what carries their label for it.
func TestP1_ImportsThatVClusterLeavesAlone(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	host, marked, plain := e.Namespace("host"), e.Namespace("marked"), e.Namespace("plain")
	e.Start(imports(host,
		`name: marked, apiVersion: v1, kind: Secret, direction: fromHost, virtualControlledBy: true, selector: {matchLabels: {into: marked}}, targetNamespace: `+marked,
		`name: plain, apiVersion: v1, kind: Secret, direction: fromHost, selector: {matchLabels: {into: plain}}, targetNamespace: `+plain))
	for ns, want := range map[string]any{marked: "generic-sync", plain: nil} {
		into := strings.TrimPrefix(ns, e.ID+"-")
		e.Remote.Create(fmt.Sprintf(`{apiVersion: v1, kind: Secret, metadata: {name: one, namespace: %s-%s, labels: {into: %s}}}`, e.ID, "host", into))
		e.Eventually(func() error { return onlyCopies(e, ns, "one") })
		if err := is(e.Local.Get("secrets", ns, "one"), want, "metadata", "labels", "vcluster.loft.sh/controlled-by"); err != nil {
			t.Error(err)
		}
		e.Remote.Delete("secrets", host, "one")
		e.Eventually(func() error { return onlyCopies(e, ns) })
	}
}

// One kind crosses both ways, and each copy meets the selector of the other way.
func TestS4_ImportsAndTwinsOfOneKindDoNotBounce(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	host, tenant, target := e.Namespace("host"), e.Namespace("tenant"), e.Namespace("target")
	config := imports(host,
		fmt.Sprintf(`apiVersion: v1, kind: Secret, direction: toHost, selector: {matchLabels: {share: "yes"}, matchNamespaces: [%s, %s]}`, tenant, target),
		secretsIn+", targetNamespace: "+target)
	p := e.Start(config)
	e.Local.Create(shared(tenant, "out", "", "a"))
	e.Remote.Create(shared(host, "in", "", "b"))
	// What vCluster itself made of another virtual object, and what only says that it is a copy.
	e.Remote.Create(fmt.Sprintf(`{apiVersion: v1, kind: Secret, metadata: {name: own-x-tenant-x-vc, namespace: %s,
		labels: {share: "yes", vcluster.loft.sh/managed-by: vc}, annotations: {vcluster.loft.sh/object-name: own}}}`, host))
	e.Remote.Create(fmt.Sprintf(`{apiVersion: v1, kind: Secret, metadata: {name: stamped, namespace: %s, labels: {share: "yes"}, annotations: {isthmus.dev/source: a/b}}}`, host))
	twin := "out-x-" + tenant + "-x-vc"
	if len(twin) > 63 {
		t.Fatalf("the test's names are too long: %s", twin)
	}
	settled := func() error {
		if err := onlyCopies(e, target, "in"); err != nil {
			return err
		}
		if err := onlyCopies(e, tenant, "out"); err != nil {
			return err
		}
		return present(e.Remote, "secrets", host, "in", "own-x-tenant-x-vc", "stamped", twin)
	}
	e.Eventually(settled)
	e.Quiet(700 * time.Millisecond)
	if err := settled(); err != nil {
		t.Error(err)
	}
	e.Local.Patch("secrets", tenant, "out", "stringData: {key: aa}")
	e.Remote.Patch("secrets", host, "in", "stringData: {key: bb}")
	e.Eventually(func() error { return secretHas(e.Remote, host, twin, "key", "aa") })
	e.Eventually(func() error { return secretHas(e.Local, target, "in", "key", "bb") })
	p = restartsAtRest(e, p, config)
	if err := settled(); err != nil {
		t.Error(err)
	}
	e.Local.Delete("secrets", tenant, "out")
	e.Remote.Delete("secrets", host, "in")
	e.Eventually(func() error { return present(e.Remote, "secrets", host, "own-x-tenant-x-vc", "stamped") })
	e.Eventually(func() error { return onlyCopies(e, target) })
	p.Stop()
}

func TestS2_ImportsByPairsOfNamespaces(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	near, far, second, unpaired := e.Namespace("near"), e.Namespace("far"), e.Namespace("second"), e.Namespace("unpaired")
	config := file(fmt.Sprintf("{%s: %s, %s: %s}", near, far, second, second),
		fmt.Sprintf("apiVersion: example.io/v1\nkind: Widget\ndirection: fromHost\nselector: {matchNamespaces: [%s, %s]}", far, second))
	p := e.Start(config)
	for ns, size := range map[string]int{far: 1, second: 2, near: 3, unpaired: 4} {
		e.Remote.Create(widget(ns, "one", fmt.Sprintf("{size: %d}", size)))
	}
	e.Eventually(func() error { return is(e.Local.Get(widgets, near, "one"), 1, "spec", "size") })
	e.Eventually(func() error { return is(e.Local.Get(widgets, second, "one"), 2, "spec", "size") })
	e.Quiet(300 * time.Millisecond)
	for _, ns := range []string{far, unpaired} {
		if err := present(e.Local, widgets, ns); err != nil {
			t.Error(err)
		}
	}
	// Status does not come without a mirror, nor does it go (T1).
	e.Remote.SetStatus(widgets, far, "one", "{ready: true}")
	e.Local.SetStatus(widgets, near, "one", "{ready: local}")
	restartsAtRest(e, p, config)
	if err := is(e.Local.Get(widgets, near, "one"), "local", "status", "ready"); err != nil {
		t.Error(err)
	}
	if err := is(e.Remote.Get(widgets, far, "one"), true, "status", "ready"); err != nil {
		t.Error(err)
	}
}

func TestS5_TwoRulesForOneImport(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	host, a, b := e.Namespace("host"), e.Namespace("a"), e.Namespace("b")
	rule := func(ns string) string {
		return fmt.Sprintf(`name: %[1]s, apiVersion: v1, kind: Secret, direction: fromHost, selector: {matchLabels: {%[1]s: "yes"}}, targetNamespace: %[2]s`, strings.TrimPrefix(ns, e.ID+"-"), ns)
	}
	e.Start(imports(host, rule(a), rule(b)))
	e.Remote.Create(fmt.Sprintf(`{apiVersion: v1, kind: Secret, metadata: {name: one, namespace: %s, labels: {a: "yes", b: "yes"}}}`, host))
	e.Eventually(func() error {
		return e.Remote.HasEvent(host, "one", "Warning", "SyncFailed", "rules a, b all select it")
	})
	e.Quiet(300 * time.Millisecond)
	e.Remote.Patch("secrets", host, "one", "metadata: {labels: {a: null}}")
	e.Eventually(func() error { return onlyCopies(e, b, "one") })
	// The rule that has it keeps it; when it does not select it any more, the other takes it.
	uid := e.Local.Get("secrets", b, "one").GetUID()
	e.Remote.Patch("secrets", host, "one", "metadata: {labels: {a: 'yes'}}")
	e.Eventually(func() error { return is(e.Local.Get("secrets", b, "one"), "yes", "metadata", "labels", "a") })
	if err := onlyCopies(e, a); err != nil || e.Local.Get("secrets", b, "one").GetUID() != uid {
		t.Errorf("the rule that had it did not keep it: %v", err)
	}
	e.Remote.Patch("secrets", host, "one", "metadata: {labels: {b: null}}")
	e.Eventually(func() error { return onlyCopies(e, a, "one") })
	e.Eventually(func() error { return onlyCopies(e, b) })
}

// F7: the sources' CRD is on the remote side now.
func TestF7_ImportsStayWhenTheirCRDGoes(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	group := ownGroup(e)
	e.Both(harness.WidgetCRD(group))
	ns := e.Namespace("a")
	kind := "widgets." + group
	p := e.Start(file(same(ns), fmt.Sprintf("apiVersion: %s/v1\nkind: Widget\ndirection: fromHost", group)))
	e.Remote.Create(groupWidget(group, ns, "one", "{size: 1}"))
	e.Eventually(func() error { return is(e.Local.Get(kind, ns, "one"), 1, "spec", "size") })
	copied := e.Local.Get(kind, ns, "one")
	deleteCRD(e, e.Remote, group)
	e.Eventually(func() error { return logged(p, "The flow waits") })
	e.Quiet(time.Second)
	if err := untouched(e.Local, kind, copied); err != nil {
		t.Fatal(err)
	}
	e.Remote.Apply(harness.WidgetCRD(group))
	e.Remote.Create(groupWidget(group, ns, "two", "{size: 2}"))
	e.Eventually(func() error { return is(e.Local.Get(kind, ns, "two"), 2, "spec", "size") })
	e.Eventually(func() error { return absent(e.Local.Get(kind, ns, "one")) })
}

func TestT1_StatusOfImportsIsRefused(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	for _, mode := range []string{"sync", "mirror"} {
		path := e.WriteConfig(imports("host", "apiVersion: example.io/v1, kind: Widget, direction: fromHost, targetNamespace: a, statusSync: true, mode: "+mode))
		out, code := harness.Run(t, "validate", path)
		if code == 0 || !strings.Contains(out, "syncResources[0].statusSync") || !strings.Contains(out, "status never goes from the local cluster to the remote one") {
			t.Errorf("mode %s: exit code %d: %s", mode, code, out)
		}
		out, code = harness.Run(t, "sync", "--config", path, "--cluster-id", "a", "--remote-id", "b", "--listen", "")
		if code == 0 || !strings.Contains(out, "statusSync") {
			t.Errorf("sync, mode %s: exit code %d: %s", mode, code, out)
		}
	}
}
