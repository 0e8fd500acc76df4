package installation

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/cluster"
)

type rehearsal struct{}

func (r *rehearsal) lock(l lock, inventory []v1alpha1.InventoryEntry) {}
func (r *rehearsal) write(ctx context.Context, p *pass, resource cluster.Resource, key objectKey, q question, d decision) (*unstructured.Unstructured, error) {
	return nil, nil
}
func (r *rehearsal) remove(ctx context.Context, p *pass, entries []v1alpha1.InventoryEntry) error {
	return nil
}
