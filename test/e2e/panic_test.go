//go:build unix

package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/config"
	"isthmus.dev/isthmus/internal/engine"
	"isthmus.dev/isthmus/internal/observe"
	"isthmus.dev/isthmus/internal/observe/logtest"
	"isthmus.dev/isthmus/test/harness"
)

// fragile is a selector with a fault: it panics on objects that carry the label.
type fragile struct{ labels.Selector }

func (f fragile) Matches(set labels.Labels) bool {
	if set.Has("example.io/panic") {
		panic("a selector with a fault")
	}
	return f.Selector.Matches(set)
}

// Empty keeps it from being passed over, as one is that matches everything.
func (f fragile) Empty() bool { return false }

// F1: a panic in one flow ends that flow and nothing else; it starts again, and settles what changed meanwhile.
func TestF1_PanicEndsOneFlow(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	ns := e.Namespace("a")
	rules := fmt.Sprintf(`{version: v1, namespaces: {%[1]s: %[1]s}, syncResources: [
		{apiVersion: v1, kind: ConfigMap, direction: toHost}, {apiVersion: v1, kind: Secret, direction: toHost}]}`, ns)
	e.GrantRBAC(e.WriteConfig(rules))
	e.Allow(rules)
	compiled, err := config.Parse("rules", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	compiled.Rules[0].Selector = fragile{compiled.Rules[0].Selector}
	log, metrics := &logtest.Log{}, observe.NewMetrics("test")
	options := engine.Options{
		Config: compiled, ClusterID: e.ID, RemoteID: "remote", Instance: e.ID, Namespace: "isthmus-system",
		Metrics: metrics, Logger: slog.New(slog.NewTextHandler(log, nil)),
	}
	if options.Local, err = cluster.Connect(cluster.Options{Role: "local", Kubeconfig: e.LocalKubeconfig()}); err != nil {
		t.Fatal(err)
	}
	if options.Remote, err = cluster.Connect(cluster.Options{Role: "remote", Kubeconfig: e.RemoteKubeconfig()}); err != nil {
		t.Fatal(err)
	}
	running := engine.New(options)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- running.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	e.Eventually(func() error { _, err := running.Ready(); return err })

	object := func(kind, name, more string) string {
		return fmt.Sprintf("{apiVersion: v1, kind: %s, metadata: {name: %s, namespace: %s, labels: {%s}}}", kind, name, ns, more)
	}
	e.Local.Create(object("ConfigMap", "before", ""))
	e.Eventually(func() error { return present(e.Remote, "configmaps", ns, "before") })
	e.Local.Create(object("ConfigMap", "bad", "example.io/panic: marked-value"))
	e.Eventually(func() error {
		if !strings.Contains(log.String(), "The flow panicked") {
			return fmt.Errorf("no panic in the log")
		}
		return nil
	})
	e.Local.Create(object("ConfigMap", "after", ""))
	e.Local.Create(object("Secret", "beside", ""))
	e.Eventually(func() error { return present(e.Remote, "secrets", ns, "beside") })
	e.Local.Delete("configmaps", ns, "bad")
	e.Eventually(func() error { return present(e.Remote, "configmaps", ns, "after", "before") })
	families, err := metrics.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	panics := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == "isthmus_flow_panics_total" {
				panics[m.GetLabel()[1].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	if panics["ConfigMap"] == 0 || panics["Secret"] != 0 {
		t.Errorf("panics were counted as %v", panics)
	}
	if strings.Contains(log.String(), "marked-value") {
		t.Error("the log tells of what an object holds")
	}
}
