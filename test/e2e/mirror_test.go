//go:build unix

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"isthmus.dev/isthmus/test/harness"
)

const (
	// gatewayAPI is where the real CRD of a GatewayClass comes from.
	gatewayAPI     = "sigs.k8s.io/gateway-api@v1.5.0"
	gatewayClasses = "gatewayclasses.gateway.networking.k8s.io"
)

// applyGatewayClasses has both sides serve the cluster-scoped kind GatewayClass.
func applyGatewayClasses(e *harness.Env) {
	e.T.Helper()
	e.Both(harness.ModuleFile(e.T, gatewayAPI, "config/crd/standard/gateway.networking.k8s.io_gatewayclasses.yaml"))
}

// gatewayClass is a GatewayClass that classRule of the same test selects.
func gatewayClass(e *harness.Env, name, description string) string {
	return fmt.Sprintf(`{apiVersion: gateway.networking.k8s.io/v1, kind: GatewayClass, metadata: {name: %s, labels: {of: %s}}, spec: {controllerName: example.io/gateways, description: %s}}`,
		name, e.ID, description)
}

// classRule is a rule for the test's own GatewayClasses.
func classRule(e *harness.Env, more string) string {
	return fmt.Sprintf("apiVersion: gateway.networking.k8s.io/v1, kind: GatewayClass, selector: {matchLabels: {of: %s}}, %s", e.ID, more)
}

func accepted(generation int64) string {
	return fmt.Sprintf(`{conditions: [{type: Accepted, status: "True", reason: Accepted, message: fine, lastTransitionTime: "2024-01-01T00:00:00Z", observedGeneration: %d}]}`, generation)
}

// observed returns the observedGeneration of a GatewayClass's first condition, as far as its generation.
func observed(class *unstructured.Unstructured) (observed, generation int64) {
	conditions, _ := field(class, "status", "conditions").([]any)
	if len(conditions) == 0 {
		return 0, 0
	}
	observed, _, _ = unstructured.NestedInt64(conditions[0].(map[string]any), "observedGeneration")
	return observed, class.GetGeneration()
}

func TestM2_MirrorOfAClusterScopedKind(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	applyGatewayClasses(e)
	host, name := e.Namespace("host"), e.ID
	config := imports(host, classRule(e, "direction: fromHost, mode: mirror, clusterScoped: true"))
	p := e.Start(config)
	mirror := func() *unstructured.Unstructured { return e.Local.Get(gatewayClasses, "", name) }
	says := func(description string) error { return is(mirror(), description, "spec", "description") }
	seen := func() error {
		if o, g := observed(mirror()); o != g || g == 0 {
			return fmt.Errorf("the mirror of generation %d says that %d was seen", g, o)
		}
		return nil
	}

	e.Remote.Create(gatewayClass(e, name, "one"))
	e.Eventually(func() error { return says("one") })
	source := e.Remote.SetStatus(gatewayClasses, "", name, accepted(1))
	e.Eventually(seen)

	t.Run("edits are put back", func(t *testing.T) {
		e.Local.Patch(gatewayClasses, "", name, "spec: {description: edited}")
		e.Eventually(func() error { return says("one") })
		e.Eventually(seen)
		if g := mirror().GetGeneration(); g == source.GetGeneration() {
			t.Errorf("both have generation %d: this proves little", g)
		}
		e.Local.SetStatus(gatewayClasses, "", name, `{conditions: [{type: Accepted, status: "False", reason: Edited, message: edited, lastTransitionTime: "2024-01-01T00:00:00Z", observedGeneration: 9}], more: x}`)
		e.Eventually(func() error {
			if field(mirror(), "status", "more") != nil || !strings.Contains(fmt.Sprint(field(mirror(), "status", "conditions")), "message:fine") {
				return fmt.Errorf("its status is %v", field(mirror(), "status"))
			}
			return seen()
		})
	})
	t.Run("a deletion is undone", func(t *testing.T) {
		uid := mirror().GetUID()
		e.Local.Delete(gatewayClasses, "", name)
		e.Eventually(func() error { return otherThan(mirror(), uid) })
		e.Eventually(func() error { return says("one") })
		e.Eventually(seen)
	})
	if err := untouched(e.Remote, gatewayClasses, source); err != nil {
		t.Errorf("something flowed back: %v", err)
	}
	p = restartsAtRest(e, p, config)
	if err := logged(p, "cannot"); err == nil {
		t.Errorf("it asks for more than it may:\n%s", p.Log())
	}

	t.Run("a generation that was not seen", func(t *testing.T) {
		e.Remote.Patch(gatewayClasses, "", name, "spec: {description: two}")
		e.Eventually(func() error { return says("two") })
		e.Eventually(func() error {
			if o, g := observed(mirror()); o >= g {
				return fmt.Errorf("the mirror of generation %d says that %d was seen", g, o)
			}
			return nil
		})
		restsSince(e, time.Now())
		e.Remote.SetStatus(gatewayClasses, "", name, accepted(2))
		e.Eventually(seen)
	})
	t.Run("a foreign one in the way", func(t *testing.T) { // P4
		other := name + "-other"
		foreign := e.Local.Create(fmt.Sprintf("{apiVersion: gateway.networking.k8s.io/v1, kind: GatewayClass, metadata: {name: %s}, spec: {controllerName: example.io/local}}", other))
		e.Remote.Create(gatewayClass(e, other, "remote"))
		e.Eventually(func() error { return e.Remote.HasEvent("default", other, "Warning", "was not created by this Isthmus") })
		e.Remote.SetStatus(gatewayClasses, "", other, accepted(1))
		e.Quiet(300 * time.Millisecond)
		if err := untouched(e.Local, gatewayClasses, foreign); err != nil {
			t.Error(err)
		}
		e.Local.Delete(gatewayClasses, "", other)
		e.Within(5*time.Second, func() error { return is(e.Local.Get(gatewayClasses, "", other), "remote", "spec", "description") })
		e.Remote.Patch(gatewayClasses, "", other, "metadata: {labels: {of: another}}")
		e.Eventually(func() error { return absent(e.Local.Get(gatewayClasses, "", other)) })
	})
	e.Remote.Delete(gatewayClasses, "", name)
	e.Eventually(func() error { return absent(mirror()) })
}

func TestM2_MirrorOfANamespacedKind(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	near, far := e.Namespace("near"), e.Namespace("far")
	config := file(fmt.Sprintf("{%s: %s}", near, far), "apiVersion: example.io/v1\nkind: Widget\ndirection: fromHost\nmode: mirror")
	p := e.Start(config)
	mirror := func() *unstructured.Unstructured { return e.Local.Get(widgets, near, "one") }
	e.Remote.Create(widget(far, "one", "{size: 1}"))
	e.Eventually(func() error { return is(mirror(), 1, "spec", "size") })
	// The mirror's generation runs ahead of the source's.
	e.Local.Patch(widgets, near, "one", "spec: {size: 9}")
	e.Eventually(func() error { return is(mirror(), 1, "spec", "size") })
	for i := int64(1); i <= 3; i++ {
		source := e.Remote.Patch(widgets, far, "one", fmt.Sprintf("spec: {size: %d}", i))
		e.Eventually(func() error { return is(mirror(), i, "spec", "size") })
		e.Always(200*time.Millisecond, func() error { return honest(mirror(), i) })
		e.Remote.Patch(widgets, far, "one", seenStatus(source.GetGeneration(), i), "status")
		e.Eventually(func() error { return current(mirror(), i, 4) })
	}
	p = restartsAtRest(e, p, config)
	// An embedded object keeps its own, and a status that goes, goes.
	if have := fmt.Sprint(field(mirror(), "status", "embedded")); !strings.Contains(have, "observedGeneration:"+fmt.Sprint(e.Remote.Get(widgets, far, "one").GetGeneration())) {
		t.Errorf("the embedded object's generation was changed: %s", have)
	}
	e.Remote.PatchAs("controller", "application/json-patch+json", widgets, far, "one", `[{op: remove, path: /status}]`, "status")
	e.Eventually(func() error { return is(mirror(), nil, "status") })
	restartsAtRest(e, p, config)
}

// A kind of which a deleted twin would stay deleted: a mirror runs nothing, so it comes again.
func TestM2_AMirrorOfAJobComesAgain(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	ns := e.Namespace("a")
	e.Start(file(same(ns), "apiVersion: batch/v1\nkind: Job\ndirection: fromHost\nmode: mirror"))
	e.Remote.Create(fmt.Sprintf(`{apiVersion: batch/v1, kind: Job, metadata: {name: one, namespace: %s},
		spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: c, image: busybox}]}}}}`, ns))
	const jobs = "jobs.batch"
	e.Eventually(func() error { return is(e.Local.Get(jobs, ns, "one"), true, "spec", "suspend") })
	e.Remote.SetStatus(jobs, ns, "one", `{conditions: [{type: Suspended, status: "True"}]}`)
	suspended := func() error {
		if have := fmt.Sprint(field(e.Local.Get(jobs, ns, "one"), "status", "conditions")); !strings.Contains(have, "Suspended") {
			return fmt.Errorf("the mirror's conditions are %s", have)
		}
		return nil
	}
	e.Eventually(suspended)
	uid := e.Local.Get(jobs, ns, "one").GetUID()
	background := metav1.DeletePropagationBackground
	if err := e.Local.Client(jobs, ns).Delete(t.Context(), "one", metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		t.Fatal(err)
	}
	e.Eventually(func() error { return otherThan(e.Local.Get(jobs, ns, "one"), uid) })
	e.Eventually(suspended)
}

func TestM2_ToHostIsSyncWithoutStatus(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	config := file(same(ns), widgetsOut+"mode: mirror\nstatusSync: true")
	p := e.Start(config)
	e.Local.Create(widget(ns, "one", "{size: 1}"))
	e.Local.SetStatus(widgets, ns, "one", "{by: local}")
	e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "one"), 1, "spec", "size") })
	e.Remote.Patch(widgets, ns, "one", "spec: {size: 2}")
	e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "one"), 1, "spec", "size") })
	began := time.Now()
	e.Remote.SetStatus(widgets, ns, "one", "{by: remote}")
	restsSince(e, began)
	for side, by := range map[*harness.Side]string{e.Local: "local", e.Remote: "remote"} {
		if err := is(side.Get(widgets, ns, "one"), by, "status", "by"); err != nil {
			t.Error(err)
		}
	}
	restartsAtRest(e, p, config)
}

func TestT1_AMirrorNeedsAStatusSubresource(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	group := ownGroup(e)
	e.Local.Apply(harness.WidgetCRDWithoutStatus(group))
	e.Remote.Apply(harness.WidgetCRD(group))
	ns := e.Namespace("a")
	rule := fmt.Sprintf("apiVersion: %s/v1\nkind: Widget\ndirection: fromHost\nmode: ", group)
	p := e.StartWith(file(same(ns), rule+"mirror"), harness.StartOptions{NotReady: true})
	e.Remote.Create(groupWidget(group, ns, "one", "{size: 1}"))
	e.Eventually(func() error {
		return logged(p, "Widget-fromHost is a mirror, but Widget has no status subresource on the local cluster")
	})
	e.Quiet(500 * time.Millisecond)
	p.Stop()
	e.Start(file(same(ns), rule+"sync")) // without status it needs none
	e.Eventually(func() error { return is(e.Local.Get("widgets."+group, ns, "one"), 1, "spec", "size") })
}

func TestS6_ClusterScopedKindsCrossAsMirrorsOrUnderNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	applyGatewayClasses(e)
	host, name := e.Namespace("host"), e.ID
	e.Remote.Create(gatewayClass(e, name, "remote"))
	e.Local.Create(gatewayClass(e, name+"-mine", "local"))

	for what, config := range map[string]string{
		"an import":            imports(host, classRule(e, "direction: fromHost, targetNamespace: "+host)),
		"a twin":               file(same(host), "{"+classRule(e, "direction: toHost")+"}"),
		"a mirror to the host": file(same(host), "{"+classRule(e, "direction: toHost, mode: mirror")+"}"),
		"a twin of a virtual cluster, without clusterScoped": imports(host, classRule(e, "direction: toHost")),
	} {
		t.Run(what, func(t *testing.T) {
			p := e.StartWith(config, harness.StartOptions{NotReady: true})
			e.Eventually(func() error { return logged(p, "GatewayClass is cluster-scoped: such kinds cross only as a mirror") })
			e.Quiet(300 * time.Millisecond)
			if !strings.Contains(p.Metrics(), `kind="GatewayClass",rule="GatewayClass-`) || strings.Contains(p.Metrics(), "\nisthmus_rule_active{"+`direction="FromRemote",kind="GatewayClass",rule="GatewayClass-fromHost"} 1`) {
				t.Error("the rule counts as active")
			}
			p.Stop()
		})
	}
	for rule, want := range map[string]string{
		"direction: fromHost, clusterScoped: true": "cluster-scoped kinds are imported only in mode: mirror",
		"direction: toHost, clusterScoped: true":   "cluster-scoped kinds go to the remote cluster only with naming: VirtualCluster",
	} {
		out, code := harness.Run(t, "validate", e.WriteConfig(file(same(host), "{"+classRule(e, rule)+"}")))
		if code == 0 || !strings.Contains(out, want) {
			t.Errorf("%s: exit code %d: %s", rule, code, out)
		}
	}

	t.Run("rights", func(t *testing.T) {
		told := e.WriteConfig(imports(host, classRule(e, "direction: fromHost, mode: mirror, clusterScoped: true")))
		asked := e.WriteConfig(imports(host, classRule(e, "direction: fromHost, mode: mirror")))
		found, code := harness.Run(t, "rbac", "--config", asked, "--side", "remote", "--subject-user", e.User(), "--instance", e.ID, "--kubeconfig", e.RemoteKubeconfig())
		if code != 0 {
			t.Fatal(found)
		}
		for _, roles := range []string{e.RBAC(told, "remote"), found} {
			readOnly(t, roles, "gateway.networking.k8s.io", "gatewayclasses", "")
			if have := verbsOn(t, roles, "", "events"); len(have) != 1 || have["default"] == nil {
				t.Errorf("rights on Events are %v, expected them in default", have)
			}
		}
		local := e.RBAC(told, "local")
		if have := verbsOn(t, local, "gateway.networking.k8s.io", "gatewayclasses/status"); !slices.Equal(have[""], []string{"patch"}) {
			t.Errorf("rights on a mirror's status are %v", have)
		}
		if have := verbsOn(t, local, "", "namespaces"); !slices.Equal(have[""], []string{"get"}) {
			t.Errorf("rights on namespaces are %v, expected only that of the cluster's identity", have)
		}
	})
	t.Run("both ways at once", func(t *testing.T) {
		config := imports(host,
			classRule(e, "direction: fromHost, mode: mirror, clusterScoped: true"),
			classRule(e, "direction: toHost, statusSync: true, clusterScoped: true"))
		p := e.Start(config)
		e.Eventually(func() error { return is(e.Local.Get(gatewayClasses, "", name), "remote", "spec", "description") })
		twin := func() *unstructured.Unstructured {
			for _, class := range e.Remote.List(gatewayClasses, "", "isthmus.dev/origin="+e.ID) {
				return &class
			}
			return nil
		}
		e.Eventually(func() error { return is(twin(), "local", "spec", "description") })
		if have := twin(); have.GetName() == name+"-mine" || have.GetAnnotations()["vcluster.loft.sh/object-name"] != name+"-mine" {
			t.Errorf("the twin is %v", have.Object["metadata"])
		}
		e.Remote.SetStatus(gatewayClasses, "", twin().GetName(), accepted(1))
		e.Eventually(func() error {
			if o, _ := observed(e.Local.Get(gatewayClasses, "", name+"-mine")); o != 1 {
				return fmt.Errorf("the status is not back")
			}
			return nil
		})
		p = restartsAtRest(e, p, config)
		var names []string
		for _, side := range []*harness.Side{e.Local, e.Remote} {
			for _, class := range side.List(gatewayClasses, "", "of="+e.ID) {
				names = append(names, class.GetName())
			}
		}
		if len(names) != 4 {
			t.Errorf("expected one object a side with a copy each, got %v", names)
		}
		p.Stop()
	})
}
