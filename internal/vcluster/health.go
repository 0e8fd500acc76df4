package vcluster

import (
	"errors"
	"fmt"
	"time"

	"isthmus.dev/isthmus/internal/engine"
	"isthmus.dev/isthmus/internal/observe"
)

// serve serves health and metrics. An address that is taken is waited for: it is no reason not to carry.
func (p *Plugin) serve(address string) {
	listener, err := observe.Listen(address)
	if err != nil {
		p.log.Error("Health and metrics are not served for now", "address", address, "error", err)
		p.tell("health and metrics are not served: " + err.Error() + "; the key listen in the plugin's configuration names another address")
	}
	p.running.Go(func() {
		for listener == nil {
			select {
			case <-p.ctx.Done():
				return
			case <-time.After(listenAgain):
				listener, _ = observe.Listen(address)
			}
		}
		if err != nil {
			p.mu.Lock()
			p.late = fmt.Sprintf("health and metrics are served only since %s: %s was taken before", time.Now().UTC().Format(time.RFC3339), address)
			p.log.Info("Health and metrics are served now", "address", address)
			p.mu.Unlock()
		}
		if err := observe.Serve(p.ctx, listener, p.metrics.Registry(), p.ready, p.status); err != nil {
			p.log.Error("Health and metrics are not served any more", "address", address, "error", err)
		}
	})
}

// listenAgain is how often an address that is taken is tried again.
const listenAgain = 2 * time.Second

// ready says why the plugin is not ready; nil: it is, with what else there is to say.
func (p *Plugin) ready() (notes []string, err error) {
	p.mu.Lock()
	problem, leads, e, late := p.problem, p.leads, p.engine, p.late
	p.mu.Unlock()
	switch {
	case problem != nil:
		return nil, problem
	case !leads:
		notes = []string{standingBy}
	case e == nil:
		return nil, errors.New("starting")
	default:
		if notes, err = e.Ready(); err != nil {
			return nil, err
		}
	}
	if late != "" {
		notes = append(notes, late)
	}
	return notes, nil
}

// standingBy is what a replica is that vCluster does not tell to lead.
const standingBy = "standing by: this replica of vCluster does not lead"

// status returns how everything stands; an engine that does not run has no rules to tell of.
func (p *Plugin) status() any {
	_, unready := p.ready()
	p.mu.Lock()
	e, o, leads := p.engine, p.options, p.leads
	p.mu.Unlock()
	s := engine.Status{Version: engine.StatusVersion, Isthmus: p.version, Time: time.Now(), Clusters: []engine.ClusterStatus{}, Rules: []engine.RuleStatus{}}
	switch {
	case e != nil:
		s = e.Status(p.version)
	case o != nil:
		s.ClusterID, s.RemoteID, s.Instance = o.ClusterID, o.RemoteID, o.Instance
	}
	s.Ready, s.Reason = unready == nil, ""
	switch {
	case unready != nil:
		s.Reason = unready.Error()
	case !leads:
		s.Reason = standingBy
	}
	return s
}
