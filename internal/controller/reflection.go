package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/controller/crossing"
	"isthmus.dev/isthmus/internal/controller/endpoints"
	"isthmus.dev/isthmus/internal/controller/fleet"
	"isthmus.dev/isthmus/internal/controller/liqo"
	"isthmus.dev/isthmus/internal/controller/nudge"
	"isthmus.dev/isthmus/internal/controller/offloading"
	"isthmus.dev/isthmus/internal/controller/remotecluster"
	"isthmus.dev/isthmus/internal/observe"
)

// refreshEvery is how long changes of the engines' numbers are gathered before statuses are written.
const refreshEvery = time.Second

// reflection is what runs in one term.
type reflection struct {
	client  client.Client
	remotes *remotecluster.Remotes
	fleet   *fleet.Fleet
	events  *observe.Events
	mapped  *mapped           // nil: NamespaceOffloadings say which namespaces have counterparts
	sender  *endpoints.Sender // nil: endpoints do not cross

	// stale leads to what is wanted being worked out again, refresh to statuses being told again.
	stale   nudge.Nudge
	refresh []nudge.Nudge
	dirty   chan struct{}

	mu       sync.Mutex
	offloads map[string]fleet.Offload // nil: not worked out yet
	tasks    sync.WaitGroup
}

// everything is the one request by which what is wanted is worked out.
var everything = types.NamespacedName{Name: "everything"}

// newReflection sets the controllers of reflection up; they run with the manager, and their engines until ctx ends. links, if
// there are any, say where endpoints live.
func (c *Controller) newReflection(ctx context.Context, mgr ctrl.Manager, localUID string, links *endpoints.Links) (*reflection, error) {
	r := &reflection{
		client: mgr.GetClient(), dirty: make(chan struct{}, 1), refresh: make([]nudge.Nudge, 2),
		events: observe.NewEvents(c.Local.Clientset(), observe.Component, true),
	}
	r.events.LogTo(c.Logger)
	again := func() { r.stale.Add(everything) }
	r.fleet = fleet.New(ctx, fleet.Options{
		ClusterID: c.ClusterID, Instance: c.Instance, LocalUID: localUID, Namespace: c.Namespace, Local: c.Local,
		MassDeletion: c.MassDeletion, NamespacesGiven: c.NamespaceSource == SourceLiqo, Metrics: c.Metrics, Logger: c.Logger,
		Changed: r.changed, Stale: again,
		Endpoints: links != nil, ServiceMoved: func(service types.NamespacedName) { r.sender.ServiceMoved(service) },
	})
	if links != nil {
		if err := r.sendEndpoints(mgr, c, links); err != nil {
			return nil, err
		}
	}
	r.remotes = remotecluster.New(remotecluster.Options{
		Local: c.Local, Namespace: c.Namespace, Providers: c.Providers, UserAgent: c.UserAgent, Gate: c.Gate,
		Logger: c.Logger, Metrics: c.Own, Events: r.events, Kinds: r.fleet.Kinds, Drained: r.fleet.RemoteDrained,
		Changed: again,
	})
	if err := r.remotes.SetupWithManager(mgr); err != nil {
		return nil, err
	}
	ignored := ""
	if c.NamespaceSource == SourceLiqo {
		maps := liqo.New(c.Local, c.Logger, again)
		r.mapped = &mapped{maps: maps, local: c.Local, fleet: r.fleet}
		r.tasks.Go(func() { maps.Run(ctx) })
		ignored = "isthmus runs with --namespace-source=liqo, so the NamespaceOffloadings of Liqo (offloading.liqo.io) say which namespaces are offloaded, and this one is not looked at"
	}
	once := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: everything}}
	})
	// A manager may follow another one in this process.
	options := controller.Options{SkipNameValidation: ptr.To(true), MaxConcurrentReconciles: 1}
	err := ctrl.NewControllerManagedBy(mgr).Named("fleet").WithOptions(options).
		Watches(&v1alpha1.Crossing{}, once, builder.WithPredicates(weighty)).
		Watches(&v1alpha1.NamespaceOffloading{}, once, builder.WithPredicates(weighty)).WatchesRawSource(r.stale.Source()).
		Complete(reconcile.Func(r.apply))
	if err != nil {
		return nil, fmt.Errorf("setting up the fleet: %w", err)
	}
	err = ctrl.NewControllerManagedBy(mgr).Named("crossing").WithOptions(options).
		For(&v1alpha1.Crossing{}).WatchesRawSource(r.refresh[0].Source()).
		Complete(&crossing.Reconciler{Client: r.client, Fleet: r.fleet, Local: c.Local, Remote: r.remote, Events: r.events})
	if err != nil {
		return nil, fmt.Errorf("setting up the controller of Crossings: %w", err)
	}
	err = ctrl.NewControllerManagedBy(mgr).Named("offloading").WithOptions(options).
		For(&v1alpha1.NamespaceOffloading{}).WatchesRawSource(r.refresh[1].Source()).
		Complete(&offloading.Reconciler{Client: r.client, Fleet: r.fleet, Offload: r.offload, Ignored: ignored, Events: r.events})
	if err != nil {
		return nil, fmt.Errorf("setting up the controller of NamespaceOffloadings: %w", err)
	}
	r.tasks.Go(func() { r.tell(ctx) })
	return r, nil
}

// wait waits until everything has stopped.
func (r *reflection) wait() {
	r.tasks.Wait()
	r.fleet.Wait()
	r.events.Shutdown()
}

// apply works out what is wanted, from all the objects there are, and makes it run.
func (r *reflection) apply(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	crossings, err := crossingsThat(ctx, r.client, controllerutil.ContainsFinalizer)
	if err != nil {
		return reconcile.Result{}, err
	}
	all := members(r.remotes.All(), r.mapped != nil)
	pairs, known, err := r.pairs(ctx, remotesOf(all))
	if err != nil || !known {
		return reconcile.Result{}, err
	}
	r.fleet.Apply(crossings, pairs, all)
	if r.fleet.EndpointsCross() {
		if err := r.sender.Begin(); err != nil {
			return reconcile.Result{}, err
		}
	}
	r.remotes.KindsChanged()
	r.changed()
	return reconcile.Result{}, nil
}

// pairs works out which namespaces have counterparts; known is false as long as that can't be told.
func (r *reflection) pairs(ctx context.Context, remotes []fleet.Remote) (pairs []fleet.Pair, known bool, err error) {
	if r.mapped != nil {
		return r.mapped.work(ctx, remotes)
	}
	offloadings, err := offloadingsThat(ctx, r.client, controllerutil.ContainsFinalizer)
	if err != nil {
		return nil, false, err
	}
	offloads := fleet.Offloads(offloadings, remotes, r.fleet.ClusterID)
	r.mu.Lock()
	r.offloads = offloads
	r.mu.Unlock()
	return fleet.PairsOf(offloads), true, nil
}

func (r *reflection) offload(namespace string) (fleet.Offload, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o, known := r.offloads[namespace]
	return o, known
}

func (r *reflection) remote(name string) *cluster.Cluster {
	for _, remote := range r.remotes.All() {
		if remote.Name == name && remote.Usable {
			return remote.Cluster
		}
	}
	return nil
}

// changed notes that statuses may have changed.
func (r *reflection) changed() {
	select {
	case r.dirty <- struct{}{}:
	default:
	}
}

// tell has statuses told again, some changes at a time, until ctx ends.
func (r *reflection) tell(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.dirty:
		}
		if r.sender != nil {
			r.sender.LookAgain()
		}
		var crossings v1alpha1.CrossingList
		var offloadings v1alpha1.NamespaceOffloadingList
		if r.client.List(ctx, &crossings) == nil && r.client.List(ctx, &offloadings, client.UnsafeDisableDeepCopy) == nil {
			for i := range crossings.Items {
				r.refresh[0].Add(client.ObjectKeyFromObject(&crossings.Items[i]))
			}
			for i := range offloadings.Items {
				r.refresh[1].AddMany(client.ObjectKeyFromObject(&offloadings.Items[i]))
			}
		}
		for _, remote := range r.fleet.Names() {
			r.remotes.Recheck(remote)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(refreshEvery):
		}
	}
}
