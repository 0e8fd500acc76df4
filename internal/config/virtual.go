package config

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"isthmus.dev/isthmus/internal/boundary"
)

// virtual reports whether twins are named by vCluster's scheme.
func (c *compiler) virtual() bool { return c.file.Naming == NamingVirtualCluster }

// checkNaming checks the scheme of names and what goes with it.
func (c *compiler) checkNaming() {
	p, v := field.NewPath("virtualCluster"), c.file.VirtualCluster
	switch {
	case !c.virtual():
		if c.written("virtualCluster") {
			c.errorf(p, "belongs to naming: VirtualCluster: set that too, or remove it")
		}
		return
	case c.plugin == nil && !c.written("virtualCluster"):
		c.errorf(field.NewPath("naming"), "VirtualCluster needs virtualCluster: give it name and hostNamespace")
		return
	}
	if fault := first(validation.IsDNS1123Label(v.Name)); fault != "" && c.sound(p.Child("name")) {
		c.errorf(p.Child("name"), "%s is no name of a virtual cluster: %s", show(v.Name), fault)
	}
	c.checkTarget(v.HostNamespace, "host", p.Child("hostNamespace"))
	if c.written("namespaces") {
		c.errorf(field.NewPath("namespaces"), "contradicts naming: VirtualCluster, under which all namespaces land in one: remove one of them")
	}
	if c.file.CreateNamespaces {
		c.errorf(field.NewPath("createNamespaces"), "contradicts naming: VirtualCluster: host namespaces are the host's own; remove it")
	}
}

// checkTarget checks the name of a namespace that twins go in; cluster says whose it is: "host" or "local".
func (c *compiler) checkTarget(name, cluster string, p *field.Path) {
	if !c.sound(p) {
		return
	}
	if fault := first(validation.IsDNS1123Label(name)); fault != "" {
		c.errorf(p, "%s is no namespace name: %s", show(name), fault)
	} else if isSystemNamespace(name) {
		c.errorf(p, "%s can't be written to: namespaces that start with kube- belong to the %s cluster; choose another", name, cluster)
	}
}

// hostNamespace reads the shared host namespace of a rule.
func (c *compiler) hostNamespace(e *SyncResource, p *field.Path) string {
	at := p.Child("hostNamespace")
	if _, written := c.values[at.String()]; !written {
		return ""
	}
	if !c.virtual() {
		c.errorf(at, "belongs to naming: VirtualCluster: map namespaces with namespaces instead")
		return ""
	}
	c.checkTarget(e.HostNamespace, "host", at)
	if e.HostNamespace == c.file.VirtualCluster.HostNamespace {
		c.errorf(at, "is the virtual cluster's own host namespace, where twins go anyway: remove it")
	}
	return e.HostNamespace
}

// tenantProject reads the tenant from the name of the host namespace, vcluster-<tenant>--<cluster>. Another name fails:
// a guess could give one tenant another's project.
func (c *compiler) tenantProject(kind schema.GroupVersionKind, p *field.Path) string {
	at := p.Child("enforceTenantProject")
	switch {
	case !c.virtual():
		c.errorf(at, "belongs to naming: VirtualCluster: remove it")
		return ""
	case kind.Kind != "" && !boundary.NamesProject(kind):
		c.errorf(at, "%s names no project: remove it", kind.Kind)
		return ""
	}
	namespace := c.file.VirtualCluster.HostNamespace
	rest, ok := strings.CutPrefix(namespace, "vcluster-")
	tenant, cluster, found := strings.Cut(rest, "--")
	// Where the line between the two could be drawn elsewhere as well, it might be another tenant's.
	ambiguous := strings.HasPrefix(cluster, "-") || strings.Contains(cluster, "--")
	if !ok || !found || tenant == "" || cluster == "" || ambiguous {
		c.errorf(at, "can't tell the tenant from virtualCluster.hostNamespace %s: expected vcluster-<tenant>--<cluster>", show(namespace))
		return ""
	}
	return tenant
}

// patches compiles the patches of an entry.
func (c *compiler) patches(e *SyncResource, p *field.Path) *boundary.Patches {
	before := len(c.errs)
	var patches []boundary.Patch
	for i, entry := range e.Patches {
		at := p.Child("patches").Index(i)
		if !c.sound(at) {
			continue
		}
		path, err := boundary.ParsePath(entry.Path)
		if err != nil {
			c.errorf(at.Child("path"), "%v", err)
			continue
		}
		patch := boundary.Patch{Path: path, Type: entry.Type}
		if err := patch.Validate(); err != nil {
			c.errorf(at.Child("path"), "%v", err)
			continue
		}
		patches = append(patches, patch)
	}
	if len(c.errs) > before || len(patches) == 0 {
		return nil
	}
	compiled, err := boundary.CompilePatches(patches)
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range several.Unwrap() {
			c.errorf(p.Child("patches"), "%v", err)
		}
	} else if err != nil {
		c.errorf(p.Child("patches"), "%v", err)
	}
	return compiled
}

// checkDirection refuses what does not go with an entry's direction.
func (c *compiler) checkDirection(e *SyncResource, p *field.Path) {
	refuse := func(key, why string) {
		if _, written := c.values[p.Child(key).String()]; written {
			c.errorf(p.Child(key), "%s: remove it", why)
		}
	}
	if e.Mode == "mirror" && e.Direction == "fromHost" && e.OnTwinDeleted == boundary.TwinDeletedHold {
		c.errorf(p.Child("onTwinDeleted"), "contradicts mode: mirror, which is what is on the other side: remove one of them")
	}
	switch e.Direction {
	case "toHost":
		refuse("targetNamespace", "belongs to direction: fromHost")
		refuse("virtualControlledBy", "belongs to direction: fromHost")
		if e.ClusterScoped && !c.virtual() {
			c.errorf(p.Child("clusterScoped"), "cluster-scoped kinds go to the remote cluster only with naming: VirtualCluster, which tells them apart there")
		}
	case "fromHost":
		if e.StatusSync {
			c.errorf(p.Child("statusSync"), "status never goes from the local cluster to the remote one: remove it; mode: mirror brings the remote object's status")
		}
		refuse("patches", "references in imports stay as they are")
		if e.DeletionPolicy == boundary.DeletionForeground {
			c.errorf(p.Child("deletionPolicy"), "an import does not hold up the deletion of the remote object: remove it")
		}
		refuse("carryFinalizers", "finalizers of remote objects are for their own side, and imports do not hold up their deletion")
		refuse("hostNamespace", "belongs to direction: toHost")
		refuse("enforceTenantProject", "belongs to direction: toHost")
		if e.ClusterScoped && e.Mode != "mirror" {
			c.errorf(p.Child("clusterScoped"), "cluster-scoped kinds are imported only in mode: mirror")
		}
		if e.TargetNamespace != "" {
			c.checkTarget(e.TargetNamespace, "local", p.Child("targetNamespace"))
		}
		counterparts := c.counterparts()
		for _, remote := range slices.Sorted(maps.Keys(counterparts)) {
			if locals := counterparts[remote]; len(locals) > 1 {
				c.errorf(p.Child("direction"), "%s share the counterpart %s in namespaces, so where its objects go can't be told: give each its own", strings.Join(locals, " and "), remote)
			}
		}
	}
}

// counterparts returns the local namespaces of each remote one.
func (c *compiler) counterparts() map[string][]string {
	out := map[string][]string{}
	for _, local := range slices.Sorted(maps.Keys(c.file.Namespaces)) {
		out[c.file.Namespaces[local]] = append(out[c.file.Namespaces[local]], local)
	}
	return out
}
