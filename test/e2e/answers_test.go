//go:build unix

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/test/harness"
)

// answered returns how Isthmus's requests with a verb for an object were answered since a time, in order.
func answered(e *harness.Env, since time.Time, side, verb, name string) (codes []int) {
	e.T.Helper()
	for _, r := range e.Requests(since) {
		if r.Side == side && r.Verb == verb && r.ObjectRef != nil && r.ObjectRef.Name == name && r.ObjectRef.Resource != "customresourcedefinitions" {
			codes = append(codes, r.Code())
		}
	}
	return codes
}

// twinsRole gives this test's user rights on widgets of a namespace of the remote side: these verbs, and no others.
func twinsRole(e *harness.Env, ns string, verbs ...string) {
	e.T.Helper()
	e.Remote.Patch("roles.rbac.authorization.k8s.io", ns, "isthmus-"+e.ID+"-remote",
		fmt.Sprintf("rules: [{apiGroups: [example.io], resources: [widgets], verbs: [%s]}]", strings.Join(verbs, ", ")))
}

// A right that lacks is named by verb and kind on the object; others go on; when it is there, all is made good.
func TestF6_403MissingRights(t *testing.T) {
	t.Parallel()
	all := []string{"get", "list", "watch", "create", "patch", "delete"}
	without := func(verb string) (verbs []string) {
		for _, v := range all {
			if v != verb {
				verbs = append(verbs, v)
			}
		}
		return verbs
	}
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	config := widgetRule(ns)
	p := e.Start(config)
	makeWidgets(e, ns, "one", "two")
	setFinalizer(e.Local, ns, "two", "example.io/held")

	for _, c := range []struct {
		verb, name string
		do         func()
		done       func() error
	}{
		{"create", "new", func() { e.Local.Create(widget(ns, "new", "{size: 1}")) },
			func() error { return is(e.Remote.Get(widgets, ns, "new"), 1, "spec", "size") }},
		{"patch", "one", func() { e.Local.Patch(widgets, ns, "one", "spec: {size: 7}") },
			func() error { return is(e.Remote.Get(widgets, ns, "one"), 7, "spec", "size") }},
		{"delete", "two", func() { e.Local.Delete(widgets, ns, "two") },
			func() error { return absent(e.Remote.Get(widgets, ns, "two")) }},
	} {
		twinsRole(e, ns, without(c.verb)...)
		e.Eventually(func() error { return userCan(e, e.Remote, c.verb, ns, false) })
		c.do()
		e.Eventually(func() error {
			return e.Local.HasEvent(ns, c.name, "Warning", "not permitted", `cannot `+c.verb+` resource "widgets"`)
		})
		if c.done() == nil {
			t.Errorf("%s was not needed", c.verb)
		}
		twinsRole(e, ns, all...)
		e.Eventually(c.done)
	}
	setFinalizer(e.Local, ns, "two", "")

	// status, on the source's side
	local := e.Local.Get("roles.rbac.authorization.k8s.io", ns, "isthmus-"+e.ID+"-local")
	e.Local.Patch("roles.rbac.authorization.k8s.io", ns, local.GetName(), "rules: [{apiGroups: [example.io], resources: [widgets], verbs: [get, list, watch]}, {apiGroups: [''], resources: [events], verbs: [create, patch]}]")
	e.Eventually(func() error { return userCan(e, e.Local, "patch", ns, false) })
	e.Remote.SetStatus(widgets, ns, "one", "{ready: true}")
	e.Eventually(func() error {
		return e.Local.HasEvent(ns, "one", "Warning", "not permitted", `cannot patch resource "widgets/status"`)
	})
	e.GrantRBAC(e.WriteConfig(config))
	e.Eventually(func() error { return is(e.Local.Get(widgets, ns, "one"), true, "status", "ready") })

	// what a start needs: watching twins (which lists them too), and their namespace
	clusterRole := e.Remote.Get("clusterroles.rbac.authorization.k8s.io", "", "isthmus-"+e.ID+"-remote")
	for _, c := range []struct {
		lacks string
		take  func()
	}{
		{`cannot watch resource \"widgets\"`, func() {
			twinsRole(e, ns, without("watch")...)
			e.Eventually(func() error { return userCan(e, e.Remote, "watch", ns, false) })
		}},
		{`cannot list resource \"namespaces\"`, func() {
			e.Remote.Patch("clusterroles.rbac.authorization.k8s.io", "", clusterRole.GetName(), `rules: [
				{apiGroups: [""], resources: [namespaces], resourceNames: [kube-system], verbs: [get]},
				{apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: [get, list, watch]}]`)
		}},
	} {
		p.Stop()
		c.take()
		name := fmt.Sprintf("late%d", len(c.lacks))
		e.Local.Create(widget(ns, name, "{size: 1}"))
		p = e.StartWith(config, harness.StartOptions{NoRBAC: true, NotReady: true})
		e.Eventually(func() error { return logged(p, "level=WARN", "remote", c.lacks) })
		e.GrantRBAC(e.WriteConfig(config))
		crossed(e, ns, name)
	}
}

// userCan returns nil when RBAC, as the server has taken it in, lets this test's user do a verb on widgets, or not.
func userCan(e *harness.Env, side *harness.Side, verb, ns string, want bool) error {
	resource := "resource: widgets"
	if side == e.Local {
		resource += ", subresource: status"
	}
	review := side.Create(fmt.Sprintf(`apiVersion: authorization.k8s.io/v1
kind: SubjectAccessReview
metadata: {name: ""}
spec: {user: %q, resourceAttributes: {verb: %s, group: example.io, namespace: %q, %s}}`, e.User(), verb, ns, resource))
	if allowed := field(review, "status", "allowed") == true; allowed != want {
		return fmt.Errorf("%s: allowed is %t", verb, allowed)
	}
	return nil
}

func TestF6_403QuotaAndAdmission(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	e.Remote.Apply(fmt.Sprintf(`apiVersion: v1
kind: ResourceQuota
metadata: {name: few, namespace: %[1]s}
spec: {hard: {count/configmaps: "1"}}
status: {hard: {count/configmaps: "1"}, used: {count/configmaps: "1"}}
`, ns))
	e.Remote.SetStatus("resourcequotas", ns, "few", `{hard: {count/configmaps: "1"}, used: {count/configmaps: "1"}}`)
	denyWhen(e, ns, "widgets", `has(object.spec.color) && object.spec.color == 'pink'`, `'no ' + object.spec.color + ' here'`)
	e.Start(widgetRule(ns) + "- {apiVersion: v1, kind: ConfigMap, direction: toHost}\n")

	e.Local.Create(fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: over, namespace: %s}, data: {a: b}}", ns))
	e.Local.Create(widget(ns, "pink", "{color: pink}"))
	e.Local.Create(widget(ns, "red", "{color: red}"))
	e.Eventually(func() error {
		return e.Local.HasEvent(ns, "over", "Warning", "quota exceeded", "few", "count/configmaps=1")
	})
	e.Eventually(func() error { return e.Local.HasEvent(ns, "pink", "Warning", "denied", "no pink here") })
	crossed(e, ns, "red")

	// What is refused is tried again after a while, alone, and at once when the source changes.
	e.Local.Patch(widgets, ns, "pink", "spec: {color: green}")
	e.Within(5*time.Second, func() error { return is(e.Remote.Get(widgets, ns, "pink"), "green", "spec", "color") })
	e.Remote.Delete("resourcequotas", ns, "few")
	e.Eventually(func() error {
		if e.Remote.Get("configmaps", ns, "over") == nil {
			return fmt.Errorf("it did not cross")
		}
		return nil
	})
}

// denyWhen makes the remote side refuse objects of a kind in a namespace, in words of its own.
func denyWhen(e *harness.Env, ns, resource, when, message string) {
	e.T.Helper()
	group := "example.io"
	if resource == "secrets" {
		group = ""
	}
	name := e.ID + "-" + resource
	e.Remote.Apply(fmt.Sprintf(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{apiGroups: ["%[2]s"], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [%[3]s]}]}
  validations: [{expression: "!(%[4]s)", messageExpression: "%[5]s"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec:
  policyName: %[1]s
  validationActions: [Deny]
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[6]s}}}
`, name, group, resource, when, message, ns))
	e.T.Cleanup(func() {
		e.Remote.Delete("validatingadmissionpolicybindings.admissionregistration.k8s.io", "", name)
		e.Remote.Delete("validatingadmissionpolicies.admissionregistration.k8s.io", "", name)
	})
	// A policy counts a moment after it was made.
	e.Eventually(func() error {
		probe := widget(ns, "probe", "{color: pink}")
		if resource == "secrets" {
			probe = fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: probe, namespace: %q}, data: {deny: eA==}}", ns)
		}
		if _, err := e.Remote.TryCreate(probe); err == nil {
			e.Remote.Delete(resource+map[bool]string{true: "." + group}[group != ""], ns, "probe")
			return fmt.Errorf("the policy does not count yet")
		}
		return nil
	})
}

// The object's own faults: each is told in the server's words, holds up nobody else, and is tried again with growing
// pauses, or at once when the source or the remote schema changes.
func TestF3_FaultsBlockNobodyAndBackOff(t *testing.T) {
	e := harness.New(t)
	group := e.ID + ".example.io"
	kind := "widgets." + group
	e.Local.Apply(harness.WidgetCRD(group))
	strict := strings.Replace(harness.WidgetCRD(group), "size: {type: integer}", "size: {type: integer, maximum: 10}", 1)
	e.Remote.Apply(strict)
	ns := e.Namespace("a")
	e.Start(strings.ReplaceAll(widgetRule(ns, "workers: 1"), "example.io/v1", group+"/v1"))
	make := func(name, spec string) {
		e.Local.Create(strings.ReplaceAll(widget(ns, name, spec), "example.io/v1", group+"/v1"))
	}

	began := time.Now()
	make("bad", "{size: 11}")
	make("bad2", "{size: 12}")
	e.Eventually(func() error {
		return e.Local.HasEvent(ns, "bad", "Warning", "CreateFailed", "should be less than or equal to 10")
	})
	for i := range 5 {
		name := fmt.Sprintf("good%d", i)
		make(name, "{size: 1}")
		e.Within(5*time.Second, func() error { return is(e.Remote.Get(kind, ns, name), 1, "spec", "size") })
	}
	// 422 at once, after 5 s, after 10 more …
	e.Eventually(func() error {
		if codes := answered(e, began, "remote", "patch", "bad"); len(codes) < 2 {
			return fmt.Errorf("answers %v", codes)
		}
		return nil
	})
	if codes := answered(e, began, "remote", "patch", "bad"); len(codes) > 3 || codes[0] != http.StatusUnprocessableEntity {
		t.Errorf("in %s it was answered %v", time.Since(began), codes)
	}
	if events := e.Local.Events(ns, "bad"); len(events) != 1 {
		t.Errorf("told more than once: %q", events)
	}
	e.Local.Patch(kind, ns, "bad", "spec: {size: 10}")
	e.Within(3*time.Second, func() error { return is(e.Remote.Get(kind, ns, "bad"), 10, "spec", "size") })
	e.Remote.Apply(harness.WidgetCRD(group)) // the remote schema changes
	e.Within(4*time.Second, func() error { return is(e.Remote.Get(kind, ns, "bad2"), 12, "spec", "size") })
}

// 429 with Retry-After: it is kept, and what was written in vain is read before it is written again.
func TestF6_429RetryAfter(t *testing.T) {
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	// A level without seats executes one request at a time, and refuses what comes beside it.
	e.Remote.Apply(fmt.Sprintf(`apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: PriorityLevelConfiguration
metadata: {name: %[1]s}
spec:
  type: Limited
  limited: {nominalConcurrencyShares: 0, lendablePercent: 0, borrowingLimitPercent: 0, limitResponse: {type: Reject}}
---
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: %[1]s}
spec:
  matchingPrecedence: 10
  priorityLevelConfiguration: {name: %[1]s}
  rules:
  - subjects: [{kind: User, user: {name: %[2]s}}]
    resourceRules: [{verbs: [patch], apiGroups: [example.io], resources: [widgets], namespaces: ["*"]}]
`, e.ID, e.User()))
	t.Cleanup(func() {
		e.Remote.Delete("flowschemas.flowcontrol.apiserver.k8s.io", "", e.ID)
		e.Remote.Delete("prioritylevelconfigurations.flowcontrol.apiserver.k8s.io", "", e.ID)
	})
	p := e.Start(widgetRule(ns, "workers: 4"))
	names := numbered(4)
	p.Pause() // so that all come at once
	inParallel(len(names), func(i int) { e.Local.Create(widget(ns, names[i], "{size: 1}")) })
	began := time.Now()
	p.Resume()
	crossed(e, ns, names...)

	refused, read := map[string]time.Time{}, map[string]bool{}
	n := 0
	for _, r := range e.Requests(began) {
		if r.Side != "remote" || r.ObjectRef == nil || r.ObjectRef.Resource != "widgets" {
			continue
		}
		name := r.ObjectRef.Name
		switch last := refused[name]; {
		case r.Verb == "get":
			read[name] = true
		case r.Verb == "patch" && !last.IsZero() && r.RequestReceived.Sub(last) < 900*time.Millisecond: // the server says: after 1 s
			t.Errorf("%s was tried again after %s", name, r.RequestReceived.Sub(last))
		case r.Verb == "patch" && !last.IsZero() && !read[name]:
			t.Errorf("%s was written again without a read", name)
		}
		if r.Verb == "patch" && r.Code() == http.StatusTooManyRequests {
			refused[name], read[name] = r.RequestReceived, false
			n++
		}
	}
	if n == 0 {
		t.Error("nothing was answered 429: this proves nothing")
	}
}

// A write whose answer is lost happened all the same: it is read before anything is written again.
func TestF6_LostAnswers(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	proxy := e.Proxy(e.Remote)
	e.StartWith(widgetRule(ns), harness.StartOptions{RemoteKubeconfig: proxy.Kubeconfig})
	makeWidgets(e, ns, "changed", "deleted")
	before := uidsOf(e, ns)

	began := time.Now()
	for i, c := range []struct {
		do   func()
		sent func() error
	}{
		{func() { e.Local.Create(widget(ns, "created", "{size: 5}")) },
			func() error { return is(e.Remote.Get(widgets, ns, "created"), 5, "spec", "size") }},
		{func() { e.Local.Patch(widgets, ns, "changed", "spec: {size: 5}") },
			func() error { return is(e.Remote.Get(widgets, ns, "changed"), 5, "spec", "size") }},
		{func() { e.Local.Delete(widgets, ns, "deleted") },
			func() error { return absent(e.Remote.Get(widgets, ns, "deleted")) }},
	} {
		proxy.LoseAnswers()
		c.do()
		e.Eventually(c.sent) // it happened, and nobody tells
		proxy.Answer()
		// Requests and the watch of twins work again when a status goes round.
		marker := fmt.Sprintf("marker%d", i)
		e.Remote.SetStatus(widgets, ns, "changed", "{at: "+marker+"}")
		e.Eventually(func() error { return is(e.Local.Get(widgets, ns, "changed"), marker, "status", "at") })
		makeWidgets(e, ns, marker)
	}
	e.Quiet(3 * time.Second)
	counts := map[string]int{}
	read := map[string]bool{}
	for _, r := range e.Requests(began) {
		if r.Side != "remote" || r.ObjectRef == nil || r.ObjectRef.Resource != "widgets" || r.ObjectRef.Name == "" || strings.HasPrefix(r.ObjectRef.Name, "marker") {
			continue
		}
		if r.IsWrite() {
			counts[r.Verb+" "+r.ObjectRef.Name]++
		} else if r.Verb == "get" {
			read[r.ObjectRef.Name] = true
		}
	}
	// That the deleted twin is gone, the watch may tell before anybody looks again.
	if fmt.Sprint(counts) != "map[delete deleted:1 patch changed:1 patch created:1]" || !read["created"] || !read["changed"] {
		t.Errorf("writes %v, read again: %v", counts, read)
	}
	if e.Remote.Get(widgets, ns, "changed").GetUID() != before["changed"] {
		t.Error("a second object")
	}
}

// A watch that was cut misses things; they are found when it is back, on both sides.
func TestF6_CutWatches(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	local, remote := e.Proxy(e.Local), e.Proxy(e.Remote)
	e.StartWith(widgetRule(ns), harness.StartOptions{LocalKubeconfig: local.Kubeconfig, RemoteKubeconfig: remote.Kubeconfig})
	makeWidgets(e, ns, "stands", "goes", "changes")
	for range 3 {
		local.Cut()
		remote.Cut()
		local.Mend()
		remote.Mend()
	}
	local.Cut()
	remote.Cut()
	e.Local.Create(widget(ns, "comes", "{size: 1}"))
	e.Local.Delete(widgets, ns, "goes")
	e.Local.Patch(widgets, ns, "changes", "spec: {size: 8}")
	e.Remote.Delete(widgets, ns, "stands")
	e.Remote.PatchAs("other", types.MergePatchType, widgets, ns, "changes", "spec: {size: 3}")
	e.Remote.SetStatus(widgets, ns, "changes", "{ready: true}")
	local.Mend()
	remote.Mend()
	crossed(e, ns, "comes", "stands")
	gone(e, ns, "goes")
	e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "changes"), 8, "spec", "size") })
	e.Eventually(func() error { return is(e.Local.Get(widgets, ns, "changes"), true, "status", "ready") })
}

// A terminating namespace and a missing one are waited for, without a write.
func TestF6_NamespaceTerminatingThenMissing(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	config := widgetRule(ns)
	p := e.Start(config)
	makeWidgets(e, ns, "first")

	e.Remote.Delete("namespaces", "", ns) // it stays terminating: nobody clears it
	e.Eventually(func() error {
		if e.Remote.Get("namespaces", "", ns).GetDeletionTimestamp() == nil {
			return fmt.Errorf("it is not terminating")
		}
		return nil
	})
	began := time.Now()
	e.Local.Create(widget(ns, "second", "{size: 1}"))
	e.Remote.Delete(widgets, ns, "first")
	e.Eventually(func() error { return logged(p, "/second", "is terminating") })
	e.Eventually(func() error { return logged(p, "/first", "is terminating") })
	e.Remote.Finalize(ns)
	e.Eventually(func() error { return logged(p, "/second", "does not exist on the other side") })
	e.Quiet(time.Second)
	if writes := e.Writes(began); len(writes) > 0 {
		t.Errorf("written: %v", writes)
	}
	e.Remote.Apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: " + ns + "}\n")
	e.Remote.Apply(e.RBAC(e.WriteConfig(config), "remote")) // the role went with the namespace
	crossed(e, ns, "first", "second")
}
