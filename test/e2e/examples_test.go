//go:build unix

package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/controlplane"
	"isthmus.dev/isthmus/test/harness"
)

// Where the CRDs of the kinds in examples/vcluster come from.
const (
	prometheusOperator = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
	certManager        = "github.com/cert-manager/cert-manager@v1.19.1"

	httpRoutes      = "httproutes.gateway.networking.k8s.io"
	applications    = "applications.v1alpha1.argoproj.io"
	prometheusRules = "prometheusrules.monitoring.coreos.com"
	serviceMonitors = "servicemonitors.monitoring.coreos.com"
	certificates    = "certificates.cert-manager.io"
	networkPolicies = "networkpolicies.networking.k8s.io"
)

// The virtual cluster of all examples.
var (
	shop     = boundary.VirtualCluster{Name: "shop", HostNamespace: shopHost}
	shopHost = "vcluster-acme--shop"
)

// shopName is what an object of the virtual namespace web is called in its host namespace.
func shopName(name string) string { return shop.HostName("web", name) }

// exampleRun is an example at work. What is created through it is deleted at the end, and takes its twins along.
type exampleRun struct {
	*harness.Env
	created []created
}

type created struct {
	on, twinOn *harness.Side
	object     *unstructured.Unstructured
}

func (x *exampleRun) inTenant(manifest string) *unstructured.Unstructured {
	x.T.Helper()
	return x.create(x.Local, x.Remote, manifest)
}

func (x *exampleRun) inHost(manifest string) *unstructured.Unstructured {
	x.T.Helper()
	return x.create(x.Remote, x.Local, manifest)
}

func (x *exampleRun) create(on, twinOn *harness.Side, manifest string) *unstructured.Unstructured {
	x.T.Helper()
	object := on.Create(manifest)
	x.created = append(x.created, created{on, twinOn, object})
	return object
}

// twin waits until an object of the host has a value, and returns the object.
func (x *exampleRun) twin(resource, namespace, name string, want any, path ...string) *unstructured.Unstructured {
	x.T.Helper()
	return x.waitFor(x.Remote, resource, namespace, name, want, path...)
}

func (x *exampleRun) waitFor(side *harness.Side, resource, namespace, name string, want any, path ...string) (object *unstructured.Unstructured) {
	x.T.Helper()
	x.Eventually(func() error {
		if object = side.Get(resource, namespace, name); object == nil {
			return fmt.Errorf("%s %s/%s is not on %s", resource, namespace, name, side.Name())
		}
		return holdsAll(field(object, path...), want)
	})
	return object
}

// clear deletes what was created, and waits until no copy of it is left.
func (x *exampleRun) clear() {
	x.T.Helper()
	for _, c := range x.created {
		c.on.Delete(resourceOf(c.object), c.object.GetNamespace(), c.object.GetName())
	}
	for _, c := range x.created {
		x.Eventually(func() error {
			if left := c.twinOn.List(resourceOf(c.object), "", boundary.LabelOrigin); len(left) > 0 {
				return fmt.Errorf("%s %s is left on %s", left[0].GetKind(), left[0].GetName(), c.twinOn.Name())
			}
			return nil
		})
	}
}

// mayList tries to list a kind in a namespace of the host, as the user that Isthmus runs as.
func (x *exampleRun) mayList(resource, namespace string) bool {
	x.T.Helper()
	return x.userMayList(harness.PluginUser(shop.Name, shopHost), resource, namespace)
}

func (x *exampleRun) userMayList(user, resource, namespace string) bool {
	x.T.Helper()
	config, err := x.Remote.UserConfig(user)
	if err != nil {
		x.T.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		x.T.Fatal(err)
	}
	_, err = client.Resource(harness.Kind(resource)).Namespace(namespace).List(x.T.Context(), metav1.ListOptions{})
	if err != nil && !apierrors.IsForbidden(err) {
		x.T.Fatal(err)
	}
	return err == nil
}

func resourceOf(object *unstructured.Unstructured) string {
	gvr, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	if gvr.Group == "" {
		return gvr.Resource
	}
	return gvr.Resource + "." + gvr.Version + "." + gvr.Group
}

// exampleRuns show of each example that it does what its first lines say.
var exampleRuns = map[string]func(*exampleRun){
	"http-routes.yaml":        runHTTPRoutes,
	"gateway-classes.yaml":    runGatewayClasses,
	"applications.yaml":       runApplications,
	"monitoring.yaml":         runMonitoring,
	"dashboards.yaml":         runDashboards,
	"repository-secrets.yaml": runRepositorySecrets,
	"secret-imports.yaml":     runSecretImports,
	"certificates.yaml":       runCertificates,
	"network-policies.yaml":   runNetworkPolicies,
	"several-rules.yaml":      runSeveralRules,
}

// S2, N3, X2, T3, M2: the examples run as they are in the files, in a plugin of vCluster, under the rights that are in
// them, which are those that are generated.
func TestN3_ExamplesForVirtualClusters(t *testing.T) {
	t.Parallel()
	folder := filepath.Join("..", "..", "examples", "vcluster")
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil || len(files) != len(exampleRuns) {
		t.Fatalf("there are %d files and %d runs: %v", len(files), len(exampleRuns), err)
	}
	all := harness.NewOwn(t, controlplane.Options{})
	for _, crd := range [][2]string{
		{gatewayAPI, "config/crd/standard/gateway.networking.k8s.io_gatewayclasses.yaml"},
		{gatewayAPI, "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml"},
		{argoCD, "manifests/crds/application-crd.yaml"},
		{prometheusOperator, "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml"},
		{prometheusOperator, "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml"},
		{certManager, "deploy/crds/cert-manager.io_certificates.yaml"},
	} {
		all.Both(harness.ModuleFile(t, crd[0], crd[1]))
	}
	namespaces := func(side *harness.Side, names ...string) {
		for _, name := range names {
			side.Apply("{apiVersion: v1, kind: Namespace, metadata: {name: " + name + "}}")
		}
	}
	namespaces(all.Local, "web", "jobs")
	namespaces(all.Remote, shopHost, "vcluster-globex--shop", "argocd", "monitoring")
	for _, name := range slices.Sorted(maps.Keys(exampleRuns)) {
		t.Run(strings.TrimSuffix(name, ".yaml"), func(t *testing.T) {
			content, err := os.ReadFile(filepath.Join(folder, name))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(content), "# For ") {
				t.Error("its first line does not say who needs it")
			}
			x := &exampleRun{Env: all.For(t)}
			o := harness.PluginOptions{Name: shop.Name, Namespace: shopHost, File: string(content)}
			p := x.StartPlugin(o)
			exampleRuns[name](x)
			p.End()
			began := time.Now()
			p = x.StartPlugin(o)
			restsSince(x.Env, began)
			x.clear()
			p.End()
		})
	}
}

func runHTTPRoutes(x *exampleRun) {
	source := x.inTenant(`
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: front, namespace: web}
spec:
  hostnames: [shop.acme.example.io]
  parentRefs: [{name: public, namespace: gateways}]
  rules:
  - backendRefs: [{name: front, port: 80}, {name: canary, port: 80, weight: 9}]
    filters: [{type: RequestMirror, requestMirror: {backendRef: {name: shadow, port: 80}}}]
`)
	twin := x.twin(httpRoutes, shopHost, shopName("front"), []any{map[string]any{"name": "public", "namespace": "gateways"}}, "spec", "parentRefs")
	rule := map[string]any{
		"backendRefs": []any{map[string]any{"name": shopName("front"), "port": 80}, map[string]any{"name": shopName("canary"), "weight": 9}},
		"filters":     []any{map[string]any{"requestMirror": map[string]any{"backendRef": map[string]any{"name": shopName("shadow")}}}},
	}
	if err := holdsAll(field(twin, "spec", "rules"), []any{rule}); err != nil {
		x.T.Error(err)
	}
	x.Local.Patch(httpRoutes, "web", "front", "spec: {hostnames: [shop.acme.example.io, acme.example.io]}")
	twin = x.twin(httpRoutes, shopHost, shopName("front"), []any{"shop.acme.example.io", "acme.example.io"}, "spec", "hostnames")
	x.Remote.SetStatus(httpRoutes, shopHost, shopName("front"), fmt.Sprintf(`{parents: [{parentRef: {name: public, namespace: gateways}, controllerName: example.io/gateways,
		conditions: [{type: Accepted, status: "True", reason: Accepted, message: fine, lastTransitionTime: "2024-01-01T00:00:00Z", observedGeneration: %d}]}]}`, twin.GetGeneration()))
	x.waitFor(x.Local, httpRoutes, "web", "front", []any{map[string]any{
		"parentRef":  map[string]any{"name": "public", "namespace": "gateways"},
		"conditions": []any{map[string]any{"type": "Accepted", "status": "True", "observedGeneration": source.GetGeneration() + 1}},
	}}, "status", "parents")
}

func runGatewayClasses(x *exampleRun) {
	x.inHost(`{apiVersion: gateway.networking.k8s.io/v1, kind: GatewayClass, metadata: {name: public, labels: {example.io/offered: "true"}}, spec: {controllerName: example.io/gateways, description: ours}}`)
	internal := x.Remote.Create(`{apiVersion: gateway.networking.k8s.io/v1, kind: GatewayClass, metadata: {name: internal}, spec: {controllerName: example.io/gateways}}`)
	x.Remote.SetStatus(gatewayClasses, "", "public", accepted(1))
	x.waitFor(x.Local, gatewayClasses, "", "public", []any{map[string]any{"type": "Accepted", "message": "fine"}}, "status", "conditions")
	x.Local.Patch(gatewayClasses, "", "public", "spec: {description: mine}")
	x.waitFor(x.Local, gatewayClasses, "", "public", "ours", "spec", "description")
	before := x.Local.Get(gatewayClasses, "", "public").GetUID()
	x.Local.Delete(gatewayClasses, "", "public")
	x.Eventually(func() error { return otherThan(x.Local.Get(gatewayClasses, "", "public"), before) })
	x.waitFor(x.Local, gatewayClasses, "", "public", []any{map[string]any{"type": "Accepted"}}, "status", "conditions")
	if err := absent(x.Local.Get(gatewayClasses, "", "internal")); err != nil {
		x.T.Error(err)
	}
	if err := untouched(x.Remote, gatewayClasses, internal); err != nil {
		x.T.Error(err)
	}
}

func runApplications(x *exampleRun) {
	x.inTenant(`{apiVersion: argoproj.io/v1alpha1, kind: Application, metadata: {name: front, namespace: web, finalizers: [resources-finalizer.argocd.argoproj.io]},
		spec: {project: default, source: {repoURL: "https://git.example.io/front.git", path: deploy, targetRevision: v1}, destination: {name: shop, namespace: web}},
		operation: {initiatedBy: {username: tenant}, sync: {revision: v0}}}`)
	name := shop.SharedName("web", "front")
	twin := x.twin(applications, "argocd", name, "v1", "spec", "source", "targetRevision")
	if field(twin, "spec", "project") != "acme" || field(twin, "operation") != nil {
		x.T.Errorf("its project is %v, its operation %v", field(twin, "spec", "project"), field(twin, "operation"))
	}
	x.Remote.Patch(applications, "argocd", name, "operation: {initiatedBy: {username: admin}, sync: {revision: v1}}\nspec: {project: globex}")
	x.twin(applications, "argocd", name, "acme", "spec", "project")
	x.Local.Patch(applications, "web", "front", "spec: {project: globex, source: {targetRevision: v2}}")
	twin = x.twin(applications, "argocd", name, "v2", "spec", "source", "targetRevision")
	if field(twin, "spec", "project") != "acme" || field(twin, "operation", "initiatedBy", "username") != "admin" {
		x.T.Errorf("its project is %v, its operation %v", field(twin, "spec", "project"), field(twin, "operation"))
	}
	// D3: Argo CD takes what it deployed along, and then the Application goes on both sides.
	x.Local.Delete(applications, "web", "front")
	x.Eventually(func() error {
		if twin = x.Remote.Get(applications, "argocd", name); twin.GetDeletionTimestamp() == nil {
			return fmt.Errorf("the host's Application is not being deleted")
		}
		return finalizersAre(twin, "resources-finalizer.argocd.argoproj.io")
	})
	if source := x.Local.Get(applications, "web", "front"); source == nil {
		x.T.Error("the tenant's Application went before the host's")
	}
	x.Remote.Patch(applications, "argocd", name, "metadata: {finalizers: null}")
	x.Eventually(func() error { return absent(x.Local.Get(applications, "web", "front")) })
	if x.Remote.Get(applications, "argocd", name) != nil {
		x.T.Error("the host's Application is still there")
	}
}

func runMonitoring(x *exampleRun) {
	x.inTenant(`{apiVersion: monitoring.coreos.com/v1, kind: PrometheusRule, metadata: {name: alerts, namespace: web, labels: {release: mine}},
		spec: {groups: [{name: front, rules: [{alert: Slow, expr: 'latency > 1'}]}]}}`)
	x.inTenant(`{apiVersion: monitoring.coreos.com/v1, kind: ServiceMonitor, metadata: {name: front, namespace: web},
		spec: {selector: {matchLabels: {app: front, release: mine}}, namespaceSelector: {any: true},
		endpoints: [{port: metrics, authorization: {credentials: {name: token, key: token}}}]}}`)
	x.inTenant(`{apiVersion: v1, kind: Secret, metadata: {name: token, namespace: web, labels: {example.io/scrape-token: "true"}}, stringData: {token: a}}`)
	twin := x.twin(prometheusRules, shopHost, shopName("alerts"), map[string]any{"release": "platform", shop.LabelKey("release"): "mine"}, "metadata", "labels")
	if err := holdsAll(field(twin, "spec", "groups"), []any{map[string]any{"rules": []any{map[string]any{"expr": "latency > 1"}}}}); err != nil {
		x.T.Error(err)
	}
	twin = x.twin(serviceMonitors, shopHost, shopName("front"), map[string]any{
		"app": "front", shop.LabelKey("release"): "mine", boundary.LabelVClusterManagedBy: "shop", boundary.LabelVClusterNamespace: "web",
	}, "spec", "selector", "matchLabels")
	if field(twin, "spec", "namespaceSelector") != nil || field(twin, "spec", "selector", "matchLabels", "release") != nil {
		x.T.Errorf("it selects more than it should: %v", field(twin, "spec"))
	}
	if err := holdsAll(field(twin, "spec", "endpoints"), []any{map[string]any{"authorization": map[string]any{"credentials": map[string]any{"name": shopName("token"), "key": "token"}}}}); err != nil {
		x.T.Error(err)
	}
	x.twin("secrets", shopHost, shopName("token"), "Secret", "kind")
}

func runDashboards(x *exampleRun) {
	x.inTenant(`{apiVersion: v1, kind: ConfigMap, metadata: {name: latency, namespace: web, labels: {grafana_dashboard: "1"}}, data: {latency.json: "{}"}}`)
	x.inTenant(`{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: web}, data: {color: blue}}`)
	x.twin("configmaps", "monitoring", shop.SharedName("web", "latency"), map[string]any{
		"grafana_dashboard": "1", "example.io/tenant": "acme", boundary.LabelVClusterManagedBy: shopHost,
	}, "metadata", "labels")
	x.Local.Patch("configmaps", "web", "latency", `data: {latency.json: '{"title": "Latency"}'}`)
	x.twin("configmaps", "monitoring", shop.SharedName("web", "latency"), `{"title": "Latency"}`, "data", "latency.json")
	if crossed := x.Remote.List("configmaps", "", boundary.LabelOrigin); len(crossed) != 1 {
		x.T.Errorf("%d ConfigMaps crossed", len(crossed))
	}
}

func runRepositorySecrets(x *exampleRun) {
	x.inTenant(`{apiVersion: v1, kind: Secret, metadata: {name: git, namespace: web, labels: {argocd.argoproj.io/secret-type: repository}},
		stringData: {url: "https://git.example.io/front.git", password: not-a-real-one, project: globex}}`)
	x.inTenant(`{apiVersion: v1, kind: Secret, metadata: {name: cluster, namespace: web, labels: {argocd.argoproj.io/secret-type: cluster}}, stringData: {name: host}}`)
	twin := x.twin("secrets", shopHost, shopName("git"), "repository", "metadata", "labels", "argocd.argoproj.io/secret-type")
	if err := secretHas(x.Remote, shopHost, twin.GetName(), "project", "acme"); err != nil {
		x.T.Error(err)
	}
	if err := secretHas(x.Remote, shopHost, twin.GetName(), "password", "not-a-real-one"); err != nil {
		x.T.Error(err)
	}
	if crossed := x.Remote.List("secrets", "", boundary.LabelOrigin); len(crossed) != 1 {
		x.T.Errorf("%d Secrets crossed", len(crossed))
	}
	// Why not in a shared namespace: what it may read ends at the tenant's own.
	for _, namespace := range []string{"vcluster-globex--shop", "argocd", ""} {
		if may := x.mayList("secrets", namespace); may {
			x.T.Errorf("it may list Secrets in %q", namespace)
		}
	}
	if !x.mayList("secrets", shopHost) {
		x.T.Error("it may not list the Secrets of its own namespace: this proves nothing")
	}
}

func runSecretImports(x *exampleRun) {
	secret := func(namespace, name, annotations string) string {
		return fmt.Sprintf(`{apiVersion: v1, kind: Secret, metadata: {name: %s, namespace: %s, labels: {example.io/hand-out: "true"}, annotations: {%s}}, stringData: {password: one}}`, name, namespace, annotations)
	}
	x.inHost(secret(shopHost, "database", ""))
	x.inHost(secret(shopHost, "registry", "isthmus.dev/target-namespace: web, isthmus.dev/target-name: pull"))
	x.inHost(secret("vcluster-globex--shop", "others", ""))
	x.inHost(`{apiVersion: v1, kind: Secret, metadata: {name: control-plane, namespace: ` + shopHost + `}, stringData: {key: a}}`)
	copied := x.waitFor(x.Local, "secrets", "platform", "database", "generic-sync", "metadata", "labels", boundary.LabelVClusterControlledBy)
	x.waitFor(x.Local, "secrets", "web", "pull", "Secret", "kind")
	x.Remote.Patch("secrets", shopHost, "database", "stringData: {password: two}")
	x.Eventually(func() error { return secretHas(x.Local, "platform", copied.GetName(), "password", "two") })
	if crossed := x.Local.List("secrets", "", boundary.LabelOrigin); len(crossed) != 2 {
		x.T.Errorf("%d Secrets crossed", len(crossed))
	}
}

func runCertificates(x *exampleRun) {
	source := x.inTenant(`
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: web, namespace: web}
spec:
  dnsNames: [shop.acme.example.io]
  issuerRef: {kind: ClusterIssuer, name: platform}
  secretName: web-tls
  secretTemplate:
    labels: {example.io/certificate: "true"}
    annotations: {isthmus.dev/target-namespace: web, isthmus.dev/target-name: web-tls}
`)
	twin := x.twin(certificates, shopHost, shopName("web"), shopName("web-tls"), "spec", "secretName")
	if err := holdsAll(field(twin, "spec", "issuerRef"), map[string]any{"kind": "ClusterIssuer", "name": "platform"}); err != nil {
		x.T.Error(err)
	}
	// What cert-manager does.
	x.inHost(fmt.Sprintf(`{apiVersion: v1, kind: Secret, metadata: {name: %s, namespace: %s,
		labels: %s, annotations: %s}, stringData: {tls.crt: one, tls.key: two}}`, shopName("web-tls"), shopHost,
		mustJSON(field(twin, "spec", "secretTemplate", "labels")), mustJSON(field(twin, "spec", "secretTemplate", "annotations"))))
	x.Remote.SetStatus(certificates, shopHost, shopName("web"), fmt.Sprintf(`{notAfter: "2030-01-01T00:00:00Z", conditions: [{type: Ready, status: "True", reason: Ready, observedGeneration: %d}]}`, twin.GetGeneration()))
	x.waitFor(x.Local, certificates, "web", "web", []any{map[string]any{"type": "Ready", "observedGeneration": source.GetGeneration()}}, "status", "conditions")
	x.Eventually(func() error { return secretHas(x.Local, "web", "web-tls", "tls.key", "two") })
}

func runNetworkPolicies(x *exampleRun) {
	x.inTenant(`{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: front, namespace: web},
		spec: {podSelector: {}, policyTypes: [Ingress, Egress], egress: [{to: [{podSelector: {matchExpressions: [{key: app, operator: In, values: [db]}]}}]}],
		ingress: [{from: [{podSelector: {matchLabels: {app: front}}}, {namespaceSelector: {matchLabels: {team: a}}}, {namespaceSelector: {}, podSelector: {}}]}]}}`)
	x.inTenant(`{apiVersion: v1, kind: Service, metadata: {name: front, namespace: web}, spec: {type: LoadBalancer, selector: {app: front}, ports: [{port: 80}]}}`)
	own := map[string]any{boundary.LabelVClusterManagedBy: "shop", boundary.LabelVClusterNamespace: "web"}
	with := func(labels map[string]any) map[string]any { maps.Copy(labels, own); return labels }
	selects := func(labels map[string]any) map[string]any { return map[string]any{"matchLabels": with(labels)} }
	none := map[string]any{}
	twin := x.twin(networkPolicies, shopHost, shopName("front"), own, "spec", "podSelector", "matchLabels")
	if err := holdsAll(field(twin, "spec", "ingress"), []any{map[string]any{"from": []any{
		map[string]any{"podSelector": selects(map[string]any{"app": "front"})},
		map[string]any{"namespaceSelector": selects(map[string]any{"team": "a"})},
		map[string]any{"namespaceSelector": selects(none), "podSelector": selects(none)},
	}}}); err != nil {
		x.T.Error(err)
	}
	if err := holdsAll(field(twin, "spec", "egress"), []any{map[string]any{"to": []any{map[string]any{"podSelector": map[string]any{
		"matchLabels": own, "matchExpressions": []any{map[string]any{"key": "app", "operator": "In"}},
	}}}}}); err != nil {
		x.T.Error(err)
	}
	x.twin("services", shopHost, shopName("front"), with(map[string]any{"app": "front"}), "spec", "selector")
	x.Remote.SetStatus("services", shopHost, shopName("front"), "{loadBalancer: {ingress: [{ip: 192.0.2.7}]}}")
	x.waitFor(x.Local, "services", "web", "front", []any{map[string]any{"ip": "192.0.2.7"}}, "status", "loadBalancer", "ingress")
	if crossed := x.Remote.List("services", "", boundary.LabelOrigin); len(crossed) != 1 {
		x.T.Errorf("%d Services crossed", len(crossed))
	}
}

func runSeveralRules(x *exampleRun) {
	for name, more := range map[string]string{
		"latency": "labels: {example.io/for: grafana}", "settings": "labels: {example.io/for: platform}", "silent": "labels: {example.io/for: others}",
		"told": `labels: {example.io/for: others}, annotations: {isthmus.dev/allow-reflection: "true"}`, "plain": `annotations: {isthmus.dev/allow-reflection: "true"}`,
	} {
		x.inTenant(fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: web, %s}, data: {a: b}}", name, more))
	}
	x.twin("configmaps", "monitoring", shop.SharedName("web", "latency"), "dashboards", "metadata", "annotations", boundary.AnnotationRule)
	x.twin("configmaps", shopHost, shopName("settings"), "settings", "metadata", "annotations", boundary.AnnotationRule)
	x.twin("configmaps", shopHost, shopName("told"), "by-consent", "metadata", "annotations", boundary.AnnotationRule)
	if crossed := x.Remote.List("configmaps", "", boundary.LabelOrigin); len(crossed) != 3 {
		x.T.Errorf("%d ConfigMaps crossed", len(crossed))
	}
	// It moves to another rule, and another place.
	x.Local.Patch("configmaps", "web", "told", "metadata: {labels: {example.io/for: grafana}}")
	x.twin("configmaps", "monitoring", shop.SharedName("web", "told"), "dashboards", "metadata", "annotations", boundary.AnnotationRule)
	x.Eventually(func() error { return absent(x.Remote.Get("configmaps", shopHost, shopName("told"))) })
}
