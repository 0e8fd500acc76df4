//go:build unix

package tenancy

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"isthmus.dev/isthmus/api/v1alpha1"
)

// What the API server itself refuses, and what it takes.
func TestAdmission(t *testing.T) {
	p := on(t, newProvider(t).c)
	consumer := func(how func(*v1alpha1.Consumer)) client.Object {
		c := &v1alpha1.Consumer{ObjectMeta: metav1.ObjectMeta{Name: name(t, "c")}, Spec: v1alpha1.ConsumerSpec{
			Subject: v1alpha1.Subject{Kind: "User", Name: "x"}, Resources: []v1alpha1.AllowedResources{resources("example.io", "widgets")},
			Namespaces: v1alpha1.AllowedNamespaces{Patterns: []string{"a-*"}},
		}}
		how(c)
		return c
	}
	request := func(how func(*v1alpha1.NamespaceRequest)) client.Object {
		r := newRequest("admission", "a", "source", asks("example.io", "widgets"))
		r.Namespace = "default"
		how(r)
		return r
	}
	tests := []struct {
		name    string
		object  client.Object
		refused string // empty: it is taken
	}{
		{"a consumer", consumer(func(*v1alpha1.Consumer) {}), ""},
		{"a consumer of the longest name", consumer(func(c *v1alpha1.Consumer) { c.Name = strings.Repeat("a", 45) }), ""},
		{"a name that is too long", consumer(func(c *v1alpha1.Consumer) { c.Name = strings.Repeat("a", 46) }), "cluster ID"},
		{"a name with dots", consumer(func(c *v1alpha1.Consumer) { c.Name = "a.b" }), "cluster ID"},
		{"a subject of another kind", consumer(func(c *v1alpha1.Consumer) { c.Spec.Subject.Kind = "Node" }), "spec.subject.kind"},
		{"a subject without a name", consumer(func(c *v1alpha1.Consumer) { c.Spec.Subject.Name = "" }), "spec.subject.name"},
		{"a user with a namespace", consumer(func(c *v1alpha1.Consumer) { c.Spec.Subject.Namespace = "x" }), "ServiceAccount"},
		{"a service account without one", consumer(func(c *v1alpha1.Consumer) { c.Spec.Subject.Kind = "ServiceAccount" }), "ServiceAccount"},
		{"a service account", consumer(func(c *v1alpha1.Consumer) {
			c.Spec.Subject = v1alpha1.Subject{Kind: "ServiceAccount", Name: "x", Namespace: "y"}
		}), ""},
		{"a group", consumer(func(c *v1alpha1.Consumer) { c.Spec.Subject.Kind = "Group" }), ""},
		{"no resources", consumer(func(c *v1alpha1.Consumer) { c.Spec.Resources = nil }), "spec.resources"},
		{"an empty entry", consumer(func(c *v1alpha1.Consumer) { c.Spec.Resources[0].Resources = []string{} }), "spec.resources[0].resources"},
		{"all of a group", consumer(func(c *v1alpha1.Consumer) { c.Spec.Resources[0].Resources = []string{"*"} }), ""},
		{"part of a wildcard", consumer(func(c *v1alpha1.Consumer) { c.Spec.Resources[0].Resources = []string{"wid*"} }), "spec.resources[0].resources[0]"},
		{"a subresource", consumer(func(c *v1alpha1.Consumer) { c.Spec.Resources[0].Resources = []string{"pods/exec"} }), "spec.resources[0].resources[0]"},
		{"a kind in upper case", consumer(func(c *v1alpha1.Consumer) { c.Spec.Resources[0].Resources = []string{"Widget"} }), "spec.resources[0].resources[0]"},
		{"all groups", consumer(func(c *v1alpha1.Consumer) { c.Spec.Resources[0].Group = "*" }), "spec.resources[0].group"},
		{"another access", consumer(func(c *v1alpha1.Consumer) { c.Spec.Resources[0].Access = "Admin" }), "spec.resources[0].access"},
		{"no patterns", consumer(func(c *v1alpha1.Consumer) { c.Spec.Namespaces.Patterns = []string{} }), "spec.namespaces.patterns"},
		{"a pattern that is none", consumer(func(c *v1alpha1.Consumer) { c.Spec.Namespaces.Patterns = []string{"[a-z]"} }), "spec.namespaces.patterns[0]"},
		{"a negative number", consumer(func(c *v1alpha1.Consumer) { c.Spec.Namespaces.Max = -1 }), "spec.namespaces.max"},

		{"a request", request(func(*v1alpha1.NamespaceRequest) {}), ""},
		{"a request for nothing yet", request(func(r *v1alpha1.NamespaceRequest) { r.Spec.Resources = nil }), ""},
		{"a name with dots", request(func(r *v1alpha1.NamespaceRequest) { r.Name = "a.b" }), "the name is that of the namespace"},
		{"a name that is too long", request(func(r *v1alpha1.NamespaceRequest) { r.Name = strings.Repeat("a", 64) }), "the name is that of the namespace"},
		{"a wildcard", request(func(r *v1alpha1.NamespaceRequest) { r.Spec.Resources[0].Resource = "*" }), "spec.resources[0].resource"},
		{"a subresource", request(func(r *v1alpha1.NamespaceRequest) { r.Spec.Resources[0].Resource = "widgets/status" }), "spec.resources[0].resource"},
		{"another access", request(func(r *v1alpha1.NamespaceRequest) { r.Spec.Resources[0].Access = "All" }), "spec.resources[0].access"},
		{"no source", request(func(r *v1alpha1.NamespaceRequest) { r.Spec.Source.Name = "" }), "spec.source.name"},
		{"no cluster", request(func(r *v1alpha1.NamespaceRequest) { r.Spec.Source.ClusterUID = "" }), "spec.source.clusterUID"},
		{"a cluster that would break the stamp", request(func(r *v1alpha1.NamespaceRequest) { r.Spec.Source.ClusterUID = "x/controller/y" }), "spec.source.clusterUID"},
		{"an instance that would", request(func(r *v1alpha1.NamespaceRequest) { r.Spec.Source.Instance = "a/b" }), "spec.source.instance"},
	}
	for _, tt := range tests {
		t.Run(tt.object.GetObjectKind().GroupVersionKind().Kind+tt.name, func(t *testing.T) {
			err := p.Create(t.Context(), tt.object, client.DryRunAll)
			switch {
			case tt.refused == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.refused != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tt.refused)):
				t.Errorf("expected to be refused for %s, got %v", tt.refused, err)
			}
		})
	}

	// What can't be changed.
	made := request(func(r *v1alpha1.NamespaceRequest) { r.Name = name(t, "r"); r.Spec.Source.Instance = "" }).(*v1alpha1.NamespaceRequest)
	p.create(made)
	if made.Spec.Source.Instance != "controller" {
		t.Errorf("default instance: %q", made.Spec.Source.Instance)
	}
	for _, how := range []func(*v1alpha1.SourceNamespace){
		func(s *v1alpha1.SourceNamespace) { s.Name = "other" },
		func(s *v1alpha1.SourceNamespace) { s.ClusterUID = "other" },
		func(s *v1alpha1.SourceNamespace) { s.Instance = "other" },
	} {
		changed := made.DeepCopy()
		how(&changed.Spec.Source)
		if err := p.Update(t.Context(), changed); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "immutable") {
			t.Errorf("source changed: %v", err)
		}
	}
}

var hereDocument = regexp.MustCompile(`(?s)<<'EOF'\n(.*?)EOF\n`)

// The objects in the documentation are taken.
func TestDocumentedObjects(t *testing.T) {
	p := newProvider(t)
	page, err := os.ReadFile("../../docs/provider.md")
	if err != nil {
		t.Fatal(err)
	}
	found := hereDocument.FindAllSubmatch(page, -1)
	if len(found) == 0 {
		t.Fatal("no objects in the documentation")
	}
	for _, document := range found {
		if err := p.c.Apply(t.Context(), document[1]); err != nil {
			t.Error(err)
		}
	}
	p.eventually(func() error {
		if ready := p.consumerReady("west"); ready == nil || ready.Status != metav1.ConditionTrue {
			return fmt.Errorf("%+v", ready)
		}
		return nil
	})
}
