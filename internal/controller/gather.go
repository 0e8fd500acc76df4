package controller

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/controller/fleet"
	"isthmus.dev/isthmus/internal/controller/remotecluster"
)

// counts reports whether an object of those that say what crosses is taken into account: a run takes only those that keep
// their finalizer until what they stand for is tidied up.
type counts func(o client.Object, finalizer string) bool

// crossingsThat reads the Crossings that count.
func crossingsThat(ctx context.Context, reader client.Reader, count counts) (found []v1alpha1.Crossing, err error) {
	var list v1alpha1.CrossingList
	if err := reader.List(ctx, &list); err != nil {
		return nil, err
	}
	for i := range list.Items {
		if count(&list.Items[i], v1alpha1.CrossingFinalizer) {
			found = append(found, list.Items[i])
		}
	}
	return found, nil
}

// offloadingsThat reads the NamespaceOffloadings that count. There may be many, so they are not copies: they must not be
// changed.
func offloadingsThat(ctx context.Context, reader client.Reader, count counts) (found []v1alpha1.NamespaceOffloading, err error) {
	var list v1alpha1.NamespaceOffloadingList
	if err := reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	for i := range list.Items {
		if count(&list.Items[i], v1alpha1.OffloadingFinalizer) {
			found = append(found, list.Items[i])
		}
	}
	return found, nil
}

// weighty passes on only those changes of Crossings and NamespaceOffloadings that something else may follow from than before:
// how they stand is written often, and nothing is worked out from it but what providers have granted.
var weighty = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, after := e.ObjectOld, e.ObjectNew
	return before.GetGeneration() != after.GetGeneration() || before.GetUID() != after.GetUID() ||
		before.GetDeletionTimestamp().IsZero() != after.GetDeletionTimestamp().IsZero() ||
		!slices.Equal(before.GetFinalizers(), after.GetFinalizers()) || !slices.Equal(granted(before), granted(after))
}}

// granted returns the remotes of a NamespaceOffloading that have granted its counterpart.
func granted(o client.Object) (by []string) {
	if o, ok := o.(*v1alpha1.NamespaceOffloading); ok {
		for _, remote := range o.Status.Remotes {
			if remote.Granted {
				by = append(by, remote.Cluster)
			}
		}
	}
	return by
}

// members are the remotes as a fleet needs them; given: somebody else makes the namespaces there.
func members(remotes []remotecluster.Remote, given bool) (all []fleet.Member) {
	for _, remote := range remotes {
		all = append(all, fleet.Member{
			Remote:  fleet.Remote{Name: remote.Name, Labels: remote.Labels, Leaving: remote.Deleting, Consent: remote.Consent},
			Cluster: remote.Cluster, Barred: !remote.Usable || remote.Consent == "" && !given, Reached: remote.UID != "",
		})
	}
	return all
}

func remotesOf(members []fleet.Member) (all []fleet.Remote) {
	for _, m := range members {
		all = append(all, m.Remote)
	}
	return all
}
