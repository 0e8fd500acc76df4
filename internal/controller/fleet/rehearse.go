package fleet

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/engine"
	"isthmus.dev/isthmus/internal/flow"
)

// Rehearsal is what a fleet would run, for who only looks.
type Rehearsal struct {
	// Engines are those of the remotes that may be used, by name; they are not to be run.
	Engines map[string]*engine.Engine
	// Unserved are the Crossings that have no rule yet, by remote.
	Unserved map[string][]Unserved
	// Notes say, by remote, which namespaces do not cross there although they are offloaded.
	Notes map[string][]string
	// Refused says which objects are wrong as a whole, and what is wrong with them.
	Refused []string
}

// Unserved is a Crossing for which there is no rule yet.
type Unserved struct {
	Crossing string
	Outcome
	Why error
}

// Rehearse works out what a fleet with these options would run, and runs nothing. Metrics, Changed and Stale of the options
// are not needed.
func Rehearse(ctx context.Context, o Options, crossings []v1alpha1.Crossing, offloads map[string]Offload, members []Member) *Rehearsal {
	clusters, out := o.workOut(crossings, PairsOf(offloads), members, sides{
		kind:    asker(ctx, o.Local),
		carried: func(string, string) bool { return false }, // which a run that starts now does not know: its ledger tells
	})
	r := &Rehearsal{Engines: map[string]*engine.Engine{}, Unserved: map[string][]Unserved{}, Notes: map[string][]string{}}
	siblings := &flow.Siblings{}
	for _, m := range members {
		if clusters[m.Name] == nil {
			continue
		}
		options := o.engineOptions(m, out.Configs[m.Name], siblings)
		options.Metrics, options.Logger = o.Metrics.Of(m.Name), o.Logger.With("remote", m.Name)
		r.Engines[m.Name] = engine.New(options)
	}
	for _, name := range slices.Sorted(maps.Keys(out.Crossings)) {
		outcome := out.Crossings[name]
		if outcome.Err != nil {
			r.Refused = append(r.Refused, fmt.Sprintf("Crossing %s: %v", name, outcome.Err))
		}
		for remote, err := range outcome.Unserved {
			r.Unserved[remote] = append(r.Unserved[remote], Unserved{name, outcome, err})
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(offloads)) {
		offload := offloads[namespace]
		if offload.Err != nil {
			r.Refused = append(r.Refused, fmt.Sprintf("NamespaceOffloading of namespace %s: %v", namespace, offload.Err))
		}
		for remote, why := range offload.Refused {
			r.Notes[remote] = append(r.Notes[remote], fmt.Sprintf("namespace %s does not cross: %s", namespace, why))
		}
	}
	return r
}

// asker returns what asks both sides, once each, how they serve a resource.
func asker(ctx context.Context, local *cluster.Cluster) func(*cluster.Cluster, schema.GroupVersionResource) Kind {
	answers := map[question]answer{}
	ask := func(c *cluster.Cluster, resource schema.GroupVersionResource) answer {
		q := question{c, resource}
		a, asked := answers[q]
		if !asked {
			a.resource, a.err = c.ServedResource(ctx, resource)
			answers[q] = a
		}
		return a
	}
	return func(remote *cluster.Cluster, resource schema.GroupVersionResource) Kind {
		here, there := ask(local, resource), ask(remote, resource)
		return kindOf(here.resource, here.err, there.resource, there.err)
	}
}
