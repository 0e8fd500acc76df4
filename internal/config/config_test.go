package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus.dev/isthmus/internal/boundary"
)

// selectorText compares selectors by what they say.
var selectorText = cmp.Transformer("selector", func(s labels.Selector) string { return s.String() })

func parse(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Parse("sync.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestParseFillsInTheDefaults(t *testing.T) {
	got := parse(t, `
version: v1
syncResources:
  - apiVersion: example.io/v1
    kind: Widget
    direction: toHost
`)
	want := &Config{
		Rules: []*boundary.Rule{{
			Name:       "Widget-toHost",
			Kind:       schema.GroupVersionKind{Group: "example.io", Version: "v1", Kind: "Widget"},
			Direction:  boundary.ToRemote,
			Mode:       boundary.ModeSync,
			Policy:     boundary.PolicyAll,
			Selector:   labels.Everything(),
			Namespaces: boundary.NamespaceFilter{Exclude: []string{"kube-*"}},
			OnRemoval:  boundary.RemovalDelete, SpecOwnership: boundary.OwnershipShared, DeletionPolicy: boundary.DeletionBackground,
			Workers: 2,
		}},
		MassDeletion: boundary.MassDeletionPause,
		LogLevel:     LogInfo,
		Events:       true,
	}
	if diff := cmp.Diff(want, got, selectorText); diff != "" {
		t.Error(diff)
	}
}

func TestParseReadsEverything(t *testing.T) {
	got := parse(t, `
version: v1
log_level: debug
events_enabled: false
max_concurrent_reconciles: 7
globalFilters:
  include: [{namespace: all-*}, {namespace: secret-*, resources: [Secret]}, {namespace: other, resources: [ConfigMap]}]
  exclude: [{namespace: "*-tmp", resources: [v1/Secret]}, {namespace: never}]
namespaces: {all-a: far-a, all-b: far-a}
createNamespaces: true
massDeletion: Allow
globalExtraLabels: {a: global, b: global}
syncResources:
  - name: secrets
    apiVersion: v1
    kind: Secret
    direction: toHost
    mode: sync
    statusSync: true
    selector:
      matchLabels: {share: "true"}
      matchExpressions: [{key: tier, operator: NotIn, values: [x, y]}]
      excludeNamespaces: [all-c]
    policy: AllowList
    hostOwnedFields: [data, 'metadata.labels["x.io/y"]', 'spec.a[*].b']
    dropKeys: [a.io/b, b.io/*]
    keepKeys: [meta.helm.sh/*]
    onRemoval: Orphan
    deletionPolicy: Foreground
    carryFinalizers: [a.b/c]
    onTwinDeleted: Hold
    workers: 1
    extraLabels: {b: own, c: own}
  - apiVersion: apps/v1
    kind: Deployment
    direction: toHost
    selector: {matchNamespaces: ['all-?']}
`)
	want := &Config{
		Rules: []*boundary.Rule{{
			Name:      "secrets",
			Kind:      schema.GroupVersionKind{Version: "v1", Kind: "Secret"},
			Direction: boundary.ToRemote,
			Mode:      boundary.ModeSync,
			Policy:    boundary.PolicyAllowList,
			Selector:  mustSelector(t, "share=true,tier notin (x,y)"),
			Namespaces: boundary.NamespaceFilter{
				Include: []string{"all-*", "secret-*"},
				Exclude: []string{"*-tmp", "never", "all-c"},
			},
			ReturnStatus: true,
			RemoteOwned:  []boundary.Path{boundary.MustPath("data"), boundary.MustPath(`metadata.labels["x.io/y"]`), boundary.MustPath("spec.a[*].b")},
			ExtraLabels:  map[string]string{"a": "global", "b": "own", "c": "own"},
			DropKeys:     []string{"a.io/b", "b.io/*"},
			KeepKeys:     []string{"meta.helm.sh/*"},
			OnRemoval:    boundary.RemovalOrphan, SpecOwnership: boundary.OwnershipShared, DeletionPolicy: boundary.DeletionForeground, CarryFinalizers: []string{"a.b/c"},
			OnTwinDeleted: boundary.TwinDeletedHold,
			Workers:       1,
		}, {
			Name:        "Deployment-toHost",
			Kind:        schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
			Direction:   boundary.ToRemote,
			Mode:        boundary.ModeSync,
			Policy:      boundary.PolicyAll,
			Selector:    labels.Everything(),
			Namespaces:  boundary.NamespaceFilter{Include: []string{"all-?"}, Exclude: []string{"never"}},
			ExtraLabels: map[string]string{"a": "global", "b": "global"},
			OnRemoval:   boundary.RemovalDelete, SpecOwnership: boundary.OwnershipShared, DeletionPolicy: boundary.DeletionBackground,
			Workers: 7,
		}},
		Namespaces:       boundary.NamespacePairs{"all-a": "far-a", "all-b": "far-a"},
		CreateNamespaces: true,
		MassDeletion:     boundary.MassDeletionAllow,
		LogLevel:         LogDebug,
	}
	if diff := cmp.Diff(want, got, selectorText); diff != "" {
		t.Error(diff)
	}
}

func TestParseReadsAVirtualCluster(t *testing.T) {
	got := parse(t, `
version: v1
disable_event_filtering: true
naming: VirtualCluster
virtualCluster: {name: shop, hostNamespace: vcluster-acme--eu-1}
syncResources:
  - apiVersion: v1
    kind: Secret
    direction: toHost
    selector: {matchLabels: {repo: "true"}}
    hostNamespace: argocd
    enforceTenantProject: true
    includeForeignCopies: true
  - apiVersion: v1
    kind: Secret
    direction: toHost
    name: secrets
    selector: {matchExpressions: [{key: repo, operator: DoesNotExist}], matchNamespaces: [kube-system]}
    selectorIncludeOwnerLabels: true
    patches:
      - {path: 'metadata.annotations["example.io/config"]', type: rewriteName}
      - {path: data.token, type: none}
`)
	patches, err := boundary.CompilePatches([]boundary.Patch{
		{Path: boundary.MustPath(`metadata.annotations["example.io/config"]`), Type: boundary.RewriteName},
		{Path: boundary.MustPath("data.token"), Type: boundary.PatchNone},
	})
	if err != nil {
		t.Fatal(err)
	}
	rule := func(name, selector string) *boundary.Rule {
		return &boundary.Rule{
			Name: name, Kind: schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, Direction: boundary.ToRemote, Mode: boundary.ModeSync,
			Policy: boundary.PolicyAll, Selector: mustSelector(t, selector), OnRemoval: boundary.RemovalDelete, SpecOwnership: boundary.OwnershipShared, DeletionPolicy: boundary.DeletionBackground, Workers: 2,
		}
	}
	shared, own := rule("Secret-toHost", "repo=true"), rule("secrets", "!repo")
	shared.HostNamespace, shared.TenantProject, shared.IncludeForeignCopies = "argocd", "acme", true
	own.Namespaces, own.Patches = boundary.NamespaceFilter{Include: []string{"kube-system"}}, patches
	want := &Config{
		Rules:          []*boundary.Rule{shared, own},
		VirtualCluster: boundary.VirtualCluster{Name: "shop", HostNamespace: "vcluster-acme--eu-1"},
		MassDeletion:   boundary.MassDeletionPause,
		LogLevel:       LogInfo,
		Events:         true,
	}
	if diff := cmp.Diff(want, got, selectorText, cmp.AllowUnexported(boundary.Patches{}), cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
		t.Error(diff)
	}
}

func mustSelector(t *testing.T, text string) labels.Selector {
	t.Helper()
	selector, err := labels.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return selector
}

func TestAliasesWork(t *testing.T) {
	got := parse(t, `
version: v1
syncResources:
  - {apiVersion: v1, kind: Secret, direction: toHost, selector: &team {matchLabels: {team: &name blue}}}
  - {apiVersion: v1, kind: ConfigMap, direction: toHost, selector: *team, extraLabels: {team: *name}}
`)
	if got.Rules[1].Selector.String() != "team=blue" || got.Rules[1].ExtraLabels["team"] != "blue" {
		t.Errorf("got %+v", got.Rules[1])
	}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sync.yaml")
	if _, err := Load(path); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "reading the configuration") {
		t.Errorf("missing file: %v", err)
	}
	if err := os.WriteFile(path, []byte("version: v2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(path)
	var one Error
	if !errors.As(err, &one) || one.File != filepath.ToSlash(path) || one.Line != 1 || one.Column != 10 || one.Path != "version" {
		t.Errorf("got %v", err)
	}
}
