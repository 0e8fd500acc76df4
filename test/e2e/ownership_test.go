//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/test/harness"
)

// rules is a configuration with rules for one namespace, each given as the inner part of a YAML flow mapping.
func rules(namespace string, entries ...string) string {
	text := fmt.Sprintf("version: v1\nlog_level: trace\nnamespaces: {%[1]s: %[1]s}\nsyncResources:\n", namespace)
	for _, entry := range entries {
		text += "- {direction: toHost, " + entry + "}\n"
	}
	return text
}

// widgetsWith is an entry of rules for widgets, with more of the rule.
func widgetsWith(more ...string) string {
	return strings.Join(append([]string{"apiVersion: example.io/v1, kind: Widget"}, more...), ", ")
}

// content is what of an object is its owner's: all but identity, metadata and status.
func content(obj *unstructured.Unstructured) map[string]any {
	if obj == nil {
		return nil
	}
	out := maps.Clone(obj.Object)
	for _, k := range []string{"apiVersion", "kind", "metadata", "status"} {
		delete(out, k)
	}
	return out
}

// follows returns nil when the twin has the content of its source, nothing more and nothing less.
func follows(e *harness.Env, resource, namespace, name string) error {
	twin := e.Remote.Get(resource, namespace, name)
	if twin == nil {
		return fmt.Errorf("%s %s/%s has no twin", resource, namespace, name)
	}
	source := e.Local.Get(resource, namespace, name)
	if diff := cmp.Diff(content(source), content(twin)); diff != "" {
		return fmt.Errorf("%s %s/%s: source (-) and twin (+) differ:\n%s", resource, namespace, name, diff)
	}
	return nil
}

// comesToRest waits until Isthmus has not written for a while.
func comesToRest(e *harness.Env) {
	e.T.Helper()
	e.Eventually(func() error {
		if last := e.Writes(time.Now().Add(-2 * time.Second)); len(last) > 0 {
			return fmt.Errorf("it does not come to rest: %v", last)
		}
		return nil
	})
}

// restsSince fails the test if Isthmus has written since a time, or does so in the next moment.
func restsSince(e *harness.Env, since time.Time) {
	e.T.Helper()
	e.Quiet(700 * time.Millisecond)
	if writes := e.Writes(since); len(writes) > 0 {
		e.T.Errorf("expected no write, got %v", writes)
	}
}

// restartsAtRest restarts Isthmus and fails the test if it writes.
func restartsAtRest(e *harness.Env, p *harness.Isthmus, config string) *harness.Isthmus {
	e.T.Helper()
	p.Stop()
	began := time.Now()
	p = e.Start(config)
	restsSince(e, began)
	return p
}

// ownGroup is an API group that no other test uses, so that a test may do with its CRDs as it likes.
func ownGroup(e *harness.Env) string { return e.ID + ".example.io" }

// gadgetCRD is a CRD whose fields lie outside spec.
func gadgetCRD(group string) string {
	return fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.%[1]s}
spec:
  group: %[1]s
  scope: Namespaced
  names: {kind: Gadget, listKind: GadgetList, plural: gadgets, singular: gadget}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          mode: {type: string}
          count: {type: integer}
          enabled: {type: boolean}
          data: {type: object, additionalProperties: {type: string}}
          rules: {type: array, items: {type: object, properties: {verbs: {type: array, items: {type: string}}}}}
          any: {type: object, x-kubernetes-preserve-unknown-fields: true}
`, group)
}

func TestO1_EveryTopLevelFieldFlows(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	group := ownGroup(e)
	e.Both(gadgetCRD(group))
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	e.Start(rules(ns,
		"apiVersion: v1, kind: ConfigMap", "apiVersion: v1, kind: Secret", "apiVersion: v1, kind: ServiceAccount",
		// Not the Role of Isthmus itself, which it may not give away: that would be tried again and again.
		"apiVersion: rbac.authorization.k8s.io/v1, kind: Role, selector: {matchLabels: {crosses: 'yes'}}", "apiVersion: apps/v1, kind: Deployment",
		"apiVersion: "+group+"/v1, kind: Gadget", widgetsWith()))

	for _, c := range []struct {
		resource, kind, name, fields string
		// removal is a merge patch that takes a field away, and removed the path that it takes.
		removal string
		removed []string
	}{
		{"configmaps", "apiVersion: v1, kind: ConfigMap", "plain", `data: {a: "1", b: "2"}, binaryData: {c: AAEC}`,
			"data: {b: null}", []string{"data", "b"}},
		{"configmaps", "apiVersion: v1, kind: ConfigMap", "whole", `data: {a: "1"}, binaryData: {c: AAEC}`,
			"binaryData: null", []string{"binaryData"}},
		{"secrets", "apiVersion: v1, kind: Secret", "typed", "type: kubernetes.io/basic-auth, data: {username: YQ==, password: Yg==}",
			"data: {password: null}", []string{"data", "password"}},
		{"serviceaccounts", "apiVersion: v1, kind: ServiceAccount", "account", "automountServiceAccountToken: false, imagePullSecrets: [{name: pull}]",
			"automountServiceAccountToken: null", []string{"automountServiceAccountToken"}},
		{"roles.rbac.authorization.k8s.io", "apiVersion: rbac.authorization.k8s.io/v1, kind: Role", "role",
			"rules: [{apiGroups: [example.io], resources: [widgets], verbs: [get, list]}]",
			"rules: null", []string{"rules"}},
		{"deployments.apps", "apiVersion: apps/v1, kind: Deployment", "deploy",
			"spec: {replicas: 2, selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {nodeSelector: {disk: ssd}, containers: [{name: c, image: nginx, resources: {limits: {cpu: 1000m}}, ports: [{containerPort: 80}]}]}}}",
			"spec: {template: {spec: {nodeSelector: null}}}", []string{"spec", "template", "spec", "nodeSelector"}},
		{"gadgets." + group, "apiVersion: " + group + "/v1, kind: Gadget", "gadget",
			"mode: fast, count: 3, enabled: false, data: {k: v}, rules: [{verbs: [get]}, {verbs: []}], any: {deep: [1, {x: null, y: 1.5}]}",
			"mode: null", []string{"mode"}},
	} {
		e.Local.Create(fmt.Sprintf("{%s, metadata: {name: %s, namespace: %s, labels: {crosses: 'yes'}}, %s}", c.kind, c.name, ns, c.fields))
		e.Eventually(func() error { return follows(e, c.resource, ns, c.name) })
		e.Local.Patch(c.resource, ns, c.name, c.removal)
		e.Eventually(func() error {
			if v := field(e.Remote.Get(c.resource, ns, c.name), c.removed...); v != nil {
				return fmt.Errorf("%s: %v is still there: %v", c.resource, c.removed, v)
			}
			return follows(e, c.resource, ns, c.name)
		})
	}

	t.Run("immutable", func(t *testing.T) {
		for resource, kind := range map[string]string{"configmaps": "ConfigMap", "secrets": "Secret"} {
			e.Local.Create(fmt.Sprintf("{apiVersion: v1, kind: %s, metadata: {name: fixed, namespace: %s}, immutable: true, data: {a: YQ==}}", kind, ns))
			e.Eventually(func() error { return follows(e, resource, ns, "fixed") })
		}
	})
	comesToRest(e) // the Deployment's controller goes on reporting for a while
	restsSince(e, time.Now())
}

func TestO2_LabelsAndAnnotations(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	config := rules(ns, widgetsWith("extraLabels: {tenant: blue}", `hostOwnedFields: ['metadata.labels["theirs"]', 'metadata.annotations["example.io/theirs"]']`))
	p := e.Start(config)
	e.Local.Create(fmt.Sprintf(`{apiVersion: example.io/v1, kind: Widget, spec: {size: 1}, metadata: {name: one, namespace: %s,
		labels: {app: a, gone: soon, tenant: red, theirs: source}, annotations: {note: before, example.io/theirs: source}}}`, ns))
	twin := func() *unstructured.Unstructured { return e.Remote.Get(widgets, ns, "one") }
	label := func(key string, want any) error { return is(twin(), want, "metadata", "labels", key) }
	annotation := func(key string, want any) error { return is(twin(), want, "metadata", "annotations", key) }
	all := func(errs ...error) error {
		for _, err := range errs {
			if err != nil {
				return err
			}
		}
		return nil
	}

	e.Eventually(func() error {
		return all(label("app", "a"), label("gone", "soon"), annotation("note", "before"))
	})
	if err := all(label("tenant", "blue"), label("theirs", nil), annotation("example.io/theirs", nil)); err != nil {
		t.Errorf("extra labels win, and keys of the remote side do not cross: %v", err)
	}

	t.Run("what others add stays", func(t *testing.T) {
		began := time.Now()
		e.Remote.Patch(widgets, ns, "one", "metadata: {labels: {added: x, theirs: remote}, annotations: {added: also, example.io/theirs: remote}}")
		restsSince(e, began)
	})
	t.Run("what others change is put back", func(t *testing.T) {
		e.Remote.Patch(widgets, ns, "one", "metadata: {labels: {app: changed, tenant: green}, annotations: {note: null}}")
		e.Eventually(func() error {
			return all(label("app", "a"), label("tenant", "blue"), annotation("note", "before"))
		})
	})
	t.Run("changes flow", func(t *testing.T) {
		e.Local.Patch(widgets, ns, "one", "metadata: {labels: {app: b, gone: null, new: one}, annotations: {note: after}}")
		e.Eventually(func() error {
			return all(label("app", "b"), label("gone", nil), label("new", "one"), annotation("note", "after"))
		})
	})
	if err := all(label("added", "x"), annotation("added", "also"), label("theirs", "remote"), annotation("example.io/theirs", "remote")); err != nil {
		t.Errorf("what others set went: %v", err)
	}
	restartsAtRest(e, p, config)
}

func TestO4_DriftIsPutBack(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	config := rules(ns, widgetsWith())
	p := e.Start(config)
	spec := `{size: 3, data: d, tags: [a, b], args: [first, second], limits: {cpu: "1"}, ports: [{port: 80}, {port: 53, protocol: UDP, name: dns}]}`

	for name, patch := range map[string]string{
		"changed":                    `[{op: replace, path: /spec/size, value: 4}]`,
		"removed":                    `[{op: remove, path: /spec/data}]`,
		"all removed":                `[{op: remove, path: /spec}]`,
		"set item removed":           `[{op: remove, path: /spec/tags/0}]`,
		"set item replaced":          `[{op: replace, path: /spec/tags/1, value: c}, {op: add, path: /spec/tags/-, value: b2}, {op: remove, path: /spec/tags/2}]`,
		"atomic list changed":        `[{op: add, path: /spec/args/-, value: z}]`,
		"atomic list removed":        `[{op: remove, path: /spec/args}]`,
		"map entry changed":          `[{op: replace, path: /spec/limits/cpu, value: "2"}]`,
		"keyed item removed":         `[{op: remove, path: /spec/ports/0}]`,
		"field of an item removed":   `[{op: remove, path: /spec/ports/1/name}]`,
		"field of an item changed":   `[{op: replace, path: /spec/ports/1/name, value: other}]`,
		"changed and back and again": `[{op: replace, path: /spec/size, value: 3}, {op: replace, path: /spec/data, value: e}]`,
	} {
		t.Run(name, func(t *testing.T) {
			object := strings.ReplaceAll(name, " ", "-") // one each: so many changes of one would be a fight (O6)
			source := content(e.Local.Create(widget(ns, object, spec)))
			e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, object), 3, "spec", "size") })
			before := e.Remote.Get(widgets, ns, object).GetResourceVersion()
			e.Remote.PatchAs("other", types.JSONPatchType, widgets, ns, object, patch)
			e.Eventually(func() error {
				twin := e.Remote.Get(widgets, ns, object)
				if twin.GetResourceVersion() == before {
					return fmt.Errorf("the patch changed nothing")
				}
				return holdsAll(content(twin), source)
			})
		})
		if t.Failed() {
			return
		}
	}
	restartsAtRest(e, p, config)
}

// holdsAll returns nil when have holds all of want: the fields of its objects, and the items of its lists, which may
// be in another order and more.
func holdsAll(have, want any) error {
	switch want := want.(type) {
	case map[string]any:
		object, _ := have.(map[string]any)
		for k, v := range want {
			if err := holdsAll(object[k], v); err != nil {
				return fmt.Errorf("%s: %w", k, err)
			}
		}
		return nil
	case []any:
		items, _ := have.([]any)
		for _, v := range want {
			if !slices.ContainsFunc(items, func(item any) bool { return holdsAll(item, v) == nil }) {
				return fmt.Errorf("%v lacks %v", have, v)
			}
		}
		return nil
	}
	if a, b := mustJSON(have), mustJSON(want); a != b {
		return fmt.Errorf("%s instead of %s", a, b)
	}
	return nil
}

func mustJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func TestO4_WhatOthersAddStays(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	config := rules(ns, widgetsWith())
	p := e.Start(config)
	e.Local.Create(widget(ns, "one", "{size: 3, tags: [a], limits: {cpu: 1}, ports: [{port: 80}]}"))
	e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "one"), 3, "spec", "size") })

	began := time.Now()
	e.Remote.PatchAs("other", types.JSONPatchType, widgets, ns, "one", `[
		{op: add, path: /spec/replicas, value: 5}, {op: add, path: /spec/tags/-, value: b},
		{op: add, path: /spec/limits/memory, value: 1Gi}, {op: add, path: /spec/ports/0/nodePort, value: 30000},
		{op: add, path: /spec/ports/-, value: {port: 90, protocol: SCTP}}]`)
	e.Remote.PatchAs("applier", types.ApplyPatchType, widgets, ns, "one",
		"{apiVersion: example.io/v1, kind: Widget, spec: {data: applied, args: [mine]}}")
	restsSince(e, began)
	restartsAtRest(e, p, config)

	theirs := map[string]any{"replicas": 5, "tags": []any{"a", "b"}, "data": "applied", "args": []any{"mine"},
		"limits": map[string]any{"cpu": 1, "memory": "1Gi"}, "ports": []any{map[string]any{"port": 80, "nodePort": 30000}, map[string]any{"port": 90}}}
	if err := holdsAll(field(e.Remote.Get(widgets, ns, "one"), "spec"), theirs); err != nil {
		t.Errorf("at rest: %v", err)
	}
	e.Local.Patch(widgets, ns, "one", "spec: {size: 4}")
	e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "one"), 4, "spec", "size") })
	if err := holdsAll(field(e.Remote.Get(widgets, ns, "one"), "spec"), theirs); err != nil {
		t.Errorf("after an update: %v", err)
	}
	// What the source sets too is the source's from then on.
	e.Local.Patch(widgets, ns, "one", "spec: {replicas: 1}")
	e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "one"), 1, "spec", "replicas") })
}
