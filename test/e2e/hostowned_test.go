//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/controlplane"
	"isthmus.dev/isthmus/test/harness"
)

// ownersOf returns the field managers whose entry in managedFields holds a field, given as in fieldsV1: f:spec, f:size.
func ownersOf(obj *unstructured.Unstructured, path ...string) (managers []string) {
	for _, entry := range obj.GetManagedFields() {
		var fields map[string]any
		if entry.FieldsV1 != nil {
			fields = parsed(entry.FieldsV1.GetRawBytes())
		}
		if _, ok, _ := unstructured.NestedFieldNoCopy(fields, path...); ok {
			managers = append(managers, entry.Manager)
		}
	}
	return managers
}

func TestO3_RemoteOwnedFieldsAreLeftAlone(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	config := rules(ns, widgetsWith("hostOwnedFields: [spec.replicas, 'spec.ports[*].nodePort', spec.limits.cpu, spec.args]"))
	p := e.Start(config)
	e.Local.Create(widget(ns, "one", "{size: 1, replicas: 1, args: [source], limits: {cpu: 1, memory: 1Gi}, ports: [{port: 80, nodePort: 1}, {port: 53, protocol: UDP, nodePort: 2}]}"))
	spec := func() any { return field(e.Remote.Get(widgets, ns, "one"), "spec") }
	e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "one"), 1, "spec", "size") })
	if have, want := mustJSON(spec()), `{"color":"red","limits":{"memory":"1Gi"},"ports":[{"port":80,"protocol":"TCP"},{"port":53,"protocol":"UDP"}],"size":1}`; have != want {
		t.Errorf("the twin's spec is %s, expected %s", have, want)
	}

	t.Run("changes cause no write", func(t *testing.T) {
		began := time.Now()
		e.Remote.PatchAs("autoscaler", types.JSONPatchType, widgets, ns, "one", `[{op: add, path: /spec/replicas, value: 7},
			{op: add, path: /spec/ports/0/nodePort, value: 30080}, {op: add, path: /spec/limits/cpu, value: 4}, {op: add, path: /spec/args, value: [remote]}]`)
		restsSince(e, began)
		began = time.Now()
		e.Remote.Patch(widgets, ns, "one", "spec: {replicas: 8, args: null}")
		restsSince(e, began)
		// Nor do the source's values matter.
		began = time.Now()
		e.Local.Patch(widgets, ns, "one", "spec: {replicas: 2, args: [other]}")
		restsSince(e, began)
	})
	t.Run("an update leaves them", func(t *testing.T) {
		e.Local.Patch(widgets, ns, "one", "spec: {size: 2, ports: [{port: 80, name: web, nodePort: 1}, {port: 443, nodePort: 3}]}")
		e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "one"), 2, "spec", "size") })
		want := `{"color":"red","limits":{"cpu":4,"memory":"1Gi"},"ports":[{"name":"web","nodePort":30080,"port":80,"protocol":"TCP"},{"port":443,"protocol":"TCP"}],"replicas":8,"size":2}`
		if have := mustJSON(spec()); have != want {
			t.Errorf("the twin's spec is %s, expected %s", have, want)
		}
	})
	restartsAtRest(e, p, config)
}

func TestO3_HandoverAndTakingBack(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	plain := rules(ns, widgetsWith())
	owning := func(fields ...string) string {
		return rules(ns, widgetsWith("hostOwnedFields: ["+strings.Join(fields, ", ")+"]"))
	}
	p := e.Start(plain)
	e.Local.Create(strings.Replace(widget(ns, "one", "{size: 1, replicas: 3, data: text, ports: [{port: 80, nodePort: 1}, {port: 53, nodePort: 2}]}"),
		"metadata: {", "metadata: {labels: {team: a}, ", 1))
	twin := func() *unstructured.Unstructured { return e.Remote.Get(widgets, ns, "one") }
	e.Eventually(func() error { return is(twin(), 3, "spec", "replicas") })
	// change restarts with another rule and waits until the twin is applied anew.
	change := func(config string) {
		p.Stop()
		before := field(twin(), "metadata", "annotations", boundary.AnnotationApplied)
		p = e.Start(config)
		e.Eventually(func() error {
			if field(twin(), "metadata", "annotations", boundary.AnnotationApplied) == before {
				return fmt.Errorf("the twin is not applied anew")
			}
			return nil
		})
	}
	spec := `{"color":"red","data":"text","ports":[{"nodePort":1,"port":80,"protocol":"TCP"},{"nodePort":2,"port":53,"protocol":"TCP"}],"replicas":3,"size":1}`
	unchanged := func() {
		t.Helper()
		if have := mustJSON(field(twin(), "spec")); have != spec {
			t.Errorf("the twin's spec is %s, expected %s", have, spec)
		}
	}
	owned := func(want string, path ...string) {
		t.Helper()
		if have := strings.Join(ownersOf(twin(), path...), " "); have != want {
			t.Errorf("%v is owned by %q, expected %q", path, have, want)
		}
	}
	port80 := []string{"f:spec", "f:ports", `k:{"port":80,"protocol":"TCP"}`, "f:nodePort"}

	first := []string{"spec.replicas", `'spec.ports[*].nodePort'`, `'metadata.labels["team"]'`}
	change(owning(first...))
	unchanged()
	for _, path := range [][]string{{"f:spec", "f:replicas"}, port80, {"f:metadata", "f:labels", "f:team"}} {
		owned(boundary.HandoverManager, path...)
	}
	if err := is(twin(), "a", "metadata", "labels", "team"); err != nil {
		t.Error(err)
	}

	// A second handover keeps the first.
	second := append(first, "spec.data")
	change(owning(second...))
	unchanged()
	owned(boundary.HandoverManager, "f:spec", "f:replicas")
	owned(boundary.HandoverManager, port80...)
	owned(boundary.HandoverManager, "f:spec", "f:data")

	began := time.Now()
	e.Remote.PatchAs("autoscaler", types.MergePatchType, widgets, ns, "one", "{spec: {replicas: 9}, metadata: {labels: {team: b}}}")
	restsSince(e, began)
	e.Local.Patch(widgets, ns, "one", "spec: {size: 2, replicas: 4}")
	e.Eventually(func() error { return is(twin(), 2, "spec", "size") })
	spec = strings.NewReplacer(`"size":1`, `"size":2`, `"replicas":3`, `"replicas":9`).Replace(spec)
	unchanged()
	p = restartsAtRest(e, p, owning(second...))

	// Taken back, with the source's values, and no ownership is left behind: what the source then drops, goes.
	change(plain)
	spec = strings.Replace(spec, `"replicas":9`, `"replicas":4`, 1)
	e.Eventually(func() error { return is(twin(), "a", "metadata", "labels", "team") })
	unchanged()
	e.Eventually(func() error {
		for _, path := range [][]string{{"f:spec", "f:replicas"}, {"f:spec", "f:data"}, port80, {"f:metadata", "f:labels", "f:team"}} {
			if have := ownersOf(twin(), path...); len(have) != 1 || have[0] != boundary.FieldManager {
				return fmt.Errorf("%v is owned by %v", path, have)
			}
		}
		return nil
	})
	restsSince(e, time.Now())
	e.Local.Patch(widgets, ns, "one", "spec: {data: null, ports: [{port: 80}]}")
	e.Eventually(func() error {
		want := `{"color":"red","ports":[{"port":80,"protocol":"TCP"}],"replicas":4,"size":2}`
		if have := mustJSON(field(twin(), "spec")); have != want {
			return fmt.Errorf("the twin's spec is %s, expected %s", have, want)
		}
		return nil
	})
	restartsAtRest(e, p, plain)
}

// A native kind is handed over like any other: an autoscaler takes a Deployment's replicas over without a gap.
func TestO3_HandoverOfADeployment(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	ns := e.Namespace("a")
	p := e.Start(rules(ns, "apiVersion: apps/v1, kind: Deployment"))
	e.Local.Create(fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: %s},
		spec: {replicas: 3, selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: c, image: "nginx:1"}]}}}}`, ns))
	const deployments = "deployments.apps"
	e.Eventually(func() error { return is(e.Remote.Get(deployments, ns, "web"), 3, "spec", "replicas") })
	p.Stop()
	config := rules(ns, "apiVersion: apps/v1, kind: Deployment, hostOwnedFields: [spec.replicas]")
	p = e.Start(config)
	e.Eventually(func() error {
		if have := ownersOf(e.Remote.Get(deployments, ns, "web"), "f:spec", "f:replicas"); len(have) != 1 || have[0] != boundary.HandoverManager {
			return fmt.Errorf("spec.replicas is owned by %v", have)
		}
		return nil
	})
	e.Remote.PatchAs("autoscaler", types.MergePatchType, deployments, ns, "web", "spec: {replicas: 5}", "scale")
	e.Local.Patch(deployments, ns, "web", "spec: {replicas: 1, template: {spec: {containers: [{name: c, image: 'nginx:2'}]}}}")
	e.Eventually(func() error {
		return holdsAll(field(e.Remote.Get(deployments, ns, "web"), "spec", "template", "spec", "containers"), []any{map[string]any{"image": "nginx:2"}})
	})
	if err := is(e.Remote.Get(deployments, ns, "web"), 5, "spec", "replicas"); err != nil {
		t.Error(err)
	}
	restartsAtRest(e, p, config)
}

func TestO3_PathsThatCanNotBeToldApart(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	group := ownGroup(e)
	e.Both(harness.WidgetCRDWith(group,
		"steps: {type: array, items: {type: object, properties: {image: {type: string}}}}",
		"whole: {type: object, x-kubernetes-map-type: atomic, properties: {part: {type: string}}}"))
	ns := e.Namespace("a")
	for path, reason := range map[string]string{
		"spec.steps[*].image": "the items of spec.steps have no keys",
		"spec.whole.part":     "spec.whole is replaced as a whole",
		"spec.ports[*].port":  "port is a key of spec.ports",
	} {
		t.Run(path, func(t *testing.T) {
			entry := fmt.Sprintf("name: refused, apiVersion: %s/v1, kind: Widget, hostOwnedFields: ['%s']", group, path)
			p := e.StartWith(rules(ns, entry, "apiVersion: v1, kind: ConfigMap"), harness.StartOptions{NotReady: true})
			defer p.Stop()
			e.Eventually(func() error { return logged(p, "rule refused", path, reason) })
			if v := p.Metric(`isthmus_rule_active{direction="ToRemote",kind="Widget",rule="refused"}`); v != "0" {
				t.Errorf("isthmus_rule_active is %q", v)
			}
			// The other rules run.
			name := "beside-" + strings.ToLower(strings.NewReplacer("[*]", "", ".", "-").Replace(path))
			e.Local.Create(fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: %s}}", name, ns))
			e.Eventually(func() error { return follows(e, "configmaps", ns, name) })
		})
	}
}

// Mutations that admission makes to our own writes are the target side's doing, and no drift.
func TestO4_AdmissionMutationsAreNoDrift(t *testing.T) {
	t.Parallel()
	e := harness.NewOwn(t, controlplane.Options{})
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	e.Remote.Apply(`
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: mutate}
spec:
  reinvocationPolicy: IfNeeded
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - {apiGroups: [example.io], apiVersions: [v1], resources: [widgets], operations: [CREATE, UPDATE]}
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: 'Object{metadata: Object.metadata{labels: {"admitted": "yes"}}, spec: Object.spec{replicas: 9, data: "mutated", limits: {"memory": "2Gi"}}}'
  - patchType: JSONPatch
    jsonPatch:
      expression: '[JSONPatch{op: "add", path: "/spec/tags", value: ["only"]}]'
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: mutate}
spec: {policyName: mutate}
`)
	e.Eventually(func() error {
		e.Remote.Delete(widgets, "default", "probe")
		probe, err := e.Remote.TryCreate(widget("default", "probe", "{size: 1, data: mine}"))
		if err != nil {
			return err
		}
		return is(probe, "mutated", "spec", "data")
	})
	config := rules(ns, widgetsWith())
	p := e.Start(config)
	e.Local.Create(widget(ns, "one", `{size: 1, data: source, tags: [a, b], limits: {cpu: "1"}}`))
	e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "one"), 1, "spec", "size") })
	restsSince(e, time.Now())
	p = restartsAtRest(e, p, config)
	e.Local.Patch(widgets, ns, "one", "spec: {size: 2}")
	e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "one"), 2, "spec", "size") })
	began := time.Now()
	e.Remote.PatchAs("other", types.MergePatchType, widgets, ns, "one", "spec: {note: added}") // mutated again on the way
	restsSince(e, began)
	twin := e.Remote.Get(widgets, ns, "one")
	for want, path := range map[any][]string{
		"mutated": {"spec", "data"}, 9: {"spec", "replicas"}, "yes": {"metadata", "labels", "admitted"}, "[only]": {"spec", "tags"}, "added": {"spec", "note"},
	} {
		if err := is(twin, want, path...); err != nil {
			t.Error(err)
		}
	}
	restartsAtRest(e, p, config)
}

// Defaults of the target side, and other forms of the same value, are no drift.
func TestO4_DefaultsAndOtherFormsAreNoDrift(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	group := ownGroup(e)
	e.Local.Apply(harness.WidgetCRD(group))
	e.Remote.Apply(harness.WidgetCRDWith(group, "mode: {type: string, default: auto}", "nested: {type: object, default: {}, properties: {deep: {type: integer, default: 4}}}"))
	ns := e.Namespace("a")
	config := rules(ns, "apiVersion: "+group+"/v1, kind: Widget, statusSync: true", "apiVersion: apps/v1, kind: Deployment, statusSync: true", "apiVersion: v1, kind: LimitRange")
	p := e.Start(config)
	deployment := func(name, cpu string) string {
		return fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: %s, namespace: %s},
			spec: {selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {volumes: [{name: v, emptyDir: {sizeLimit: 1024Mi}}],
			containers: [{name: c, image: nginx, ports: [{containerPort: 80}, {containerPort: 53, protocol: UDP}], env: [{name: A, value: ""}],
			resources: {limits: {cpu: %s, memory: 1000Mi}}, readinessProbe: {httpGet: {port: http, path: /}}}]}}}}`, name, ns, cpu)
	}
	for i, cpu := range []string{`"1"`, "1000m", "0.5", "500m", "1.50", "0.0000001"} {
		e.Local.Create(deployment(fmt.Sprintf("cpu-%d", i), cpu))
	}
	e.Local.Create(fmt.Sprintf("{apiVersion: v1, kind: LimitRange, metadata: {name: limits, namespace: %s}, spec: {limits: [{type: Container, default: {cpu: 0.50, memory: 1024Ki}}]}}", ns))
	e.Local.Create(strings.Replace(widget(ns, "one", `{size: 1, amount: 7, limits: {cpu: "1", memory: 1000m}, ports: [{port: 80}], note: null, tags: [], args: []}`), "example.io", group, 1))
	e.Eventually(func() error { return is(e.Remote.Get("widgets."+group, ns, "one"), "auto", "spec", "mode") })
	for i := range 6 {
		e.Eventually(func() error { return follows(e, "deployments.apps", ns, fmt.Sprintf("cpu-%d", i)) })
	}
	e.Eventually(func() error { return follows(e, "limitranges", ns, "limits") })
	restsSince(e, time.Now())

	// A controller's status on the twin, and one on the source's side that only touches it.
	e.Remote.SetStatus("deployments.apps", ns, "cpu-0", "{observedGeneration: 1, replicas: 1, updatedReplicas: 1, conditions: [{type: Available, status: 'True'}]}")
	e.Eventually(func() error { return is(e.Local.Get("deployments.apps", ns, "cpu-0"), 1, "status", "replicas") })
	restartsAtRest(e, p, config)
}

func parsed(raw []byte) map[string]any {
	var v map[string]any
	if err := json.Unmarshal(raw, &v); err != nil {
		panic(err)
	}
	return v
}
