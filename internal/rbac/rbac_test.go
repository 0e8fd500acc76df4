package rbac

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/config"
)

// optionsOf are those that the command line makes of a file.
func optionsOf(c *config.Config, side Side) Options {
	return Options{
		Rules: c.Rules, Naming: func(d boundary.Direction) boundary.Naming { return c.Naming(d, "") }, CreateNamespaces: c.CreateNamespaces, Events: c.Events,
		Side: side, Instance: "default", Namespace: "isthmus-system",
		Subject: Subject{Namespace: "isthmus-system", ServiceAccount: "isthmus"},
	}
}

// TestGolden compares whole outputs with testdata; UPDATE_GOLDEN=1 writes them.
func TestGolden(t *testing.T) {
	for _, example := range []string{"widgets", "dashboards", "secrets"} {
		for _, side := range []Side{Local, Remote} {
			name := example + "-" + string(side) + ".yaml"
			t.Run(name, func(t *testing.T) {
				c, err := config.Load("../../examples/" + example + ".yaml")
				if err != nil {
					t.Fatal(err)
				}
				objects, err := Generate(optionsOf(c, side))
				if err != nil {
					t.Fatal(err)
				}
				var got bytes.Buffer
				if err := Print(&got, []string{"Golden."}, objects); err != nil {
					t.Fatal(err)
				}
				golden := filepath.Join("testdata", name)
				if os.Getenv("UPDATE_GOLDEN") != "" {
					if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(golden)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(string(want), got.String()); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			})
		}
	}
}

var (
	widgets    = schema.GroupVersionKind{Group: "example.io", Version: "v1", Kind: "Widget"}
	gateways   = schema.GroupVersionKind{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "Gateway"}
	ingresses  = schema.GroupVersionKind{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"}
	configMaps = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
)

// TestGrants says, for one rule, all that is allowed beside what any Isthmus needs.
func TestGrants(t *testing.T) {
	everywhere := boundary.NamespaceFilter{}
	two := boundary.NamespaceFilter{Include: []string{"b", "a"}}
	tests := []struct {
		name    string
		rule    boundary.Rule
		options Options
		want    []string
	}{
		{"local everywhere", boundary.Rule{Kind: configMaps, Namespaces: everywhere}, Options{Side: Local}, []string{
			"/configmaps: get,list,watch",
		}},
		{"local with status and Events", boundary.Rule{Kind: ingresses, ReturnStatus: true}, Options{Side: Local, Events: true}, []string{
			"/events: create,patch",
			"/ingresses.networking.k8s.io: get,list,watch",
			"/ingresses.networking.k8s.io/status: patch",
		}},
		{"local in two namespaces", boundary.Rule{Kind: widgets, Namespaces: two}, Options{Side: Local}, []string{
			"/customresourcedefinitions.apiextensions.k8s.io[widgets.example.io]: get,list,watch",
			"a/widgets.example.io: get,list,watch",
			"b/widgets.example.io: get,list,watch",
		}},
		{"local sources that are held", boundary.Rule{Kind: configMaps, Namespaces: two, DeletionPolicy: boundary.DeletionForeground}, Options{Side: Local}, []string{
			"/configmaps: get,list,watch,patch",
		}},
		{"local sources with finalizers that twins carry", boundary.Rule{Kind: configMaps, CarryFinalizers: []string{"a/b"}}, Options{Side: Local}, []string{
			"/configmaps: get,list,watch,patch",
		}},
		{"remote twins of what is held", boundary.Rule{Kind: configMaps, Namespaces: two, DeletionPolicy: boundary.DeletionForeground}, Options{Side: Remote}, []string{
			"/namespaces[a]: get,list,watch",
			"/namespaces[b]: get,list,watch",
			"a/configmaps: get,list,watch,create,patch,delete",
			"b/configmaps: get,list,watch,create,patch,delete",
		}},
		{"a custom group under k8s.io", boundary.Rule{Kind: gateways, Namespaces: boundary.NamespaceFilter{Include: []string{"a"}}}, Options{Side: Local}, []string{
			"/customresourcedefinitions.apiextensions.k8s.io[gateways.gateway.networking.k8s.io]: get,list,watch",
			"a/gateways.gateway.networking.k8s.io: get,list,watch",
		}},
		{"remote everywhere", boundary.Rule{Kind: configMaps}, Options{Side: Remote, Events: true}, []string{
			"/configmaps: get,list,watch,create,patch,delete",
			"/namespaces: get,list,watch",
		}},
		{"remote creates namespaces", boundary.Rule{Kind: configMaps}, Options{Side: Remote, CreateNamespaces: true}, []string{
			"/configmaps: get,list,watch,create,patch,delete",
			"/namespaces: get,list,watch,create,patch",
		}},
		{"remote creates namespaces that are listed", boundary.Rule{Kind: configMaps, ReturnStatus: true, Namespaces: boundary.NamespaceFilter{Include: []string{"a*"}}},
			Options{Side: Remote, CreateNamespaces: true, Naming: inAnyDirection(boundary.SameName{Pairs: boundary.NamespacePairs{"a1": "x", "a2": "x", "a3": "y", "b": "z"}})}, []string{
				"/configmaps: get,list,watch,create,patch,delete",
				"/namespaces[x]: get,list,watch,create,patch",
				"/namespaces[y]: get,list,watch,create,patch",
			}},
		{"remote in the counterparts that the filter admits", boundary.Rule{Kind: configMaps, Namespaces: boundary.NamespaceFilter{Include: []string{"a*"}}},
			Options{Side: Remote, Naming: inAnyDirection(boundary.SameName{Pairs: boundary.NamespacePairs{"a1": "x", "a2": "x", "a3": "y", "b": "z"}})}, []string{
				"/namespaces[x]: get,list,watch",
				"/namespaces[y]: get,list,watch",
				"x/configmaps: get,list,watch,create,patch,delete",
				"y/configmaps: get,list,watch,create,patch,delete",
			}},
		{"remote in namespaces of the same name", boundary.Rule{Kind: configMaps, Namespaces: two}, Options{Side: Remote}, []string{
			"/namespaces[a]: get,list,watch",
			"/namespaces[b]: get,list,watch",
			"a/configmaps: get,list,watch,create,patch,delete",
			"b/configmaps: get,list,watch,create,patch,delete",
		}},
		{"remote, no counterpart at all", boundary.Rule{Kind: configMaps, Namespaces: two}, Options{Side: Remote, Naming: inAnyDirection(boundary.SameName{Pairs: boundary.NamespacePairs{"c": "d"}})}, nil},
		{"a cluster-scoped kind", boundary.Rule{Kind: configMaps, Namespaces: two}, Options{Side: Remote, Resources: func(schema.GroupVersionKind) (Resource, error) {
			return Resource{Name: "configmaps", ClusterScoped: true}, nil
		}}, []string{
			"/configmaps: get,list,watch,create,patch,delete",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := tt.options
			base := allowed(t, o)
			o.Rules = []*boundary.Rule{&tt.rule}
			var got []string
			for _, line := range lines(allowed(t, o)) {
				if !slices.Contains(lines(base), line) {
					got = append(got, line)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// S1: without rules, no rule for any kind.
func TestS1_NoRulesNoGrants(t *testing.T) {
	want := map[Side][]string{
		Local:  {"/namespaces[kube-system]: get", "ours/configmaps[isthmus-one]: get,create,patch,update"},
		Remote: {"/namespaces[kube-system]: get"},
	}
	for side, lists := range want {
		got := lines(allowed(t, Options{Side: side, Instance: "one", Namespace: "ours", Events: true, CreateNamespaces: true}))
		if diff := cmp.Diff(lists, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", side, diff)
		}
	}
}

func TestNamesAndSubjects(t *testing.T) {
	objects, err := Generate(Options{Side: Remote, Instance: "one", Name: "mine", Subject: Subject{User: "bob"}})
	if err != nil {
		t.Fatal(err)
	}
	binding := objects[1].(*rbacv1.ClusterRoleBinding)
	want := []rbacv1.Subject{{Kind: "User", APIGroup: "rbac.authorization.k8s.io", Name: "bob"}}
	if diff := cmp.Diff(want, binding.Subjects); diff != "" {
		t.Error(diff)
	}
	if binding.Name != "mine" || binding.RoleRef.Name != "mine" || objects[0].(*rbacv1.ClusterRole).Name != "mine" {
		t.Errorf("names: %+v", binding)
	}
	if _, err := Generate(Options{Side: "up"}); err == nil {
		t.Error("no error for an unknown side")
	}
}

// cluster is a Discovery.
type cluster map[string]*metav1.APIResourceList

func (c cluster) ServerResourcesForGroupVersion(gv string) (*metav1.APIResourceList, error) {
	if gv == "down.io/v1" {
		return nil, errors.New("no route")
	}
	if list, ok := c[gv]; ok {
		return list, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{}, gv)
}

func TestDiscover(t *testing.T) {
	find := Discover(cluster{"example.io/v1": {APIResources: []metav1.APIResource{
		{Name: "oxen/status", Kind: "Ox", Namespaced: true}, {Name: "oxen", Kind: "Ox", Namespaced: true}, {Name: "herds", Kind: "Herd"},
	}}})
	tests := []struct {
		group, kind string
		want        Resource
	}{
		{"example.io", "Ox", Resource{Name: "oxen"}},
		{"example.io", "Herd", Resource{Name: "herds", ClusterScoped: true}},
		{"example.io", "Policy", Resource{Name: "policies", Guessed: true}},
		{"example.org", "Gateway", Resource{Name: "gateways", Guessed: true}},
		{"example.org", "Class", Resource{Name: "classes", Guessed: true}},
	}
	for _, tt := range tests {
		got, err := find(schema.GroupVersionKind{Group: tt.group, Version: "v1", Kind: tt.kind})
		if err != nil || got != tt.want {
			t.Errorf("%s: got %+v, %v", tt.kind, got, err)
		}
	}
	if _, err := find(schema.GroupVersionKind{Group: "down.io", Version: "v1", Kind: "A"}); err == nil {
		t.Error("no error from a cluster that does not answer")
	}
}

// inAnyDirection is a naming for both directions.
func inAnyDirection(n boundary.Naming) func(boundary.Direction) boundary.Naming {
	return func(boundary.Direction) boundary.Naming { return n }
}
