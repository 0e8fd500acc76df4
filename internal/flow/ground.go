package flow

import (
	"context"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/cluster"
)

// Ground is how both sides serve a flow's kind.
type Ground struct {
	Source, Twin cluster.Resource
	// SourceScopes and TwinScopes are the namespaces to list on each side; "": all at once.
	SourceScopes, TwinScopes []string
	// Schema is what the twins' side declares; nil: anything.
	Schema *boundary.Schema
}

// Ground looks at both sides once, for those who do not run the flow. The error says why it could not run.
func (f *Flow) Ground(ctx context.Context) (*Ground, error) {
	p, err := f.prepare(ctx)
	if err != nil {
		return nil, err
	}
	s := f.scopes(p, f.Extent())
	return &Ground{Source: p.source, Twin: p.twin, SourceScopes: s.sources, TwinScopes: s.twins, Schema: p.schema}, nil
}

// Undeclared returns the paths of a source that the twins' side does not declare (O7). Its status never crosses.
func Undeclared(schema *boundary.Schema, source map[string]any) []boundary.Path {
	return schema.Undeclared(source, "status")
}
