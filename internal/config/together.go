package config

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus.dev/isthmus/internal/boundary"
)

// checkAgainstEachOther refuses rules that can't stand beside each other: of one name, of one kind in two versions, or
// of one selection, which none of them would take (S5).
func (c *compiler) checkAgainstEachOther(rules []*boundary.Rule) {
	names := map[string]int{}
	kinds := map[schema.GroupKind]int{}
	selections := map[string]int{}
	for i, rule := range rules {
		p := entryPath(i)
		if !c.sound(p.Child("kind")) || !c.sound(p.Child("apiVersion")) || rule.Kind.Kind == "" {
			continue
		}
		if other, ok := kinds[rule.Kind.GroupKind()]; !ok {
			kinds[rule.Kind.GroupKind()] = i
		} else if rules[other].Kind.Version != rule.Kind.Version {
			c.errorf(p.Child("apiVersion"), "%s is %s in %s: a kind crosses in one version; use the same in both", rule.Kind.Kind, rules[other].Kind.GroupVersion(), entryPath(other))
			continue
		}
		if c.sound(p) {
			selection := selectionOf(rule)
			if other, ok := selections[selection]; ok {
				c.errorf(p, "%q selects the same objects as %q in %s, so neither would take them: give them different selectors or namespaces, or remove one", rule.Name, rules[other].Name, entryPath(other))
				continue
			}
			selections[selection] = i
		}
		if other, ok := names[rule.Name]; ok {
			c.errorf(p.Child("name"), "%q is also the name of %s: set name to tell them apart", rule.Name, entryPath(other))
		} else if rule.Name != "" {
			names[rule.Name] = i
		}
	}
}

// selectionOf describes what a rule selects: two rules of one selection select the same objects, whatever these are.
func selectionOf(rule *boundary.Rule) string {
	set := func(globs []string) []string { return slices.Compact(slices.Sorted(slices.Values(globs))) }
	return fmt.Sprintf("%s %s %s %q %q", rule.Kind, rule.Direction, rule.Selector, set(rule.Namespaces.Include), set(rule.Namespaces.Exclude))
}
