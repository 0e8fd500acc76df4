//go:build unix

package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"isthmus.dev/isthmus/test/harness"
)

// virtual is a configuration of the virtual cluster "shop" with a host namespace and rules as for file. They take from
// some namespaces only, as the local cluster is shared.
func virtual(host string, namespaces []string, rules ...string) string {
	include := make([]string, len(namespaces))
	for i, ns := range namespaces {
		include[i] = "{namespace: " + ns + "}"
	}
	head := fmt.Sprintf("naming: VirtualCluster\nvirtualCluster: {name: shop, hostNamespace: %s}\nglobalFilters: {include: [%s]}\n", host, strings.Join(include, ", "))
	return strings.Replace(file("", rules...), "namespaces: \n", head, 1)
}

// hostName is what vCluster calls an object of the virtual cluster "shop".
func hostName(namespace, name string) string {
	long := name + "-x-" + namespace + "-x-shop"
	if len(long) <= 63 {
		return long
	}
	return strings.ReplaceAll(long[:52]+"-"+hashOf(long), ".-", "-")
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:10]
}

// twinOf returns the one object in a namespace of the remote side that is the twin of a source, by its stamp; nil: there
// is none.
func twinOf(e *harness.Env, resource, at, namespace, name string) *unstructured.Unstructured {
	e.T.Helper()
	var found *unstructured.Unstructured
	for _, o := range e.Remote.List(resource, at, "isthmus.dev/origin="+e.ID) {
		if o.GetAnnotations()["isthmus.dev/source"] != namespace+"/"+name {
			continue
		}
		if found != nil {
			e.T.Fatalf("two twins of %s/%s: %s and %s", namespace, name, found.GetName(), o.GetName())
		}
		found = &o
	}
	return found
}

func TestN3P1_VirtualCluster(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	a, b, host := e.Namespace("a"), e.Namespace("b"), e.Namespace("host")
	config := virtual(host, []string{a, b}, widgetsOut+"statusSync: true\nextraLabels: {example.io/tenant: blue}")
	p := e.Start(config)

	source := e.Local.Create(widgetWith(a, "one", `labels: {app: web, release: stable}, annotations: {example.io/note: hello}`))
	twin := func(namespace, name string) *unstructured.Unstructured {
		return e.Remote.Get(widgets, host, hostName(namespace, name))
	}
	e.Eventually(func() error { return is(twin(a, "one"), 1, "spec", "size") })
	one := twin(a, "one")
	at := hostName(a, "one")
	if diff := different(one.GetLabels(), map[string]string{
		"app": "web", "example.io/tenant": "blue", "isthmus.dev/origin": e.ID,
		"vcluster.loft.sh/label-shop-x-" + hashOf("release"): "stable",
		"vcluster.loft.sh/managed-by":                        "shop",
		"vcluster.loft.sh/namespace":                         a,
		"vcluster.loft.sh/controlled-by":                     "isthmus",
	}); diff != "" {
		t.Errorf("labels of the twin: %s", diff)
	}
	theirs := map[string]string{}
	for key, value := range one.GetAnnotations() {
		if !strings.HasPrefix(key, "isthmus.dev/") {
			theirs[key] = value
		}
	}
	if diff := different(theirs, map[string]string{
		"example.io/note":                        "hello",
		"vcluster.loft.sh/object-name":           "one",
		"vcluster.loft.sh/object-namespace":      a,
		"vcluster.loft.sh/object-uid":            string(source.GetUID()),
		"vcluster.loft.sh/object-kind":           "example.io/v1, Kind=Widget",
		"vcluster.loft.sh/object-host-name":      at,
		"vcluster.loft.sh/object-host-namespace": host,
	}); diff != "" {
		t.Errorf("annotations of the twin: %s", diff)
	}
	for key, want := range map[string]string{"source": a + "/one", "twin": host + "/" + at} {
		if err := is(one, want, "metadata", "annotations", "isthmus.dev/"+key); err != nil {
			t.Error(err)
		}
	}

	// Names that are too long, one of them cut at a dot; one name in two namespaces.
	long, dotted := strings.Repeat("n", 200), strings.Repeat("d", 51)+"."+strings.Repeat("z", 60)
	for _, s := range [][2]string{{a, long}, {b, long}, {a, dotted}, {b, "one"}} {
		e.Local.Create(widget(s[0], s[1], "{size: 2}"))
		e.Eventually(func() error { return is(twin(s[0], s[1]), 2, "spec", "size") })
		e.Remote.SetStatus(widgets, host, hostName(s[0], s[1]), `{from: "`+hashOf(s[0]+s[1])+`"}`)
		e.Eventually(func() error { return is(e.Local.Get(widgets, s[0], s[1]), hashOf(s[0]+s[1]), "status", "from") })
	}
	if name := hostName(a, dotted); len(name) > 63 || strings.Contains(name, ".-") {
		t.Errorf("the name %q can't be one", name)
	}
	e.Local.Patch(widgets, a, "one", "{metadata: {labels: {release: canary}}, spec: {size: 3}}")
	e.Eventually(func() error { return is(twin(a, "one"), 3, "spec", "size") })
	if err := is(twin(a, "one"), "canary", "metadata", "labels", "vcluster.loft.sh/label-shop-x-"+hashOf("release")); err != nil {
		t.Error(err)
	}
	// What others do to vCluster's keys is put back.
	e.Remote.Patch(widgets, host, at, "metadata: {labels: {vcluster.loft.sh/controlled-by: null, vcluster.loft.sh/managed-by: other}, annotations: {vcluster.loft.sh/object-name: two}}")
	e.Eventually(func() error {
		for _, err := range []error{
			is(twin(a, "one"), "isthmus", "metadata", "labels", "vcluster.loft.sh/controlled-by"),
			is(twin(a, "one"), "shop", "metadata", "labels", "vcluster.loft.sh/managed-by"),
			is(twin(a, "one"), "one", "metadata", "annotations", "vcluster.loft.sh/object-name"),
		} {
			if err != nil {
				return err
			}
		}
		return nil
	})
	if now := twin(a, "one"); now.GetUID() != one.GetUID() {
		t.Error("the twin was made anew")
	}
	p = restartsAtRest(e, p, config)
	e.Local.Delete(widgets, a, "one")
	e.Eventually(func() error { return absent(twin(a, "one")) })
	p.Stop()
	e.Local.Delete(widgets, a, long)
	e.Start(config)
	e.Eventually(func() error { return absent(twin(a, long)) })
	if err := is(twin(b, "one"), 2, "spec", "size"); err != nil {
		t.Errorf("that of the other namespace: %v", err)
	}
}

// different says how two maps differ; empty: they do not.
func different(have, want map[string]string) string {
	if a, b := mustJSON(have), mustJSON(want); a != b {
		return fmt.Sprintf("%s instead of %s", a, b)
	}
	return ""
}

// vCluster's scheme gives these two sources one name.
func TestN1N2_VirtualNamesMeet(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	host, c := e.Namespace("host"), e.Namespace("c")
	b := e.Namespace("b-x-" + c)
	first, second := "a-x-"+e.ID+"-b", "a"
	at := hostName(c, first)
	if at != hostName(b, second) {
		t.Fatalf("%s and %s do not meet", at, hostName(b, second))
	}
	config := virtual(host, []string{b, c}, widgetsOut+"statusSync: true")
	p := e.Start(config)
	holds := func(size int64) error { return is(e.Remote.Get(widgets, host, at), size, "spec", "size") }

	e.Local.Create(widget(c, first, "{size: 1}"))
	e.Eventually(func() error { return holds(1) })
	uid := e.Remote.Get(widgets, host, at).GetUID()
	e.Local.Create(widget(b, second, "{size: 2}"))
	refused := func() error {
		return e.Local.HasEvent(b, second, "Warning", "CreateFailed", host+"/"+at, "twin of "+c+"/"+first)
	}
	e.Eventually(refused)
	e.Remote.SetStatus(widgets, host, at, "{ready: true}")
	e.Eventually(func() error { return is(e.Local.Get(widgets, c, first), true, "status", "ready") })
	p = restartsAtRest(e, p, config)
	if have := e.Remote.Get(widgets, host, at); have == nil || have.GetUID() != uid {
		t.Errorf("the first twin did not stay: %v", have)
	}
	if err := is(e.Local.Get(widgets, b, second), nil, "status"); err != nil {
		t.Errorf("the refused source got a status: %v", err)
	}
	e.Local.Delete(widgets, c, first)
	e.Within(5*time.Second, func() error { return holds(2) })
	e.Remote.SetStatus(widgets, host, at, "{ready: false}")
	e.Eventually(func() error { return is(e.Local.Get(widgets, b, second), false, "status", "ready") })
	// What is at the place can also be another's altogether, here vCluster's own (P3, P4).
	p.Stop()
	e.Local.Delete(widgets, b, second)
	e.Start(config)
	e.Eventually(func() error { return absent(e.Remote.Get(widgets, host, at)) })
	e.Remote.Create(fmt.Sprintf("{apiVersion: example.io/v1, kind: Widget, metadata: {name: %s, namespace: %s, labels: {vcluster.loft.sh/managed-by: shop, vcluster.loft.sh/namespace: %s}}, spec: {size: 9}}", at, host, b))
	e.Local.Create(widget(b, second, "{size: 4}"))
	e.Eventually(func() error {
		return e.Local.HasEvent(b, second, "Warning", "CreateFailed", host+"/"+at, "was not created by this Isthmus")
	})
	if err := holds(9); err != nil {
		t.Error(err)
	}
	e.Remote.Delete(widgets, host, at)
	e.Within(5*time.Second, func() error { return holds(4) })
}

// Two tenants' virtual clusters of one name, with sources of one name, in one shared host namespace.
func TestN3_SharedHostNamespace(t *testing.T) {
	t.Parallel()
	one := harness.New(t)
	two := one.Beside()
	one.Both(harness.WidgetCRD("example.io"))
	ns, shared := one.Namespace("a"), one.Namespace("shared")
	hosts := map[*harness.Env]string{one: one.Namespace("host"), two: two.Namespace("host")}
	long := strings.Repeat("n", 100)
	configs, running := map[*harness.Env]string{}, map[*harness.Env]*harness.Isthmus{}
	one.Local.Create(widgetWith(ns, "app", "labels: {app: web}"))
	one.Local.Create(widgetWith(ns, long, "labels: {app: db}"))
	one.Local.Create(service(ns, "app", "{selector: {app: web}, ports: [{port: 80}]}"))
	one.Local.Create(configMapWith(ns, "own", ""))
	for e, host := range hosts {
		configs[e] = virtual(host, []string{ns}, widgetsOut+"hostNamespace: "+shared, configMapsOut,
			"apiVersion: v1\nkind: Service\ndirection: toHost\nhostNamespace: "+shared+"\npatches: [{path: spec.selector, type: rewriteLabelSelector}]")
		running[e] = e.Start(configs[e])
	}
	twin := func(e *harness.Env, name string) *unstructured.Unstructured {
		return twinOf(e, widgets, shared, ns, name)
	}
	for e, host := range hosts {
		for _, name := range []string{"app", long} {
			e.Eventually(func() error { return is(twin(e, name), 1, "spec", "size") })
			if len(twin(e, name).GetName()) > 63 {
				t.Errorf("the name %s is too long", twin(e, name).GetName())
			}
			if err := is(twin(e, name), host, "metadata", "labels", "vcluster.loft.sh/managed-by"); err != nil {
				t.Error(err)
			}
		}
		e.Eventually(func() error { return present(e.Remote, "configmaps", host, hostName(ns, "own")) })
		e.Eventually(func() error {
			s := twinOf(e, "services", shared, ns, "app")
			if s == nil {
				return fmt.Errorf("no Service")
			}
			set, _, _ := unstructured.NestedStringMap(s.Object, "spec", "selector")
			return these(e.Remote.List(widgets, shared, labels.SelectorFromSet(set).String()), twin(e, "app").GetName())
		})
	}
	if all := one.Remote.List(widgets, shared, ""); len(all) != 4 {
		t.Errorf("expected two twins of each tenant, got %d", len(all))
	}

	t.Run("RBAC", func(t *testing.T) { // the shared namespace is the exception, not the rule
		config, err := clientcmd.BuildConfigFromFlags("", one.RemoteKubeconfig())
		if err != nil {
			t.Fatal(err)
		}
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		for _, try := range []struct {
			resource, namespace string
			allowed             bool
		}{
			{"configmaps", hosts[one], true}, {widgets, shared, true},
			{"configmaps", hosts[two], false}, {widgets, hosts[two], false}, {"configmaps", shared, false},
			{widgets, hosts[one], false}, {"configmaps", "", false}, {widgets, "", false}, {"services", hosts[two], false},
		} {
			_, err := client.Resource(harness.Kind(try.resource)).Namespace(try.namespace).List(context.Background(), metav1.ListOptions{Limit: 1})
			if allowed := err == nil; allowed != try.allowed || err != nil && !apierrors.IsForbidden(err) {
				t.Errorf("list %s in %q: %v, expected allowed = %v", try.resource, try.namespace, err, try.allowed)
			}
		}
	})

	began := time.Now()
	for e, p := range running {
		running[e] = restartsAtRest(e, p, configs[e])
	}
	running[two].Stop()
	one.Local.Patch(widgets, ns, "app", "spec: {size: 5}")
	one.Eventually(func() error { return is(twin(one, "app"), 5, "spec", "size") })
	one.Local.Delete(widgets, ns, "app")
	one.Eventually(func() error { return absent(twin(one, "app")) })
	if err := is(twin(two, "app"), 1, "spec", "size"); err != nil {
		t.Errorf("the other tenant's: %v", err)
	}
	if writes := two.Writes(began); len(writes) > 0 {
		t.Errorf("unexpected %v", writes)
	}
	two.Start(configs[two])
	two.Eventually(func() error { return absent(twin(two, "app")) })
}

// these returns nil when the objects are those of these names.
func these(objects []unstructured.Unstructured, names ...string) error {
	have := map[string]string{}
	want := map[string]string{}
	for _, o := range objects {
		have[o.GetName()] = ""
	}
	for _, name := range names {
		want[name] = ""
	}
	if diff := different(have, want); diff != "" {
		return fmt.Errorf("there are %s", diff)
	}
	return nil
}

// Several rules for one kind, with other host namespaces.
func TestS5_RelabelledToAnotherHostNamespace(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns, host, shared := e.Namespace("a"), e.Namespace("host"), e.Namespace("shared")
	rule := func(name, more string) string {
		return widgetsOut + "statusSync: true\nname: " + name + "\nselector: {matchLabels: {tier: " + name + "}}\n" + more
	}
	config := virtual(host, []string{ns}, rule("own", ""), rule("web", "hostNamespace: "+shared), rule("api", "hostNamespace: "+shared))
	p := e.Start(config)
	relabel := func(tier string) {
		e.Local.Patch(widgets, ns, "one", "metadata: {labels: {tier: "+tier+"}}")
	}
	at := func(namespace, rule string) error {
		for _, other := range []string{host, shared} {
			if twin := twinOf(e, widgets, other, ns, "one"); other != namespace && twin != nil {
				return absent(twin)
			}
		}
		return is(twinOf(e, widgets, namespace, ns, "one"), rule, "metadata", "annotations", "isthmus.dev/rule")
	}
	e.Local.Create(widgetWith(ns, "one", "labels: {tier: own}"))
	e.Eventually(func() error { return at(host, "own") })
	e.Remote.SetStatus(widgets, host, hostName(ns, "one"), "{ready: true}")
	e.Eventually(func() error { return is(e.Local.Get(widgets, ns, "one"), true, "status", "ready") })

	relabel("web")
	e.Eventually(func() error { return at(shared, "web") })
	e.Eventually(func() error { return is(e.Local.Get(widgets, ns, "one"), nil, "status", "ready") })
	twin := twinOf(e, widgets, shared, ns, "one")
	e.Remote.SetStatus(widgets, shared, twin.GetName(), "{ready: false}")
	e.Eventually(func() error { return is(e.Local.Get(widgets, ns, "one"), false, "status", "ready") })

	began := time.Now()
	relabel("api")
	e.Eventually(func() error { return at(shared, "api") })
	if now := twinOf(e, widgets, shared, ns, "one"); now.GetUID() != twin.GetUID() {
		t.Error("the twin was made anew, though its place stayed")
	}
	if err := is(e.Local.Get(widgets, ns, "one"), false, "status", "ready"); err != nil {
		t.Error(err)
	}
	e.Quiet(500 * time.Millisecond)
	if writes := e.Writes(began); len(writes) != 1 {
		t.Errorf("expected one write, got %v", writes)
	}
	p = restartsAtRest(e, p, config)

	// So it is when it happened while Isthmus was down.
	p.Stop()
	relabel("own")
	p = e.Start(config)
	e.Eventually(func() error { return at(host, "own") })
	p.Stop()
	e.Start(strings.Replace(config, "{tier: own}", "{tier: none}", 1))
	e.Eventually(func() error { return absent(twinOf(e, widgets, host, ns, "one")) })
}

func TestS4_ForeignCopiesWhereARuleTakesThem(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns, host := e.Namespace("a"), e.Namespace("host")
	config := virtual(host, []string{ns}, widgetsOut, configMapsOut+"includeForeignCopies: true")
	p := e.Start(config)
	copies := map[string]string{
		"plain":    "",
		"vcluster": "labels: {vcluster.loft.sh/managed-by: outer, vcluster.loft.sh/namespace: there}, annotations: {vcluster.loft.sh/object-name: other}",
		"liqo":     "labels: {offloading.liqo.io/origin: there}",
		"kupe":     "labels: {kupe.cloud/managed-by: vcluster-sync}",
		"ours":     "labels: {isthmus.dev/origin: there}",
		"damaged":  "annotations: {isthmus.dev/writer: ''}",
	}
	for name, metadata := range copies {
		e.Local.Create(widgetWith(ns, name, metadata))
		e.Local.Create(configMapWith(ns, name, metadata))
	}
	names := func(names ...string) (all []string) {
		for _, name := range names {
			all = append(all, hostName(ns, name))
		}
		return all
	}
	e.Eventually(func() error {
		return present(e.Remote, "configmaps", host, names("plain", "vcluster", "liqo", "kupe")...)
	})
	e.Eventually(func() error { return present(e.Remote, widgets, host, names("plain")...) })
	twin := e.Remote.Get("configmaps", host, hostName(ns, "vcluster"))
	for path, want := range map[string]string{
		"labels vcluster.loft.sh/managed-by": "shop", "labels vcluster.loft.sh/namespace": ns, "annotations vcluster.loft.sh/object-name": "vcluster",
	} {
		field, key, _ := strings.Cut(path, " ")
		if err := is(twin, want, "metadata", field, key); err != nil {
			t.Errorf("the other's marks crossed (P2): %v", err)
		}
	}
	if err := is(e.Remote.Get("configmaps", host, hostName(ns, "liqo")), nil, "metadata", "labels", "offloading.liqo.io/origin"); err != nil {
		t.Error(err)
	}
	restartsAtRest(e, p, config)
	if err := present(e.Remote, "configmaps", host, names("plain", "vcluster", "liqo", "kupe")...); err != nil {
		t.Error(err)
	}
}

// An Argo CD that tenants share: what they deploy belongs to their own project, whatever they write.
func TestEnforceTenantProject(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.ModuleFile(t, argoCD, "manifests/crds/application-crd.yaml"))
	ns, argo := e.Namespace("a"), e.Namespace("argocd")
	host := "vcluster-" + e.ID + "--shop"
	e.Remote.Apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: " + host + "}\n")
	const apps = "applications.v1alpha1.argoproj.io"
	enforced := "hostNamespace: " + argo + "\nenforceTenantProject: true\n"
	config := virtual(host, []string{ns}, "apiVersion: argoproj.io/v1alpha1\nkind: Application\ndirection: toHost\n"+enforced,
		secretsOut+"name: repositories\nselector: {matchExpressions: [{key: kind, operator: DoesNotExist}]}\n"+enforced,
		secretsOut+"name: credentials\nselector: {matchLabels: {kind: creds}}\nextraLabels: {argocd.argoproj.io/secret-type: repo-creds}\n"+enforced)
	p := e.Start(config)
	application := func(name, project string) string {
		return fmt.Sprintf(`{apiVersion: argoproj.io/v1alpha1, kind: Application, metadata: {name: %s, namespace: %s},
			spec: {project: %s, source: {repoURL: "https://example.org/shop", path: deploy}, destination: {name: in-cluster, namespace: shop}}}`, name, ns, project)
	}
	secret := func(name, labels, data string) string {
		return fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: %s, namespace: %s, labels: {%s}}, stringData: {%s}}", name, ns, labels, data)
	}
	repository := "argocd.argoproj.io/secret-type: repository"
	e.Local.Create(application("shop", "default"))
	e.Local.Create(application("empty", "''"))
	e.Local.Create(secret("repo", repository, "project: other, url: x"))
	e.Local.Create(secret("silent", repository, "url: x"))
	e.Local.Create(secret("creds", "kind: creds", "project: other, url: x"))
	e.Local.Create(secret("plain", "", "project: other"))
	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	project := func(name string) error {
		return is(twinOf(e, apps, argo, ns, name), e.ID, "spec", "project")
	}
	ofSecret := func(name, want string) error {
		return is(twinOf(e, "secrets", argo, ns, name), encode(want), "data", "project")
	}
	for _, name := range []string{"shop", "empty"} {
		e.Eventually(func() error { return project(name) })
	}
	for _, name := range []string{"repo", "silent", "creds"} {
		e.Eventually(func() error { return ofSecret(name, e.ID) })
	}
	e.Eventually(func() error { return ofSecret("plain", "other") }) // Argo CD does not read it
	p = restartsAtRest(e, p, config)

	began := time.Now()
	e.Local.Patch(apps, ns, "shop", "spec: {project: admin}")
	restsSince(e, began)
	e.Local.Patch(apps, ns, "shop", "spec: {project: admin, source: {path: elsewhere}}")
	e.Eventually(func() error { return is(twinOf(e, apps, argo, ns, "shop"), "elsewhere", "spec", "source", "path") })
	if err := project("shop"); err != nil {
		t.Error(err)
	}
	// A Secret becomes that of a repository.
	e.Local.Patch("secrets", ns, "plain", "metadata: {labels: {"+repository+"}}")
	e.Eventually(func() error {
		return is(twinOf(e, "secrets", argo, ns, "plain"), "repository", "metadata", "labels", "argocd.argoproj.io/secret-type")
	})
	if err := ofSecret("plain", e.ID); err != nil {
		t.Error(err)
	}
	e.Remote.Patch(apps, argo, twinOf(e, apps, argo, ns, "shop").GetName(), "spec: {project: admin}")
	e.Remote.Patch("secrets", argo, twinOf(e, "secrets", argo, ns, "repo").GetName(), "data: {project: "+encode("admin")+"}")
	e.Eventually(func() error { return project("shop") })
	e.Eventually(func() error { return ofSecret("repo", e.ID) })
	restartsAtRest(e, p, config)
}
