package engine

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/config"
	"isthmus.dev/isthmus/internal/flow"
	"isthmus.dev/isthmus/internal/ledger"
)

// optionsOf returns how the flows of a configuration would run.
func optionsOf(t *testing.T, text string, removed ...ledger.Rule) (all []flow.Options) {
	t.Helper()
	c, err := config.Parse("test", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	e := New(Options{Config: c, ClusterID: "here", RemoteID: "there", Instance: "default"})
	for _, w := range e.ways(c, "uid-1", "uid-2") {
		all = append(all, e.flowsOf(w, flow.Options{}, removed)...)
	}
	return all
}

// What is read twice is the same, whatever features it uses.
func TestFlowsOfAnUnchangedFileAreTheSame(t *testing.T) {
	paths, err := filepath.Glob("../../examples/*.yaml")
	more, _ := filepath.Glob("../../examples/vcluster/*.yaml")
	if err != nil || len(paths)+len(more) < 10 {
		t.Fatalf("few examples: %v %v", paths, err)
	}
	for _, path := range append(paths, more...) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		before, after := optionsOf(t, string(text)), optionsOf(t, string(text))
		if len(before) == 0 || len(before) != len(after) {
			t.Errorf("%s: %d flows and %d", path, len(before), len(after))
		}
		for i := range before {
			if !same(before[i], after[i]) {
				t.Errorf("%s: the flow of %s is taken for another one", path, before[i].Kind)
			}
		}
	}
}

func TestChangedFlowsAreNotTheSame(t *testing.T) {
	const base = `version: v1
massDeletion: Pause
namespaces: {a: x}
syncResources:
- {name: one, apiVersion: v1, kind: ConfigMap, direction: toHost, selector: {matchLabels: {of: one}}, patches: [{path: data.name, type: rewriteName}]}
- {name: two, apiVersion: v1, kind: ConfigMap, direction: toHost, selector: {matchLabels: {of: two}}}
- {name: three, apiVersion: v1, kind: Secret, direction: toHost}
- {name: four, apiVersion: example.io/v1, kind: Widget, direction: toHost, patches: [{path: 'spec.refs[*]', type: rewriteRef}]}
- {name: five, apiVersion: v1, kind: Service, direction: toHost}
`
	const configMaps, secrets, widgets, services, all = 1, 2, 4, 8, 15
	for _, c := range []struct {
		name, old, new string
		changed        int
	}{
		{"nothing", "", "", 0},
		{"Events and the log", "massDeletion: Pause", "log_level: debug\nevents_enabled: false", 0},
		{"the order of rules", "", "", 0},
		{"a selector", "of: two", "of: other", configMaps},
		{"a patch", "rewriteName", "rewriteNamespace", configMaps},
		{"the workers of one", "name: three,", "name: three, workers: 3,", secrets},
		{"a name", "name: three", "name: third", secrets},
		{"a pair that the flows follow to", "{a: x}", "{a: y}", 0},
		{"more pairs", "{a: x}", "{a: x, b: y}", 0},
		{"pairs instead of names that stay", "namespaces: {a: x}", "", all},
		{"the guard", "Pause", "Allow", all},
		{"a rule more of another kind, on which references by kind depend", "- {name: five", "- {name: six, apiVersion: v1, kind: Pod, direction: toHost}\n- {name: five", widgets},
		{"a rule less of another kind, on which references by kind depend", "- {name: five, apiVersion: v1, kind: Service, direction: toHost}", "", widgets | services},
		{"the creation of namespaces", "massDeletion: Pause", "createNamespaces: true", all},
	} {
		text := strings.Replace(base, c.old, c.new, 1)
		if c.name == "the order of rules" {
			lines := strings.Split(strings.TrimSpace(base), "\n")
			slices.Reverse(lines[4:])
			text = strings.Join(lines, "\n")
		}
		changed := 0
		for _, before := range optionsOf(t, base) {
			if !slices.ContainsFunc(optionsOf(t, text), func(after flow.Options) bool { return same(before, after) }) {
				changed |= map[string]int{"ConfigMap": configMaps, "Secret": secrets, "Widget": widgets, "Service": services}[before.Kind.Kind]
			}
		}
		if changed != c.changed {
			t.Errorf("%s: %b changed, expected %b", c.name, changed, c.changed)
		}
	}
	gone := ledger.Rule{Name: "gone", Version: "v1", Kind: "Secret", Direction: boundary.ToRemote}
	without, with := optionsOf(t, base)[1], optionsOf(t, base, gone)[1]
	if same(without, with) || !same(with, without) {
		t.Error("a flow that has a rule to wind down is one that has not, or one that had is not one that has done so")
	}
}

// A rule that ran before, and stands although it can't run now, is not wound down; flows of its kind know it.
func TestD_ARuleThatWaitsIsNotWoundDown(t *testing.T) {
	rule := ledger.Rule{Name: "one", Version: "v1", Kind: "Secret", Direction: boundary.ToRemote, OnRemoval: boundary.RemovalDelete}
	for _, test := range []struct {
		rules   []*boundary.Rule
		waiting []string
		flows   int
	}{
		{nil, nil, 1},
		{nil, []string{"one"}, 0},
		{[]*boundary.Rule{{Name: "two", Kind: rule.GroupVersionKind(), Direction: boundary.ToRemote}}, []string{"one"}, 1},
	} {
		e := New(Options{Config: &config.Config{Rules: test.rules, Waiting: test.waiting}, ClusterID: "here", RemoteID: "there", Instance: "default"})
		var flows []flow.Options
		for _, w := range e.ways(e.Config, "uid-1", "uid-2") {
			flows = append(flows, e.flowsOf(w, flow.Options{}, []ledger.Rule{rule})...)
		}
		if len(flows) != test.flows {
			t.Errorf("%v: %d flows", test.waiting, len(flows))
			continue
		}
		for _, f := range flows {
			if (len(f.Removed) > 0) != (test.waiting == nil) || !slices.Equal(f.Waiting, test.waiting) {
				t.Errorf("%v: removed %v, waiting %v", test.waiting, f.Removed, f.Waiting)
			}
		}
	}
}
