package cli

import (
	"strings"
	"testing"

	"isthmus.dev/isthmus/config/crd"
)

const someManifests = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: other}
spec: {selector: {matchLabels: {a: b}}}
---
apiVersion: isthmus.dev/v1alpha1
kind: Crossing
metadata: {name: widgets}
spec: {resource: {group: example.io, version: v1, resource: widgets}}
---
apiVersion: v1
kind: List
items:
- apiVersion: isthmus.dev/v1alpha1
  kind: Crossing
  metadata: {name: services}
  spec: {resource: {version: v1, resource: services}, status: {return: false}}
- apiVersion: isthmus.dev/v1alpha1
  kind: Consumer
  metadata: {name: a}
  spec: {subject: {kind: User, name: a}, resources: [{resources: [endpoints]}], namespaces: {patterns: [a]}}
`

func TestRBACOfManifests(t *testing.T) {
	path := write(t, "manifests.yaml", someManifests)
	tests := []struct {
		args       string
		has, hasNo []string
	}{
		{"--crossings FILE --side local", []string{"for 2 Crossings", "- widgets\n", "- widgets/status\n", "- services\n", "name: isthmus-controller-local", "- secrets\n"}, []string{"services/status", "endpoints", "deployments", "clusterprofiles", "leases"}},
		{"--crossings FILE --side local --clusterprofiles --liqo --leader-elect --instance two", []string{"- clusterprofiles\n", "- namespacemaps\n", "- leases\n", "name: isthmus-two-local"}, nil},
		{"--crossings FILE --side remote", []string{"- widgets\n", "- namespaces\n", "gives no namespaces on request"}, []string{"secrets", "remoteclusters"}},
		{"--consumers FILE --side provider", []string{"for 1 Consumer:", "- endpoints\n", "name: isthmus-controller-tenancy", "- namespacerequests\n"}, []string{"widgets"}},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			out, err := run(append([]string{"rbac"}, strings.Fields(strings.ReplaceAll(tt.args, "FILE", path))...)...)
			if err != nil {
				t.Fatal(err)
			}
			checkText(t, out, tt.has, tt.hasNo)
		})
	}
}

func TestCommandsOfControllerModeRefuseWhatTheyCannotUse(t *testing.T) {
	bad := write(t, "bad.yaml", "apiVersion: isthmus.dev/v1alpha1\nkind: Crossing\nmetadata: {name: w}\nspec: {resource: {version: v1, resource: '*'}}\n")
	for args, want := range map[string]string{
		"rbac --side local":                                        "--crossings, --consumers or --installations",
		"rbac --crossings a --consumers b --side local":            "[config crossings consumers installations]",
		"rbac --crossings a --config b --side local":               "[config crossings consumers installations]",
		"rbac --crossings a --side provider":                       "--consumers goes with --side provider",
		"rbac --consumers a --side local":                          "--consumers goes with --side provider",
		"rbac --config a --side local --liqo":                      "are about --crossings",
		"rbac --crossings " + bad + "/none --side local":           "reading manifests",
		"rbac --crossings " + bad + " --side local":                `the Crossing "w": spec.resource.resource "*"`,
		"rbac --config a --side local --clusterprofile a/b":        "is about --installations and --side remote",
		"rbac --installations a --side local --clusterprofile a/b": "about --installations and --side remote",
		"rbac --installations a --side local --format vcluster":    "[format installations]",
		"rbac --installations " + bad + " --side local":            "expected at least one Installation",
		"rbac --installations " + bad + " --side remote":           "no Installation goes to the member",
		"wind-down":                                         "expected at least one KIND",
		"wind-down pods":                                    `KIND "pods": expected one of crossings, namespaceoffloadings, remoteclusters, consumers, installations`,
		"wind-down crossings --others=Strip":                "expected Refuse, Leave or Delete",
		"wind-down crossings --selector=a=b=c":              "--selector",
		"wind-down crossings --kubeconfig=" + bad + "/none": "none",
		"crds --apply --kubeconfig=" + bad + "/none":        "none",
	} {
		if _, err := run(strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, expected %q", args, err, want)
		}
	}
	files, _ := crd.Files.ReadDir(".")
	if out, err := run("crds"); err != nil || len(files) == 0 || strings.Count(out, "kind: CustomResourceDefinition\n") != len(files) {
		t.Errorf("crds: %v, %d definitions in %d files", err, strings.Count(out, "kind: CustomResourceDefinition\n"), len(files))
	}
}

// checkText checks what is, and what is not, in a text.
func checkText(t *testing.T, text string, has, hasNo []string) {
	t.Helper()
	for _, want := range has {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	for _, no := range hasNo {
		if strings.Contains(text, no) {
			t.Errorf("%q in:\n%s", no, text)
		}
	}
}
