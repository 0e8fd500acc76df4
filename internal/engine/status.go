package engine

import (
	"fmt"
	"slices"
	"time"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/flow"
	"isthmus.dev/isthmus/internal/leader"
	"isthmus.dev/isthmus/internal/ledger"
)

// StatusVersion is the version of the document that Status is.
const StatusVersion = "v1"

// Status is how an Isthmus stands: what /status serves and isthmus status shows. It holds no values of objects (F4).
type Status struct {
	Version   string    `json:"version"`
	Isthmus   string    `json:"isthmus"`
	ClusterID string    `json:"clusterID"`
	RemoteID  string    `json:"remoteID"`
	Instance  string    `json:"instance"`
	Time      time.Time `json:"time"`
	// Ready is that of /readyz, and Reason why it is not, or why nothing is carried all the same.
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"`
	// Election says who leads; nil: this instance is alone.
	Election *leader.State   `json:"election,omitempty"`
	Config   ConfigStatus    `json:"config"`
	Clusters []ClusterStatus `json:"clusters"`
	Rules    []RuleStatus    `json:"rules"`
}

// ConfigStatus is what configuration runs.
type ConfigStatus struct {
	// Hash tells its text apart from others, Since is when it was read.
	Hash  string    `json:"hash,omitempty"`
	Since time.Time `json:"since"`
	// Refused says why the file as it is now is not what runs; empty: it is.
	Refused string `json:"refused,omitempty"`
}

// ClusterStatus is how a cluster is reached.
type ClusterStatus struct {
	Name    string    `json:"name"`
	Server  string    `json:"server"`
	Reached bool      `json:"reached"`
	Since   time.Time `json:"since"`
	Error   string    `json:"error,omitempty"`
}

// RuleStatus is how a rule stands. A rule without a name stands for objects of its kind that no rule takes yet.
type RuleStatus struct {
	Name      string             `json:"name"`
	Kind      string             `json:"kind"`
	Group     string             `json:"group,omitempty"`
	Direction boundary.Direction `json:"direction"`
	Active    bool               `json:"active"`
	Reason    string             `json:"reason,omitempty"`
	// Objects counts the objects by state, as the metric isthmus_objects does.
	Objects map[string]int `json:"objects"`
	// Undeclared are the fields that do not cross (O7).
	Undeclared []string `json:"undeclared,omitempty"`
	// Paused tells of deletes of its kind that the guard holds (F8); nil: it holds none.
	Paused *PausedStatus `json:"paused,omitempty"`
	// Unseen says where twins or held sources may be left that RBAC does not let be seen.
	Unseen []string       `json:"unseen,omitempty"`
	Oldest *PendingStatus `json:"oldestChange,omitempty"`
	// Latency is that of the last crossings; nil: there was none.
	Latency   *LatencyStatus `json:"latency,omitempty"`
	LastError *TroubleStatus `json:"lastError,omitempty"`
}

// PausedStatus says that of so many twins of a kind so many would go, and how to let them.
type PausedStatus struct {
	Deletes int    `json:"deletes"`
	Twins   int    `json:"twins"`
	Allow   string `json:"allow"`
}

// PendingStatus is the change that has waited longest.
type PendingStatus struct {
	Object string    `json:"object"`
	Since  time.Time `json:"since"`
}

// LatencyStatus is how long the last crossings took, in seconds.
type LatencyStatus struct {
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	Count int     `json:"count"`
}

// TroubleStatus is what went wrong last.
type TroubleStatus struct {
	Object  string    `json:"object"`
	At      time.Time `json:"at"`
	Message string    `json:"message"`
}

// Status returns how everything stands now; version is that of the program.
func (e *Engine) Status(version string) Status {
	_, unready := e.Ready()
	e.mu.Lock()
	s := Status{
		Version: StatusVersion, Isthmus: version, ClusterID: e.ClusterID, RemoteID: e.RemoteID, Instance: e.Instance,
		Time: time.Now(), Ready: unready == nil, Rules: []RuleStatus{},
		Config: ConfigStatus{Hash: e.wanted.Hash, Since: e.wantedSince},
	}
	if e.refused != nil {
		s.Config.Refused = e.refused.Error()
	}
	tasks := e.running
	e.mu.Unlock()
	if e.Election != nil {
		election := e.Election.State()
		s.Election = &election
	}
	if unready != nil {
		s.Reason = unready.Error()
	}
	for _, c := range []*cluster.Cluster{e.Local, e.Remote} {
		h := c.Health()
		one := ClusterStatus{Name: c.Role(), Server: c.Server(), Reached: h.Reached, Since: h.Since}
		if h.Err != nil {
			one.Error = h.Err.Error()
		}
		s.Clusters = append(s.Clusters, one)
	}
	for _, t := range tasks {
		s.Rules = append(s.Rules, e.rulesOf(t.Flow)...)
	}
	return s
}

// Rule returns how a rule stands; ok is false where no flow runs it.
func (e *Engine) Rule(name string) (rule RuleStatus, ok bool) {
	for _, t := range e.tasks() {
		if !slices.ContainsFunc(t.Rules, func(r *boundary.Rule) bool { return r.Name == name }) {
			continue
		}
		for _, rule := range e.rulesOf(t.Flow) {
			if rule.Name == name {
				return rule, true
			}
		}
	}
	return RuleStatus{}, false
}

// rulesOf returns how the rules of a flow stand.
func (e *Engine) rulesOf(f *flow.Flow) (all []RuleStatus) {
	state, standings, gaps, unseen := f.State(), f.Standings(), f.Gaps(), f.Unseen()
	deletes, twins := f.Held()
	names := []string{}
	for _, rule := range f.Rules {
		names = append(names, rule.Name)
	}
	if _, ok := standings[""]; ok {
		names = append(names, "")
	}
	for _, name := range names {
		standing := standings[name]
		one := RuleStatus{
			Name: name, Kind: f.Kind.Kind, Group: f.Kind.Group, Direction: f.Direction,
			Active: state.Active, Reason: state.Reason, Objects: standing.Objects,
			Unseen: unseen,
		}
		if deletes > 0 && name != "" {
			one.Paused = &PausedStatus{deletes, twins, fmt.Sprintf("kubectl -n %s annotate configmap %s %s=%s",
				e.Namespace, e.LedgerName, ledger.AllowMassDeletion, name)}
		}
		for _, g := range gaps[name] {
			one.Undeclared = append(one.Undeclared, g.String())
		}
		if p := standing.Oldest; p != nil {
			one.Oldest = &PendingStatus{boundary.FormatName(p.Source), p.Since}
		}
		if n := len(standing.Recent); n > 0 {
			one.Latency = &LatencyStatus{standing.Recent[n/2].Seconds(), standing.Recent[n*99/100].Seconds(), n}
		}
		if t := standing.LastError; t != nil {
			one.LastError = &TroubleStatus{boundary.FormatName(t.Source), t.At, t.Message}
		}
		all = append(all, one)
	}
	return all
}
