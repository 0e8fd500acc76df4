package flow

import (
	"context"
	"fmt"
	"sync"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/cluster"
)

// answers are what one side says of the kind. After an error, what follows it is not asked for.
type answers struct {
	resource cluster.Resource
	err      error // of resource
	crd      *cluster.CRD
	crdErr   error
	// schema is what the side declares of the kind.
	schema    *boundary.Schema
	schemaErr error
}

// askBoth makes sure that both clusters are those of the ledger (F7), and asks them of the kind, all at the same time. The
// error is that of the first part.
func (f *Flow) askBoth(ctx context.Context) (from, to answers, err error) {
	var fromErr, toErr error
	fault := f.together(
		func() { fromErr = f.identify(ctx, f.From) },
		func() { toErr = f.identify(ctx, f.To) },
		func() { from = f.ask(ctx, f.From.Cluster) },
		func() { to = f.ask(ctx, f.To.Cluster) },
	)
	for _, one := range []error{fault, fromErr, toErr} {
		if one != nil {
			return answers{}, answers{}, one
		}
	}
	return from, to, nil
}

// ask asks one side how it serves the kind, and what it declares of it.
func (f *Flow) ask(ctx context.Context, c *cluster.Cluster) (a answers) {
	if a.resource, a.err = c.Resource(ctx, f.Kind); a.err != nil {
		return a
	}
	if boundary.BuiltinGroup(f.Kind.Group) {
		a.schema, a.schemaErr = c.SchemaOf(ctx, f.Kind, a.resource)
		return a
	}
	definition, err := c.Definition(ctx, a.resource.GroupResource())
	switch {
	case err != nil:
		a.crdErr = err
	case definition == nil:
		a.schema, a.schemaErr = c.SchemaOf(ctx, f.Kind, a.resource)
	default:
		a.crd, a.crdErr = f.stands(c, definition.CRD())
		a.schema, a.schemaErr = definition.Schema(f.Kind)
	}
	return a
}

// stands is an error for a CRD that is being deleted: it is as good as not served.
func (f *Flow) stands(c *cluster.Cluster, crd *cluster.CRD) (*cluster.CRD, error) {
	if crd != nil && crd.Terminating {
		return nil, fmt.Errorf("%s cluster: the CRD of %s is being deleted", c.Role(), f.Kind.Kind)
	}
	return crd, nil
}

// together runs tasks at the same time, and returns when all are done. The error is a panic of one of them.
func (f *Flow) together(tasks ...func()) error {
	faults := make([]error, len(tasks))
	var running sync.WaitGroup
	for i, task := range tasks {
		running.Go(func() {
			defer func() { faults[i] = f.caught(recover()) }()
			task()
		})
	}
	running.Wait()
	for _, fault := range faults {
		if fault != nil {
			return fault
		}
	}
	return nil
}
