//go:build unix

package e2e

import (
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"isthmus.dev/isthmus/test/harness"
)

// verbsOn returns the verbs that printed roles allow on a resource, by the namespace of the role; "" stands for all.
func verbsOn(t *testing.T, roles, group, resource string) map[string][]string {
	t.Helper()
	verbs := map[string][]string{}
	for _, document := range strings.Split(roles, "---\n") {
		var role struct {
			Kind     string
			Metadata struct{ Namespace string }
			Rules    []struct{ APIGroups, Resources, Verbs []string }
		}
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			if slices.Contains(rule.APIGroups, "*") || slices.Contains(rule.Resources, "*") {
				t.Errorf("a wildcard: %s", document)
			}
			if slices.Contains(rule.APIGroups, group) && slices.Contains(rule.Resources, resource) {
				verbs[role.Metadata.Namespace] = append(verbs[role.Metadata.Namespace], rule.Verbs...)
			}
		}
	}
	return verbs
}

// readOnly checks that printed roles let a resource be read in one namespace ("": all) and nothing else.
func readOnly(t *testing.T, roles, group, resource, namespace string) {
	t.Helper()
	have := verbsOn(t, roles, group, resource)
	if len(have) != 1 || !slices.Equal(have[namespace], []string{"get", "list", "watch"}) {
		t.Errorf("rights on %s are %v, expected those to read in %q alone:\n%s", resource, have, namespace, roles)
	}
}

func TestS1_ImportsNeedOnlyToReadTheHost(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	path := e.WriteConfig(imports("host-ns", secretsIn+", targetNamespace: t", "apiVersion: example.io/v1, kind: Widget, direction: fromHost, mode: mirror, targetNamespace: t"))
	remote := e.RBAC(path, "remote")
	readOnly(t, remote, "", "secrets", "host-ns")
	readOnly(t, remote, "example.io", "widgets", "host-ns")
	if have := verbsOn(t, remote, "example.io", "widgets/status"); len(have) > 0 {
		t.Errorf("rights on a source's status: %v", have)
	}
	if have := verbsOn(t, remote, "", "namespaces"); !slices.Equal(have[""], []string{"get"}) {
		t.Errorf("rights on namespaces: %v", have)
	}
	if have := verbsOn(t, e.RBAC(path, "local"), "example.io", "widgets/status"); !slices.Equal(have[""], []string{"patch"}) {
		t.Errorf("rights on a mirror's status: %v", have)
	}
}
