//go:build unix

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"isthmus.dev/isthmus/internal/controlplane"
	"isthmus.dev/isthmus/test/harness"
)

func service(namespace, name, spec string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: %s, namespace: %s}, spec: %s}", name, namespace, spec)
}

func TestO1_ServiceKeepsItsOwnAddresses(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	ns := e.Namespace("a")
	config := rules(ns, "apiVersion: v1, kind: Service, statusSync: true")
	p := e.Start(config)
	source := func(name string) *unstructured.Unstructured { return e.Local.Get("services", ns, name) }
	twin := func(name string) *unstructured.Unstructured { return e.Remote.Get("services", ns, name) }
	port := func(s *unstructured.Unstructured, field string) any {
		ports, _, _ := unstructured.NestedSlice(s.Object, "spec", "ports")
		if len(ports) == 0 {
			return nil
		}
		return ports[0].(map[string]any)[field]
	}
	steady := func(name string) {
		t.Helper()
		before := twin(name)
		began := time.Now()
		restsSince(e, began)
		if after := twin(name); after.GetResourceVersion() != before.GetResourceVersion() {
			t.Errorf("%s changed at rest", name)
		}
	}

	t.Run("addresses", func(t *testing.T) {
		// Somebody else holds the source's very address and port on the other side.
		taken := e.Remote.Create(service(ns, "taken", "{type: NodePort, selector: {app: a}, ports: [{port: 80}]}"))
		ip, nodePort := field(taken, "spec", "clusterIP"), port(taken, "nodePort")
		e.Local.Create(service(ns, "one", fmt.Sprintf("{type: NodePort, clusterIP: %v, selector: {app: a}, ports: [{port: 80, nodePort: %v}]}", ip, nodePort)))
		e.Eventually(func() error { return is(twin("one"), "NodePort", "spec", "type") })
		one := twin("one")
		if field(one, "spec", "clusterIP") == ip || field(one, "spec", "clusterIP") == nil || port(one, "nodePort") == nodePort {
			t.Errorf("the twin's addresses are %v, port %v; the source's are %v, %v", field(one, "spec", "clusterIP"), port(one, "nodePort"), ip, nodePort)
		}
		e.Local.Patch("services", ns, "one", "spec: {ports: [{port: 80, name: web, targetPort: 8080}, {port: 443, name: tls}]}")
		e.Eventually(func() error {
			return holdsAll(field(twin("one"), "spec", "ports"), []any{map[string]any{"port": 80, "name": "web", "targetPort": 8080}, map[string]any{"port": 443, "name": "tls"}})
		})
		if after := twin("one"); field(after, "spec", "clusterIP") != field(one, "spec", "clusterIP") || port(after, "nodePort") != port(one, "nodePort") {
			t.Errorf("an update changed the twin's addresses from %v to %v", field(one, "spec"), field(after, "spec"))
		}
		steady("one")
	})
	t.Run("headless", func(t *testing.T) {
		e.Local.Create(service(ns, "headless", "{clusterIP: None, selector: {app: a}, ports: [{port: 80}]}"))
		e.Eventually(func() error { return is(twin("headless"), "None", "spec", "clusterIP") })
		steady("headless")
	})
	t.Run("types", func(t *testing.T) {
		e.Local.Create(service(ns, "typed", "{selector: {app: a}, ports: [{port: 80}]}"))
		e.Eventually(func() error { return is(twin("typed"), "ClusterIP", "spec", "type") })
		for _, patch := range []string{
			"{type: NodePort}", "{type: ClusterIP}", "{type: LoadBalancer, externalTrafficPolicy: Local}", "{type: ClusterIP, externalTrafficPolicy: null}",
			"{type: ExternalName, externalName: example.org, clusterIP: null, clusterIPs: null}", "{type: ClusterIP, externalName: null}",
		} {
			e.Local.Patch("services", ns, "typed", "spec: "+patch)
			e.Eventually(func() error {
				s, w := source("typed"), twin("typed")
				for _, path := range []string{"type", "externalTrafficPolicy", "externalName"} {
					if err := is(w, field(s, "spec", path), "spec", path); err != nil {
						return err
					}
				}
				for what, have := range map[string][2]any{
					"clusterIP":           {field(s, "spec", "clusterIP"), field(w, "spec", "clusterIP")},
					"nodePort":            {port(s, "nodePort"), port(w, "nodePort")},
					"healthCheckNodePort": {field(s, "spec", "healthCheckNodePort"), field(w, "spec", "healthCheckNodePort")},
				} {
					if (have[0] == nil) != (have[1] == nil) {
						return fmt.Errorf("%s: %s is %v on the source and %v on the twin", patch, what, have[0], have[1])
					}
				}
				return nil
			})
		}
		steady("typed")
	})
	t.Run("status", func(t *testing.T) { // T2: of a native kind
		e.Local.Create(service(ns, "balanced", "{type: LoadBalancer, selector: {app: a}, ports: [{port: 80}]}"))
		e.Eventually(func() error { return is(twin("balanced"), "LoadBalancer", "spec", "type") })
		e.Remote.SetStatus("services", ns, "balanced", "{loadBalancer: {ingress: [{ip: 192.0.2.7}]}}")
		want := []any{map[string]any{"ip": "192.0.2.7"}}
		e.Eventually(func() error {
			return holdsAll(field(source("balanced"), "status", "loadBalancer", "ingress"), want)
		})
		steady("balanced")
		e.Remote.SetStatus("services", ns, "balanced", "{loadBalancer: {ingress: null}}")
		e.Eventually(func() error { return is(source("balanced"), nil, "status", "loadBalancer", "ingress") })
		steady("balanced")
	})
	restartsAtRest(e, p, config)
}

func TestO1_ClaimKeepsItsOwnVolume(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	ns := e.Namespace("a")
	config := rules(ns, "apiVersion: v1, kind: PersistentVolumeClaim")
	p := e.Start(config)
	const claims = "persistentvolumeclaims"
	e.Local.Create(fmt.Sprintf(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data, namespace: %s, annotations: {pv.kubernetes.io/bind-completed: "yes"}},
		spec: {volumeName: here, accessModes: [ReadWriteOnce], storageClassName: fast, resources: {requests: {storage: 1024Mi}}}}`, ns))
	twin := func() *unstructured.Unstructured { return e.Remote.Get(claims, ns, "data") }
	e.Eventually(func() error { return is(twin(), "fast", "spec", "storageClassName") })
	if err := is(twin(), nil, "spec", "volumeName"); err != nil {
		t.Error(err)
	}
	if err := is(twin(), nil, "metadata", "annotations", "pv.kubernetes.io/bind-completed"); err != nil {
		t.Error(err)
	}
	began := time.Now()
	e.Remote.Patch(claims, ns, "data", `{spec: {volumeName: there}, metadata: {annotations: {pv.kubernetes.io/bind-completed: "yes"}}}`)
	restsSince(e, began)
	e.Local.Patch(claims, ns, "data", "metadata: {labels: {a: b}}")
	e.Eventually(func() error { return is(twin(), "b", "metadata", "labels", "a") })
	if err := is(twin(), "there", "spec", "volumeName"); err != nil {
		t.Error(err)
	}
	restartsAtRest(e, p, config)
}

// A Job's selector and labels are made by each cluster; its controller works on the twin, and its status comes back. A
// Job that its cluster cleans up is not run again (D4).
func TestO1_JobRunsOnceOnTheOtherSide(t *testing.T) {
	t.Parallel()
	e := harness.NewOwn(t, controlplane.Options{})
	if err := e.Remote.StartComponent(t.Context(), controlplane.ControllerManager); err != nil {
		t.Fatal(err)
	}
	ns := e.Namespace("a")
	config := rules(ns, "apiVersion: batch/v1, kind: Job, statusSync: true")
	p := e.Start(config)
	const jobs = "jobs.batch"
	job := func(name, more string) string {
		return fmt.Sprintf(`{apiVersion: batch/v1, kind: Job, metadata: {name: %s, namespace: %s},
			spec: {%s template: {metadata: {labels: {app: a}}, spec: {restartPolicy: Never, containers: [{name: c, image: busybox}]}}}}`, name, ns, more)
	}
	source := e.Local.Create(job("one", "ttlSecondsAfterFinished: 1,"))
	e.Eventually(func() error { return is(e.Local.Get(jobs, ns, "one"), 1, "status", "active") })
	twin := e.Remote.Get(jobs, ns, "one")
	for _, path := range [][]string{
		{"spec", "selector", "matchLabels", "batch.kubernetes.io/controller-uid"},
		{"spec", "template", "metadata", "labels", "batch.kubernetes.io/controller-uid"},
		{"spec", "template", "metadata", "labels", "controller-uid"},
	} {
		if have := field(twin, path...); have != string(twin.GetUID()) || have == string(source.GetUID()) {
			t.Errorf("%v of the twin is %v, its UID is %s", path, have, twin.GetUID())
		}
	}
	if err := is(twin, "a", "spec", "template", "metadata", "labels", "app"); err != nil {
		t.Error(err)
	}
	restsSince(e, time.Now())
	p = restartsAtRest(e, p, config)

	// The pod ends, so the Job is complete, and is cleaned up.
	pods := e.Remote.List("pods", ns, "job-name=one")
	if len(pods) != 1 {
		t.Fatalf("expected one pod, got %d", len(pods))
	}
	began := time.Now()
	e.Remote.SetStatus("pods", ns, pods[0].GetName(), "{phase: Succeeded}")
	e.Eventually(func() error { return is(e.Local.Get(jobs, ns, "one"), 1, "status", "succeeded") })
	e.Eventually(func() error { return absent(e.Remote.Get(jobs, ns, "one")) })
	// A finished Job's status can't be removed; that is tried once a run.
	tried := func(times int) func() error {
		return func() error {
			refused := 0
			for _, r := range e.Writes(began) {
				if r.Code() >= 400 {
					refused++
				}
			}
			if refused != times {
				return fmt.Errorf("%d writes were refused, want %d", refused, times)
			}
			return nil
		}
	}
	e.Eventually(tried(1))
	e.Quiet(time.Second)
	p.Stop()
	e.Start(config)
	e.Eventually(tried(2))
	e.Quiet(time.Second)
	if err := absent(e.Remote.Get(jobs, ns, "one")); err != nil {
		t.Errorf("the Job runs again: %v", err)
	}
	for _, r := range e.Writes(began) {
		if r.Side == "remote" {
			t.Errorf("unexpected %s", r)
		}
	}
	if err := tried(2)(); err != nil {
		t.Error(err)
	}

	t.Run("manual selector", func(t *testing.T) {
		e.Local.Create(job("manual", `manualSelector: true, selector: {matchLabels: {app: a}},`))
		e.Eventually(func() error {
			return is(e.Remote.Get(jobs, ns, "manual"), "map[app:a]", "spec", "selector", "matchLabels")
		})
	})
}

// argoCD is where the real CRD of an Argo CD Application comes from.
const argoCD = "github.com/argoproj/argo-cd/v3@v3.4.0"

func TestO1_ArgoApplicationKeepsItsOperation(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.ModuleFile(t, argoCD, "manifests/crds/application-crd.yaml"))
	ns := e.Namespace("a")
	const apps = "applications.v1alpha1.argoproj.io"
	config := rules(ns, "apiVersion: argoproj.io/v1alpha1, kind: Application")
	p := e.Start(config)
	e.Local.Create(fmt.Sprintf(`{apiVersion: argoproj.io/v1alpha1, kind: Application, metadata: {name: shop, namespace: %s},
		spec: {project: default, source: {repoURL: "https://example.org/shop", path: deploy, targetRevision: v1}, destination: {name: in-cluster, namespace: shop}},
		operation: {initiatedBy: {username: tenant}, sync: {revision: v0}}}`, ns))
	twin := func() *unstructured.Unstructured { return e.Remote.Get(apps, ns, "shop") }
	e.Eventually(func() error { return is(twin(), "v1", "spec", "source", "targetRevision") })
	if err := is(twin(), nil, "operation"); err != nil {
		t.Error(err)
	}
	began := time.Now()
	e.Remote.Patch(apps, ns, "shop", "operation: {initiatedBy: {username: admin}, sync: {revision: v1}}")
	restsSince(e, began)
	e.Local.Patch(apps, ns, "shop", "spec: {source: {targetRevision: v2}}")
	e.Eventually(func() error { return is(twin(), "v2", "spec", "source", "targetRevision") })
	if err := is(twin(), "admin", "operation", "initiatedBy", "username"); err != nil {
		t.Error(err)
	}
	p = restartsAtRest(e, p, config)

	t.Run("status is refused", func(t *testing.T) { // T1: v1alpha1 has no status subresource
		p.Stop()
		p := e.StartWith(rules(ns, "apiVersion: argoproj.io/v1alpha1, kind: Application, statusSync: true"), harness.StartOptions{NotReady: true})
		e.Eventually(func() error { return logged(p, "Application has no status subresource on the local cluster") })
		if v := p.Metric(`isthmus_rule_active{direction="ToRemote",kind="Application",rule="Application-toHost"}`); v != "0" {
			t.Errorf("isthmus_rule_active is %q", v)
		}
	})
}

// logged returns nil when a line of the process's log holds all texts.
func logged(p *harness.Isthmus, texts ...string) error {
	if n := timesLogged(p, texts...); n == 0 {
		return fmt.Errorf("no line of the log holds %q", texts)
	}
	return nil
}

// timesLogged counts the lines of the process's log that hold all texts.
func timesLogged(p *harness.Isthmus, texts ...string) (n int) {
	for line := range strings.Lines(p.Log()) {
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
			n++
		}
	}
	return n
}
