package cli

import (
	"strings"
	"testing"
)

const someInstallations = `
apiVersion: isthmus.dev/v1alpha1
kind: Installation
metadata: {name: a, namespace: apps}
spec:
  component: a
  destination: {clusterProfileRef: {name: paris, namespace: fleet}, namespace: there}
  manifests: [{configMapRef: {name: a}}, {inline: "{apiVersion: example.io/v1, kind: Gadget, metadata: {name: g}}"}]
---
apiVersion: isthmus.dev/v1alpha1
kind: Installation
metadata: {name: b, namespace: apps}
spec:
  component: b
  destination: {clusterProfileRef: {name: rome, namespace: fleet}, namespace: there}
  manifests: [{secretRef: {name: b, key: x}}]
---
apiVersion: isthmus.dev/v1alpha1
kind: Installation
metadata: {name: c, namespace: apps}
spec:
  component: c
  manifests: [{inline: "{apiVersion: v1, kind: Service, metadata: {name: of-c}}"}]
---
apiVersion: v1
kind: Secret
metadata: {name: b, namespace: apps}
stringData: {x: "{apiVersion: apps/v1, kind: Deployment, metadata: {name: of-b}}"}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgetry.example.io}
spec: {group: example.io, scope: Cluster, names: {kind: Gadget, plural: gadgetry}}
`

const twoStates = `
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: apps}, data: {m: "{apiVersion: v1, kind: Service, metadata: {name: old}}"}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: apps}, data: {m: "{apiVersion: v1, kind: Service, metadata: {name: new}}"}}
`

func TestI6_RBACOfInstallations(t *testing.T) {
	files := write(t, "a.yaml", someInstallations) + "," + write(t, "b.yaml", twoStates)
	tests := []struct {
		args       string
		has, hasNo []string
	}{
		{"--side local", []string{"on the hub for 3 Installations", "name: isthmus-controller-hub", "- isthmus-component-c\n", "- of-c\n", "- clusterprofiles\n", "namespaces, which must exist: apps, isthmus-system"[:33]},
			[]string{"- of-b\n", "- old\n", "isthmus-component-a", "gadget"}},
		{"--side remote --clusterprofile fleet/paris", []string{"on a member for 1 Installation.", "name: isthmus-controller-member", "- old\n", "- new\n", "- gadgetry\n", "- isthmus-component-a\n", "hold in all namespaces"},
			[]string{"of-b", "of-c", "installations", "guessed"}},
		{"--side remote --clusterprofile fleet/rome --name x", []string{"- of-b\n", "name: x\n"}, []string{"- old\n", "gadget", "isthmus-component-a\n"}},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			out, err := run(append([]string{"rbac", "--installations", files}, strings.Fields(tt.args)...)...)
			if err != nil {
				t.Fatal(err)
			}
			checkText(t, out, tt.has, tt.hasNo)
		})
	}
}

func TestRBACOfInstallationsSaysWhatIsMissing(t *testing.T) {
	files := write(t, "a.yaml", someInstallations)
	for args, want := range map[string]string{
		"--side remote": "expected --clusterprofile, one of fleet/paris, fleet/rome",
		"--side remote --clusterprofile fleet/paris": "the Installation apps/a: ConfigMap apps/a is not in the files: expected it there, with its namespace, or --kubeconfig of the hub",
		"--side remote --clusterprofile fleet/oslo":  "no Installation goes to the member fleet/oslo",
	} {
		_, err := run(append([]string{"rbac", "--installations", files}, strings.Fields(args)...)...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, expected %q", args, err, want)
		}
	}
}
