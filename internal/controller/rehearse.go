package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/controller/fleet"
	"isthmus.dev/isthmus/internal/controller/remotecluster"
	"isthmus.dev/isthmus/internal/flow"
	"isthmus.dev/isthmus/internal/plan"
)

// Rehearse returns what reflection with these options would run now, by remote, sorted, for who only looks, and which objects
// are wrong as a whole. What it returns last is a context in which whoever answers now answers to the end. An error is one of
// reading the local cluster.
func Rehearse(ctx context.Context, o Options) (remotes []plan.Remote, refused []string, pinned context.Context, err error) {
	known, err := scheme()
	if err != nil {
		return nil, nil, nil, err
	}
	reader, err := client.New(o.Local.RESTConfig(), client.Options{Scheme: known})
	if err != nil {
		return nil, nil, nil, fmt.Errorf("local cluster: %w", err)
	}
	crossings, err := crossingsThat(ctx, reader, wouldCount)
	var offloadings []v1alpha1.NamespaceOffloading
	if err == nil {
		offloadings, err = offloadingsThat(ctx, reader, wouldCount)
	}
	var clusters v1alpha1.RemoteClusterList
	if err == nil {
		err = reader.List(ctx, &clusters)
	}
	if meta.IsNoMatchError(err) {
		err = errors.New("it does not serve the kinds that configure isthmus controller: apply the CRDs in config/crd, or name a file with --config")
	}
	if err != nil {
		return nil, nil, nil, fmt.Errorf("local cluster: %w", flow.Remedied(err, "local"))
	}
	reached := remotecluster.Reach(ctx, remotecluster.Options{
		Local: o.Local, Namespace: o.Namespace, Providers: o.Providers, UserAgent: o.UserAgent, Logger: o.Logger,
	}, clusters.Items)
	all := members(reached, false)
	for i := range all {
		all[i].Barred = all[i].Barred || !reached[i].Reached
	}
	r := fleet.Rehearse(ctx, fleet.Options{
		ClusterID: o.ClusterID, Instance: o.Instance, Namespace: o.Namespace, Local: o.Local, MassDeletion: o.MassDeletion,
		Endpoints: slices.Contains(o.Controllers, Endpoints), Metrics: o.Metrics, Logger: o.Logger,
	}, crossings, fleet.Offloads(offloadings, remotesOf(all), o.ClusterID), all)
	pinned = o.Local.Pin(ctx, o.Local.Server())
	for _, remote := range reached {
		if remote.Cluster != nil {
			pinned = remote.Cluster.Pin(pinned, remote.Cluster.Server())
		}
	}
	for _, remote := range reached {
		one := plan.Remote{Name: remote.Name, Notes: r.Notes[remote.Name]}
		if e := r.Engines[remote.Name]; e == nil {
			one.Err = fmt.Errorf("its RemoteCluster can't be used: %s: %s", remote.Reason, remote.Message)
		} else {
			one.Flows, one.Err = e.Rehearsal(pinned)
			one.Err = flow.Remedied(one.Err, "")
		}
		for _, u := range r.Unserved[remote.Name] {
			one.Waiting = append(one.Waiting, plan.Waiting{
				Direction: u.Direction, Kind: u.Resource.GroupResource().String(), Rules: []string{u.Crossing}, Why: u.Why.Error(),
			})
		}
		remotes = append(remotes, one)
	}
	return remotes, r.Refused, pinned, nil
}

// wouldCount reports whether a run would take an object: it adds the finalizer before it does.
func wouldCount(o client.Object, finalizer string) bool {
	return o.GetDeletionTimestamp() == nil || controllerutil.ContainsFinalizer(o, finalizer)
}
