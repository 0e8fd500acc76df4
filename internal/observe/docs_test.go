package observe

import (
	"os"
	"strings"
	"testing"
	"time"
)

// The page about monitoring names every metric with its labels and their values.
func TestMetricsOfTheMonitoringPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	metrics := NewMetrics("v0")
	flow := metrics.ForFlow("ToRemote", "Widget")
	flow.Crossed(time.Second)
	metrics.SetReachable("local", true)
	metrics.SetRuleActive("widgets", "ToRemote", "Widget", true)
	metrics.SetRuleUndeclared("widgets", "ToRemote", "Widget", 1)
	endpoints := NewEndpointMetrics()
	metrics.Registry().MustRegister(endpoints)
	for _, path := range []string{"direct", "via"} {
		endpoints.AddReceived(path, 1)
	}
	endpoints.AddRefused("AddressOutsideCIDRs", 1)
	endpoints.SetLink("east", true)
	for _, state := range []string{StateInStep, StateForeign, StateRefused} {
		endpoints.AddSlices(state, 1)
	}
	families, err := metrics.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	ours := 0
	for _, family := range families {
		if !strings.HasPrefix(family.GetName(), "isthmus_") {
			continue
		}
		ours++
		row := ""
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "| `"+family.GetName()+"` |") {
				row = line
			}
		}
		if row == "" {
			t.Errorf("the page does not name %s", family.GetName())
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				names := []string{label.GetName()}
				switch label.GetName() {
				case "operation", "status", "error_type", "state", "path", "reason":
					names = append(names, label.GetValue())
				}
				for _, name := range names {
					if !strings.Contains(row, "`"+name+"`") {
						t.Errorf("the page does not name %s at %s", name, family.GetName())
					}
				}
			}
		}
	}
	if ours < 9 {
		t.Errorf("only %d metrics were found", ours)
	}
}
