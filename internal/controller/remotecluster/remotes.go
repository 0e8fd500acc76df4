package remotecluster

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/cluster/access"
	"isthmus.dev/isthmus/internal/controller/link"
	"isthmus.dev/isthmus/internal/observe"
)

// Options say what Remotes works with. Local, Namespace and Logger are required.
type Options struct {
	// Local is the cluster that the RemoteClusters are in.
	Local *cluster.Cluster
	// Namespace is where the Secrets with kubeconfigs are.
	Namespace string
	// Providers says which access plugins may be run for ClusterProfiles; nil: none.
	Providers *access.ProviderFile
	// UserAgent is sent with every request to a remote.
	UserAgent string
	// Gate, if set, is asked before each write to a remote (cluster.Options.Gate).
	Gate func() error
	// Logger gets what is worth telling of the connections.
	Logger *slog.Logger
	// Metrics and Events get it too; either may be nil.
	Metrics *observe.Metrics
	Events  *observe.Events
	// Kinds returns the resources that are to cross to or from a remote, for its condition KindsServed; nil: none. When its
	// answer changes, KindsChanged is to be called.
	Kinds func(remote string) []schema.GroupVersionResource
	// Drained returns how much of ours is left on a remote, for the finalizer of a RemoteCluster that is being deleted; nil:
	// it is never known. When its answer changes, Recheck is to be called.
	Drained func(remote string) (left int, known bool)
	// Changed, if set, is called when All returns something else than before: by one goroutine, without locks, once for
	// several changes at a time.
	Changed func()
}

// Remote is a RemoteCluster as it is now.
type Remote struct {
	// Name is the cluster ID.
	Name string
	// Labels are the RemoteCluster's; they must not be changed.
	Labels map[string]string
	// UID is that of the cluster's namespace kube-system; empty until the cluster was reached for the first time.
	UID string
	// Cluster reaches it. It stays the same for as long as the RemoteCluster lives: what changes of a Secret, a profile or the
	// provider file goes into it. nil until that said something usable for the first time.
	Cluster *cluster.Cluster
	// Usable: it is known which cluster this is, and it may be used; that it can't be reached for the moment does not make it
	// unusable. Otherwise Reason and Message, those of the condition Reachable, say why.
	Usable          bool
	Reason, Message string
	// Reached: it answers, and is who it was.
	Reached bool
	// Deleting: the RemoteCluster is being deleted. Released: and is not to wait for what is left there.
	Deleting, Released bool
	// Consent says who makes namespaces there; empty: not known yet.
	Consent v1alpha1.Consent
}

// Remotes keeps a connection to each RemoteCluster, and its conditions. It serves one manager.
type Remotes struct {
	o      Options
	timing timing
	client client.Client

	links *link.Links

	mu       sync.Mutex
	queue    workqueue.TypedInterface[reconcile.Request]
	remotes  map[string]*remote
	localUID string
	told     []Remote // what Changed was called for last
	changed  chan struct{}
}

// remote is a RemoteCluster that there is.
type remote struct {
	*link.Link
	survey survey

	// Of the reconciler, under Remotes.mu:
	now   Remote // what All returns
	claim claim

	// Of the reconciler alone: the condition that was found last, and when it was found first.
	found   metav1.Condition
	foundAt time.Time
}

// timing holds how long things may take.
type timing struct {
	link.Timing
	// grace is how long a change for the worse has to last before it is told.
	grace time.Duration
	// kinds is how often a remote is asked what it serves, when nothing tells of a change.
	kinds time.Duration
	// draining is how often a RemoteCluster that is being deleted is looked at, when nothing tells of a change.
	draining time.Duration
}

var usual = timing{Timing: link.Usual, grace: 5 * time.Second, kinds: 5 * time.Minute, draining: 10 * time.Second}

// New returns Remotes that does nothing before its manager runs.
func New(o Options) *Remotes {
	return &Remotes{o: o, timing: usual, remotes: map[string]*remote{}, changed: make(chan struct{}, 1)}
}

// SetupWithManager makes a manager run r, once. The manager's scheme knows the types of api/v1alpha1.
func (r *Remotes) SetupWithManager(mgr ctrl.Manager) error {
	r.client = mgr.GetClient()
	options := r.o.links(r.timing.Timing)
	options.Found = r.Recheck
	r.links = link.New(options)
	if err := mgr.Add(manager.RunnableFunc(r.run)); err != nil {
		return fmt.Errorf("setting up the connections to remotes: %w", err)
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("remotecluster").
		For(&v1alpha1.RemoteCluster{}).
		WatchesRawSource(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.queue = q
			return nil
		})).
		// A manager may follow another one in this process.
		WithOptions(controller.Options{SkipNameValidation: ptr.To(true), MaxConcurrentReconciles: 1}).
		Complete(reconcile.Func(r.reconcile))
	if err != nil {
		return fmt.Errorf("setting up the controller of RemoteClusters: %w", err)
	}
	return nil
}

// links returns how links are made.
func (o Options) links(t link.Timing) link.Options {
	return link.Options{Local: o.Local, Providers: o.Providers, UserAgent: o.UserAgent, Gate: o.Gate, Logger: o.Logger, Timing: t}
}

// run does what is to be done beside reconciling, until ctx ends; then it ends all links.
func (r *Remotes) run(ctx context.Context) error {
	var tasks sync.WaitGroup
	tasks.Go(func() { r.learnLocalUID(ctx) })
	tasks.Go(func() { r.tellChanges(ctx) })
	r.links.Run(ctx)
	tasks.Wait()
	return nil
}

// All returns all RemoteClusters, sorted by name.
func (r *Remotes) All() []Remote {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all()
}

func (r *Remotes) all() []Remote {
	remotes := make([]Remote, 0, len(r.remotes))
	for _, each := range r.remotes {
		if each.now.Name != "" {
			remotes = append(remotes, each.now)
		}
	}
	slices.SortFunc(remotes, func(a, b Remote) int { return cmp.Compare(a.Name, b.Name) })
	return remotes
}

// KindsChanged says that Options.Kinds may answer something else.
func (r *Remotes) KindsChanged() { r.Recheck("") }

// Recheck looks at a RemoteCluster again; "": at all.
func (r *Remotes) Recheck(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recheck(name)
}

func (r *Remotes) recheck(name string) {
	if r.queue == nil {
		return // all are looked at when the manager starts
	}
	for each := range r.remotes {
		if name == "" || name == each {
			r.queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: each}})
		}
	}
}

// publish makes Changed be called if All returns something else than when it was called last. The caller holds the lock.
func (r *Remotes) publish() {
	now := r.all()
	if reflect.DeepEqual(now, r.told) {
		return
	}
	r.told = now
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

func (r *Remotes) tellChanges(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.changed:
			if r.o.Changed != nil {
				r.o.Changed()
			}
		}
	}
}

// learnLocalUID finds out which cluster the local one is, so that no remote is it.
func (r *Remotes) learnLocalUID(ctx context.Context) {
	for {
		uid, err := r.o.Local.UID(ctx)
		if err == nil {
			r.mu.Lock()
			r.localUID = uid
			r.recheck("")
			r.mu.Unlock()
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(r.timing.RetryFirst):
		}
	}
}
