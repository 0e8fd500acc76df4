//go:build unix

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/test/harness"
)

// sharedName is what the object is called in a host namespace that the virtual cluster "shop" shares.
func sharedName(host, namespace, name string) string {
	return boundary.VirtualCluster{Name: "shop", HostNamespace: host}.SharedName(namespace, name)
}

// absentEvent returns nil when it was told on a widget that a reference is to an object that is not there, or that no
// rule takes.
func absentEvent(e *harness.Env, namespace, name string, texts ...string) error {
	return e.Local.HasEvent(namespace, name, append([]string{"Warning", "PatchFailed", "refers to objects that do not exist, or that no rule selects"}, texts...)...)
}

// Rules of one kind put their objects in two host namespaces: a reference follows the very object that it names.
func TestX3_AReferenceFollowsItsObject(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	group := ownGroup(e)
	e.Both(refsCRD(group))
	own := "widgets." + group
	a, host, shared := e.Namespace("a"), e.Namespace("host"), e.Namespace("shared")
	rule := "apiVersion: " + group + "/v1\nkind: Widget\ndirection: toHost\nstatusSync: true\npatches: [{path: spec.ref, type: rewriteRef}]\n"
	config := virtual(host, []string{a}, rule,
		"name: own\n"+configMapsOut+"selector: {matchLabels: {tier: own}}\n",
		"name: shared\n"+configMapsOut+"hostNamespace: "+shared+"\nselector: {matchLabels: {tier: shared}}\n")
	p := e.Start(config)
	relabel := func(tier string) {
		e.Local.Patch("configmaps", a, "settings", "metadata: {labels: {tier: "+tier+"}}")
	}
	create := func(name, spec string) {
		e.Local.Create(fmt.Sprintf("{apiVersion: %s/v1, kind: Widget, metadata: {name: %s, namespace: %s}, spec: %s}", group, name, a, spec))
	}
	twin := func() *unstructured.Unstructured { return e.Remote.Get(own, host, hostName(a, "one")) }
	refers := func(namespace, name string) func() error {
		return func() error {
			return all(at(twin(), namespace, "spec", "ref", "namespace"), at(twin(), name, "spec", "ref", "name"))
		}
	}
	inHost, inShared := refers(host, hostName(a, "settings")), refers(shared, sharedName(host, a, "settings"))

	e.Local.Create(configMapWith(a, "settings", "labels: {tier: shared}"))
	create("one", "{ref: {apiVersion: v1, kind: ConfigMap, name: settings, namespace: "+a+"}}")
	create("other", "{ref: {apiVersion: v1, kind: ConfigMap, name: other, namespace: "+a+"}}")
	e.Eventually(inShared)
	uid := twin().GetUID()
	e.Remote.SetStatus(own, host, hostName(a, "one"), fmt.Sprintf("{uses: {kind: ConfigMap, name: %s, namespace: %s}}", sharedName(host, a, "settings"), shared))
	statusFollows := func() error {
		source := e.Local.Get(own, a, "one")
		return all(at(source, "settings", "status", "uses", "name"), at(source, a, "status", "uses", "namespace"))
	}
	e.Eventually(statusFollows)
	p = restartsAtRest(e, p, config)

	// Another change of the object, and of others, concerns nobody.
	began := time.Now()
	e.Local.Patch("configmaps", a, "settings", "data: {more: x}")
	e.Local.Create(configMapWith(a, "third", "labels: {tier: own}"))
	e.Eventually(func() error {
		return at(e.Remote.Get("configmaps", shared, sharedName(host, a, "settings")), "x", "data", "more")
	})
	e.Eventually(func() error {
		return is(e.Remote.Get("configmaps", host, hostName(a, "third")), "value", "data", "key")
	})
	for _, w := range e.Writes(began) {
		if w.ObjectRef.Resource == "widgets" {
			t.Errorf("a widget was written: %s", w)
		}
	}

	relabel("own")
	e.Within(5*time.Second, inHost)
	relabel("none") // no rule takes it: the name that vCluster itself would give it
	e.Eventually(func() error { return absent(e.Remote.Get("configmaps", host, hostName(a, "settings"))) })
	e.Eventually(inHost)
	relabel("shared")
	e.Within(5*time.Second, inShared)
	e.Local.Delete("configmaps", a, "settings")
	e.Within(5*time.Second, inHost)
	p.Stop()
	e.Local.Create(configMapWith(a, "settings", "labels: {tier: shared}"))
	p = e.Start(config) // also what moved while nobody looked
	e.Eventually(inShared)
	e.Eventually(statusFollows)
	if twin().GetUID() != uid {
		t.Error("the twin was made anew")
	}
	restartsAtRest(e, p, config)
}

// An object of a kind that crosses, but that is not there, or that no rule selects.
func TestX3_AReferenceToAnObjectThatDoesNotCross(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	group := ownGroup(e)
	e.Both(refsCRD(group))
	own := "widgets." + group
	widgets := "apiVersion: " + group + "/v1\nkind: Widget\ndirection: toHost\npatches: [{path: 'spec.refs[*]', type: rewriteRef}]\n"
	configMaps := configMapsOut + "selector: {matchLabels: {cross: 'yes'}}\n"
	for name, virtually := range map[string]bool{"virtual cluster": true, "same names": false} {
		t.Run(name, func(t *testing.T) {
			e := e.Beside()
			a := e.Namespace("a")
			host, config := a, file(same(a), widgets, configMaps)
			name := func(name string) string { return name }
			if virtually {
				host = e.Namespace("host")
				config = virtual(host, []string{a}, widgets, configMaps)
				name = func(name string) string { return hostName(a, name) }
			}
			p := e.Start(config)
			refer := func(widget string, names ...string) {
				refs := make([]string, len(names))
				for i, name := range names {
					refs[i] = "{kind: ConfigMap, name: " + name + "}"
				}
				e.Local.Create(fmt.Sprintf("{apiVersion: %s/v1, kind: Widget, metadata: {name: %s, namespace: %s}, spec: {refs: [%s]}}", group, widget, a, strings.Join(refs, ", ")))
			}
			refer("soon", "late", "there")
			e.Local.Create(configMapWith(a, "there", "labels: {cross: 'yes'}"))
			e.Local.Create(configMapWith(a, "hidden", ""))
			refer("never", "hidden", "missing", "there")
			twin := func(widget string) *unstructured.Unstructured { return e.Remote.Get(own, host, name(widget)) }
			e.Eventually(func() error { return at(twin("soon"), name("late"), "spec", "refs", 0, "name") })
			e.Local.Create(configMapWith(a, "late", "labels: {cross: 'yes'}")) // as one kubectl apply may bring it
			for i, want := range []string{"hidden", "missing", "there"} {
				e.Eventually(func() error { return at(twin("never"), name(want), "spec", "refs", i, "name") })
			}
			e.Eventually(func() error {
				return absentEvent(e, a, "never", "spec.refs[0] refers to ConfigMap "+a+"/hidden", "spec.refs[1] refers to ConfigMap "+a+"/missing")
			})
			if err := absentEvent(e, a, "never", "there"); err == nil {
				t.Error("an object that crosses is reported")
			}
			if err := absentEvent(e, a, "soon"); err == nil {
				t.Error("an object that came soon after is reported")
			}

			// Told once, until it is another text.
			e.Local.Patch(own, a, "never", "spec: {size: 2}")
			e.Eventually(func() error { return is(twin("never"), 2, "spec", "size") })
			e.Local.Patch("configmaps", a, "hidden", "metadata: {labels: {cross: 'yes'}}")
			e.Eventually(func() error { return is(e.Remote.Get("configmaps", host, name("hidden")), "value", "data", "key") })
			e.Local.Patch(own, a, "never", "spec: {size: 3}")
			e.Eventually(func() error {
				for _, line := range e.Local.Events(a, "never") {
					if strings.Contains(line, "/missing") && !strings.Contains(line, "/hidden") {
						return nil
					}
				}
				return fmt.Errorf("not told of the one that is left: %q", e.Local.Events(a, "never"))
			})
			if n := len(e.Local.Events(a, "never")); n > 5 { // Created, two Updated, and both texts
				t.Errorf("%d Events: %q", n, e.Local.Events(a, "never"))
			}
			restartsAtRest(e, p, config)
		})
	}
}
