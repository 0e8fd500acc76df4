package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"isthmus.dev/isthmus/internal/boundary"
)

var shop = boundary.VirtualCluster{Name: "shop", HostNamespace: "vcluster-acme--shop"}

const pluginRule = "version: v1\nsyncResources:\n- {apiVersion: v1, kind: Secret, direction: toHost}\n"

// A configuration in a plugin knows its virtual cluster without being told.
func TestF5_PluginConfiguration(t *testing.T) {
	tests := []struct {
		name, text string
		naming     boundary.VirtualCluster
		plugin     Plugin
		fault      string
	}{
		{name: "for another generic sync plugin", text: pluginRule, naming: shop,
			plugin: Plugin{FailurePolicy: FailureIgnore, Listen: ":8082", ClusterID: "shop-b9bee28a19", RemoteID: "host", Instance: "default"}},
		{name: "everything said", text: pluginRule + "naming: VirtualCluster\nvirtualCluster: {name: shop, hostNamespace: vcluster-acme--shop}\n" +
			"failurePolicy: Abort\nlisten: 127.0.0.1:1\nclusterID: blue\nremoteID: north\ninstance: two\n", naming: shop,
			plugin: Plugin{FailurePolicy: FailureAbort, Listen: "127.0.0.1:1", ClusterID: "blue", RemoteID: "north", Instance: "two"}},
		{name: "names stay", text: pluginRule + "naming: SameName\n",
			plugin: Plugin{FailurePolicy: FailureIgnore, Listen: ":8082", ClusterID: "shop-b9bee28a19", RemoteID: "host", Instance: "default"}},
		{name: "namespaces say how names go", text: pluginRule + "namespaces: {a: b}\n",
			plugin: Plugin{FailurePolicy: FailureIgnore, Listen: ":8082", ClusterID: "shop-b9bee28a19", RemoteID: "host", Instance: "default"}},
		{name: "another virtual cluster", text: pluginRule + "virtualCluster: {name: store, hostNamespace: vcluster-acme--shop}\n",
			fault: "f:4:17: virtualCluster: is store in vcluster-acme--shop, but vCluster says that it is shop in vcluster-acme--shop: remove it"},
		{name: "half a virtual cluster", text: pluginRule + "virtualCluster: {name: shop}\n", fault: "f:4:17: virtualCluster.hostNamespace: is missing"},
		{name: "no label", text: pluginRule + "clusterID: A b\n", fault: `f:4:12: clusterID: "A b" is no DNS label`},
		{name: "no address", text: pluginRule + "listen: \"8082\"\n", fault: `f:4:9: listen: "8082" is no address: expected one like :8082`},
		{name: "one name for both", text: pluginRule + "clusterID: host\n", fault: `f:4:12: clusterID: "host" is the remoteID too`},
		{name: "unknown policy", text: pluginRule + "failurePolicy: abort\n", fault: `f:4:16: failurePolicy: unknown value "abort", did you mean "Abort"?`},
		{name: "unknown key", text: pluginRule + "listn: a\n", fault: `f:4:1: listn: unknown field, did you mean "listen"?`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := ParsePlugin("f", []byte(tt.text), shop)
			if tt.fault != "" {
				if err == nil || !strings.HasPrefix(err.Error(), tt.fault) {
					t.Errorf("got %v, want %s…", err, tt.fault)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			tt.plugin.In, tt.plugin.Name = "plugin", "isthmus"
			if diff := cmp.Diff(tt.plugin, c.Plugin); diff != "" || c.VirtualCluster != tt.naming {
				t.Errorf("%v %s", c.VirtualCluster, diff)
			}
		})
	}
	if _, err := Parse("f", []byte(pluginRule+"failurePolicy: Abort\n")); err == nil || !strings.HasPrefix(err.Error(), "f:4:16: failurePolicy: belongs to the configuration of a vCluster plugin") {
		t.Errorf("in a file of its own: %v", err)
	}
}

// Of a vcluster.yaml the configuration of the plugin is read; faults are where they are in that file.
func TestF5_VClusterFile(t *testing.T) {
	const head, rule = "sync: {toHost: {pods: {enabled: true}}}\n", "      version: v1\n      syncResources:\n      - {apiVersion: v1, kind: Secret, direction: toHost"
	tests := []struct {
		name, text, in, plugin, fault string
	}{
		{name: "plugin", text: head + "plugin:\n  sync:\n    version: v2\n    config:\n" + rule + "}\n", in: "plugin", plugin: "sync"},
		{name: "plugins", text: head + "plugins:\n  sync:\n    config:\n" + rule + "}\n", in: "plugins", plugin: "sync"},
		{name: "next to others", text: "plugin:\n  another:\n    config: {a: b}\n  generic:\n    config:\n" + rule + "}\n  isthmus:\n    config:\n" + rule + "}\n", in: "plugin", plugin: "isthmus"},
		{name: "a fault", text: head + "plugin:\n  isthmus:\n    config:\n" + rule + ", polcy: All}\n", fault: `f:7:59: syncResources[0].polcy: unknown field, did you mean "policy"?`},
		{name: "another's", text: "plugin:\n  another:\n    config: {a: b}\n", fault: "f:1:1: no plugin in this vcluster.yaml has a configuration for Isthmus"},
		{name: "of another version", text: "plugin:\n  isthmus:\n    version: v1\n    config:\n" + rule + "}\n", fault: `f:3:14: plugin.isthmus.version: is "v1": expected v2`},
		{name: "namespaces synced", text: "sync: {toHost: {namespaces: {enabled: true}}}\nplugin:\n  isthmus:\n    config:\n" + rule + "}\n", fault: "f:5:7: vCluster keeps names"},
		{name: "namespaces not synced", text: "sync: {toHost: {namespaces: {enabled: false}}}\nplugin:\n  isthmus:\n    config:\n" + rule + "}\n", in: "plugin", plugin: "isthmus"},
		{name: "two that could be it", text: "plugin:\n  a:\n    config:\n" + rule + "}\n  b:\n    config:\n" + rule + "}\n", fault: "f:1:1: several plugins have syncResources: plugin.a or plugin.b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Parse("f", []byte(tt.text))
			if tt.fault != "" {
				if err == nil || !strings.HasPrefix(err.Error(), tt.fault) {
					t.Errorf("got %v, want %s…", err, tt.fault)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(c.Rules) != 1 || c.Plugin.In != tt.in || c.Plugin.Name != tt.plugin || !c.Plugin.AnyVirtualCluster {
				t.Errorf("%+v", c.Plugin)
			}
		})
	}
}

// A configuration of the generic sync plugin with every field that it has is taken as it is.
func TestF5_EveryFieldOfTheGenericSyncPlugin(t *testing.T) {
	const text = `version: v1
log_level: debug
events_enabled: true
max_concurrent_reconciles: 100
disable_event_filtering: true
globalFilters:
  include: [{namespace: "team-*", resources: [Secret, argoproj.io/v1alpha1/Application]}, {namespace: "*", resources: [Service]}]
  exclude: [{namespace: team-scratch}]
globalExtraLabels: {example.io/tenant: acme}
syncResources:
- apiVersion: argoproj.io/v1alpha1
  kind: Application
  direction: toHost
  mode: sync
  statusSync: false
  hostNamespace: argocd
  selector:
    matchLabels: {example.io/deploy: "yes"}
    matchNamespaces: [team-a, team-b]
    excludeNamespaces: [team-c]
  selectorIncludeOwnerLabels: false
  patches:
  - {path: "spec.sources[*].ref", type: none}
  - {path: "spec.sources[0].name", type: rewriteName}
  - {path: spec.destination.namespace, type: rewriteNamespace}
  - {path: spec.ref, type: rewriteRef}
  - {path: spec.gateway, type: rewriteHostRef}
  - {path: spec.selector, type: rewriteLabelSelector}
  extraLabels: {example.io/from: shop}
  enforceTenantProject: true
  hostOwnedFields: [operation]
- {apiVersion: v1, kind: Service, direction: toHost, mode: mirror, statusSync: true}
- {apiVersion: v1, kind: Secret, direction: fromHost, targetNamespace: platform, virtualControlledBy: true, selector: {matchNamespaces: [vcluster-acme--shop]}}
- {apiVersion: gateway.networking.k8s.io/v1, kind: GatewayClass, direction: fromHost, mode: mirror, selector: {matchNamespaces: ["*"]}}
`
	shop := boundary.VirtualCluster{Name: "shop", HostNamespace: "vcluster-acme--shop"}
	c, err := ParsePlugin("f", []byte(text), shop)
	if err != nil {
		t.Fatal(err)
	}
	app, service, secret, class := c.Rules[0], c.Rules[1], c.Rules[2], c.Rules[3]
	for what, ok := range map[string]bool{
		"the level":             c.LogLevel == LogDebug && c.Events,
		"the workers":           app.Workers == 100,
		"the tenant":            app.TenantProject == "acme",
		"the shared namespace":  app.HostNamespace == "argocd",
		"the labels":            app.ExtraLabels["example.io/tenant"] == "acme" && app.ExtraLabels["example.io/from"] == "shop",
		"the filters":           app.Namespaces.Admits("team-a") && !app.Namespaces.Admits("team-c") && !app.Namespaces.Admits("team-scratch"),
		"a mirror to the host":  service.Mode == boundary.ModeSync && !service.ReturnStatus,
		"an import":             secret.Direction == boundary.FromRemote && secret.TargetNamespace == "platform" && secret.VirtualControlledBy,
		"a mirror":              class.Mode == boundary.ModeMirror,
		"the patches":           app.Patches != nil,
		"the host-owned fields": len(app.RemoteOwned) == 1,
	} {
		if !ok {
			t.Errorf("%s: %+v", what, c)
		}
	}
}
