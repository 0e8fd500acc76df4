package rbac

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"isthmus.dev/isthmus/internal/boundary"
)

// fataler is a test, or a check of a property.
type fataler interface{ Fatal(args ...any) }

// allowed reads back what the generated objects allow.
func allowed(t fataler, o Options) grantSet {
	objects, err := Generate(o)
	if err != nil {
		t.Fatal(err)
	}
	return granted(t, objects)
}

// granted reads back what objects allow.
func granted(t fataler, objects []runtime.Object) grantSet {
	set := grantSet{}
	read := func(namespace string, rules []rbacv1.PolicyRule) {
		for _, rule := range rules {
			names := rule.ResourceNames
			if len(names) == 0 {
				names = []string{""}
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						for _, name := range names {
							set[grant{namespace, group, resource, name, verb}] = true
						}
					}
				}
			}
		}
	}
	for _, object := range objects {
		switch o := object.(type) {
		case *rbacv1.ClusterRole:
			read("", o.Rules)
		case *rbacv1.Role:
			if o.Namespace == "" {
				t.Fatal("a Role without a namespace")
			}
			read(o.Namespace, o.Rules)
		}
	}
	return set
}

// lines writes grants as namespace/resource.group[name]: verbs.
func lines(set grantSet) []string {
	verbs := map[string][]string{}
	for g := range set {
		resource, sub, _ := strings.Cut(g.resource, "/")
		line := g.namespace + "/" + resource
		if g.group != "" {
			line += "." + g.group
		}
		if sub != "" {
			line += "/" + sub
		}
		if g.name != "" {
			line += "[" + g.name + "]"
		}
		verbs[line] = append(verbs[line], g.verb)
	}
	var out []string
	for _, line := range slices.Sorted(maps.Keys(verbs)) {
		out = append(out, line+": "+strings.Join(inOrder(verbs[line]), ","))
	}
	return out
}

// allows reports whether a set allows something, by itself or by something wider.
func (s grantSet) allows(g grant) bool { return s[g] || s.covered(g) }

func drawRule(t *rapid.T, label string) *boundary.Rule {
	group := rapid.SampledFrom([]string{"", "apps", "example.io", "networking.k8s.io", "gateway.networking.k8s.io"}).Draw(t, label+" group")
	kind := rapid.SampledFrom([]string{"A", "B", "Policy"}).Draw(t, label+" kind")
	namespaces := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"n1", "n2", "n3", "n*", "isthmus-system"}), rapid.ID)
	return &boundary.Rule{
		Name:           label,
		Kind:           schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind},
		ReturnStatus:   rapid.Bool().Draw(t, label+" status"),
		DeletionPolicy: rapid.SampledFrom([]boundary.DeletionPolicy{"", boundary.DeletionForeground}).Draw(t, label+" deletion"),
		Namespaces: boundary.NamespaceFilter{
			Include: namespaces.Draw(t, label+" include"),
			Exclude: namespaces.Draw(t, label+" exclude"),
		},
	}
}

func drawOptions(t *rapid.T) Options {
	o := Options{
		CreateNamespaces: rapid.Bool().Draw(t, "create"),
		Events:           rapid.Bool().Draw(t, "events"),
		Side:             rapid.SampledFrom([]Side{Local, Remote}).Draw(t, "side"),
		Instance:         "default",
		Namespace:        "isthmus-system",
	}
	if rapid.Bool().Draw(t, "pairs") {
		o.Naming = inAnyDirection(boundary.SameName{Pairs: boundary.NamespacePairs{"n1": "r1", "n2": "r1", "n3": "r3"}})
	}
	for i := range rapid.IntRange(0, 4).Draw(t, "rules") {
		o.Rules = append(o.Rules, drawRule(t, fmt.Sprint("rule", i)))
	}
	return o
}

// What several rules are allowed is what each of them is allowed alone, together: adding one takes nothing from the
// others, and removing one removes no more and no less than its own.
func TestGrantsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := drawOptions(t)
		together := allowed(t, o)
		alone := o
		alone.Rules = nil
		union := allowed(t, alone)
		for _, rule := range o.Rules {
			alone.Rules = []*boundary.Rule{rule}
			maps.Copy(union, allowed(t, alone))
		}
		for g := range union {
			if !together.allows(g) {
				t.Errorf("lost: %+v", g)
			}
		}
		for g := range together {
			if !union.allows(g) {
				t.Errorf("nobody asked for %+v", g)
			}
			if together.covered(g) {
				t.Errorf("superfluous: %+v", g)
			}
		}
		backwards := o
		backwards.Rules = slices.Clone(o.Rules)
		slices.Reverse(backwards.Rules)
		if a, b := fmt.Sprint(lines(together)), fmt.Sprint(lines(allowed(t, backwards))); a != b {
			t.Errorf("depends on the order of the rules:\n%s\n%s", a, b)
		}
	})
}

// Nothing is ever granted beyond the kinds, namespaces and verbs of the rules.
func TestNothingBeyondTheRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := drawOptions(t)
		kinds, holds := map[[2]string]bool{}, map[[2]string]bool{}
		for _, rule := range o.Rules {
			resource := Guess(rule.Kind).Name
			kinds[[2]string{rule.Kind.Group, resource}] = true
			holds[[2]string{rule.Kind.Group, resource}] = holds[[2]string{rule.Kind.Group, resource}] || rule.MayHold()
			kinds[[2]string{rule.Kind.Group, resource + "/status"}] = o.Side == Local
		}
		for g := range allowed(t, o) {
			if strings.ContainsAny(g.group+g.resource+g.verb+g.name, "*") || !slices.Contains(verbOrder, g.verb) {
				t.Errorf("wildcard or unknown verb: %+v", g)
			}
			own := kinds[[2]string{g.group, g.resource}]
			switch {
			case own && o.Side == Local && !strings.HasSuffix(g.resource, "/status"):
				if !slices.Contains(watch, g.verb) && !(g.verb == "patch" && holds[[2]string{g.group, g.resource}]) {
					t.Errorf("sources that are not held are read only: %+v", g)
				}
			case own && o.Side == Local && g.verb != "patch":
				t.Errorf("a status is patched only: %+v", g)
			case own, g.resource == "namespaces" && (o.Side == Remote || g.name == "kube-system"):
			case g.resource == "events" && o.Side == Local && o.Events && slices.Contains(create, g.verb):
			case g.resource == "customresourcedefinitions" && g.name != "" && slices.Contains(watch, g.verb):
			case g.resource == "configmaps" && g.name == "isthmus-default" && g.namespace == "isthmus-system" && o.Side == Local:
			default:
				t.Errorf("not for any rule: %+v", g)
			}
		}
	})
}
