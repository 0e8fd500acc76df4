package flow

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/cluster"
)

// plan is how both sides serve the kind at the moment.
type plan struct {
	source, twin       cluster.Resource
	sourceCRD, twinCRD *cluster.CRD
	schema             *boundary.Schema          // what the remote side declares
	statusSchema       *boundary.Schema          // what the local side declares of status
	gaps               map[string][]boundary.Gap // what can't cross, by rule
	// watched: sources are watched at all. sourcesWide and twinsWide: all namespaces of a side are watched at once, and not
	// each by itself.
	watched, sourcesWide, twinsWide bool
	// twinsNotServed: the twins' side does not serve the kind, beside an error that may say something else.
	twinsNotServed bool
	// heldUnseen: there may be sources that carry our finalizer where RBAC does not let us look.
	heldUnseen bool
}

// prepare asks both sides whether and how the flow can run. The plan may be partly filled in together with an error,
// which says what is waited for.
func (f *Flow) prepare(ctx context.Context) (p *plan, err error) {
	defer func() {
		if fault := f.caught(recover()); fault != nil {
			p, err = nil, fault
		}
	}()
	p = &plan{}
	from, to, err := f.askBoth(ctx)
	if err != nil {
		return nil, err
	}
	p.source, p.twin = from.resource, to.resource
	unserved := errors.Is(from.err, cluster.ErrNotServed)
	if p.twinsNotServed = errors.Is(to.err, cluster.ErrNotServed); from.err != nil && !(unserved && len(f.Rules) == 0) {
		p.twinsNotServed = p.twinsNotServed && unserved
		return f.guess(p), from.err
	}
	if to.err != nil {
		return f.guess(p), to.err
	}
	watched := len(f.Rules) > 0 || len(f.heldIn()) > 0 && from.err == nil
	if !watched {
		p.source = p.twin
	}
	if p.source.Namespaced != p.twin.Namespaced {
		return p, fmt.Errorf("%s is namespaced on one side and cluster-scoped on the other", f.Kind.Kind)
	}
	for _, rule := range f.Rules {
		if !p.twin.Namespaced && rule.Mode != boundary.ModeMirror && !rule.ClusterScoped {
			return p, fmt.Errorf("rule %s: %s is cluster-scoped: such kinds cross only as a mirror, or under vCluster's names where the rule says clusterScoped: true", rule.Name, f.Kind.Kind)
		}
	}
	p.sourceCRD, p.twinCRD, p.schema = from.crd, to.crd, to.schema
	if !watched {
		p.sourceCRD, from.crdErr = f.crd(ctx, f.From.Cluster, p.source.GroupResource())
	}
	for _, err := range []error{from.crdErr, to.crdErr} {
		if err != nil {
			return p, err
		}
	}
	if to.schemaErr != nil {
		return p, fmt.Errorf("the %s schema of %s: %w", f.To.Role(), f.Kind.Kind, to.schemaErr)
	}
	var sources *boundary.Schema
	if len(f.Rules) > 0 {
		if sources = from.schema; from.schemaErr != nil {
			return p, fmt.Errorf("the %s schema of %s: %w", f.From.Role(), f.Kind.Kind, from.schemaErr)
		}
	}
	p.gaps = map[string][]boundary.Gap{}
	for _, rule := range f.Rules {
		returns := rule.ReturnsFrom(f.Remote)
		if returns && !p.source.Status {
			return p, fmt.Errorf("rule %s asks for statusSync, but %s has no status subresource on the %s cluster: status could not be told from spec", rule.Name, f.Kind.Kind, f.From.Role())
		}
		if returns && !p.twin.Status {
			return p, fmt.Errorf("rule %s asks for statusSync, but %s has no status subresource on the %s cluster", rule.Name, f.Kind.Kind, f.To.Role())
		}
		if err := rule.CheckRemoteOwned(p.schema); err != nil {
			return p, err
		}
		if returns {
			p.statusSchema, _ = sources.At(boundary.Path{{Field: "status"}})
		}
		p.gaps[rule.Name] = rule.Gaps(sources, p.schema)
		if rule.Mode == boundary.ModeMirror {
			status, declared := p.schema.At(boundary.Path{{Field: "status"}})
			if declared && p.schema != nil && !p.twin.Status {
				return p, fmt.Errorf("rule %s is a mirror, but %s has no status subresource on the %s cluster to take its status", rule.Name, f.Kind.Kind, f.To.Role())
			}
			p.statusSchema = status
		}
	}
	if watched {
		if err := f.scopeSources(ctx, p); err != nil {
			return p, err
		}
	}
	return p, f.scopeTwins(ctx, p)
}

// identify makes sure that clusters are those of the ledger (F7).
func (f *Flow) identify(ctx context.Context, ends ...End) error {
	for _, side := range ends {
		uid, err := side.Cluster.UID(ctx)
		if err != nil {
			return err
		}
		if uid != side.UID {
			return &replacedError{fmt.Sprintf("the %s cluster is another one than before (its kube-system has UID %s, the ledger says %s): nothing is touched; if it was replaced on purpose, delete the ledger and start again",
				side.Role(), uid, side.UID)}
		}
	}
	return nil
}

// guess fills in where the CRD of a kind that is not served would be, so that its coming can be watched for.
func (f *Flow) guess(p *plan) *plan {
	known := p.twin
	if p.source.Resource != "" {
		known = p.source
	}
	if known.Resource == "" {
		known.GroupVersionResource, _ = meta.UnsafeGuessKindToResource(f.Kind)
	}
	if p.source.Resource == "" {
		p.source.GroupVersionResource = known.GroupVersionResource
	}
	if p.twin.Resource == "" {
		p.twin.GroupVersionResource = known.GroupVersionResource
	}
	return p
}

// crd reads the CRD behind a resource; nil: there is none. A terminating one is as good as not served.
func (f *Flow) crd(ctx context.Context, c *cluster.Cluster, gr schema.GroupResource) (*cluster.CRD, error) {
	if boundary.BuiltinGroup(gr.Group) {
		return nil, nil
	}
	crd, err := c.CRD(ctx, gr)
	if err != nil {
		return nil, err
	}
	return f.stands(c, crd)
}

// mayHold reports whether sources may carry our finalizer.
func (f *Flow) mayHold() bool {
	return f.held || slices.ContainsFunc(f.Rules, (*boundary.Rule).MayHold)
}
