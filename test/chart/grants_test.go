package chart

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// objectsIn are the objects of manifests.
func objectsIn(t testing.TB, manifests string) (all []*unstructured.Unstructured) {
	t.Helper()
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewBufferString(manifests), 4096)
	for {
		var u unstructured.Unstructured
		err := decoder.Decode(&u.Object)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%v:\n%s", err, manifests)
		}
		if len(u.Object) > 0 {
			all = append(all, &u)
		}
	}
}

// grant is one verb on one resource, in one place.
type grant struct{ namespace, group, resource, name, verb string }

// grantsOf returns what roles allow, without what a wider grant allows as well.
func grantsOf(t testing.TB, roles []*unstructured.Unstructured) []grant {
	t.Helper()
	set := map[grant]bool{}
	for _, u := range roles {
		if u.GetKind() != "Role" && u.GetKind() != "ClusterRole" {
			continue
		}
		var role rbacv1.Role // which has the fields of a ClusterRole that matter here
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &role); err != nil {
			t.Fatal(err)
		}
		for _, r := range role.Rules {
			names := r.ResourceNames
			if len(names) == 0 {
				names = []string{""}
			}
			for _, group := range r.APIGroups {
				for _, resource := range r.Resources {
					for _, name := range names {
						for _, verb := range r.Verbs {
							set[grant{u.GetNamespace(), group, resource, name, verb}] = true
						}
					}
				}
			}
		}
	}
	var out []grant
	for g := range set {
		wider := []grant{{"", g.group, g.resource, "", g.verb}, {"", g.group, g.resource, g.name, g.verb}, {g.namespace, g.group, g.resource, "", g.verb}}
		if !slices.ContainsFunc(wider, func(w grant) bool { return w != g && set[w] }) {
			out = append(out, g)
		}
	}
	slices.SortFunc(out, func(a, b grant) int {
		return slices.Compare([]string{a.namespace, a.group, a.resource, a.name, a.verb}, []string{b.namespace, b.group, b.resource, b.name, b.verb})
	})
	return out
}

// ofTheController are the roles in manifests that hooks do not have.
func ofTheController(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(objects), func(u *unstructured.Unstructured) bool {
		return u.GetAnnotations()["helm.sh/hook"] != ""
	})
}

// ofKind are the objects of a kind.
func ofKind(objects []*unstructured.Unstructured, kind string) (found []*unstructured.Unstructured) {
	for _, u := range objects {
		if u.GetKind() == kind {
			found = append(found, u)
		}
	}
	return found
}

// unstructuredOf are generated objects.
func unstructuredOf(t testing.TB, objects []runtime.Object) (all []*unstructured.Unstructured) {
	t.Helper()
	for _, o := range objects {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, &unstructured.Unstructured{Object: fields})
	}
	return all
}

func indent(text, by string) string {
	return by + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n"+by)
}
