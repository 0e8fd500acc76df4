package observe

import (
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// The values of the label operation.
const (
	OperationCreate = "create"
	OperationUpdate = "update"
	OperationDelete = "delete"
	OperationSync   = "sync"
	OperationStatus = "status"
)

// The values of the label status.
const (
	StatusSuccess = "success"
	StatusError   = "error"
	StatusSkipped = "skipped"
)

// The values of the label error_type.
const (
	ErrorConflict   = "conflict"
	ErrorNotFound   = "not_found"
	ErrorValidation = "validation"
	ErrorForbidden  = "forbidden"
	ErrorTransient  = "transient"
	ErrorUnknown    = "unknown"
)

// The values of the label state.
const (
	StateInStep  = "in_step"
	StateWaiting = "waiting"
	StateRefused = "refused"
	StateForeign = "foreign"
	StatePaused  = "paused"
	// StateContention: others undo what is written.
	StateContention = "contention"
)

var (
	operations = []string{OperationCreate, OperationUpdate, OperationDelete, OperationSync, OperationStatus}
	outcomes   = []string{StatusSuccess, StatusError, StatusSkipped}
	errorTypes = []string{ErrorConflict, ErrorNotFound, ErrorValidation, ErrorForbidden, ErrorTransient, ErrorUnknown}
	states     = []string{StateInStep, StateWaiting, StateRefused, StateForeign, StatePaused, StateContention}
	latencies  = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
)

// Metrics are all that Isthmus measures, in a registry of their own. No label ever holds a namespace or the name of an
// object. The methods of a nil *Metrics do nothing.
type Metrics struct {
	registry   *prometheus.Registry
	operations *prometheus.CounterVec
	errors     *prometheus.CounterVec
	success    *prometheus.GaugeVec
	crossing   *prometheus.HistogramVec
	returning  *prometheus.HistogramVec
	objects    *prometheus.GaugeVec
	contention *prometheus.GaugeVec
	rules      *prometheus.GaugeVec
	undeclared *prometheus.GaugeVec
	reachable  *prometheus.GaugeVec
	panics     *prometheus.CounterVec
	faulty     prometheus.Gauge
	reloaded   prometheus.Gauge
	reloadedAt prometheus.Gauge
	leading    prometheus.Gauge
}

// NewMetrics registers the metrics of a process; version is told in isthmus_build_info.
func NewMetrics(version string) *Metrics {
	m := newMetrics()
	m.leading = prometheus.NewGauge(prometheus.GaugeOpts{Name: "isthmus_leader",
		Help: "Whether this instance carries objects (1), or stands by while another one does (0)."})
	m.leading.Set(1)
	m.faulty = prometheus.NewGauge(prometheus.GaugeOpts{Name: "isthmus_configuration_faulty",
		Help: "Whether nothing crosses because the configuration can't be run (1) or not (0)."})
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "isthmus_build_info", Help: "Always 1; what runs is in the labels.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()}})
	build.Set(1)
	m.registry.MustRegister(m.leading, m.faulty, build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// newMetrics registers the metrics of what runs between two clusters.
func newMetrics() *Metrics {
	flow := []string{"direction", "kind"}
	with := func(more ...string) []string { return append(flow[:2:2], more...) }
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		operations: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "isthmus_operations_total",
			Help: "Operations on twins and on returned status, by outcome."}, with("operation", "status")),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "isthmus_errors_total",
			Help: "Failed operations, by type of error."}, with("error_type")),
		success: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "isthmus_last_success_timestamp_seconds",
			Help: "When an object was last brought in step, or found in step, as a Unix time; 0: never."}, flow),
		crossing: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "isthmus_crossing_latency_seconds", Buckets: latencies,
			Help: "From seeing a source's change to its twin having been written."}, flow),
		returning: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "isthmus_status_return_latency_seconds", Buckets: latencies,
			Help: "From seeing a twin's status change to the source's status having been written."}, flow),
		objects: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "isthmus_objects",
			Help: "Selected objects, by the state they are in."}, with("state")),
		contention: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "isthmus_contention",
			Help: "Objects that another writer writes against, by its field managers, the paths, and the setting that would end it."}, with("manager", "path", "setting")),
		rules: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "isthmus_rule_active",
			Help: "Whether a rule's flow runs (1), or waits (0)."}, []string{"rule", "direction", "kind"}),
		undeclared: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "isthmus_rule_undeclared_fields",
			Help: "Fields of a rule's kind that do not cross, because the twins' side does not declare them, or as something else."}, []string{"rule", "direction", "kind"}),
		reachable: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "isthmus_cluster_reachable",
			Help: "Whether the cluster of a side answers us (1) or not (0)."}, []string{"side"}),
		panics: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "isthmus_flow_panics_total",
			Help: "Panics that ended a flow, which is then started again."}, flow),
	}
	m.reloaded = prometheus.NewGauge(prometheus.GaugeOpts{Name: "isthmus_config_last_reload_successful",
		Help: "Whether the configuration that was read last is in use (1), or was refused (0)."})
	m.reloadedAt = prometheus.NewGauge(prometheus.GaugeOpts{Name: "isthmus_config_last_reload_success_timestamp_seconds",
		Help: "When a configuration was last read and not refused, as a Unix time."})
	m.registry.MustRegister(m.operations, m.errors, m.success, m.crossing, m.returning, m.objects, m.contention, m.rules, m.undeclared, m.reachable, m.panics, m.reloaded, m.reloadedAt)
	return m
}

// Registry is where the metrics are gathered from; others may register theirs there too.
func (m *Metrics) Registry() *prometheus.Registry {
	if m == nil {
		return prometheus.NewRegistry()
	}
	return m.registry
}

// SetRuleActive tells whether a rule's flow runs.
func (m *Metrics) SetRuleActive(rule, direction, kind string, active bool) {
	if m != nil {
		m.rules.WithLabelValues(rule, direction, kind).Set(oneIf(active))
	}
}

// SetRuleUndeclared tells how many fields of a rule's kind do not cross (O7).
func (m *Metrics) SetRuleUndeclared(rule, direction, kind string, fields int) {
	if m != nil {
		m.undeclared.WithLabelValues(rule, direction, kind).Set(float64(fields))
	}
}

// RemoveRule forgets a rule that no longer exists.
func (m *Metrics) RemoveRule(rule, direction, kind string) {
	if m != nil {
		m.rules.DeleteLabelValues(rule, direction, kind)
		m.undeclared.DeleteLabelValues(rule, direction, kind)
	}
}

// SetReachable tells whether the cluster of a side ("local", "remote", or a remote's name) answers.
func (m *Metrics) SetReachable(side string, reachable bool) {
	if m != nil {
		m.reachable.WithLabelValues(side).Set(oneIf(reachable))
	}
}

// RemoveReachable forgets a remote that no longer exists.
func (m *Metrics) RemoveReachable(side string) {
	if m != nil {
		m.reachable.DeleteLabelValues(side)
	}
}

// SetFaulty tells whether nothing crosses because the configuration can't be run.
func (m *Metrics) SetFaulty(faulty bool) {
	if m != nil {
		m.faulty.Set(oneIf(faulty))
	}
}

// SetReload tells whether the configuration that was read at now is in use.
func (m *Metrics) SetReload(successful bool, now time.Time) {
	if m == nil {
		return
	}
	m.reloaded.Set(oneIf(successful))
	if successful {
		m.reloadedAt.Set(unix(now))
	}
}

// SetLeading tells whether this instance carries objects, as it does without leader election (1), or stands by.
func (m *Metrics) SetLeading(leading bool) {
	if m != nil {
		m.leading.Set(oneIf(leading))
	}
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// FlowMetrics are one flow's share of the metrics of its direction and kind. The methods of a nil *FlowMetrics do
// nothing.
type FlowMetrics struct {
	operations map[[2]string]prometheus.Counter
	errors     map[string]prometheus.Counter
	success    prometheus.Gauge
	panics     prometheus.Counter
	crossing   prometheus.Observer
	returning  prometheus.Observer
	gauges     map[string]prometheus.Gauge

	contention *prometheus.GaugeVec // with direction and kind filled in

	mu          sync.Mutex
	counts      map[string]int
	contentions map[Contention]int
}

// Contention is what others write against us: their field managers, the paths, and the setting that would end it.
type Contention struct{ Managers, Paths, Setting string }

// ForFlow registers a flow: its series exist, at zero, from then on. Several flows may share a direction and a kind
// (one for each remote); their objects add up.
func (m *Metrics) ForFlow(direction, kind string) *FlowMetrics {
	if m == nil {
		return nil
	}
	f := &FlowMetrics{
		operations: map[[2]string]prometheus.Counter{},
		errors:     map[string]prometheus.Counter{},
		gauges:     map[string]prometheus.Gauge{},
		counts:     map[string]int{},
		contention: m.contention.MustCurryWith(prometheus.Labels{"direction": direction, "kind": kind}),
		success:    m.success.WithLabelValues(direction, kind),
		panics:     m.panics.WithLabelValues(direction, kind),
		crossing:   m.crossing.WithLabelValues(direction, kind),
		returning:  m.returning.WithLabelValues(direction, kind),
	}
	for _, operation := range operations {
		for _, outcome := range outcomes {
			f.operations[[2]string{operation, outcome}] = m.operations.WithLabelValues(direction, kind, operation, outcome)
		}
	}
	for _, t := range errorTypes {
		f.errors[t] = m.errors.WithLabelValues(direction, kind, t)
	}
	for _, s := range states {
		f.gauges[s] = m.objects.WithLabelValues(direction, kind, s)
	}
	return f
}

// Operation counts an operation (Operation…) with its outcome (Status…). Other values are not counted.
func (f *FlowMetrics) Operation(operation, status string) {
	if f == nil {
		return
	}
	if c := f.operations[[2]string{operation, status}]; c != nil {
		c.Inc()
	}
}

// Error counts an error by its type (Error…); any other type counts as unknown.
func (f *FlowMetrics) Error(errorType string) {
	if f == nil {
		return
	}
	c := f.errors[errorType]
	if c == nil {
		c = f.errors[ErrorUnknown]
	}
	c.Inc()
}

// Panicked counts a panic that ends the flow.
func (f *FlowMetrics) Panicked() {
	if f != nil {
		f.panics.Inc()
	}
}

// Crossed records how long a change took to reach the twin.
func (f *FlowMetrics) Crossed(d time.Duration) {
	if f != nil {
		f.crossing.Observe(d.Seconds())
	}
}

// StatusReturned records how long a status took to reach the source.
func (f *FlowMetrics) StatusReturned(d time.Duration) {
	if f != nil {
		f.returning.Observe(d.Seconds())
	}
}

// Success tells that an object was brought in step, or found so, at now.
func (f *FlowMetrics) Success(now time.Time) {
	if f != nil {
		f.success.Set(unix(now))
	}
}

// SetObjects tells how many of the flow's objects are in a state (State…). Other states are not counted.
func (f *FlowMetrics) SetObjects(state string, n int) {
	if f == nil || f.gauges[state] == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gauges[state].Add(float64(n - f.counts[state]))
	f.counts[state] = n
}

// SetContentions tells how many of the flow's objects are contended, in which ways. Ways that are not among them are
// forgotten once no flow of the direction and kind has such objects.
func (f *FlowMetrics) SetContentions(counts map[Contention]int) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.contentions {
		if counts[c] == 0 {
			f.contention.DeleteLabelValues(c.Managers, c.Paths, c.Setting)
		}
	}
	for c, n := range counts {
		f.contention.WithLabelValues(c.Managers, c.Paths, c.Setting).Set(float64(n))
	}
	f.contentions = counts
}

// Close takes the flow's objects out of the gauges; counters stay.
func (f *FlowMetrics) Close() {
	for _, s := range states {
		f.SetObjects(s, 0)
	}
	f.SetContentions(nil)
}
