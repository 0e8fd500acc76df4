//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"text/tabwriter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/controlplane"
)

// printTable prints what became of each object on the consumer's cluster, as the clusters have it now.
func (w *world) printTable(ctx context.Context) {
	table := tabwriter.NewWriter(w.out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "  KIND\tCONSUMER\tPROVIDER\tWHAT CROSSED")
	for _, kind := range []schema.GroupVersionResource{widgets, configMaps, secrets, applications} {
		sources, err := w.consumer.objects(kind).List(ctx, metav1.ListOptions{})
		if err != nil {
			w.say("  %s can't be listed: %v", kind.Resource, err)
			continue
		}
		for _, source := range sources.Items {
			twin, err := w.provider.get(ctx, kind, source.GetName())
			if err != nil {
				twin = nil
			}
			place, what := describe(&source, twin)
			_, _ = fmt.Fprintf(table, "  %s\t%s/%s\t%s\t%s\n", source.GetKind(), source.GetNamespace(), source.GetName(), place, what)
		}
	}
	_ = table.Flush()
}

// describe says where the twin of a source is, and what crossed.
func describe(source, twin *unstructured.Unstructured) (place, what string) {
	if twin == nil {
		return "-", "nothing: no rule selects it"
	}
	place = twin.GetNamespace() + "/" + twin.GetName()
	if twin.GetLabels()[boundary.LabelOrigin] != "consumer" {
		return place, "nothing: the provider has one of its own, which is left alone"
	}
	what = "data out"
	if source.Object["spec"] != nil {
		what = "spec out"
	}
	if url := field(source, "status.url"); url != nil {
		what += fmt.Sprintf(", status back (%s)", url)
	}
	if twin.Object["operation"] != nil && source.Object["operation"] == nil {
		what += "; the provider's operation is kept"
	}
	return place, what
}

// tryThis is a command that people can paste; k is kubectl.
type tryThis struct{ why, command string }

// thingsToTry are shown at the end, and run where nobody looks.
var thingsToTry = []tryThis{
	{"What the team wrote, and what came back", "k --context consumer -n team-a get widgets"},
	{"Its counterpart, with the stamp that tells where it comes from", "k --context provider -n tenant-42-team-a get widget blue -o yaml"},
	{"Change the source, and wait for the provider's answer about this very change",
		`k --context consumer -n team-a patch widget blue --type merge -p '{"spec":{"size":11}}' && k --context consumer -n team-a wait widget/blue --for=condition=Ready`},
	{"Change the twin: it is put back", `k --context provider -n tenant-42-team-a patch widget blue --type merge -p '{"spec":{"size":1}}'`},
	{"Delete the twin: it is created again", "k --context provider -n tenant-42-team-a delete widget blue"},
	{"What was told on the sources", "k --context consumer -n team-a get events"},
	{"Remove the provider's own object: the source of that name crosses", "k --context provider -n tenant-42-team-a delete configmap overview"},
	{"Let a ConfigMap cross, by the label", "k --context consumer -n team-a label configmap settings grafana_dashboard=1"},
	{"What acme has of the platform's", "k --context acme get gatewayclasses && k --context acme -n platform get secrets"},
	{"The tenants' Applications, where they meet", "k --context provider -n argocd get applications"},
	{"What acme's Isthmus may not read", "! k --context provider -n vcluster-globex--shop get secrets --as isthmus-acme"},
	{"What says what crosses where isthmus controller runs", "k --context consumer get crossings,remoteclusters -o wide && k --context provider get consumers"},
	{"How the clusters see each other's pods", "k --context consumer get clusterlinks && k --context provider get clusterlinks"},
	{"What the hub installs on its members, and what globex has of it", "k --context provider -n fleet-system get installations -o wide && k --context globex -n agent-system get configmaps,services -l isthmus.dev/installed-by"},
	{"Delete something of it: it is put back", "k --context globex -n agent-system delete service agent"},
	{"What may cross is written here, and what is installed", "cat examples/demo/sync.yaml examples/demo/tenant-sync.yaml examples/demo/peering-*.yaml examples/demo/direct.yaml examples/demo/fleet-*.yaml"},
}

// paths returns the shell lines that the commands need first.
func (w *world) paths() string {
	return fmt.Sprintf("export KUBECONFIG=%s\nk() { %q \"$@\"; }\n",
		strings.Join(w.kubeconfigs(), ":"), w.consumer.Binaries().Path(controlplane.Kubectl))
}

// kubeconfigs returns the administrators' kubeconfigs of all clusters.
func (w *world) kubeconfigs() (paths []string) {
	for _, s := range w.clusters() {
		paths = append(paths, s.Kubeconfig())
	}
	return paths
}

func (w *world) printThingsToTry() {
	w.say("\nIt stays up. The kubeconfigs are\n\n  %s\n", strings.Join(w.kubeconfigs(), "\n  "))
	w.say("and each Isthmus's log, health and metrics\n")
	for _, p := range w.isthmuses() {
		w.say("  %s\n  http://%s/readyz\n  http://%s/metrics\n", p.logFile, p.address, p.address)
	}
	w.say("In another terminal:\n\n  %s", strings.ReplaceAll(strings.TrimSpace(w.paths()), "\n", "\n  "))
	for _, t := range thingsToTry {
		w.say("\n  # %s\n  %s", t.why, t.command)
	}
	w.say("\nCtrl-C stops everything and removes all data.")
}

// commandSteps try the commands.
func commandSteps() (steps []step) {
	for _, t := range thingsToTry {
		if strings.HasPrefix(t.command, "cat ") {
			continue // about the checkout, wherever that is
		}
		steps = append(steps, step{title: t.command, do: func(ctx context.Context, w *world) error {
			cmd := exec.CommandContext(ctx, "sh", "-e", "-c", w.paths()+t.command)
			cmd.Env = append(os.Environ(), "KUBECONFIG=")
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("%w\n%s", err, out)
			}
			return nil
		}})
	}
	return append(steps, step{title: "…and what they promise comes true", check: func(ctx context.Context, w *world) error {
		return errors.Join(
			w.provider.holds(ctx, widgets, "blue", "spec.size", 11), w.statusSpeaksOf(ctx, "blue", 11),
			w.provider.holds(ctx, configMaps, "overview", "metadata.labels.grafana_dashboard", "1"),
			w.provider.holds(ctx, configMaps, "settings", "data.color", "blue"),
			w.fleet.globex.has(ctx, services, "agent", "spec.selector", "app:agent"))
	}})
}
