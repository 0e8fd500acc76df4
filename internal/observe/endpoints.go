package observe

import "github.com/prometheus/client_golang/prometheus"

// EndpointMetrics are what the endpoints controller measures: a collector, to be registered while that runs. The methods of a
// nil *EndpointMetrics do nothing.
type EndpointMetrics struct {
	received, refused, slices, links *prometheus.GaugeVec
}

// NewEndpointMetrics returns metrics that are registered nowhere yet.
func NewEndpointMetrics() *EndpointMetrics {
	gauge := func(name, label, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{label})
	}
	return &EndpointMetrics{
		received: gauge("isthmus_received_endpoints", "path", "Endpoints in the EndpointSlices that were made for consumers, by how they are reached."),
		refused:  gauge("isthmus_refused_endpoints", "reason", "Endpoints that consumers sent and that are in no EndpointSlice, by why."),
		slices:   gauge("isthmus_received_slices", "state", "ShadowEndpointSlices of consumers, by the state they are in."),
		links:    gauge("isthmus_link_up", "cluster", "Whether a ClusterLink is used as being up (1), or down (0)."),
	}
}

// Describe and Collect make them a prometheus.Collector.
func (e *EndpointMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range e.all() {
		c.Describe(to)
	}
}

// Collect is documented at Describe.
func (e *EndpointMetrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range e.all() {
		c.Collect(to)
	}
}

func (e *EndpointMetrics) all() []*prometheus.GaugeVec {
	return []*prometheus.GaugeVec{e.received, e.refused, e.slices, e.links}
}

// AddReceived counts endpoints by path, AddRefused those that were refused by reason, and AddSlices slices by state: more by a
// positive number, fewer by a negative one.
func (e *EndpointMetrics) AddReceived(path string, n int) {
	if e != nil {
		e.received.WithLabelValues(path).Add(float64(n))
	}
}

// AddRefused is AddReceived for endpoints that are in no slice.
func (e *EndpointMetrics) AddRefused(reason string, n int) {
	if e != nil {
		e.refused.WithLabelValues(reason).Add(float64(n))
	}
}

// AddSlices is AddReceived for slices.
func (e *EndpointMetrics) AddSlices(state string, n int) {
	if e != nil {
		e.slices.WithLabelValues(state).Add(float64(n))
	}
}

// SetLink tells whether a link is up.
func (e *EndpointMetrics) SetLink(cluster string, up bool) {
	if e != nil {
		e.links.WithLabelValues(cluster).Set(oneIf(up))
	}
}

// RemoveLink forgets a link that is not used any more.
func (e *EndpointMetrics) RemoveLink(cluster string) {
	if e != nil {
		e.links.DeleteLabelValues(cluster)
	}
}
