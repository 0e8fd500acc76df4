package remotecluster

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/controller/link"
)

// Reach asks RemoteClusters once, all at the same time, as Remotes does over and over, for who only looks: nothing is
// written. What it returns is sorted by name. One that answers is usable, also when it was never used before.
func Reach(ctx context.Context, o Options, clusters []v1alpha1.RemoteCluster) []Remote {
	localUID, localErr := o.Local.UID(ctx)
	all, found, surveys := make([]Remote, len(clusters)), make([]facts, len(clusters)), make([]survey, len(clusters))
	var asking sync.WaitGroup
	for i := range clusters {
		rc := &clusters[i]
		all[i] = Remote{Name: rc.Name, Labels: rc.Labels, UID: rc.Status.ClusterUID, Deleting: rc.DeletionTimestamp != nil}
		found[i] = facts{State: link.State{Access: localErr}, pinned: rc.Status.ClusterUID, local: localUID}
		if localErr == nil {
			asking.Go(func() {
				found[i].State = link.Once(ctx, o.links(link.Usual), rc.Name, originOf(rc, o.Namespace), &surveys[i])
				all[i].Cluster = found[i].Client
			})
		}
	}
	asking.Wait()
	claims := make([]claim, len(clusters))
	for i := range clusters {
		claims[i] = claim{cmp.Or(found[i].pinned, found[i].Probe.UID), clusters[i].CreationTimestamp.Time, clusters[i].Name}
	}
	for i := range clusters {
		found[i].holder = claims[i].holder(claims)
		v := judge(found[i])
		all[i].Usable, all[i].Reached, all[i].Reason, all[i].Message = v.usable || v.reached, v.reached, v.reason, v.message
		all[i].Consent = surveys[i].answers().consent
	}
	slices.SortFunc(all, func(a, b Remote) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// originOf returns where a RemoteCluster's access comes from; namespace is where Secrets are.
func originOf(rc *v1alpha1.RemoteCluster, namespace string) link.Origin {
	if ref := rc.Spec.Access.ClusterProfileRef; ref != nil {
		return link.Origin{Namespace: ref.Namespace, Name: ref.Name}
	}
	o := link.Origin{Namespace: namespace}
	if ref := rc.Spec.Access.KubeconfigSecretRef; ref != nil {
		o.Name, o.Key = ref.Name, ref.Key
	}
	return o
}
