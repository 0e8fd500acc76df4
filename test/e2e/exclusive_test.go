//go:build unix

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/test/harness"
)

func TestO4_ExclusiveTakesOutOnce(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	group := ownGroup(e)
	resource := "widgets." + group
	e.Both(harness.WidgetCRDWith(group, "nested: {type: object, properties: {inner: {type: object, properties: {x: {type: string}, y: {type: string}}}}}"))
	ns := e.Namespace("a")
	config := rules(ns, "apiVersion: "+group+"/v1, kind: Widget, statusSync: true, specOwnership: Exclusive, hostOwnedFields: [spec.replicas]")
	p := e.Start(config)
	twin := func() *unstructured.Unstructured { return e.Remote.Get(resource, ns, "one") }
	e.Local.Create(groupWidget(group, ns, "one", "{size: 3, tags: [b, d], limits: {cpu: 1}, ports: [{port: 80}, {port: 53, protocol: UDP}]}"))
	e.Eventually(func() error { return is(twin(), 3, "spec", "size") })
	clean := content(twin())["spec"].(map[string]any)
	clean["replicas"] = int64(5) // the remote side's own

	const more = `[
		{op: add, path: /metadata/labels/theirs, value: x}, {op: add, path: /metadata/annotations/theirs, value: x},
		{op: add, path: /spec/replicas, value: 5}, {op: add, path: /spec/data, value: theirs},
		{op: add, path: /spec/nested, value: {inner: {x: a, y: b}}},
		{op: add, path: /spec/tags/0, value: a}, {op: add, path: /spec/tags/2, value: c}, {op: add, path: /spec/tags/-, value: e},
		{op: add, path: /spec/limits/memory, value: 1Gi}, {op: add, path: /spec/ports/1/nodePort, value: 30000},
		{op: add, path: /spec/ports/0, value: {port: 70}}, {op: add, path: /spec/ports/-, value: {port: 90, protocol: SCTP, name: theirs}}]`
	add := func() { e.Remote.PatchAs("other", types.JSONPatchType, resource, ns, "one", more) }
	isClean := func() error {
		if have, want := mustJSON(content(twin())["spec"]), mustJSON(clean); have != want {
			return fmt.Errorf("spec is %s, expected %s", have, want)
		}
		return nil
	}
	const paths = "spec.data, spec.limits.memory, spec.nested, spec.ports"

	began := time.Now()
	add()
	e.Eventually(isClean)
	e.Eventually(func() error {
		return e.Local.HasEvent(ns, "one", "Normal Updated took out of the twin what others had added: "+paths, "(by other)")
	})
	restsSinceBut(e, began, 1)
	if labels, annotations := twin().GetLabels(), twin().GetAnnotations(); labels["theirs"] != "x" || annotations["theirs"] != "x" {
		t.Errorf("labels and annotations of others went: %v %v", labels, annotations)
	}

	t.Run("a change and an addition take two writes", func(t *testing.T) {
		began := time.Now()
		e.Remote.PatchAs("both", types.ApplyPatchType, resource, ns, "one", fmt.Sprintf("{apiVersion: %s/v1, kind: Widget, spec: {args: [mine], note: theirs}}", group))
		e.Remote.PatchAs("both", types.JSONPatchType, resource, ns, "one", "[{op: replace, path: /spec/size, value: 4}]")
		e.Eventually(isClean)
		restsSinceBut(e, began, 3) // as it is two writes of theirs, we may have seen the first alone
	})
	t.Run("what comes back is left and reported", func(t *testing.T) {
		began := time.Now()
		add()
		restsSince(e, began)
		e.Eventually(func() error {
			return e.Local.HasEvent(ns, "one", "Warning Contention what others add to the twin came back", "field manager other", paths, "hostOwnedFields: [")
		})
		sample := `isthmus_contention{direction="ToRemote",kind="Widget",manager="other",path="spec.data,spec.limits.memory,spec.nested,spec.ports,…",setting="hostOwnedFields: [spec.data, spec.limits.memory, spec.nested, spec.ports, …]"}`
		e.Eventually(func() error {
			if v := p.Metric(sample); v != "1" {
				return fmt.Errorf("%s is %q", sample, v)
			}
			return nil
		})
		// The rest goes on.
		e.Remote.SetStatus(resource, ns, "one", "{phase: Up, observedGeneration: "+fmt.Sprint(twin().GetGeneration())+"}")
		e.Eventually(func() error {
			return is(e.Local.Get(resource, ns, "one"), e.Local.Get(resource, ns, "one").GetGeneration(), "status", "observedGeneration")
		})
		e.Local.Patch(resource, ns, "one", "metadata: {labels: {touched: x}}")
		e.Eventually(func() error { return is(twin(), "x", "metadata", "labels", "touched") })
		if err := is(twin(), "theirs", "spec", "data"); err != nil {
			t.Error(err)
		}
		if n := eventsWith(e.Local, ns, "one", "came back"); n != 1 {
			t.Errorf("it is told %d times", n)
		}
	})
	t.Run("a restart takes it out once more", func(t *testing.T) {
		e.Remote.SetStatus(resource, ns, "one", "{observedGeneration: null}") // else it has to be told anew
		e.Eventually(func() error { return is(e.Local.Get(resource, ns, "one"), nil, "status", "observedGeneration") })
		p.Stop()
		began := time.Now()
		p = e.Start(config)
		e.Eventually(isClean)
		restsSinceBut(e, began, 1)
		restartsAtRest(e, p, config)
	})
}

// restsSinceBut fails the test if Isthmus has made more writes since a time than so many, or makes one in the next moment.
func restsSinceBut(e *harness.Env, since time.Time, most int) {
	e.T.Helper()
	e.Quiet(700 * time.Millisecond)
	if writes := e.Writes(since); len(writes) > most {
		e.T.Errorf("expected at most %d writes, got %v", most, writes)
	}
}

// Fields that the server refuses to let go stay, and are reported; a default that takes the place of what went is none.
func TestO4_ExclusiveAndTheServersOwn(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	group := ownGroup(e)
	resource := "widgets." + group
	crd := harness.WidgetCRDWith(group, "kept: {type: string}")
	e.Local.Apply(strings.Replace(crd, ", default: red", "", 1))
	const rule = "            x-kubernetes-validations: [{rule: \"!has(oldSelf.kept) || has(self.kept)\", message: kept stays}]\n            type: object\n            properties:\n                size:"
	e.Remote.Apply(strings.Replace(crd, "            type: object\n            properties:\n                size:", rule, 1))
	ns := e.Namespace("a")
	config := rules(ns, "apiVersion: "+group+"/v1, kind: Widget, specOwnership: Exclusive")
	p := e.Start(config)
	e.Local.Create(groupWidget(group, ns, "one", "{size: 3}"))
	e.Eventually(func() error { return is(e.Remote.Get(resource, ns, "one"), 3, "spec", "size") })

	if err := is(e.Local.Get(resource, ns, "one"), nil, "spec", "color"); err != nil {
		t.Fatal(err)
	}
	e.Remote.PatchAs("other", types.JSONPatchType, resource, ns, "one", "[{op: replace, path: /spec/color, value: blue}]")
	e.Eventually(func() error { return is(e.Remote.Get(resource, ns, "one"), "red", "spec", "color") })
	restsSince(e, time.Now())
	restartsAtRest(e, p, config)
	// The source can still set it, and take it back.
	e.Local.Patch(resource, ns, "one", "spec: {color: green}")
	e.Eventually(func() error { return is(e.Remote.Get(resource, ns, "one"), "green", "spec", "color") })
	e.Local.Patch(resource, ns, "one", "spec: {color: null}")
	e.Eventually(func() error { return is(e.Remote.Get(resource, ns, "one"), "red", "spec", "color") })

	e.Remote.PatchAs("other", types.JSONPatchType, resource, ns, "one", "[{op: add, path: /spec/kept, value: x}]")
	e.Eventually(func() error { return e.Local.HasEvent(ns, "one", "Warning UpdateFailed", "kept stays") })
	e.Local.Patch(resource, ns, "one", "spec: {size: 4}")
	e.Eventually(func() error { return is(e.Remote.Get(resource, ns, "one"), 4, "spec", "size") })
}

// Defaults, allocated fields, and what admission makes of our writes are no drift, before and after a restart.
func TestO4_TheServersOwnIsNoDrift(t *testing.T) {
	t.Parallel()
	// The node ports are of the part of the range that servers give to nobody unless asked.
	for ownership, nodePort := range map[string]int{"Shared": 30010, "Exclusive": 30011} {
		t.Run(ownership, func(t *testing.T) {
			t.Parallel()
			e := harness.New(t)
			group := ownGroup(e)
			resource := "widgets." + group
			e.Both(harness.WidgetCRD(group))
			e.Remote.Apply(mutating(group))
			ns := e.Namespace("a")
			e.Eventually(func() error { // until the policy is in force
				e.Remote.Delete(resource, ns, "probe")
				if _, err := e.Remote.TryCreate(groupWidget(group, ns, "probe", "{size: 1, amount: '0.5'}")); err != nil {
					return err
				}
				return is(e.Remote.Get(resource, ns, "probe"), "500m", "spec", "amount")
			})
			with := ", specOwnership: " + ownership
			config := rules(ns, "apiVersion: "+group+"/v1, kind: Widget"+with, "apiVersion: v1, kind: Service"+with, "apiVersion: apps/v1, kind: Deployment"+with)
			p := e.Start(config)
			e.Local.Create(groupWidget(group, ns, "one", "{size: 3, amount: '0.5', limits: {memory: 1024Mi}, ports: [{port: 80}]}"))
			e.Local.Create(fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: web, namespace: %s}, spec: {type: LoadBalancer, selector: {app: web}, ports: [{port: 80}]}}", ns))
			e.Local.Create(fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: %s}, spec: {selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}},
				spec: {containers: [{name: web, image: nginx, resources: {requests: {cpu: "0.5", memory: 1024Mi}}}]}}}}`, ns))
			e.Eventually(func() error {
				for _, err := range []error{
					is(e.Remote.Get(resource, ns, "one"), "500m", "spec", "amount"), is(e.Remote.Get(resource, ns, "one"), "injected", "spec", "note"),
					is(e.Remote.Get(resource, ns, "one"), "red", "spec", "color"), is(e.Remote.Get("services", ns, "web"), "web", "spec", "selector", "app"),
					is(e.Remote.Get("deployments.apps", ns, "web"), "web", "spec", "selector", "matchLabels", "app"),
				} {
					if err != nil {
						return err
					}
				}
				return nil
			})
			// A controller of the remote side owns what is its own of a Service.
			e.Remote.PatchAs("cloud", types.MergePatchType, "services", ns, "web", "{metadata: {annotations: {cloud.example.io/id: '7'}, finalizers: [cloud.example.io/cleanup]}}")
			e.Remote.PatchAs("cloud", types.MergePatchType, "services", ns, "web", "{status: {loadBalancer: {ingress: [{ip: 192.0.2.1}]}}}", "status")
			e.Remote.PatchAs("cloud", types.JSONPatchType, "services", ns, "web", fmt.Sprintf("[{op: replace, path: /spec/ports/0/nodePort, value: %d}]", nodePort))
			restsSince(e, time.Now())
			began := time.Now()
			restartsAtRest(e, p, config)
			restsSince(e, began)
			if err := is(e.Remote.Get("services", ns, "web"), "7", "metadata", "annotations", "cloud.example.io/id"); err != nil {
				t.Error(err)
			}
			e.Remote.Patch("services", ns, "web", "metadata: {finalizers: null}")
		})
	}
}

// mutating is a policy that adds a field to widgets of a group, and writes another one's quantity in another form.
func mutating(group string) string {
	return fmt.Sprintf(`apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: %[1]q}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [%[1]q], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [widgets]}]
  failurePolicy: Fail
  reinvocationPolicy: Never
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: >-
        [JSONPatch{op: "add", path: "/spec/note", value: "injected"}, JSONPatch{op: "add", path: "/spec/amount", value: "500m"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: %[1]q}
spec: {policyName: %[1]q}
`, group)
}
