//go:build unix

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"isthmus.dev/isthmus/internal/controlplane"
	"isthmus.dev/isthmus/test/harness"
)

// carried is what a system carried across: an object under its marks.
type carried struct {
	manager string
	// apply: by server-side apply, instead of a POST.
	apply               bool
	labels, annotations map[string]string
}

// put makes a copy of a source as another system does it, with content in YAML: "spec: {size: 1}".
func (c carried) put(t *testing.T, side *harness.Side, resource string, source *unstructured.Unstructured, namespace, name, content string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(content), &obj.Object); err != nil {
		t.Fatal(err)
	}
	obj.SetAPIVersion(source.GetAPIVersion())
	obj.SetKind(source.GetKind())
	obj.SetNamespace(namespace)
	obj.SetName(name)
	obj.SetLabels(c.labels)
	obj.SetAnnotations(c.annotations)
	client := side.Client(resource, namespace)
	var made *unstructured.Unstructured
	var err error
	if c.apply {
		made, err = client.Apply(context.Background(), name, obj, metav1.ApplyOptions{FieldManager: c.manager})
	} else {
		made, err = client.Create(context.Background(), obj, metav1.CreateOptions{FieldManager: c.manager})
	}
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// byVCluster are vCluster's marks on the copy of a source of the virtual cluster "shop".
func byVCluster(source *unstructured.Unstructured, host string) carried {
	return carried{
		manager: "vcluster",
		labels:  map[string]string{"vcluster.loft.sh/managed-by": "shop", "vcluster.loft.sh/namespace": source.GetNamespace()},
		annotations: map[string]string{
			"vcluster.loft.sh/object-name": source.GetName(), "vcluster.loft.sh/object-namespace": source.GetNamespace(),
			"vcluster.loft.sh/object-uid": string(source.GetUID()), "vcluster.loft.sh/object-kind": source.GroupVersionKind().String(),
			"vcluster.loft.sh/object-host-name":      hostName(source.GetNamespace(), source.GetName()),
			"vcluster.loft.sh/object-host-namespace": host,
		},
	}
}

// byKupe are those of the generic sync plugin.
func byKupe(source *unstructured.Unstructured, host string) carried {
	c := byVCluster(source, host)
	c.manager = "generic-sync"
	c.labels["kupe.cloud/managed-by"], c.labels["kupe.cloud/tenant"] = "vcluster-sync", "acme"
	c.annotations["kupe.cloud/original-refs"] = "{}"
	return c
}

// managers are the field managers of an object itself.
func managers(obj *unstructured.Unstructured) (names []string) {
	for _, entry := range obj.GetManagedFields() {
		names = append(names, strings.TrimSuffix(fmt.Sprintf("%s/%s/%s", entry.Manager, entry.Operation, entry.Subresource), "/"))
	}
	return names
}

// says fails the test unless a report has a line with all words, in their order.
func says(t *testing.T, report string, words ...string) {
	t.Helper()
next:
	for line := range strings.Lines(report) {
		for _, word := range words {
			_, after, found := strings.Cut(line, word)
			if !found {
				continue next
			}
			line = after
		}
		return
	}
	t.Errorf("no line with %q in\n%s", words, report)
}

// adopts runs isthmus adopt three times: to look, to do it, and to find it done.
func adopts(e *harness.Env, config, from string, count int, uids ...types.UID) (report string) {
	e.T.Helper()
	began := time.Now()
	report, code := e.Adopt(config, from, "--dry-run")
	if code != 0 || !strings.Contains(report, fmt.Sprintf("\n%d adopt", count)) {
		e.T.Fatalf("dry run: code %d\n%s", code, report)
	}
	if writes := e.Writes(began); len(writes) > 0 {
		e.T.Errorf("a dry run wrote: %v", writes)
	}
	e.Adopted(uids...)
	if out, code := e.Adopt(config, from, "--yes"); code != 0 || !strings.Contains(out, fmt.Sprintf("\n%d adopted", count)) {
		e.T.Fatalf("code %d\n%s", code, out)
	}
	began = time.Now()
	if out, code := e.Adopt(config, from, "--yes"); code != 0 || !strings.Contains(out, " ours") || strings.Contains(out, "adopted") {
		e.T.Errorf("again: code %d\n%s", code, out)
	}
	if writes := e.Writes(began); len(writes) > 0 {
		e.T.Errorf("the second run wrote: %v", writes)
	}
	return report
}

// inStep starts isthmus and sees it do nothing.
func inStep(e *harness.Env, config string) {
	e.T.Helper()
	began := time.Now()
	e.Start(config)
	e.Quiet(time.Second)
	if writes := e.Writes(began); len(writes) > 0 {
		e.T.Errorf("isthmus sync wrote to what was adopted: %v", writes)
	}
}

func TestP1_AdoptTheKupePlugin(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns, host := e.Namespace("a"), e.Namespace("host")
	config := virtual(host, []string{ns}, widgetsOut+"statusSync: true\nhostOwnedFields: [spec.replicas]\nextraLabels: {team: blue}")
	var uids []types.UID
	for _, name := range []string{"posted", "applied"} {
		source := e.Local.Create(widget(ns, name, "{size: 1, note: here, tags: [a, b], ports: [{port: 80}, {port: 53, protocol: UDP}], replicas: 2}"))
		e.Local.SetStatus(widgets, ns, name, "{ready: true}")
		c := byKupe(source, host)
		c.apply = name == "applied"
		copied := c.put(t, e.Remote, widgets, source, host, hostName(ns, name),
			"spec: {size: 1, note: here, tags: [a, b], ports: [{port: 80}, {port: 53, protocol: UDP}], replicas: 5}")
		e.Remote.PatchAs("generic-sync", types.MergePatchType, widgets, host, hostName(ns, name), "status: {ready: true}", "status")
		uids = append(uids, copied.GetUID())
	}
	e.Remote.PatchAs("somebody", types.MergePatchType, widgets, host, hostName(ns, "posted"), `metadata: {labels: {theirs: "yes"}}`)

	adopts(e, config, "kupe", 2, uids...)
	for i, name := range []string{"posted", "applied"} {
		twin := e.Remote.Get(widgets, host, hostName(ns, name))
		if twin.GetUID() != uids[i] {
			t.Errorf("%s was created anew", name)
		}
		for key := range twin.GetLabels() {
			if strings.HasPrefix(key, "kupe.cloud/") {
				t.Errorf("%s still carries %s", name, key)
			}
		}
		if twin.GetLabels()["team"] != "blue" || twin.GetAnnotations()["kupe.cloud/original-refs"] != "" {
			t.Errorf("%s: %v %v", name, twin.GetLabels(), twin.GetAnnotations())
		}
		want := "isthmus/Apply generic-sync/Update/status"
		if name == "posted" {
			want += " somebody/Update"
		}
		if got := strings.Join(managers(twin), " "); got != want {
			t.Errorf("the managers of %s are %s, expected %s", name, got, want)
		}
	}
	if twin := e.Remote.Get(widgets, host, hostName(ns, "posted")); twin.GetLabels()["theirs"] != "yes" {
		t.Errorf("others' labels went: %v", twin.GetLabels())
	}

	inStep(e, config)
	for i, name := range []string{"posted", "applied"} {
		e.Local.Patch(widgets, ns, name, "spec: {size: 2, note: null, tags: [a], ports: [{port: 80}]}")
		e.Eventually(func() error { return is(e.Remote.Get(widgets, host, hostName(ns, name)), 2, "spec", "size") })
		twin := e.Remote.Get(widgets, host, hostName(ns, name))
		for _, err := range []error{
			is(twin, nil, "spec", "note"), is(twin, "[a]", "spec", "tags"), is(twin, "[map[port:80 protocol:TCP]]", "spec", "ports"),
			is(twin, 5, "spec", "replicas"), is(twin, string(uids[i]), "metadata", "uid"),
		} {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	e.Local.Delete(widgets, ns, "posted")
	e.Eventually(func() error { return absent(e.Remote.Get(widgets, host, hostName(ns, "posted"))) })
}

// Copies of host objects in the virtual cluster.
func TestP1_AdoptImportsOfTheKupePlugin(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	host, target := e.Namespace("host"), e.Namespace("target")
	config := virtual(host, []string{host}, "apiVersion: example.io/v1\nkind: Widget\ndirection: fromHost\ntargetNamespace: "+target+"\nvirtualControlledBy: true")
	source := e.Remote.Create(widget(host, "one", "{size: 1, note: here}"))
	made := carried{
		manager:     "generic-sync",
		labels:      map[string]string{"kupe.cloud/managed-by": "vcluster-sync", "vcluster.loft.sh/controlled-by": "generic-sync"},
		annotations: map[string]string{"kupe.cloud/synced-from": host + "/one"},
	}
	copied := made.put(t, e.Local, widgets, source, target, "one", "spec: {size: 1, note: here}")

	adopts(e, config, "kupe", 1, copied.GetUID())
	inStep(e, config)
	e.Remote.Patch(widgets, host, "one", "spec: {size: 2, note: null}")
	e.Eventually(func() error { return is(e.Local.Get(widgets, target, "one"), 2, "spec", "size") })
	twin := e.Local.Get(widgets, target, "one")
	if err := is(twin, nil, "spec", "note"); err != nil || twin.GetUID() != copied.GetUID() || twin.GetAnnotations()["kupe.cloud/synced-from"] != "" {
		t.Errorf("%v, UID %s, annotations %v", err, twin.GetUID(), twin.GetAnnotations())
	}
}

// What vCluster carried itself; and values of Secrets are not shown (F4).
func TestP1_AdoptVCluster(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	ns, host := e.Namespace("a"), e.Namespace("host")
	config := virtual(host, []string{ns}, secretsOut)
	const value = "hunter2-hunter2"
	source := e.Local.Create(fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: one, namespace: %s, labels: {release: r1}}\nstringData: {a: %s, b: %s}\n", ns, value, value))
	made := byVCluster(source, host)
	made.labels["vcluster.loft.sh/label-shop-x-"+hashOf("release")] = "r1"
	copied := made.put(t, e.Remote, "secrets", source, host, hostName(ns, "one"), fmt.Sprintf("stringData: {a: %s, b: %s, c: %s}", value, value, value))

	report := adopts(e, config, "vcluster", 1, copied.GetUID())
	says(t, report, "Secret", ns+"/one", "adopt", "keeps what the source does not have: data.c")
	if strings.Contains(report, value) || strings.Contains(report, "aHVudGVy") {
		t.Errorf("the report shows a Secret's value:\n%s", report)
	}
	twin := e.Remote.Get("secrets", host, hostName(ns, "one"))
	if twin.GetLabels()["vcluster.loft.sh/managed-by"] != "shop" || twin.GetAnnotations()["vcluster.loft.sh/object-uid"] != string(source.GetUID()) {
		t.Errorf("vCluster's own marks went: %v %v", twin.GetLabels(), twin.GetAnnotations())
	}
	inStep(e, config)
	e.Local.Patch("secrets", ns, "one", "data: {b: null}")
	e.Eventually(func() error { return is(e.Remote.Get("secrets", host, hostName(ns, "one")), nil, "data", "b") })
	if err := is(e.Remote.Get("secrets", host, hostName(ns, "one")), string(copied.GetUID()), "metadata", "uid"); err != nil {
		t.Error(err)
	}
}

// What is not the former system's copy of the very source is left alone; what is, is adopted all the same.
func TestP3_AdoptionRefuses(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns, host := e.Namespace("a"), e.Namespace("host")
	config := virtual(host, []string{ns}, widgetsOut)
	sources := map[string]*unstructured.Unstructured{}
	for _, name := range []string{"good", "new", "foreign", "earlier", "another", "stranger", "moved"} {
		sources[name] = e.Local.Create(widget(ns, name, "{size: 1}"))
	}
	put := func(name, at string, change func(*carried)) *unstructured.Unstructured {
		made := byKupe(sources[name], host)
		change(&made)
		return made.put(t, e.Remote, widgets, sources[name], host, at, "spec: {size: 9}")
	}
	good := put("good", hostName(ns, "good"), func(*carried) {})
	left := []*unstructured.Unstructured{
		put("foreign", hostName(ns, "foreign"), func(c *carried) { delete(c.labels, "kupe.cloud/managed-by") }),
		put("earlier", hostName(ns, "earlier"), func(c *carried) { c.annotations["vcluster.loft.sh/object-uid"] = "before" }),
		put("another", hostName(ns, "another"), func(c *carried) { c.annotations["vcluster.loft.sh/object-name"] = "elsewhere" }),
		put("stranger", hostName(ns, "stranger"), func(c *carried) { c.labels["vcluster.loft.sh/managed-by"] = "shop2" }),
		put("moved", "moved-by-another-name", func(*carried) {}),
	}
	e.Adopted(good.GetUID())
	report, code := e.Adopt(config, "kupe", "--yes")
	if code != 1 {
		t.Errorf("the exit code is %d", code)
	}
	says(t, report, ns+"/good", "adopted")
	says(t, report, ns+"/new", "create", "isthmus sync creates it")
	says(t, report, ns+"/foreign", "refused", "does not carry the marks of the kupe plugin")
	says(t, report, ns+"/earlier", "refused", "came from an earlier object of this name (UID before")
	says(t, report, ns+"/another", "refused", "for another source, "+ns+"/elsewhere")
	says(t, report, ns+"/stranger", "refused", "is of another virtual cluster, shop2")
	says(t, report, ns+"/moved", "create")
	says(t, report, ns+"/moved", "moved-by-another-name", "left", "at another place than "+host+"/"+hostName(ns, "moved"))
	says(t, report, ns+"/elsewhere", hostName(ns, "another"), "left", "its source is gone")
	says(t, report, "1 adopted, 2 create, 2 left, 4 refused")
	for _, obj := range left {
		if now := e.Remote.Get(widgets, host, obj.GetName()); now == nil || now.GetResourceVersion() != obj.GetResourceVersion() {
			t.Errorf("%s was touched", obj.GetName())
		}
	}
}

// Another cluster ID: the ledger refuses it first, and twins and the namespaces made for them keep their identity.
func TestP1_AdoptAFormerClusterID(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	far := ns + "-far"
	config := strings.Replace(file(fmt.Sprintf("{%s: %s}", ns, far), widgetsOut+"statusSync: true"), "syncResources:", "createNamespaces: true\nsyncResources:", 1)
	for _, name := range []string{"one", "two", "gone"} {
		e.Local.Create(widget(ns, name, "{size: 1, note: here}"))
	}
	old := e.StartWith(config, harness.StartOptions{Flags: []string{"--cluster-id", "former"}})
	for _, name := range []string{"one", "two", "gone"} {
		e.Eventually(func() error { return is(e.Remote.Get(widgets, far, name), 1, "spec", "size") })
	}
	e.Remote.SetStatus(widgets, far, "one", "{ready: true, observedGeneration: 1}")
	e.Eventually(func() error { return is(e.Local.Get(widgets, ns, "one"), true, "status", "ready") })
	old.Stop()
	e.Local.Delete(widgets, ns, "gone")

	renamed := e.StartWith(config, harness.StartOptions{NotReady: true})
	if code := renamed.Wait(); code != 1 || !strings.Contains(renamed.Log(), "unless isthmus adopt takes them over") {
		t.Errorf("a start under another ID: code %d, %s", code, renamed.Log())
	}
	if out, code := e.Adopt(config, "origin=former", "--yes"); code != 1 || !strings.Contains(out, "was written for cluster ID former") {
		t.Errorf("an adoption against the ledger: code %d, %s", code, out)
	}
	e.Local.Delete("configmaps", "isthmus-system", "isthmus-"+e.ID)
	if out, code := e.Adopt(config, "origin=former/other", "--dry-run"); code != 1 {
		t.Errorf("another instance's: code %d, %s", code, out)
	} else {
		says(t, out, ns+"/one", "refused", "belongs to cluster ID former, instance "+e.ID)
	}
	var uids []types.UID
	for _, name := range []string{"one", "two"} {
		uids = append(uids, e.Remote.Get(widgets, far, name).GetUID())
	}
	report := adopts(e, config, "origin=former", 3, append(uids, e.Remote.Get("namespaces", "", far).GetUID())...)
	says(t, report, "Namespace", far, "adopt")
	says(t, report, ns+"/gone", "left", "its source is gone")

	inStep(e, config)
	e.Local.Create(widget(ns, "three", "{size: 3}"))
	e.Local.Patch(widgets, ns, "one", "spec: {size: 2, note: null}")
	e.Eventually(func() error { return is(e.Remote.Get(widgets, far, "one"), 2, "spec", "size") })
	e.Eventually(func() error { return is(e.Remote.Get(widgets, far, "three"), 3, "spec", "size") })
	for i, name := range []string{"one", "two"} {
		twin := e.Remote.Get(widgets, far, name)
		if twin.GetUID() != uids[i] || twin.GetLabels()["isthmus.dev/origin"] != e.ID {
			t.Errorf("%s: UID %s, labels %v", name, twin.GetUID(), twin.GetLabels())
		}
	}
	if err := is(e.Remote.Get(widgets, far, "one"), nil, "spec", "note"); err != nil {
		t.Error(err)
	}
}

// In a shared host namespace the plugin's names can't be kept: the report says what to do, and nothing is written.
func TestN1_AdoptInASharedHostNamespace(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns, host, shared := e.Namespace("a"), e.Namespace("host"), e.Namespace("shared")
	config := virtual(host, []string{ns}, widgetsOut+"hostNamespace: "+shared)
	source := e.Local.Create(widget(ns, "one", "{size: 1}"))
	made := byKupe(source, host)
	made.labels["vcluster.loft.sh/managed-by"] = host
	copied := made.put(t, e.Remote, widgets, source, shared, "one-x-a-x-shop-0123456789", "spec: {size: 1}")
	began := time.Now()
	out, code := e.Adopt(config, "kupe", "--yes")
	if code != 0 {
		t.Errorf("code %d\n%s", code, out)
	}
	says(t, out, ns+"/one", sharedName(host, ns, "one"), "create")
	says(t, out, ns+"/one", copied.GetName(), "left", "under a name that can't be kept", shared+"/"+sharedName(host, ns, "one"), "delete it")
	if writes := e.Writes(began); len(writes) > 0 {
		t.Errorf("written: %v", writes)
	}
}

// An adoption that is killed in the middle is finished by the next run, and nothing is made anew.
func TestP1_AnInterruptedAdoption(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns, host := e.Namespace("a"), e.Namespace("host")
	config := virtual(host, []string{ns}, widgetsOut)
	const count = 40
	uids := map[string]types.UID{}
	for _, name := range numbered(count) {
		source := e.Local.Create(widget(ns, name, "{size: 1, note: here}"))
		copied := byKupe(source, host).put(t, e.Remote, widgets, source, host, hostName(ns, name), "spec: {size: 1, note: here}")
		uids[hostName(ns, name)] = copied.GetUID()
		e.Adopted(copied.GetUID())
	}
	ours := func() (n int) { return len(e.Remote.List(widgets, host, "isthmus.dev/origin="+e.ID)) }
	e.KillAdoption(config, "kupe", func() bool { return ours() > 1 })
	if n := ours(); n < 2 || n == count {
		t.Errorf("it was not interrupted half-way: %d of %d are adopted", n, count)
	}
	if out, code := e.Adopt(config, "kupe", "--yes"); code != 0 || strings.Contains(out, "create") || strings.Contains(out, "refused") {
		t.Fatalf("again: code %d\n%s", code, out)
	}
	for _, twin := range e.Remote.List(widgets, host, "") {
		if twin.GetUID() != uids[twin.GetName()] {
			t.Errorf("%s was made anew", twin.GetName())
		}
		if got := strings.Join(managers(&twin), " "); got != "isthmus/Apply" {
			t.Errorf("the managers of %s are %s", twin.GetName(), got)
		}
	}
	if n := ours(); n != count {
		t.Errorf("%d of %d are adopted", n, count)
	}
	inStep(e, config)
	e.Local.Patch(widgets, ns, "w00", "spec: {note: null}")
	e.Eventually(func() error { return is(e.Remote.Get(widgets, host, hostName(ns, "w00")), nil, "spec", "note") })
}

// The sources' cluster was replaced by another one, in which the same objects have other UIDs: without a word about it
// nothing is taken over; with it names tell what belongs together.
func TestP1F7_AdoptAfterAReplacedCluster(t *testing.T) {
	t.Parallel()
	e := harness.NewOwn(t, controlplane.Options{})
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	config := widgetRule(ns)
	p := e.Start(config)
	makeWidgets(e, ns, "one", "two", "gone")
	before, former := uidsOf(e, ns), string(e.Local.Get("namespaces", "", "kube-system").GetUID())
	p.Kill()

	e.Replace(e.Local)
	e.Local.Apply(harness.WidgetCRD("example.io"))
	e.Local.Apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: " + ns + "}\n")
	for _, name := range []string{"one", "two", "new"} {
		e.Local.Create(widget(ns, name, "{size: 1}"))
	}
	e.Local.Patch(widgets, ns, "two", "spec: {size: 2}")
	origin := "origin=" + e.ID
	out, code := e.Adopt(config, origin, "--yes")
	if code != 1 {
		t.Errorf("without --replaced-cluster: code %d", code)
	}
	says(t, out, ns+"/one", "refused", "comes from another cluster", former, "--replaced-cluster "+former)
	if out, code := e.Adopt(config, origin, "--replaced-cluster", "another", "--yes"); code != 1 {
		t.Errorf("with another UID: code %d\n%s", code, out)
	}
	e.Adopted(before["one"], before["two"])
	out, code = e.Adopt(config, origin, "--replaced-cluster", former, "--yes")
	if code != 0 {
		t.Errorf("with the UID: code %d\n%s", code, out)
	}
	says(t, out, ns+"/one", "adopted", "from the cluster that this one replaced")
	says(t, out, ns+"/new", "create")
	says(t, out, ns+"/gone", "left", "its source is gone")

	e.Start(config)
	crossed(e, ns, "new")
	e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "two"), 2, "spec", "size") })
	stays(e, time.Second, ns, before) // the one whose source is gone too: it is the former cluster's
	e.Local.Delete(widgets, ns, "one")
	gone(e, ns, "one")
}
