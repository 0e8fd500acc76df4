package config

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus.dev/isthmus/internal/boundary"
)

// directions says what a file's directions are called in rules.
var directions = map[string]boundary.Direction{"toHost": boundary.ToRemote, "fromHost": boundary.FromRemote}

// modes says what a file's modes are called in rules.
var modes = map[string]boundary.Mode{"sync": boundary.ModeSync, "mirror": boundary.ModeMirror}

// compiler turns a file into a Config, and reports what contradicts or can't be.
type compiler struct {
	*report
	file *File
	// plugin is the virtual cluster whose plugin the file is for, empty for any; nil: it is for no plugin.
	plugin *boundary.VirtualCluster
}

func compile(file *File, r *report, plugin *boundary.VirtualCluster) *Config {
	c := compiler{report: r, file: file, plugin: plugin}
	settings := c.pluginSettings()
	c.checkNaming()
	c.checkNamespacePairs()
	c.checkGlobalFilters()
	c.checkLabels(field.NewPath("globalExtraLabels"), file.GlobalExtraLabels)
	config := &Config{
		Namespaces:       file.Namespaces,
		VirtualCluster:   boundary.VirtualCluster(file.VirtualCluster),
		CreateNamespaces: file.CreateNamespaces,
		MassDeletion:     file.MassDeletion,
		LogLevel:         file.LogLevel,
		Events:           file.EventsEnabled,
		Plugin:           settings,
	}
	for i := range file.SyncResources {
		config.Rules = append(config.Rules, c.rule(i))
	}
	c.checkAgainstEachOther(config.Rules)
	return config
}

// written reports whether a key is there.
func (c *compiler) written(path string) bool { _, ok := c.values[path]; return ok }

// entryPath is the path of a rule in the file.
func entryPath(i int) *field.Path { return field.NewPath("syncResources").Index(i) }

// rule compiles one entry. What could not be read is left zero, and has been reported.
func (c *compiler) rule(i int) *boundary.Rule {
	e, p := &c.file.SyncResources[i], entryPath(i)
	rule := &boundary.Rule{
		Name:          e.Name,
		Kind:          c.kind(e, p),
		Direction:     directions[e.Direction],
		Mode:          modes[e.Mode],
		Policy:        e.Policy,
		Selector:      c.selector(e.Selector, p.Child("selector")),
		ReturnStatus:  e.StatusSync,
		StatusFrom:    c.statusFrom(e, p),
		DropKeys:      e.DropKeys,
		KeepKeys:      e.KeepKeys,
		OnRemoval:     e.OnRemoval,
		OnTwinDeleted: e.OnTwinDeleted,
		SpecOwnership: e.SpecOwnership,

		DeletionPolicy:  e.DeletionPolicy,
		CarryFinalizers: c.carryFinalizers(e, p),

		Workers:       e.Workers,
		Patches:       c.patches(e, p),
		HostNamespace: c.hostNamespace(e, p),

		TargetNamespace:      e.TargetNamespace,
		VirtualControlledBy:  e.VirtualControlledBy,
		ClusterScoped:        e.ClusterScoped,
		IncludeForeignCopies: e.IncludeForeignCopies,
	}
	c.checkDirection(e, p)
	if rule.Direction == boundary.ToRemote && rule.Mode == boundary.ModeMirror {
		rule.Mode, rule.ReturnStatus = boundary.ModeSync, false // M2
	}
	if e.EnforceTenantProject {
		rule.TenantProject = c.tenantProject(rule.Kind, p)
	}
	if rule.Workers == 0 {
		rule.Workers = c.file.MaxConcurrentReconciles
	}
	c.name(e, p, rule)
	c.checkKeys(e, p)
	c.checkLabels(p.Child("extraLabels"), e.ExtraLabels)
	if len(c.file.GlobalExtraLabels)+len(e.ExtraLabels) > 0 {
		rule.ExtraLabels = map[string]string{}
		maps.Copy(rule.ExtraLabels, c.file.GlobalExtraLabels)
		maps.Copy(rule.ExtraLabels, e.ExtraLabels)
	}
	rule.RemoteOwned = c.hostOwned(e, rule.ExtraLabels, p)
	rule.Namespaces = c.namespaces(e, p)
	return rule
}

// kind reads apiVersion and kind.
func (c *compiler) kind(e *SyncResource, p *field.Path) schema.GroupVersionKind {
	var gv schema.GroupVersion
	if e.APIVersion != "" {
		var err error
		gv, err = schema.ParseGroupVersion(e.APIVersion)
		invalid := err != nil || len(validation.IsDNS1035Label(gv.Version)) > 0
		if strings.Contains(e.APIVersion, "/") {
			invalid = invalid || len(validation.IsDNS1123Subdomain(gv.Group)) > 0
		}
		if invalid {
			c.errorf(p.Child("apiVersion"), "%s is no API version: expected version or group/version, like v1 or apps/v1", show(e.APIVersion))
			gv = schema.GroupVersion{}
		}
	}
	if e.Kind != "" && len(validation.IsDNS1035Label(strings.ToLower(e.Kind))) > 0 {
		c.errorf(p.Child("kind"), "%s is no kind: expected a name as in manifests, like ConfigMap", show(e.Kind))
		return gv.WithKind("")
	}
	return gv.WithKind(e.Kind)
}

// name checks the rule's name, or makes one.
func (c *compiler) name(e *SyncResource, p *field.Path, rule *boundary.Rule) {
	if e.Name != "" {
		if len(validation.IsValidLabelValue(e.Name)) > 0 {
			c.errorf(p.Child("name"), "%s is no name: expected at most 63 letters, digits, -, _ and ., with a letter or digit first and last", show(e.Name))
			rule.Name = ""
		}
		return
	}
	if rule.Kind.Kind == "" || e.Direction == "" || !c.sound(p.Child("name")) {
		return
	}
	rule.Name = rule.Kind.Kind + "-" + e.Direction
	if len(rule.Name) > validation.LabelValueMaxLength {
		c.errorf(p.Child("kind"), "the rule's name would be %s, which is longer than 63 characters: set name", rule.Name)
	}
}

// selector compiles the label selector.
func (c *compiler) selector(s Selector, p *field.Path) labels.Selector {
	before := len(c.errs)
	c.checkLabelSyntax(p.Child("matchLabels"), s.MatchLabels)
	selector := metav1.LabelSelector{MatchLabels: s.MatchLabels}
	for i, r := range s.MatchExpressions {
		c.checkRequirement(r, s.MatchLabels, p.Child("matchExpressions").Index(i))
		selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement(r))
	}
	if len(c.errs) > before || !c.sound(p) {
		return labels.Nothing()
	}
	compiled, err := metav1.LabelSelectorAsSelector(&selector)
	if err != nil {
		c.errorf(p, "is no label selector: %v", err)
		return labels.Nothing()
	}
	return compiled
}

// statusFrom reads whose status returns.
func (c *compiler) statusFrom(e *SyncResource, p *field.Path) string {
	at := p.Child("statusFrom")
	if _, written := c.values[at.String()]; !written || !c.sound(at) {
		return ""
	}
	if len(validation.IsDNS1123Label(e.StatusFrom)) > 0 {
		c.errorf(at, "%s is no cluster ID: expected a DNS label, the --remote-id of the remote whose status returns", show(e.StatusFrom))
	} else if !e.StatusSync && c.sound(p.Child("statusSync")) {
		c.errorf(at, "says whose status returns, but none does: set statusSync: true, or remove it")
	}
	return e.StatusFrom
}

// hostOwned reads the paths that belong to the remote side.
func (c *compiler) hostOwned(e *SyncResource, extraLabels map[string]string, p *field.Path) []boundary.Path {
	var paths []boundary.Path
	for i, text := range e.HostOwnedFields {
		at := p.Child("hostOwnedFields").Index(i)
		path, err := boundary.ParsePath(text)
		switch {
		case !c.sound(at):
		case err != nil:
			c.errorf(at, "%v", err)
		case !c.mayBeHostOwned(path, at):
		default:
			paths = append(paths, path)
		}
		if key, ok := labelOf(path); ok {
			if _, set := extraLabels[key]; set {
				c.errorf(at, "contradicts extraLabels or globalExtraLabels, which set this label on every twin: keep one of them")
			}
		}
	}
	return paths
}

// mayBeHostOwned refuses the fields whose owner is fixed.
func (c *compiler) mayBeHostOwned(path boundary.Path, at *field.Path) bool {
	top := path[0].Field
	switch {
	case slices.Contains([]string{"apiVersion", "kind", "status"}, top):
		c.errorf(at, "%s can't be host-owned: its owner is fixed; remove it", top)
	case top == "spec" && len(path) == 1:
		c.errorf(at, "spec can't be host-owned as a whole: name the fields in it, like spec.replicas")
	case top == "metadata":
		if len(path) != 3 || path[2].EachItem || path[1].Field != "labels" && path[1].Field != "annotations" {
			c.errorf(at, `%s can't be host-owned: of metadata only a label or an annotation can, as metadata.labels["key"] or metadata.annotations["key"]`, path)
		} else if prefix, reserved := reservedPrefix(path[2].Field); reserved {
			c.errorf(at, "keys under %s are reserved: remove it", prefix)
		} else {
			return true
		}
	case slices.ContainsFunc(path, func(s boundary.Step) bool { return s.IsIndex }):
		c.errorf(at, "%s can't be host-owned: items of a list have owners by their keys, not by their position; write [*]", path)
	case path[len(path)-1].EachItem:
		c.errorf(at, "%s can't be host-owned: name the list, or a field of its items", path)
	default:
		return true
	}
	return false
}

// labelOf returns the label that a path names.
func labelOf(path boundary.Path) (string, bool) {
	if len(path) == 3 && path[0].Field == "metadata" && path[1].Field == "labels" && !path[2].EachItem {
		return path[2].Field, true
	}
	return "", false
}
