package remotecluster

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"k8s.io/client-go/rest"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/cluster"
)

// Reach asks RemoteClusters once, all at the same time, as Remotes does over and over, for who only looks: nothing is
// written. What it returns is sorted by name. One that answers is usable, also when it was never used before.
func Reach(ctx context.Context, o Options, clusters []v1alpha1.RemoteCluster) []Remote {
	localUID, localErr := o.Local.UID(ctx)
	profiles, profilesErr := servedProfiles(ctx, o.Local)
	all, found := make([]Remote, len(clusters)), make([]facts, len(clusters))
	var asking sync.WaitGroup
	for i := range clusters {
		rc := &clusters[i]
		from := originOf(rc, o.Namespace, profiles)
		all[i] = Remote{Name: rc.Name, Labels: rc.Labels, UID: rc.Status.ClusterUID, Deleting: rc.DeletionTimestamp != nil}
		found[i] = facts{pinned: rc.Status.ClusterUID, local: localUID}
		err := localErr
		if rc.Spec.Access.ClusterProfileRef != nil {
			err = cmp.Or(err, profilesErr)
		}
		asking.Go(func() { all[i].Cluster = found[i].reach(ctx, o, rc.Name, from, err) })
	}
	asking.Wait()
	claims := make([]claim, len(clusters))
	for i := range clusters {
		claims[i] = claim{cmp.Or(found[i].pinned, found[i].probed.uid), clusters[i].CreationTimestamp.Time, clusters[i].Name}
	}
	for i := range clusters {
		found[i].holder = claims[i].holder(claims)
		v := judge(found[i])
		all[i].Usable, all[i].Reached, all[i].Reason, all[i].Message = v.usable || v.reached, v.reached, v.reason, v.message
		all[i].Consent = found[i].probed.consent
	}
	slices.SortFunc(all, func(a, b Remote) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// reach finds out what a verdict depends on; err is why it can't be told where from. The cluster is nil when it is not known
// how to reach it.
func (f *facts) reach(ctx context.Context, o Options, name string, from origin, err error) *cluster.Cluster {
	seen := sighting{known: err == nil, err: err}
	if seen.known && !from.resource.Empty() {
		seen.object, seen.err = readNow(ctx, o.Local, from)
	}
	config, unhealthy, err := from.config(seen, o.Providers)
	if f.unhealthy, f.access = unhealthy, err; err != nil || unhealthy != nil {
		return nil
	}
	client, err := cluster.Connect(cluster.Options{
		Role: name, UserAgent: o.UserAgent, Gate: o.Gate, Logger: o.Logger,
		Source: func(bool) (*rest.Config, error) { return config, nil },
	})
	if err != nil {
		f.access = err
		return nil
	}
	f.probed = ask(ctx, usual.answer, client, probe{}, nil, true)
	f.health = client.Health()
	return client
}
