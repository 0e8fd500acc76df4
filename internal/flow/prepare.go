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
	"isthmus.dev/isthmus/internal/ledger"
)

// plan is how both sides serve the kind at the moment.
type plan struct {
	source, twin       cluster.Resource
	sourceCRD, twinCRD *cluster.CRD
	schema             *boundary.Schema          // what the remote side declares
	statusSchema       *boundary.Schema          // what the local side declares of status
	gaps               map[string][]boundary.Gap // what can't cross, by rule
	sourceScopes       []string
	twinScopes         []string
	// formerScopes are watched for twins too, where RBAC still allows it; unseen: there may be twins in namespaces that
	// nobody knows and RBAC does not let us look for.
	formerScopes []string
	unseen       bool
	// heldScopes are watched besides for sources that carry our finalizer, where RBAC still allows it; heldUnseen: there
	// may be some where it does not let us look.
	heldScopes []string
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
	if err := f.identify(ctx, f.From, f.To); err != nil {
		return nil, err
	}
	if p.source, err = f.From.Resource(ctx, f.Kind); err != nil && !(errors.Is(err, cluster.ErrNotServed) && len(f.Rules) == 0) {
		return f.guess(p), err
	}
	watched := len(f.Rules) > 0 || len(f.HeldIn) > 0 && err == nil
	if p.twin, err = f.To.Resource(ctx, f.Kind); err != nil {
		return f.guess(p), err
	}
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
	if p.sourceCRD, err = f.crd(ctx, f.From.Cluster, p.source.GroupResource()); err != nil {
		return p, err
	}
	if p.twinCRD, err = f.crd(ctx, f.To.Cluster, p.twin.GroupResource()); err != nil {
		return p, err
	}
	if p.schema, err = f.To.Schema(ctx, f.Kind); err != nil {
		return p, fmt.Errorf("the %s schema of %s: %w", f.To.Role(), f.Kind.Kind, err)
	}
	var sources *boundary.Schema
	if len(f.Rules) > 0 {
		if sources, err = f.From.Schema(ctx, f.Kind); err != nil {
			return p, fmt.Errorf("the %s schema of %s: %w", f.From.Role(), f.Kind.Kind, err)
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
	if crd != nil && crd.Terminating {
		return nil, fmt.Errorf("%s cluster: the CRD of %s is being deleted", c.Role(), f.Kind.Kind)
	}
	return crd, nil
}

// scopeSources finds out how to watch sources: with one watch where RBAC allows it, else, or where the rules stay in a
// few namespaces, with one a namespace.
func (f *Flow) scopeSources(ctx context.Context, p *plan) (err error) {
	if !p.source.Namespaced {
		p.sourceScopes = []string{""}
		return nil
	}
	sources, listable := f.sourceNamespaces()
	if listable && len(sources) <= fewNamespaces {
		p.sourceScopes = sources
	} else if p.sourceScopes, err = f.scopesOf(ctx, f.From.Cluster, p.source, sources, listable); err != nil {
		return err
	}
	return f.scopeHeld(ctx, p)
}

// scopeHeld adds the namespaces that no rule takes sources from any more, but in which some may carry our finalizer.
func (f *Flow) scopeHeld(ctx context.Context, p *plan) error {
	if slices.Contains(p.sourceScopes, "") {
		return nil
	}
	if slices.Contains(f.HeldIn, ledger.Anywhere) {
		all, err := f.scopesOf(ctx, f.From.Cluster, p.source, nil, true)
		if err != nil {
			return err
		}
		if slices.Contains(all, "") {
			p.sourceScopes = all
			return nil
		}
		p.heldUnseen = true
	}
	for _, namespace := range f.HeldIn {
		if namespace != ledger.Anywhere && !slices.Contains(p.sourceScopes, namespace) {
			p.heldScopes = append(p.heldScopes, namespace)
		}
	}
	return nil
}

// scopeTwins finds out how to watch twins: with one watch where RBAC allows it, else with one a namespace.
func (f *Flow) scopeTwins(ctx context.Context, p *plan) (err error) {
	if !p.twin.Namespaced {
		p.twinScopes = []string{""}
		return nil
	}
	p.twinScopes, err = f.scopesOf(ctx, f.To.Cluster, p.twin, f.TwinNamespaces, f.TwinNamespaces != nil)
	if err != nil || slices.Contains(p.twinScopes, "") {
		return err
	}
	for _, namespace := range f.FormerNamespaces {
		switch {
		case namespace == ledger.Anywhere:
			p.unseen = true
		case !slices.Contains(p.twinScopes, namespace):
			p.formerScopes = append(p.formerScopes, namespace)
		}
	}
	return nil
}

// mayHold reports whether sources may carry our finalizer.
func (f *Flow) mayHold() bool {
	return len(f.HeldIn) > 0 || slices.ContainsFunc(f.Rules, (*boundary.Rule).MayHold)
}

// fewNamespaces is how many watches of one namespace each are taken for less than one of the whole cluster.
const fewNamespaces = 8

func (f *Flow) scopesOf(ctx context.Context, c *cluster.Cluster, r cluster.Resource, namespaces []string, listable bool) ([]string, error) {
	for _, verb := range []string{"list", "watch"} {
		ok, err := c.Can(ctx, verb, r.GroupVersionResource, "", "")
		if err != nil {
			return nil, err
		}
		if ok {
			continue
		}
		if !listable {
			return nil, fmt.Errorf("%s cluster: RBAC lacks the verb %s on %s in all namespaces, and the rules do not say in which namespaces it would do", c.Role(), verb, r.GroupResource())
		}
		return namespaces, nil
	}
	return []string{""}, nil
}

// sourceNamespaces returns the local namespaces that the rules stay in, where these can be listed.
func (f *Flow) sourceNamespaces() ([]string, bool) {
	set := map[string]bool{}
	for _, rule := range f.Rules {
		names, ok := rule.SourceNamespaces(f.Naming)
		if !ok {
			return nil, false
		}
		for _, name := range names {
			set[name] = true
		}
	}
	names := make([]string, 0, len(set))
	for name := range set {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, true
}
