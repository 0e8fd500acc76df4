package observe

import (
	"cmp"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// remoteLabel tells the metrics of several remotes apart.
const remoteLabel = "remote"

// Remotes are the metrics of a process that serves several remotes: its own, and a set for each of them, with the label
// "remote".
type Remotes struct {
	own *Metrics

	mu  sync.Mutex
	all map[string]*Metrics
}

// NewRemotes returns the metrics of a process, which has no configuration of its own to read again.
func NewRemotes(own *Metrics) *Remotes {
	own.registry.Unregister(own.reloaded)
	own.registry.Unregister(own.reloadedAt)
	return &Remotes{own: own, all: map[string]*Metrics{}}
}

// Of returns the metrics of a remote.
func (r *Remotes) Of(remote string) *Metrics {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all[remote] == nil {
		r.all[remote] = newMetrics()
	}
	return r.all[remote]
}

// Forget drops the metrics of a remote that is gone.
func (r *Remotes) Forget(remote string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, remote)
}

// Gather implements prometheus.Gatherer.
func (r *Remotes) Gather() ([]*dto.MetricFamily, error) {
	r.mu.Lock()
	gatherers := prometheus.Gatherers{r.own.Registry()}
	for name, metrics := range r.all {
		gatherers = append(gatherers, labelled{metrics.registry, name})
	}
	r.mu.Unlock()
	return gatherers.Gather()
}

// labelled adds the name of a remote to metrics.
type labelled struct {
	from   prometheus.Gatherer
	remote string
}

// Gather implements prometheus.Gatherer.
func (l labelled) Gather() ([]*dto.MetricFamily, error) {
	families, err := l.from.Gather()
	name := remoteLabel
	for _, family := range families {
		for _, metric := range family.Metric {
			metric.Label = append(slices.Clone(metric.Label), &dto.LabelPair{Name: &name, Value: &l.remote})
			slices.SortFunc(metric.Label, func(a, b *dto.LabelPair) int { return cmp.Compare(a.GetName(), b.GetName()) })
		}
	}
	return families, err
}
