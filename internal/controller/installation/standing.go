package installation

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus.dev/isthmus/api/v1alpha1"
)

// Standing is how an Installation stands, with its inventory: what /status serves.
type Standing struct {
	Installation string                    `json:"installation"`
	Component    string                    `json:"component"`
	Profile      string                    `json:"profile,omitempty"` // empty: the local cluster
	Namespace    string                    `json:"namespace"`
	Ready        bool                      `json:"ready"`
	Reason       string                    `json:"reason,omitempty"`
	Message      string                    `json:"message,omitempty"`
	Revision     string                    `json:"revision,omitempty"`
	Inventory    []v1alpha1.InventoryEntry `json:"inventory,omitempty"`
	Leftovers    []v1alpha1.InventoryEntry `json:"leftovers,omitempty"`
}

// Standings returns how all Installations stand, sorted by namespace and name.
func (r *Installer) Standings(ctx context.Context) ([]Standing, error) {
	var list v1alpha1.InstallationList
	if err := r.client.List(ctx, &list); err != nil {
		return nil, err
	}
	all := make([]Standing, 0, len(list.Items))
	for i := range list.Items {
		all = append(all, standingOf(&list.Items[i]))
	}
	slices.SortFunc(all, func(a, b Standing) int { return cmp.Compare(a.Installation, b.Installation) })
	return all, nil
}

func standingOf(i *v1alpha1.Installation) Standing {
	s := Standing{
		Installation: i.Namespace + "/" + i.Name, Component: i.Spec.Component, Namespace: i.Namespace,
		Revision: i.Status.Revision, Inventory: i.Status.Inventory, Leftovers: i.Status.Leftovers,
	}
	if d := i.Spec.Destination; d != nil {
		s.Profile, s.Namespace = refOf(i).String(), d.Namespace
	}
	s.Reason = v1alpha1.ReasonLooking
	if c := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionReady); c != nil {
		s.Ready, s.Reason, s.Message = c.Status == metav1.ConditionTrue, c.Reason, c.Message
	}
	return s
}
