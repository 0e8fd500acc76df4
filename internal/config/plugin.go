package config

import (
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"isthmus.dev/isthmus/internal/boundary"
)

// PluginName is what the plugin is called where nothing else is said.
const PluginName = "isthmus"

// DefaultPluginListen is where a plugin serves health and metrics where its configuration names no address, or can't be read.
const DefaultPluginListen = ":8082"

// AnyHostNamespace stands for the host namespace of a virtual cluster that is not known yet. A tenant can be told from it.
const AnyHostNamespace = "vcluster-tenant--cluster"

var anyVirtualCluster = boundary.VirtualCluster{Name: "vcluster", HostNamespace: AnyHostNamespace}

// pluginSettings reads the keys of vCluster plugins, and fills in the virtual cluster that such a plugin belongs to.
func (c *compiler) pluginSettings() Plugin {
	if c.plugin == nil {
		for _, f := range Fields(reflect.TypeFor[File]()) {
			if f.Plugin && c.written(f.Name) {
				c.errorf(field.NewPath(f.Name), "belongs to the configuration of a vCluster plugin: remove it")
			}
		}
		return Plugin{}
	}
	settings := Plugin{
		In: "plugin", Name: PluginName, FailurePolicy: c.file.FailurePolicy, Listen: c.file.Listen,
		ClusterID: c.file.ClusterID, RemoteID: c.file.RemoteID, Instance: c.file.Instance,
	}
	if !c.written("naming") && !c.written("namespaces") {
		c.file.Naming = NamingVirtualCluster
	}
	known := *c.plugin
	if c.virtual() {
		written := boundary.VirtualCluster(c.file.VirtualCluster)
		switch {
		case c.written("virtualCluster") && known != (boundary.VirtualCluster{}) && written != known && c.sound(field.NewPath("virtualCluster")):
			c.errorf(field.NewPath("virtualCluster"), "is %s in %s, but vCluster says that it is %s in %s: remove it", written.Name, written.HostNamespace, known.Name, known.HostNamespace)
		case c.written("virtualCluster"):
			known = written
		case known == (boundary.VirtualCluster{}):
			settings.AnyVirtualCluster, known = true, anyVirtualCluster
		}
		c.file.VirtualCluster = VirtualCluster(known)
	}
	if settings.ClusterID == "" {
		settings.ClusterID = known.ClusterID()
	}
	for _, id := range []struct{ key, value string }{
		{"clusterID", settings.ClusterID}, {"remoteID", settings.RemoteID}, {"instance", settings.Instance},
	} {
		if fault := first(validation.IsDNS1123Label(id.value)); fault != "" && c.written(id.key) && c.sound(field.NewPath(id.key)) {
			c.errorf(field.NewPath(id.key), "%s is no DNS label: %s", show(id.value), fault)
		}
	}
	if err := CheckListen(settings.Listen); err != nil && c.sound(field.NewPath("listen")) {
		c.errorf(field.NewPath("listen"), "%v", err)
	}
	if settings.ClusterID == settings.RemoteID {
		c.errorf(field.NewPath("clusterID"), "%s is the remoteID too: expected two names, one a cluster", show(settings.ClusterID))
	}
	return settings
}

// CheckListen returns an error for what is no address to serve health and metrics on. An empty one serves none.
func CheckListen(address string) error {
	if address == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("%s is no address: expected one like %s or 127.0.0.1%s", show(address), DefaultPluginListen, DefaultPluginListen)
	}
	return nil
}

// Known returns an error when the configuration is for any virtual cluster, and so can't be run between two clusters.
func (p Plugin) Known() error {
	if !p.AnyVirtualCluster {
		return nil
	}
	return fmt.Errorf("the configuration in this vcluster.yaml does not say which virtual cluster it is for: add virtualCluster with name and hostNamespace to %s.%s.config", p.In, p.Name)
}

// Fits returns an error when a configuration can't run in a virtual cluster; keepsNames: vCluster gives virtual namespaces
// host namespaces of their own.
func (c *Config) Fits(keepsNames bool) error {
	if keepsNames && c.VirtualCluster != (boundary.VirtualCluster{}) {
		return errors.New("vCluster keeps names, in host namespaces of their own (sync.toHost.namespaces in its configuration): objects under naming: VirtualCluster, and the references in them, would not fit those that it carries; turn that off, or set naming: SameName, and in namespaces the counterparts that sync.toHost.namespaces has")
	}
	return nil
}

// vclusterKeepsNames reports whether a vcluster.yaml has namespaces synced.
func vclusterKeepsNames(tree *yaml.Node) bool {
	for _, path := range [][]string{{"sync", "toHost", "namespaces", "enabled"}, {"experimental", "multiNamespaceMode", "enabled"}} {
		n, enabled := tree, false
		for _, key := range path {
			n = valueOf(n, key)
		}
		if n != nil && n.Decode(&enabled) == nil && enabled {
			return true
		}
	}
	return false
}

// isVClusterFile reports whether a document is a vcluster.yaml.
func isVClusterFile(tree *yaml.Node) bool {
	return valueOf(tree, "syncResources") == nil && (valueOf(tree, "plugin") != nil || valueOf(tree, "plugins") != nil)
}

// findPlugin returns the configuration of the plugin in a vcluster.yaml that is ours, and where it is: the only one that
// looks like it, or of several the one that is called isthmus.
func findPlugin(tree *yaml.Node, r *report) (in, name string, config *yaml.Node) {
	var names []string
	for _, key := range []string{"plugin", "plugins"} {
		plugins := valueOf(tree, key)
		if plugins == nil || plugins.Kind != yaml.MappingNode {
			continue
		}
		for i := 0; i+1 < len(plugins.Content); i += 2 {
			found := valueOf(plugins.Content[i+1], "config")
			if valueOf(found, "syncResources") == nil {
				continue
			}
			if version := valueOf(plugins.Content[i+1], "version"); version != nil && version.Value != "v2" {
				r.add(place(version), key+"."+plugins.Content[i].Value+".version", "is %s: expected v2, the only version that Isthmus is a plugin of", show(version.Value))
			}
			names = append(names, key+"."+plugins.Content[i].Value)
			if config == nil || plugins.Content[i].Value == PluginName {
				in, name, config = key, plugins.Content[i].Value, found
			}
		}
	}
	switch {
	case config == nil:
		r.add(place(tree), "", "no plugin in this vcluster.yaml has a configuration for Isthmus: expected plugin.%s.config with version and syncResources", PluginName)
	case len(names) > 1 && name != PluginName:
		slices.Sort(names)
		r.add(place(tree), "", "several plugins have syncResources: %s; call the one that is meant %s", oneOf(names), PluginName)
		return "", "", nil
	}
	return in, name, config
}

// valueOf returns the value of an object's key; nil: there is none.
func valueOf(n *yaml.Node, key string) *yaml.Node {
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if value := n.Content[i+1]; n.Content[i].Value == key {
			for value.Kind == yaml.AliasNode {
				value = value.Alias
			}
			return value
		}
	}
	return nil
}
