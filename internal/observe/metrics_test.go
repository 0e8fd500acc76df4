package observe

import (
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// value returns the sum of a metric's series that have all the labels, and how many there are.
func value(t *testing.T, m *Metrics, name string, labels ...string) (float64, int) {
	t.Helper()
	families, err := m.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum, n := 0.0, 0
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, s := range f.GetMetric() {
			if hasAll(s, labels) {
				n++
				sum += s.GetCounter().GetValue() + s.GetGauge().GetValue() + float64(s.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum, n
}

func hasAll(s *dto.Metric, labels []string) bool {
	have := map[string]bool{}
	for _, l := range s.GetLabel() {
		have[l.GetValue()] = true
	}
	for _, l := range labels {
		if !have[l] {
			return false
		}
	}
	return true
}

func TestMetricsExistAtZero(t *testing.T) {
	m := NewMetrics("v1")
	m.ForFlow("toHost", "Widget")
	for name, want := range map[string]int{
		"isthmus_operations_total": 15, "isthmus_errors_total": 6, "isthmus_objects": 6, "isthmus_crossing_latency_seconds": 1,
		"isthmus_status_return_latency_seconds": 1, "isthmus_last_success_timestamp_seconds": 1,
	} {
		if sum, n := value(t, m, name, "toHost", "Widget"); sum != 0 || n != want {
			t.Errorf("%s: %d series that sum to %v, want %d at 0", name, n, sum, want)
		}
	}
	if sum, n := value(t, m, "isthmus_build_info", "v1"); sum != 1 || n != 1 {
		t.Errorf("isthmus_build_info: %v of %d", sum, n)
	}
}

func TestMetricsCount(t *testing.T) {
	m := NewMetrics("v1")
	f := m.ForFlow("toHost", "Widget")
	f.Operation(OperationCreate, StatusSuccess)
	f.Operation("invented", StatusSuccess)
	f.Error(ErrorConflict)
	f.Error("invented")
	f.Crossed(20 * time.Millisecond)
	f.StatusReturned(time.Second)
	f.Success(time.Unix(1700000000, 500e6))
	m.SetRuleActive("widgets", "toHost", "Widget", true)
	m.SetReachable("remote", true)
	for _, tc := range []struct {
		want   float64
		name   string
		labels []string
	}{
		{1, "isthmus_operations_total", []string{"create", "success"}},
		{1, "isthmus_operations_total", nil},
		{1, "isthmus_errors_total", []string{"conflict"}},
		{1, "isthmus_errors_total", []string{"unknown"}},
		{1, "isthmus_crossing_latency_seconds", nil},
		{1, "isthmus_status_return_latency_seconds", nil},
		{1700000000.5, "isthmus_last_success_timestamp_seconds", nil},
		{1, "isthmus_rule_active", []string{"widgets"}},
		{1, "isthmus_cluster_reachable", []string{"remote"}},
	} {
		if got, _ := value(t, m, tc.name, tc.labels...); got != tc.want {
			t.Errorf("%s%v = %v, want %v", tc.name, tc.labels, got, tc.want)
		}
	}
	m.RemoveRule("widgets", "toHost", "Widget")
	if _, n := value(t, m, "isthmus_rule_active"); n != 0 {
		t.Error("a removed rule is still told")
	}
}

func TestObjectsOfSeveralFlowsAddUp(t *testing.T) {
	m := NewMetrics("v1")
	a, b := m.ForFlow("toHost", "Widget"), m.ForFlow("toHost", "Widget")
	a.SetObjects(StateInStep, 5)
	b.SetObjects(StateInStep, 7)
	a.SetObjects(StateInStep, 4)
	if got, _ := value(t, m, "isthmus_objects", StateInStep); got != 11 {
		t.Errorf("objects in step: %v, want 11", got)
	}
	a.Close()
	if got, _ := value(t, m, "isthmus_objects", StateInStep); got != 7 {
		t.Errorf("after one flow ended: %v, want 7", got)
	}
}

func TestMetricsLintAndNilSafety(t *testing.T) {
	families, err := NewMetrics("v1").Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, s := range f.GetMetric() {
			for _, l := range s.GetLabel() {
				if strings.Contains(l.GetName(), "namespace") {
					t.Errorf("%s has a label %s", f.GetName(), l.GetName())
				}
			}
		}
	}
	var m *Metrics
	m.SetReachable("remote", true)
	m.SetRuleActive("r", "d", "k", true)
	m.RemoveRule("r", "d", "k")
	f := m.ForFlow("d", "k")
	f.Operation(OperationCreate, StatusSuccess)
	f.Error(ErrorConflict)
	f.Crossed(1)
	f.StatusReturned(1)
	f.Success(time.Now())
	f.SetObjects(StateInStep, 1)
	f.Close()
}
