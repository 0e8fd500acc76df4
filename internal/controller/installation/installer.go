package installation

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/cluster/access"
	"isthmus.dev/isthmus/internal/controller/members"
	"isthmus.dev/isthmus/internal/observe"
)

// Options say what an Installer works with. All but Providers, Gate and Events are required.
type Options struct {
	// Hub is the local cluster's ID, and LocalUID the UID of its namespace kube-system.
	Hub, LocalUID string
	// Local is the cluster that the Installations are in.
	Local *cluster.Cluster
	// Providers says which access plugins may be run for ClusterProfiles; nil: none.
	Providers *access.ProviderFile
	// UserAgent is sent with every request to a member.
	UserAgent string
	// Gate, if set, is asked before each write (cluster.Options.Gate).
	Gate   func() error
	Logger *slog.Logger
	Events *observe.Events
}

// Installer keeps the Installations of a hub. It serves one manager.
type Installer struct {
	o       Options
	client  client.Client
	members *members.Members
	member  func(types.NamespacedName) members.Member // how a cluster is reached
	sources *eyes                                     // on the hub: what has manifests

	ctx  context.Context // of the workers; ends with the manager
	stop context.CancelFunc
	ends sync.WaitGroup

	mu      sync.Mutex
	workers map[types.NamespacedName]*worker
	places  map[types.NamespacedName]*place
}

// place is a cluster that something is installed on: what is seen of it, and what it serves.
type place struct {
	eyes  *eyes
	kinds *kinds
}

// local stands for the local cluster, where a ClusterProfile names any other one.
var local = types.NamespacedName{}

// New returns an Installer that does nothing before its manager runs.
func New(o Options) *Installer {
	r := &Installer{o: o, workers: map[types.NamespacedName]*worker{}, places: map[types.NamespacedName]*place{}}
	r.ctx, r.stop = context.WithCancel(context.Background())
	r.member = r.reach
	r.sources = newEyes(r.ctx, o.Hub, r.wake)
	r.members = members.New(members.Options{
		Local: o.Local, Providers: o.Providers, UserAgent: o.UserAgent, Gate: o.Gate, Logger: o.Logger, Changed: r.memberChanged,
	})
	return r
}

// SetupWithManager makes a manager run r, once. The manager's scheme knows the types of api/v1alpha1.
func (r *Installer) SetupWithManager(mgr ctrl.Manager) error {
	r.client = mgr.GetClient()
	if err := mgr.Add(manager.RunnableFunc(r.run)); err != nil {
		return fmt.Errorf("setting up the connections to members: %w", err)
	}
	err := ctrl.NewControllerManagedBy(mgr).Named("installation").For(&v1alpha1.Installation{}).
		// A manager may follow another one in this process.
		WithOptions(controller.Options{SkipNameValidation: ptr.To(true), MaxConcurrentReconciles: 1}).
		Complete(reconcile.Func(r.reconcile))
	if err != nil {
		return fmt.Errorf("setting up the controller of Installations: %w", err)
	}
	return nil
}

// run keeps the members' connections until ctx ends; then it ends all workers.
func (r *Installer) run(ctx context.Context) error {
	r.ends.Go(func() { r.members.Run(r.ctx) })
	<-ctx.Done()
	r.mu.Lock()
	r.stop() // no worker begins any more
	r.mu.Unlock()
	r.ends.Wait()
	return nil
}

// reconcile passes on to an Installation's own worker that it changed: a cluster that hangs holds up its own ones only.
func (r *Installer) reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var all v1alpha1.InstallationList
	if err := r.client.List(ctx, &all); err != nil {
		return reconcile.Result{}, err
	}
	there := false
	refs := map[types.NamespacedName]bool{}
	for i := range all.Items {
		there = there || client.ObjectKeyFromObject(&all.Items[i]) == request.NamespacedName
		if ref := refOf(&all.Items[i]); ref != local {
			refs[ref] = true
		}
	}
	r.members.Want(refs)
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.workers[request.NamespacedName]
	switch {
	case there && w == nil && r.ctx.Err() == nil:
		w = newWorker(r, request.NamespacedName)
		r.workers[request.NamespacedName] = w
		r.ends.Go(w.run)
	case !there && w != nil:
		delete(r.workers, request.NamespacedName)
		w.stop()
	}
	if w != nil {
		w.nudge()
	}
	return reconcile.Result{}, nil
}

// refOf returns the ClusterProfile that an Installation goes to.
func refOf(i *v1alpha1.Installation) types.NamespacedName {
	if i.Spec.Destination == nil {
		return local
	}
	ref := i.Spec.Destination.ClusterProfileRef
	return types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
}

// reach returns how a cluster is reached.
func (r *Installer) reach(ref types.NamespacedName) members.Member {
	if ref != local {
		return r.members.Get(ref)
	}
	return members.Member{Cluster: r.o.Local, UID: r.o.LocalUID, Reached: true, Server: r.o.Local.Server(), Epoch: r.o.Local.Epoch()}
}

// place returns what is known of a cluster.
func (r *Installer) place(ref types.NamespacedName) *place {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.places[ref] == nil {
		r.places[ref] = &place{eyes: newEyes(r.ctx, r.o.Hub, r.wake), kinds: newKinds()}
	}
	return r.places[ref]
}

// memberChanged has the Installations of a cluster looked at.
func (r *Installer) memberChanged(ref types.NamespacedName) {
	if r.members.Get(ref).Reached {
		r.place(ref).eyes.nudge()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.workers {
		if w.at() == ref {
			w.nudge()
		}
	}
}

// wake has an Installation looked at.
func (r *Installer) wake(name types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.workers[name]; w != nil {
		w.nudge()
	}
}

// event tells an Event of an Installation.
func (r *Installer) event(i *v1alpha1.Installation, kind, reason, message string) {
	r.o.Events.EmitRef(corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "Installation", Namespace: i.Namespace, Name: i.Name, UID: i.UID, ResourceVersion: i.ResourceVersion,
	}, kind, reason, message)
}
