//go:build unix

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"isthmus.dev/isthmus/test/harness"
)

// valueAt returns what is at a path of fields and indexes of lists; nil where there is nothing.
func valueAt(obj *unstructured.Unstructured, path ...any) any {
	if obj == nil {
		return nil
	}
	var v any = obj.Object
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[step]
		case int:
			items, _ := v.([]any)
			if step >= len(items) {
				return nil
			}
			v = items[step]
		}
	}
	return v
}

// at returns nil when there is a value at a path of an object.
func at(obj *unstructured.Unstructured, want any, path ...any) error {
	if have := valueAt(obj, path...); fmt.Sprint(have) != fmt.Sprint(want) {
		return fmt.Errorf("%v is %v, expected %v", path, have, want)
	}
	return nil
}

// all returns the first error.
func all(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestX1X2T3T4_HTTPRoute(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.ModuleFile(t, gatewayAPI, "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml"))
	const routes = "httproutes.gateway.networking.k8s.io"
	a, b, host := e.Namespace("a"), e.Namespace("b"), e.Namespace("host")
	config := virtual(host, []string{a, b}, "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\ndirection: toHost\nstatusSync: true\npatches:\n"+
		"- {path: 'spec.parentRefs[*]', type: rewriteHostRef}\n"+
		"- {path: 'spec.parentRefs[1]', type: rewriteRef}\n"+ // the more specific one wins
		"- {path: 'spec.parentRefs[2]', type: none}\n"+
		"- {path: 'spec.rules[*].backendRefs[*]', type: rewriteRef}\n"+
		"- {path: 'spec.rules[*].filters[*].requestMirror.backendRef', type: rewriteRef}\n"+
		"- {path: 'spec.rules[*].filters[*].extensionRef', type: rewriteRef}\n",
		"apiVersion: v1\nkind: Service\ndirection: toHost\n")
	p := e.Start(config)
	e.Local.Create(service(a, "web", "{ports: [{port: 80}]}"))
	e.Local.Create(service(b, "api", "{ports: [{port: 80}]}"))
	e.Local.Create(fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: shop, namespace: %s}
spec:
  parentRefs: [{name: public, namespace: infra, sectionName: https}, {group: "", kind: Service, name: web}, {name: kept, namespace: there}]
  hostnames: [shop.example.org]
  rules:
  - backendRefs: [{name: web, port: 80}, {name: api, namespace: %s, port: 80, weight: 3}]
    filters: [{type: RequestMirror, requestMirror: {backendRef: {name: web, port: 80}}}]
`, a, b))
	source := func() *unstructured.Unstructured { return e.Local.Get(routes, a, "shop") }
	twin := func() *unstructured.Unstructured { return e.Remote.Get(routes, host, hostName(a, "shop")) }
	web, api := hostName(a, "web"), hostName(b, "api")
	e.Eventually(func() error { return at(twin(), web, "spec", "rules", 0, "backendRefs", 0, "name") })
	for _, err := range []error{
		at(twin(), nil, "spec", "rules", 0, "backendRefs", 0, "namespace"),
		at(twin(), api, "spec", "rules", 0, "backendRefs", 1, "name"),
		at(twin(), host, "spec", "rules", 0, "backendRefs", 1, "namespace"),
		at(twin(), 3, "spec", "rules", 0, "backendRefs", 1, "weight"),
		at(twin(), web, "spec", "rules", 0, "filters", 0, "requestMirror", "backendRef", "name"),
		at(twin(), "public", "spec", "parentRefs", 0, "name"),
		at(twin(), host, "spec", "parentRefs", 0, "namespace"),
		at(twin(), "https", "spec", "parentRefs", 0, "sectionName"),
		at(twin(), web, "spec", "parentRefs", 1, "name"),
		at(twin(), "kept", "spec", "parentRefs", 2, "name"),
		at(twin(), "there", "spec", "parentRefs", 2, "namespace"),
		at(twin(), "shop.example.org", "spec", "hostnames", 0),
	} {
		if err != nil {
			t.Errorf("the twin: %v", err)
		}
	}
	for namespace, name := range map[string]string{a: "web", b: "api"} { // they lead to the twins
		e.Eventually(func() error {
			return is(e.Remote.Get("services", host, hostName(namespace, name)), namespace+"/"+name, "metadata", "annotations", "isthmus.dev/source")
		})
	}
	if err := e.Local.HasEvent(a, "shop", "refers to what does not cross"); err == nil {
		t.Error("a reference that leads to a twin is reported as dangling")
	}

	// The source is in a later generation than the twin, and so it says.
	for i := range 3 {
		e.Local.Patch(routes, a, "shop", fmt.Sprintf("spec: {hostnames: [shop-%d.example.org]}", i))
		e.Eventually(func() error { return at(twin(), fmt.Sprintf("shop-%d.example.org", i), "spec", "hostnames", 0) })
	}
	p.Stop()
	e.Local.Patch(routes, a, "shop", "spec: {hostnames: [a.example.org]}")
	e.Local.Patch(routes, a, "shop", "spec: {hostnames: [shop.example.org]}")
	p = e.Start(config)
	e.Eventually(func() error { return at(twin(), "shop.example.org", "spec", "hostnames", 0) })
	if g, G := twin().GetGeneration(), source().GetGeneration(); g == G {
		t.Fatalf("both are in generation %d, so this shows nothing", g)
	}
	status := func(generation int64) {
		parent := func(ref string) string {
			return fmt.Sprintf(`{parentRef: {%s}, controllerName: example.io/gateway, conditions: [
				{type: Accepted, status: "True", reason: Accepted, message: "", lastTransitionTime: "2026-01-01T00:00:00Z", observedGeneration: %d}]}`, ref, generation)
		}
		e.Remote.SetStatus(routes, host, hostName(a, "shop"), "{parents: ["+strings.Join([]string{
			parent("group: gateway.networking.k8s.io, kind: Gateway, name: public, sectionName: https, namespace: " + host),
			parent("group: '', kind: Service, name: " + web), parent("name: kept, namespace: there"),
		}, ", ")+"]}")
	}
	status(twin().GetGeneration())
	e.Within(2*time.Second, func() error {
		s, G := source(), source().GetGeneration()
		return all(
			at(s, "public", "status", "parents", 0, "parentRef", "name"),
			at(s, "infra", "status", "parents", 0, "parentRef", "namespace"),
			at(s, "https", "status", "parents", 0, "parentRef", "sectionName"),
			at(s, G, "status", "parents", 0, "conditions", 0, "observedGeneration"),
			at(s, "web", "status", "parents", 1, "parentRef", "name"),
			at(s, "kept", "status", "parents", 2, "parentRef", "name"),
			at(s, "there", "status", "parents", 2, "parentRef", "namespace"),
			at(s, G, "status", "parents", 2, "conditions", 0, "observedGeneration"),
		)
	})
	restartsAtRest(e, p, config)
}

// X2: strings that name objects, in real kinds: what an Ingress refers to is what the others become.
func TestX2T4_Names(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	group := ownGroup(e)
	e.Both(harness.WidgetCRDWith(group, "secretName: {type: string}", "from: {type: object, x-kubernetes-preserve-unknown-fields: true}"))
	own := "widgets." + group
	a, b, host := e.Namespace("a"), e.Namespace("b"), e.Namespace("host")
	config := virtual(host, []string{a, b}, "apiVersion: networking.k8s.io/v1\nkind: Ingress\ndirection: toHost\npatches:\n"+
		"- {path: 'spec.tls[*].secretName', type: rewriteName}\n"+
		"- {path: 'spec.rules[*].http.paths[*].backend.service.name', type: rewriteName}\n"+
		"- {path: 'spec.defaultBackend.service.name', type: rewriteName}\n"+ // which is not there: no error (X3)
		"- {path: 'metadata.annotations[\"example.io/secret\"]', type: rewriteName}\n"+
		"- {path: 'metadata.annotations[\"example.io/namespace\"]', type: rewriteNamespace}\n",
		secretsOut, "apiVersion: "+group+"/v1\nkind: Widget\ndirection: toHost\nstatusSync: true\npatches:\n"+
			"- {path: spec.secretName, type: rewriteName}\n"+
			"- {path: spec.from.name, type: rewriteName}\n"+
			"- {path: spec.from.namespaces[*], type: rewriteNamespace}\n"+
			"- {path: status.lastSecret, type: rewriteName}\n")
	config = strings.ReplaceAll(config, "spec.from.namespaces[*]", "'spec.from.namespaces[*]'")
	p := e.Start(config)
	e.Local.Create(secretIn(a, "cert"))
	e.Local.Create(secretIn(b, "cert"))
	e.Local.Create(fmt.Sprintf(`
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: shop, namespace: %s, annotations: {example.io/secret: cert, example.io/namespace: %s, example.io/other: cert}}
spec:
  ingressClassName: public
  tls: [{hosts: [a.example.org], secretName: cert}, {hosts: [b.example.org]}]
  rules: [{http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]
`, a, b))
	cert := hostName(a, "cert")
	e.Eventually(func() error {
		i := e.Remote.Get("ingresses.networking.k8s.io", host, hostName(a, "shop"))
		return all(
			at(i, cert, "spec", "tls", 0, "secretName"),
			at(i, nil, "spec", "tls", 1, "secretName"),
			at(i, hostName(a, "web"), "spec", "rules", 0, "http", "paths", 0, "backend", "service", "name"),
			at(i, "public", "spec", "ingressClassName"),
			at(i, cert, "metadata", "annotations", "example.io/secret"),
			at(i, host, "metadata", "annotations", "example.io/namespace"),
			at(i, "cert", "metadata", "annotations", "example.io/other"),
		)
	})
	e.Eventually(func() error {
		return present(e.Remote, "secrets", host, cert, hostName(b, "cert"))
	})

	e.Local.Create(fmt.Sprintf("{apiVersion: %s/v1, kind: Widget, metadata: {name: one, namespace: %s}, spec: {secretName: cert, from: {name: cert, namespace: %s, namespaces: [%s, %s]}}}", group, a, b, a, b))
	twin := func() *unstructured.Unstructured { return e.Remote.Get(own, host, hostName(a, "one")) }
	e.Eventually(func() error {
		return all(
			at(twin(), cert, "spec", "secretName"),
			at(twin(), hostName(b, "cert"), "spec", "from", "name"), // it says in whose namespace
			at(twin(), b, "spec", "from", "namespace"),              // which no patch names
			at(twin(), host, "spec", "from", "namespaces", 0),
		)
	})
	// T4: objects wherever they stand, and strings where a patch says so.
	e.Remote.SetStatus(own, host, hostName(a, "one"), fmt.Sprintf("{used: [{ref: {name: %[1]s}}, {ref: {name: other}}, {ref: {name: %[1]s, kind: Secret}}], lastSecret: %[1]s, note: %[1]s}", cert))
	e.Eventually(func() error {
		s := e.Local.Get(own, a, "one")
		return all(
			at(s, "cert", "status", "used", 0, "ref", "name"),
			at(s, "other", "status", "used", 1, "ref", "name"),
			at(s, "cert", "status", "used", 2, "ref", "name"),
			at(s, "cert", "status", "lastSecret"),
			at(s, cert, "status", "note"),
		)
	})
	restartsAtRest(e, p, config)
}

// X2: a translated selector selects on the other side what it selects here, and nothing of others'. Widgets stand in for
// the pods, as only labels count.
func TestX2_Selectors(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	a, b, host := e.Namespace("a"), e.Namespace("b"), e.Namespace("host")
	config := virtual(host, []string{a, b}, widgetsOut,
		"apiVersion: v1\nkind: Service\ndirection: toHost\nselectorIncludeOwnerLabels: false\npatches: [{path: spec.selector, type: rewriteLabelSelector}]\n",
		"apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\ndirection: toHost\npatches:\n- {path: spec.podSelector, type: rewriteLabelSelector}\n- {path: 'spec.ingress[*].from[*].podSelector', type: rewriteLabelSelector}\n")
	p := e.Start(config)
	pods := map[string]string{"web": "app: web, release: stable", "canary": "app: web, release: canary", "db": "app: db"}
	for name, labels := range pods {
		e.Local.Create(widgetWith(a, name, "labels: {"+labels+"}"))
		e.Local.Create(widgetWith(b, name, "labels: {"+labels+"}"))
		for _, mark := range []string{"", ", vcluster.loft.sh/managed-by: other, vcluster.loft.sh/namespace: " + a} { // the host's own, and another tenant's
			e.Remote.Create(fmt.Sprintf("{apiVersion: example.io/v1, kind: Widget, metadata: {generateName: foreign-, namespace: %s, labels: {%s%s}}}", host, labels, mark))
		}
	}
	selectors := map[string]struct {
		selector string
		selects  []string
	}{
		"labels":      {"{matchLabels: {app: web}}", []string{"web", "canary"}},
		"translated":  {"{matchLabels: {release: stable}}", []string{"web"}},
		"expressions": {"{matchExpressions: [{key: release, operator: NotIn, values: [stable]}, {key: app, operator: Exists}]}", []string{"canary", "db"}},
		"all":         {"{}", []string{"web", "canary", "db"}},
	}
	for name, s := range selectors {
		e.Local.Create(fmt.Sprintf(`{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: %s, namespace: %s},
			spec: {podSelector: %[3]s, ingress: [{from: [{podSelector: %[3]s}, {ipBlock: {cidr: 192.0.2.0/24}}]}]}}`, name, a, s.selector))
	}
	e.Local.Create(service(a, "web", "{selector: {app: web, release: stable}, ports: [{port: 80}]}"))

	selected := func(value any, names ...string) error {
		object, ok := value.(map[string]any)
		if !ok {
			return fmt.Errorf("no selector: %v", value)
		}
		var selector metav1.LabelSelector
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, &selector); err != nil {
			return err
		}
		compiled, err := metav1.LabelSelectorAsSelector(&selector)
		if err != nil {
			return err
		}
		twins := make([]string, len(names))
		for i, name := range names {
			twins[i] = hostName(a, name)
		}
		return these(e.Remote.List(widgets, host, compiled.String()), twins...)
	}
	for name := range pods {
		e.Eventually(func() error { return is(e.Remote.Get(widgets, host, hostName(a, name)), 1, "spec", "size") })
		e.Eventually(func() error { return is(e.Remote.Get(widgets, host, hostName(b, name)), 1, "spec", "size") })
	}
	for name, s := range selectors {
		policy := func() *unstructured.Unstructured {
			return e.Remote.Get("networkpolicies.networking.k8s.io", host, hostName(a, name))
		}
		e.Eventually(func() error { return selected(valueAt(policy(), "spec", "podSelector"), s.selects...) })
		if err := selected(valueAt(policy(), "spec", "ingress", 0, "from", 0, "podSelector"), s.selects...); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := at(policy(), "192.0.2.0/24", "spec", "ingress", 0, "from", 1, "ipBlock", "cidr"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	e.Eventually(func() error {
		return selected(map[string]any{"matchLabels": valueAt(e.Remote.Get("services", host, hostName(a, "web")), "spec", "selector")}, "web")
	})
	restartsAtRest(e, p, config)
}

// refsCRD is a CRD of widgets with references in their spec.
func refsCRD(group string) string {
	return harness.WidgetCRDWith(group, "ref: {x-kubernetes-preserve-unknown-fields: true}", "other: {x-kubernetes-preserve-unknown-fields: true}",
		"refs: {x-kubernetes-preserve-unknown-fields: true}")
}

func TestX3_Dangling(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	group := ownGroup(e)
	e.Both(refsCRD(group))
	own := "widgets." + group
	patches := "patches: [{path: spec.ref, type: rewriteRef}, {path: 'spec.refs[*]', type: rewriteRef}, {path: 'spec.refs[1]', type: none}, {path: spec.other, type: rewriteNamespace}]\n"
	rule := "apiVersion: " + group + "/v1\nkind: Widget\ndirection: toHost\n" + patches
	create := func(namespace, name, spec string) {
		e.Local.Create(fmt.Sprintf("{apiVersion: %s/v1, kind: Widget, metadata: {name: %s, namespace: %s}, spec: %s}", group, name, namespace, spec))
	}
	dangling := func(namespace, name string, texts ...string) error {
		return e.Local.HasEvent(namespace, name, append([]string{"Warning", "PatchFailed", "refers to what does not cross"}, texts...)...)
	}

	t.Run("same names", func(t *testing.T) {
		e := e.Beside()
		a := e.Namespace("a")
		config := file(same(a), rule)
		p := e.Start(config)
		create(a, "one", fmt.Sprintf("{ref: {name: x, namespace: elsewhere}, refs: [{name: q, namespace: %s}, {name: z, namespace: elsewhere}], other: nowhere}", a))
		twin := func() *unstructured.Unstructured { return e.Remote.Get(own, a, "one") }
		e.Eventually(func() error { return at(twin(), "x", "spec", "ref", "name") })
		// The namespace of that name may be another's there.
		for _, err := range []error{
			at(twin(), "elsewhere-"+e.ID, "spec", "ref", "namespace"),
			at(twin(), a, "spec", "refs", 0, "namespace"),
			at(twin(), "elsewhere", "spec", "refs", 1, "namespace"),
			at(twin(), "nowhere-"+e.ID, "spec", "other"),
		} {
			if err != nil {
				t.Error(err)
			}
		}
		e.Eventually(func() error {
			return dangling(a, "one", "spec.ref refers to elsewhere/x", "elsewhere-"+e.ID+"/x", "spec.other refers to nowhere")
		})
		if err := dangling(a, "one", "spec.refs"); err == nil {
			t.Error("what leads to a namespace with a counterpart, or is left alone, is reported")
		}
		p = restartsAtRest(e, p, config)
		p.Stop()
	})

	t.Run("virtual cluster", func(t *testing.T) {
		e := e.Beside()
		a, host := e.Namespace("a"), e.Namespace("host")
		config := virtual(host, []string{a}, rule, configMapsOut)
		p := e.Start(config)
		create(a, "one", fmt.Sprintf("{ref: {apiVersion: example.org/v1, kind: Database, name: x}, refs: [{kind: ConfigMap, name: q}, {name: z}, {apiVersion: %s/v1, kind: Widget, name: two}]}", group))
		twin := func() *unstructured.Unstructured { return e.Remote.Get(own, host, hostName(a, "one")) }
		e.Eventually(func() error { return at(twin(), hostName(a, "x"), "spec", "ref", "name") })
		for _, err := range []error{
			at(twin(), hostName(a, "q"), "spec", "refs", 0, "name"),
			at(twin(), "z", "spec", "refs", 1, "name"),
			at(twin(), hostName(a, "two"), "spec", "refs", 2, "name"),
		} {
			if err != nil {
				t.Error(err)
			}
		}
		e.Eventually(func() error { return dangling(a, "one", "spec.ref refers to Database "+a+"/x", hostName(a, "x")) })
		if err := dangling(a, "one", "spec.refs"); err == nil {
			t.Error("a kind that crosses is reported")
		}
		create(a, "none", "{size: 1}") // X3: what is not there is no error
		e.Eventually(func() error { return is(e.Remote.Get(own, host, hostName(a, "none")), 1, "spec", "size") })
		if err := e.Local.HasEvent(a, "none", "PatchFailed"); err == nil {
			t.Error("a path that matches nothing is reported")
		}
		restartsAtRest(e, p, config)
	})
}

// A reference that can't be translated keeps the object from crossing, and its twin as it was.
func TestX3X4_WrongType(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	group := ownGroup(e)
	e.Both(refsCRD(group))
	own := "widgets." + group
	a, host := e.Namespace("a"), e.Namespace("host")
	config := virtual(host, []string{a}, "apiVersion: "+group+"/v1\nkind: Widget\ndirection: toHost\nstatusSync: true\npatches:\n"+
		"- {path: spec.ref, type: rewriteName}\n- {path: 'spec.refs[*]', type: rewriteRef}\n- {path: spec.other, type: rewriteLabelSelector}\n")
	p := e.Start(config)
	create := func(name, spec string) {
		e.Local.Create(fmt.Sprintf("{apiVersion: %s/v1, kind: Widget, metadata: {name: %s, namespace: %s}, spec: %s}", group, name, a, spec))
	}
	twin := func(name string) *unstructured.Unstructured { return e.Remote.Get(own, host, hostName(a, name)) }
	shown := func(name, where string) error {
		return e.Local.HasEvent(a, name, "Warning", "PatchFailed", where)
	}
	for name, c := range map[string][2]string{
		"number":   {"{ref: 4711}", "spec.ref is a number: rewriteName expects a string there"},
		"text":     {"{refs: [{name: x}, hidden]}", "spec.refs[1] is a string: rewriteRef expects an object there"},
		"name":     {"{refs: [{name: {a: b}}]}", "spec.refs[0].name is an object: rewriteRef expects a string there"},
		"selector": {"{other: {matchLabels: {a: 1}}}", "spec.other.matchLabels.a is a number: rewriteLabelSelector expects a string there"},
		"half":     {"{ref: fine, refs: [true]}", "spec.refs[0] is a boolean"},
	} {
		create(name, c[0])
		e.Eventually(func() error { return shown(name, c[1]) })
		if err := shown(name, "hidden"); err == nil {
			t.Error("an Event shows a value")
		}
	}
	create("one", "{ref: x, size: 1}")
	e.Eventually(func() error { return is(twin("one"), hostName(a, "x"), "spec", "ref") })
	before := twin("one")
	began := time.Now()
	e.Local.Patch(own, a, "one", "spec: {ref: [x], size: 2}")
	e.Eventually(func() error { return shown("one", "spec.ref is a list") })
	restsSince(e, began)
	p = restartsAtRest(e, p, config)
	if after := twin("one"); after == nil || after.GetResourceVersion() != before.GetResourceVersion() {
		t.Error("the twin did not stay as it was")
	}
	if err := present(e.Remote, own, host, hostName(a, "one")); err != nil {
		t.Errorf("half-translated: %v", err)
	}
	// When it can be translated, it crosses.
	e.Local.Patch(own, a, "one", "spec: {ref: q}")
	e.Within(5*time.Second, func() error {
		return all(is(twin("one"), hostName(a, "q"), "spec", "ref"), is(twin("one"), 2, "spec", "size"))
	})
	e.Local.Patch(own, a, "half", "spec: {refs: [{name: x}]}")
	e.Within(5*time.Second, func() error { return at(twin("half"), hostName(a, "x"), "spec", "refs", 0, "name") })
	// And when it goes meanwhile, its twin goes (D).
	e.Local.Patch(own, a, "one", "spec: {ref: {}}")
	e.Eventually(func() error { return shown("one", "spec.ref is an object") })
	e.Local.Delete(own, a, "one")
	e.Eventually(func() error { return absent(twin("one")) })
	restartsAtRest(e, p, config)
}
