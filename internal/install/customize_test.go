package install

import (
	"strings"
	"testing"

	"isthmus.dev/isthmus/api/v1alpha1"
)

// TestI8_Customize: patches, images and replicas are kustomize's, and see the manifests' own namespaces; what goes with the
// namespace follows what they made.
func TestI8_Customize(t *testing.T) {
	const manifests = `
{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: from, labels: {app: x}}, spec: {replicas: 1, template: {spec: {containers: [{name: c, image: "repo/a:1"}]}}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: from}, data: {a: "1", yes: "on", long: "12345678901234567890"}}
---
{apiVersion: batch/v1, kind: Job, metadata: {generateName: j-, namespace: from}, spec: {template: {spec: {containers: [{name: c, image: "repo/a:1"}]}}}}
`
	o := options(func(s *v1alpha1.InstallationSpec) {
		s.Images = []v1alpha1.ManifestImage{{Name: "repo/a", NewName: "mirror/a", NewTag: "2"}}
		s.Replicas = []v1alpha1.ManifestReplicas{{Name: "d", Count: 3}}
		s.Patches = []v1alpha1.ManifestPatch{
			{Patch: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: from}\ndata: {b: \"2\", a: null}"},
			{Patch: `[{"op": "add", "path": "/spec/paused", "value": true}]`, Target: &v1alpha1.PatchTarget{Kind: "Deployment", Namespace: "from", Name: ".*", LabelSelector: "app=x"}},
			{Patch: `[{"op": "add", "path": "/spec/backoffLimit", "value": 1234567890123}]`, Target: &v1alpha1.PatchTarget{Group: "batch", Version: "v1", Name: "j-.*"}},
			{Patch: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: none}\n$patch: delete\n", Target: &v1alpha1.PatchTarget{Kind: "ConfigMap", Name: "absent"}},
		}
	})
	b := prepare(t, manifests, o)
	sameYAML(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: there, labels: {app: x}}, spec: {paused: true, replicas: 3, template: {spec: {containers: [{name: c, image: "mirror/a:2"}]}}}}`, the(t, b, "Deployment", "d"))
	sameYAML(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: there}, data: {b: "2", yes: "on", long: "12345678901234567890"}}`, the(t, b, "ConfigMap", "c"))
	for _, phase := range b.Phases {
		for _, object := range phase.Objects {
			if object.GetKind() != "Job" {
				continue
			}
			if !strings.HasPrefix(object.GetName(), "j-") || object.GetGenerateName() != "" || !strings.Contains(text(t, object.Object), "backoffLimit: 1234567890123") {
				t.Errorf("the Job: %s", text(t, object.Object))
			}
			if !strings.HasPrefix(object.Where, "m, document 3") {
				t.Errorf("the Job is in %s", object.Where)
			}
		}
	}
}

// TestI8_CustomizeRefuses: what can't be done names the part of the Installation.
func TestI8_CustomizeRefuses(t *testing.T) {
	const cm = "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}"
	tests := map[string]func(*v1alpha1.InstallationSpec){
		"patches[1]: ": func(s *v1alpha1.InstallationSpec) {
			s.Patches = []v1alpha1.ManifestPatch{{Patch: "[]", Target: &v1alpha1.PatchTarget{Kind: "ConfigMap"}}, {Patch: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}"}}
		},
		"replicas: ": func(s *v1alpha1.InstallationSpec) { s.Replicas = []v1alpha1.ManifestReplicas{{Name: "c", Count: 1}} },
		"the patches leave no object": func(s *v1alpha1.InstallationSpec) {
			s.Patches = []v1alpha1.ManifestPatch{{Patch: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n$patch: delete"}}
		},
		"isthmus.dev/installation": func(s *v1alpha1.InstallationSpec) {
			s.Patches = []v1alpha1.ManifestPatch{{Patch: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, annotations: {isthmus.dev/installation: x}}"}}
		},
	}
	for want, change := range tests {
		t.Run(want, func(t *testing.T) {
			_, err := Prepare(source(cm), options(change))
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, expected %q", err, want)
			}
		})
	}
}
