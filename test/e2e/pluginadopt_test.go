//go:build unix

package e2e

import (
	"strings"
	"testing"
	"time"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/test/harness"
)

// P1, P4, F2: in place of the generic sync plugin, under its own configuration: what that carried, in both directions, is
// in the way, is taken over, and then is in step. It runs with the plugin's rights, and takes the plugin's identities.
func TestP1_PluginInPlaceOfTheKupePlugin(t *testing.T) {
	e := harness.New(t)
	ns, target := e.Namespace("web"), e.Namespace("platform")
	o := virtualCluster(e)
	o.File = e.PluginFile(pluginRules + "- {apiVersion: v1, kind: ConfigMap, direction: fromHost, targetNamespace: " + target + ", selector: {matchLabels: {example.io/hand-out: \"true\"}}}\n")
	name := boundary.VirtualCluster{Name: o.Name, HostNamespace: o.Namespace}.HostName(ns, "settings")

	source := e.Local.Create(configMapWith(ns, "settings", `labels: {example.io/cross: "true"}`))
	made := byKupe(source, o.Namespace)
	made.labels["vcluster.loft.sh/managed-by"], made.labels["example.io/cross"] = o.Name, "true"
	made.annotations["vcluster.loft.sh/object-host-name"] = name
	carriedOut := made.put(t, e.Remote, "configmaps", source, o.Namespace, name, "data: {key: value}")
	given := e.Remote.Create(configMapWith(o.Namespace, "given", `labels: {example.io/hand-out: "true"}`))
	carriedIn := carried{
		manager: "generic-sync", labels: map[string]string{"kupe.cloud/managed-by": "vcluster-sync", "example.io/hand-out": "true"},
		annotations: map[string]string{"kupe.cloud/synced-from": o.Namespace + "/given"},
	}.put(t, e.Local, "configmaps", given, target, "given", "data: {key: value}")

	p := e.StartPlugin(o)
	e.Eventually(func() error {
		return all(e.Local.HasEvent(ns, "settings", "Warning", "was not created by this Isthmus"), e.Remote.HasEvent(o.Namespace, "given", "Warning", "was not created by this Isthmus"))
	})
	p.End()
	for _, err := range []error{untouched(e.Remote, "configmaps", carriedOut), untouched(e.Local, "configmaps", carriedIn)} {
		if err != nil {
			t.Error(err)
		}
	}

	began := time.Now()
	if report, code := e.AdoptForPlugin(o, "kupe", "--dry-run"); code != 0 || !strings.Contains(report, "\n2 adopt") || len(e.Writes(began)) > 0 {
		t.Fatalf("dry run: code %d, writes %v\n%s", code, e.Writes(began), report)
	}
	e.Adopted(carriedOut.GetUID(), carriedIn.GetUID())
	if report, code := e.AdoptForPlugin(o, "kupe", "--yes"); code != 0 || !strings.Contains(report, "\n2 adopted") {
		t.Fatalf("code %d\n%s", code, report)
	}

	began = time.Now()
	p = e.StartPlugin(o)
	restsSince(e, began)
	e.Local.Patch("configmaps", ns, "settings", "data: {key: null, other: new}")
	e.Remote.Patch("configmaps", o.Namespace, "given", "data: {key: null, other: new}")
	e.Eventually(func() error {
		out, in := e.Remote.Get("configmaps", o.Namespace, name), e.Local.Get("configmaps", target, "given")
		return all(is(out, "map[other:new]", "data"), is(in, "map[other:new]", "data"), is(out, carriedOut.GetUID(), "metadata", "uid"), is(in, carriedIn.GetUID(), "metadata", "uid"),
			is(out, nil, "metadata", "labels", "kupe.cloud/managed-by"), is(in, nil, "metadata", "annotations", "kupe.cloud/synced-from"))
	})
	crosses(e, o, ns, "new")
	p.End()
}
