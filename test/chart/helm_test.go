package chart

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	helmchart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/kube"
	release "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/yaml"

	"isthmus.dev/isthmus/internal/controlplane"
)

const (
	chartPath   = "../../charts/isthmus"
	releaseName = "isthmus"
	namespace   = "isthmus-system"
)

// values are the values of a chart, from YAML.
func values(t testing.TB, text string) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	return out
}

func load(t testing.TB) *helmchart.Chart {
	t.Helper()
	c, err := loader.Load(chartPath)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// render is what "helm template" prints: the manifests with the hooks, in the order of their templates.
func render(t testing.TB, text string) (string, error) {
	t.Helper()
	cfg := action.NewConfiguration()
	cfg.SetLogger(slog.DiscardHandler)
	install := action.NewInstall(cfg)
	install.DryRunStrategy, install.KubeVersion = action.DryRunClient, kubeVersion()
	install.ReleaseName, install.Namespace = releaseName, namespace
	rel, err := install.Run(load(t), values(t, text))
	if err != nil {
		return "", err
	}
	r := rel.(*release.Release)
	var out strings.Builder
	out.WriteString(r.Manifest)
	for _, h := range r.Hooks {
		out.WriteString("---\n# Source: " + h.Path + "\n" + strings.TrimSpace(h.Manifest) + "\n")
	}
	return out.String(), nil
}

// helm runs Helm's actions against a cluster.
type helm struct {
	t   testing.TB
	cfg *action.Configuration
}

func newHelm(t testing.TB, kubeconfig string) *helm {
	t.Helper()
	flags := genericclioptions.NewConfigFlags(false)
	flags.KubeConfig, flags.Namespace = &kubeconfig, ptrTo(namespace)
	cfg := action.NewConfiguration()
	cfg.SetLogger(slog.DiscardHandler)
	if err := cfg.Init(flags, namespace, "secret"); err != nil {
		t.Fatal(err)
	}
	return &helm{t, cfg}
}

func (h *helm) install(ctx context.Context, text string) error {
	install := action.NewInstall(h.cfg)
	install.ReleaseName, install.Namespace, install.CreateNamespace = releaseName, namespace, true
	install.WaitStrategy, install.Timeout = kube.HookOnlyStrategy, 3*time.Minute
	_, err := install.RunWithContext(ctx, load(h.t), values(h.t, text))
	return err
}

func (h *helm) upgrade(ctx context.Context, text string) error {
	upgrade := action.NewUpgrade(h.cfg)
	upgrade.Namespace = namespace
	upgrade.WaitStrategy, upgrade.Timeout = kube.HookOnlyStrategy, 3*time.Minute
	_, err := upgrade.RunWithContext(ctx, releaseName, load(h.t), values(h.t, text))
	return err
}

func (h *helm) uninstall() error {
	uninstall := action.NewUninstall(h.cfg)
	uninstall.WaitStrategy, uninstall.Timeout = kube.HookOnlyStrategy, 3*time.Minute
	_, err := uninstall.Run(releaseName)
	return err
}

// kubeVersion is what the chart is rendered for where no cluster tells.
func kubeVersion() *common.KubeVersion {
	return &common.KubeVersion{Version: controlplane.KubernetesVersion, Major: "1", Minor: "37"}
}

func ptrTo[T any](v T) *T { return &v }
