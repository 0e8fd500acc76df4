package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/controller/requests"
	"isthmus.dev/isthmus/internal/engine"
)

// Standing is how a Crossing stands on one remote.
type Standing struct {
	Remote string
	// Rule is how its rule stands; nil: there is none, for the reason in Reason.
	Rule   *engine.RuleStatus
	Reason string
}

// Crossing returns what a Crossing came to, and how it stands on each remote that it holds for. known is false until it
// was taken into account.
func (f *Fleet) Crossing(name string) (outcome Outcome, standings []Standing, known bool) {
	f.mu.Lock()
	outcome, known = f.outcome.Crossings[name]
	f.mu.Unlock()
	for _, remote := range outcome.Remotes {
		standings = append(standings, f.standing(name, remote, outcome))
	}
	return outcome, standings, known
}

func (f *Fleet) standing(name, remote string, outcome Outcome) Standing {
	out := Standing{Remote: remote}
	s := f.ship(remote)
	switch err := outcome.Unserved[remote]; {
	case s == nil:
		out.Reason = unusable(remote)
		return out
	case err != nil:
		out.Reason = err.Error()
		return out
	case s.fault() != nil:
		out.Reason = s.fault().Error()
		return out
	}
	if rule, ok := s.engine.Rule(name); ok {
		out.Rule, out.Reason = &rule, rule.Reason
		return out
	}
	out.Reason = cmp.Or(f.Why(remote), "starting")
	return out
}

func unusable(remote string) string {
	return "RemoteCluster " + remote + " can't be used: see its conditions"
}

// Kinds returns what Crossings carry to or from a remote.
func (f *Fleet) Kinds(remote string) []schema.GroupVersionResource {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.outcome.Kinds[remote]
}

// Rule returns the rule of a Crossing on a remote, and the namespaces there that it is for; nil: there is none.
func (f *Fleet) Rule(crossing, remote string) (rule *boundary.Rule, namespaces []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	conf := f.outcome.Configs[remote]
	if conf == nil {
		return nil, nil
	}
	for _, r := range conf.Rules {
		if r.Name == crossing {
			rule = r
		}
	}
	return rule, slices.Sorted(maps.Values(conf.Namespaces))
}

// Holders returns the remotes on which twins of a Crossing may be, sorted: those for which an engine runs, and those that it
// holds for and that can't be used for now.
func (f *Fleet) Holders(crossing string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	holders := slices.Collect(maps.Keys(f.ships))
	for _, remote := range f.outcome.Crossings[crossing].Remotes {
		if f.ships[remote] == nil && f.reached[remote] {
			holders = append(holders, remote)
		}
	}
	slices.Sort(holders)
	return holders
}

// CrossingDrained tells how many twins of a removed Crossing are left on a remote, those of endpoints included; known is false as long as that can't be
// told.
func (f *Fleet) CrossingDrained(name, remote string) (left int, known bool) {
	s := f.ship(remote)
	if s == nil {
		return 0, false
	}
	left, known = s.engine.RuleDrained(name)
	more, ok := f.endpointsDrained(s, name, remote)
	return left + more, known && ok
}

// NamespaceDrained tells how much of a withdrawn local namespace is left on a remote: twins, and then what a provider made
// for it. On one that was never reached there is nothing.
func (f *Fleet) NamespaceDrained(pair Pair) (left int, known bool) {
	s := f.ship(pair.Cluster)
	if s == nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		return 0, !f.reached[pair.Cluster]
	}
	if left, known = s.left(pair); !known {
		return left, left > 0
	}
	return s.given(pair.Remote)
}

// Why says why a remote is not ready, in a line; empty: it is.
func (f *Fleet) Why(remote string) string {
	s := f.ship(remote)
	if s == nil {
		return unusable(remote)
	}
	err := s.fault()
	if err == nil {
		_, err = s.engine.Ready()
	}
	if err == nil {
		return ""
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// given tells whether a provider still has something that it made for us: 1, or 0.
func (s *ship) given(remoteNamespace string) (left int, known bool) {
	if s.agreed() != v1alpha1.ConsentProvider {
		return 0, true
	}
	switch state := s.requests.State(remoteNamespace); {
	case !state.Known:
		return 0, false
	case !state.Gone:
		return 1, true
	}
	return 0, true
}

// RemoteDrained tells how much is left on a remote that leaves: twins, and then what its provider made for us.
func (f *Fleet) RemoteDrained(remote string) (left int, known bool) {
	s := f.ship(remote)
	if s == nil {
		return 0, false
	}
	if left, known = s.allLeft(); left > 0 || !known {
		return left, known
	}
	f.mu.Lock()
	pairs := f.pairs
	f.mu.Unlock()
	for _, pair := range pairs {
		if pair.Cluster != remote {
			continue
		}
		n, ok := s.given(pair.Remote)
		left, known = left+n, known && ok
	}
	return left, known
}

// allLeft tells how many twins are left on the remote. That there are none is remembered until something is to cross again.
func (s *ship) allLeft() (left int, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.engine.Current().Namespaces) > 0 {
		s.empty = false
	}
	if !s.empty {
		left, known = s.engine.RemoteDrained()
		s.empty = known && left == 0 && len(s.engine.Current().Namespaces) == 0
	}
	return left, known || s.empty
}

func (s *ship) agreed() v1alpha1.Consent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.consent
}

// NamespaceReady says why objects do not cross between a namespace and its counterpart; nil: they may.
func (f *Fleet) NamespaceReady(pair Pair) (reason, message string, ready bool) {
	s := f.ship(pair.Cluster)
	if s == nil {
		return "RemoteClusterUnusable", unusable(pair.Cluster), false
	}
	if err := s.fault(); err != nil {
		return "Refused", err.Error(), false
	}
	if s.agreed() == v1alpha1.ConsentProvider {
		state := s.requests.State(pair.Remote)
		switch {
		case !state.Known:
			return requests.ReasonRequested, "the provider has not answered yet", false
		case !state.Ready:
			return cmp.Or(state.Reason, requests.ReasonRequested), cmp.Or(state.Message, "the provider has not answered yet"), false
		case len(state.Refused) > 0:
			return v1alpha1.ReasonGranted, "the provider does not allow " + listed(state.Refused), true
		}
		return v1alpha1.ReasonGranted, "", true
	}
	reason, message, ready = s.engine.NamespaceReady(pair.Remote)
	if err := s.unmadeFor(pair.Remote); err != nil && reason == engine.ReasonMissing {
		message += ", and can't be made: " + err.Error()
	}
	return reason, message, ready
}

// OnItsWay reports whether a reason of NamespaceReady is that of something which needs but time.
func OnItsWay(reason string) bool {
	switch reason {
	case requests.ReasonRequested, requests.ReasonNotRead, engine.ReasonStarting:
		return true
	}
	return false
}

func (s *ship) unmadeFor(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unmade[name]
}

func listed(resources []v1alpha1.RequestedResource) string {
	names := make([]string, len(resources))
	for i, r := range resources {
		names[i] = fmt.Sprintf("%s (%s)", schema.GroupResource{Group: r.Group, Resource: r.Resource}, r.Access)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// Refused says, by Crossing, what is wrong with those that carry nothing.
func (f *Fleet) Refused() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.outcome.refused()
}

// Status returns how each remote's engine stands; version is that of the program.
func (f *Fleet) Status(version string) []engine.Status {
	all := []engine.Status{}
	for _, name := range f.Names() {
		if s := f.ship(name); s != nil {
			one := s.engine.Status(version)
			if err := s.fault(); err != nil {
				one.Ready, one.Reason = false, err.Error()
			}
			one.Rules = append(one.Rules, f.unserved(name)...)
			all = append(all, one)
		}
	}
	return all
}

// unserved returns how the Crossings stand that have no rule on a remote yet.
func (f *Fleet) unserved(remote string) (rules []engine.RuleStatus) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(f.outcome.Crossings)) {
		outcome := f.outcome.Crossings[name]
		if err := outcome.Unserved[remote]; err != nil {
			rules = append(rules, engine.RuleStatus{
				Name: name, Kind: outcome.Resource.Resource, Group: outcome.Resource.Group, Direction: outcome.Direction,
				Reason: err.Error(), Objects: map[string]int{},
			})
		}
	}
	return rules
}
