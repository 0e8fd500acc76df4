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
