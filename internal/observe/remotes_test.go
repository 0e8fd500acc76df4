package observe

import (
	"testing"

	dto "github.com/prometheus/client_model/go"
)

// The metrics of remotes are told apart by a label, and go with their remote; the process's own have none.
func TestRemotes(t *testing.T) {
	own := NewMetrics("test")
	remotes := NewRemotes(own)
	own.SetReachable("local", true)
	remotes.Of("east").SetRuleActive("widgets", "ToRemote", "Widget", true)
	remotes.Of("west").SetRuleActive("widgets", "ToRemote", "Widget", false)
	want := func(family, remote string, value float64) {
		t.Helper()
		families, err := remotes.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() != family {
				continue
			}
			for _, m := range f.Metric {
				if labelOf(m, "remote") == remote {
					if got := m.GetGauge().GetValue(); got != value {
						t.Errorf("%s of %q is %v, expected %v (-1: to be missing)", family, remote, got, value)
					}
					return
				}
			}
		}
		if value >= 0 {
			t.Errorf("%s of %q is missing", family, remote)
		}
	}
	want("isthmus_rule_active", "east", 1)
	want("isthmus_rule_active", "west", 0)
	want("isthmus_cluster_reachable", "", 1)
	want("isthmus_config_last_reload_successful", "", -1)
	remotes.Forget("west")
	want("isthmus_rule_active", "west", -1)
	want("isthmus_rule_active", "east", 1)
}

func labelOf(m *dto.Metric, name string) string {
	for _, label := range m.Label {
		if label.GetName() == name {
			return label.GetValue()
		}
	}
	return ""
}
