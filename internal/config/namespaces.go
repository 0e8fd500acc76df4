package config

import (
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"isthmus.dev/isthmus/internal/boundary"
)

// systemNamespaces are those of a cluster's own that are never written on the remote side.
const systemNamespaces = "kube-*"

func isSystemNamespace(name string) bool { return strings.HasPrefix(name, "kube-") }

// checkNamespacePairs checks the counterparts of namespaces.
func (c *compiler) checkNamespacePairs() {
	p := field.NewPath("namespaces")
	for local, remote := range c.file.Namespaces {
		at := p.Key(plainKey(local))
		if fault := first(validation.IsDNS1123Label(local)); fault != "" {
			c.keyErrorf(at, "is no namespace name: %s", fault)
		}
		if fault := first(validation.IsDNS1123Label(remote)); fault != "" {
			c.errorf(at, "%s is no namespace name: %s", show(remote), fault)
		} else if isSystemNamespace(remote) {
			c.errorf(at, "%s can't be written to: namespaces that start with kube- belong to the remote cluster; choose another", remote)
		}
	}
}

// checkGlobalFilters checks the filters of all rules, and against each other.
func (c *compiler) checkGlobalFilters() {
	include, exclude := field.NewPath("globalFilters", "include"), field.NewPath("globalFilters", "exclude")
	for i, f := range c.file.GlobalFilters.Include {
		c.checkGlobalFilter(f, include.Index(i))
	}
	for i, f := range c.file.GlobalFilters.Exclude {
		at := exclude.Index(i)
		c.checkGlobalFilter(f, at)
		for j, other := range c.file.GlobalFilters.Include {
			if f.Namespace == other.Namespace && f.Namespace != "*" && overlap(f.Resources, other.Resources) {
				c.errorf(at.Child("namespace"), "%s is also included by %s: remove one of them", f.Namespace, include.Index(j))
			}
		}
	}
}

// overlap reports whether two lists of kinds, where an empty one means all, have one in common.
func overlap(a, b []string) bool {
	return len(a) == 0 || len(b) == 0 || slices.ContainsFunc(a, func(kind string) bool { return slices.Contains(b, kind) })
}

func (c *compiler) checkGlobalFilter(f GlobalFilter, p *field.Path) {
	if _, written := c.values[p.Child("namespace").String()]; !written && f.Resources == nil && c.sound(p) {
		c.errorf(p, "is empty: expected namespace, resources, or both")
	}
	c.checkGlob(f.Namespace, p.Child("namespace"))
	for i, resource := range f.Resources {
		c.checkResource(resource, p.Child("resources").Index(i))
	}
}

// checkResource checks a kind that a global filter names. A kind that no rule has is no fault, as files share their
// filters; one that is written as the name of a resource, or in another version, would silently have no effect.
func (c *compiler) checkResource(resource string, p *field.Path) {
	if !c.sound(p) {
		return
	}
	apiVersion, kind := splitResource(resource)
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil || len(validation.IsDNS1035Label(strings.ToLower(kind))) > 0 {
		c.errorf(p, "%s is no kind: expected Kind or group/version/Kind, like Secret or apps/v1/Deployment", show(resource))
		return
	}
	for _, e := range c.file.SyncResources {
		plural, singular := meta.UnsafeGuessKindToResource(gv.WithKind(e.Kind))
		known, _ := schema.ParseGroupVersion(e.APIVersion)
		switch {
		case kind != e.Kind && slices.Contains([]string{plural.Resource, singular.Resource}, strings.ToLower(kind)):
			c.errorf(p, "unknown kind %s, did you mean %q?", show(kind), e.Kind)
			return
		case kind == e.Kind && apiVersion != "" && apiVersion != e.APIVersion && gv.Group == known.Group:
			c.errorf(p, "%s has version %s in syncResources: write %s/%s, or %s for all versions", kind, e.APIVersion, e.APIVersion, kind, kind)
			return
		}
	}
}

// splitResource splits Kind or group/version/Kind.
func splitResource(resource string) (apiVersion, kind string) {
	i := strings.LastIndexByte(resource, '/')
	if i < 0 {
		return "", resource
	}
	return resource[:i], resource[i+1:]
}

// globs returns the namespaces of the global filters that name the kind of an entry.
func globs(filters []GlobalFilter, e *SyncResource) []string {
	var globs []string
	for _, f := range filters {
		named := slices.ContainsFunc(f.Resources, func(resource string) bool {
			apiVersion, kind := splitResource(resource)
			return kind == e.Kind && (apiVersion == "" || apiVersion == e.APIVersion)
		})
		if (named || len(f.Resources) == 0) && !slices.Contains(globs, f.Namespace) {
			globs = append(globs, f.Namespace)
		}
	}
	return globs
}

// namespaces compiles the filter of a rule: excluded by the global filter or by the rule, then included by the rule or
// else by the global filter.
func (c *compiler) namespaces(e *SyncResource, p *field.Path) boundary.NamespaceFilter {
	match, exclude := p.Child("selector", "matchNamespaces"), p.Child("selector", "excludeNamespaces")
	before := len(c.errs)
	for i, glob := range e.Selector.MatchNamespaces {
		c.checkGlob(glob, match.Index(i))
		if slices.Contains(e.Selector.ExcludeNamespaces, glob) {
			c.errorf(match.Index(i), "%s is also in excludeNamespaces: remove it from one of them", show(glob))
		} else if slices.Contains(globs(c.file.GlobalFilters.Exclude, e), glob) {
			c.errorf(match.Index(i), "%s is excluded by globalFilters.exclude: remove it from one of them", show(glob))
		} else if c.keepsNamespaces() && isSystemNamespace(glob) {
			c.errorf(match.Index(i), "namespaces that start with kube- belong to the remote cluster: give %s another counterpart in namespaces", glob)
		}
	}
	for i, glob := range e.Selector.ExcludeNamespaces {
		c.checkGlob(glob, exclude.Index(i))
	}
	filter := boundary.NamespaceFilter{
		Include: slices.Clone(e.Selector.MatchNamespaces),
		Exclude: slices.Concat(globs(c.file.GlobalFilters.Exclude, e), e.Selector.ExcludeNamespaces),
	}
	if len(filter.Include) == 0 {
		filter.Include = globs(c.file.GlobalFilters.Include, e)
		if len(filter.Include) == 0 && len(c.file.GlobalFilters.Include) > 0 && e.Kind != "" {
			c.errorf(p, "globalFilters.include does not name %s, so nothing would cross: name it there, or set selector.matchNamespaces", e.Kind)
		}
	}
	if c.keepsNamespaces() {
		filter.Exclude = append(filter.Exclude, systemNamespaces)
	}
	if len(c.errs) == before && c.sound(p) {
		c.checkSomeLeft(e, filter, p)
	}
	return filter
}

// keepsNamespaces reports whether namespaces keep their names.
func (c *compiler) keepsNamespaces() bool { return c.file.Namespaces == nil && !c.virtual() }

// checkSomeLeft refuses a rule that no namespace could satisfy.
func (c *compiler) checkSomeLeft(e *SyncResource, filter boundary.NamespaceFilter, p *field.Path) {
	if literal, ok := filter.Literal(); ok && len(literal) == 0 || slices.Contains(filter.Exclude, "*") {
		c.errorf(p, "the filters exclude every namespace that they include, so nothing would cross: include more, or exclude less")
		return
	}
	imports := e.Direction == "fromHost"
	if host := c.file.VirtualCluster.HostNamespace; imports && c.virtual() && host != "" && !filter.Admits(host) {
		c.errorf(p, "the filters do not admit %s, the only namespace that imports come from: remove them", host)
		return
	}
	if c.file.Namespaces == nil || !c.sound(field.NewPath("namespaces")) {
		return
	}
	for local, remote := range c.file.Namespaces {
		if imports && filter.Admits(remote) || !imports && filter.Admits(local) {
			return
		}
	}
	c.errorf(p, "none of the namespaces that the filters admit is in namespaces, so nothing would cross: add it there, or admit one that is")
}

// checkGlob checks a namespace or a glob of namespaces.
func (c *compiler) checkGlob(glob string, p *field.Path) {
	if !c.sound(p) {
		return
	}
	_, err := path.Match(glob, "")
	wrong := strings.IndexFunc(glob, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune(`-*?[]^\`, r))
	})
	switch {
	case glob == "":
		c.errorf(p, "is empty: expected a namespace, or a glob like team-*")
	case wrong >= 0:
		c.errorf(p, "%s can match no namespace, for %q occurs in no namespace's name: expected a namespace, or a glob of lower-case letters, digits, -, *, ? and [a-z]", show(glob), []rune(glob[wrong:])[0])
	case err != nil:
		c.errorf(p, "%s is no glob: close the [ and give it something to match, as in team-[a-z]", show(glob))
	case !strings.ContainsAny(glob, `*?[\`) && len(validation.IsDNS1123Label(glob)) > 0:
		c.errorf(p, "%s is no namespace name: %s", show(glob), first(validation.IsDNS1123Label(glob)))
	}
}
