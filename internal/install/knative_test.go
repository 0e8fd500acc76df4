//go:build unix

package install_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/install"
	"isthmus.dev/isthmus/test/harness"
)

// releases returns the folders of Knative's release manifests that match a pattern.
func releases(t *testing.T, pattern string) []string {
	t.Helper()
	root := filepath.Join(harness.ModuleDir(t, "knative.dev/operator@v0.48.1"), "cmd/operator/kodata")
	found, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil || len(found) == 0 {
		t.Fatalf("%s: found nothing: %v", pattern, err)
	}
	return found
}

// manifests returns the YAML files of folders as sources.
func manifests(t *testing.T, folders ...string) (sources []install.Source) {
	t.Helper()
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no manifests: %v", folder, err)
		}
		slices.Sort(files)
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			sources = append(sources, install.Source{Where: filepath.Base(filepath.Dir(file)) + "/" + filepath.Base(file), Text: text})
		}
	}
	return sources
}

// TestI8_KnativeReleases prepares every release of Knative's parts.
func TestI8_KnativeReleases(t *testing.T) {
	for _, pattern := range []string{"knative-serving/*", "knative-eventing/*", "ingress/*/*", "eventing-source/*/*", "security-guard/*"} {
		for _, folder := range releases(t, pattern) {
			parts := strings.Split(folder, "/kodata/")
			t.Run(parts[1], func(t *testing.T) {
				o := install.Options{Component: "knative", Namespace: "elsewhere", Hub: "hub", InstallationNamespace: "apps", InstallationName: "knative", UID: "u"}
				o.Spec = v1alpha1.InstallationSpec{KeepNamespaces: []string{"istio-system", "kube-system"}}
				b, err := install.Prepare(manifests(t, folder), o)
				if err != nil {
					t.Fatal(err)
				}
				if b.Phases[0].Name != install.PhaseNamespaces || b.Namespaces()[0] != "elsewhere" {
					t.Errorf("got namespaces %v in phase %s, expected elsewhere first", b.Namespaces(), b.Phases[0].Name)
				}
			})
		}
	}
}
