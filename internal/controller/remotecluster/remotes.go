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

	ctx  context.Context // of the links; ends with the manager
	stop context.CancelFunc
	ends sync.WaitGroup

	mu       sync.Mutex
	queue    workqueue.TypedInterface[reconcile.Request]
	links    map[string]*link
	localUID string
	told     []Remote // what Changed was called for last
	profiles profiles
	changed  chan struct{}
}

// timing holds how long things may take.
type timing struct {
	// answer is how long a remote has for an answer to a probe, and idle how long nothing may be heard of it before it is
	// probed.
	answer, idle time.Duration
	// retryFirst and retryMost bound the time between the probes of a remote that is not reached.
	retryFirst, retryMost time.Duration
	// grace is how long a change for the worse has to last before it is told.
	grace time.Duration
	// kinds is how often a remote is asked what it serves, when nothing tells of a change.
	kinds time.Duration
	// draining is how often a RemoteCluster that is being deleted is looked at, when nothing tells of a change.
	draining time.Duration
}

var usual = timing{
	answer: 10 * time.Second, idle: 30 * time.Second, retryFirst: time.Second, retryMost: 15 * time.Second,
	grace: 5 * time.Second, kinds: 5 * time.Minute, draining: 10 * time.Second,
}

// New returns Remotes that does nothing before its manager runs.
func New(o Options) *Remotes {
	ctx, stop := context.WithCancel(context.Background())
	return &Remotes{o: o, timing: usual, ctx: ctx, stop: stop, links: map[string]*link{}, changed: make(chan struct{}, 1)}
}

// SetupWithManager makes a manager run r, once. The manager's scheme knows the types of api/v1alpha1.
func (r *Remotes) SetupWithManager(mgr ctrl.Manager) error {
	r.client = mgr.GetClient()
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

// run does what is to be done beside reconciling, until ctx ends; then it ends all links.
func (r *Remotes) run(ctx context.Context) error {
	r.ends.Go(r.learnLocalUID)
	r.ends.Go(r.tellChanges)
	r.ends.Go(r.watchProfileKind)
	r.ends.Go(r.watchProviders)
	<-ctx.Done()
	r.mu.Lock()
	r.stop() // no link begins any more
	r.mu.Unlock()
	r.ends.Wait()
	return nil
}

// All returns all RemoteClusters, sorted by name.
func (r *Remotes) All() []Remote {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all()
}

func (r *Remotes) all() []Remote {
	remotes := make([]Remote, 0, len(r.links))
	for _, l := range r.links {
		if l.remote.Name != "" {
			remotes = append(remotes, l.remote)
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
	for each := range r.links {
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

func (r *Remotes) tellChanges() {
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-r.changed:
			if r.o.Changed != nil {
				r.o.Changed()
			}
		}
	}
}

// learnLocalUID finds out which cluster the local one is, so that no remote is it.
func (r *Remotes) learnLocalUID() {
	for {
		uid, err := r.o.Local.UID(r.ctx)
		if err == nil {
			r.mu.Lock()
			r.localUID = uid
			r.recheck("")
			r.mu.Unlock()
			return
		}
		if !sleep(r.ctx, r.timing.retryFirst) {
			return
		}
	}
}

// sleep returns false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
