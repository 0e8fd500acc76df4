package fleet

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/controller/requests"
	"isthmus.dev/isthmus/internal/engine"
	"isthmus.dev/isthmus/internal/flow"
	"isthmus.dev/isthmus/internal/observe"
)

// againAfter is how long an engine rests that ended with an error that waiting does not help, such as the ledger of another
// cluster: somebody may have put it right.
const againAfter = 10 * time.Second

// Options are what a Fleet runs with.
type Options struct {
	// ClusterID and Instance are who we are; LocalUID is the UID of the local cluster's namespace kube-system.
	ClusterID, Instance, LocalUID string
	// Namespace is where, on the local cluster, the ledgers are: one a remote.
	Namespace    string
	Local        *cluster.Cluster
	MassDeletion boundary.MassDeletion
	// NamespacesGiven: somebody else makes the counterparts, so they are neither made nor asked for.
	NamespacesGiven bool
	// Endpoints: those of Services cross with them. ServiceMoved is called when a Service may have come to have a twin
	// somewhere, or have none any more; it must not block.
	Endpoints    bool
	ServiceMoved func(service types.NamespacedName)
	Metrics      *observe.Remotes
	Logger       *slog.Logger
	// Changed is called, without locks, when statuses may have changed. Stale is called when Apply should be called again.
	Changed, Stale func()
}

// Member is a remote cluster, and how it is reached.
type Member struct {
	Remote
	// Cluster is nil as long as it is not known how to reach it; Barred: it must not be used.
	Cluster *cluster.Cluster
	Barred  bool
	// Reached: it was reached once, so that something may be there.
	Reached bool
}

// Fleet runs an engine for each remote cluster.
type Fleet struct {
	Options
	ctx      context.Context
	siblings *flow.Siblings
	kinds    *kinds

	mu      sync.Mutex
	ships   map[string]*ship
	outcome Output
	pairs   []Pair
	reached map[string]bool // remotes that were reached once
	// withdrawing: what is left, of a pair that was taken out or on a remote that is not selected any more, decides what is
	// wanted.
	withdrawing bool
}

// ship is what runs for one remote.
type ship struct {
	engine   *engine.Engine
	requests *requests.Requests
	cluster  *cluster.Cluster
	cancel   context.CancelFunc
	tasks    sync.WaitGroup

	look chan struct{} // has ensure look again

	mu      sync.Mutex
	consent v1alpha1.Consent
	err     error            // why the engine does not run; nil: it does
	unmade  map[string]error // why counterparts could not be made
	// emptied are the withdrawn local namespaces of which no twin is left: the rights to look again go then. empty: the whole
	// remote is.
	emptied map[string]bool
	empty   bool
}

// New makes a Fleet that runs until ctx ends; Wait waits for that.
func New(ctx context.Context, o Options) *Fleet {
	return &Fleet{Options: o, ctx: ctx, siblings: &flow.Siblings{}, kinds: newKinds(ctx, o.Stale), ships: map[string]*ship{}}
}

// Apply makes the engines run what is wanted. All Crossings, pairs and members there are have to be given: what is missing
// is taken for removed. Only one call may run at a time.
func (f *Fleet) Apply(crossings []v1alpha1.Crossing, pairs []Pair, members []Member) {
	reached := map[string]bool{}
	for i := range members {
		m := &members[i]
		if f.NamespacesGiven {
			m.Consent = ""
		}
		reached[m.Name] = m.Reached
	}
	f.kinds.begin()
	clusters, out := f.workOut(crossings, pairs, members, sides{
		kind: func(remote *cluster.Cluster, resource schema.GroupVersionResource) Kind {
			return f.kinds.both(f.Local, remote, resource)
		},
		carried: func(crossing, remote string) bool {
			s := f.ship(remote)
			return s != nil && s.carries(crossing)
		},
	})
	f.kinds.end()

	f.mu.Lock()
	before := f.reached
	f.outcome, f.pairs, f.reached = out, pairs, reached
	f.withdrawing = slices.ContainsFunc(pairs, func(p Pair) bool { return p.Withdrawn })
	for _, conf := range out.Configs {
		f.withdrawing = f.withdrawing || slices.ContainsFunc(conf.Rules, func(r *boundary.Rule) bool { return labels.MatchesNothing(r.Selector) })
	}
	var gone []*ship
	for name, s := range f.ships {
		if clusters[name] != s.cluster {
			gone = append(gone, s)
			delete(f.ships, name)
		}
	}
	f.mu.Unlock()
	for _, s := range gone {
		s.stop()
	}
	for name := range before {
		if _, stays := reached[name]; !stays { // what ran for it may have been stopped before
			f.forget(name)
		}
	}
	for _, m := range members {
		if clusters[m.Name] == nil {
			continue
		}
		if s := f.ship(m.Name); s != nil {
			s.take(m.Consent, pairs, out, m.Name)
			continue
		}
		f.launch(m, pairs, out)
	}
	f.Changed()
}

// forget drops what is remembered of a remote that is gone.
func (f *Fleet) forget(remote string) {
	f.Metrics.Forget(remote)
	name := LedgerName(f.Instance, remote)
	err := f.Local.Clientset().CoreV1().ConfigMaps(f.Namespace).Delete(f.ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) && f.ctx.Err() == nil {
		f.Logger.Warn("The ledger of a remote that is gone can't be deleted: delete it by hand before another cluster gets the remote's name", "remote", remote, "configmap", name, "error", err)
	}
}

func (f *Fleet) ship(name string) *ship {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ships[name]
}

// progressed takes in that an engine's numbers changed.
func (f *Fleet) progressed() {
	f.mu.Lock()
	withdrawing := f.withdrawing
	f.mu.Unlock()
	if withdrawing {
		f.Stale()
	}
	f.Changed()
}

// LedgerName is the name of the ledger of an instance and a remote.
func LedgerName(instance, remote string) string { return boundary.OwnName(instance + "-" + remote) }

// launch begins to run an engine for a remote.
func (f *Fleet) launch(m Member, pairs []Pair, out Output) {
	log := f.Logger.With("remote", m.Name)
	ctx, cancel := context.WithCancel(f.ctx)
	s := &ship{cluster: m.Cluster, cancel: cancel, look: make(chan struct{}, 1), unmade: map[string]error{}, emptied: map[string]bool{}}
	o := f.engineOptions(m, out.Configs[m.Name], f.siblings)
	o.Metrics, o.Logger = f.Metrics.Of(m.Name), log
	o.Changed = func() {
		s.lookAgain()
		f.progressed()
	}
	if f.Endpoints {
		o.TwinMoved = func(kind schema.GroupKind, source types.NamespacedName) {
			if kind == servicesKind {
				f.ServiceMoved(source)
			}
		}
	}
	s.engine = engine.New(o)
	s.requests = requests.New(requests.Options{
		Remote: m.Cluster, Consumer: f.ClusterID, Instance: f.Instance, ClusterUID: f.LocalUID, Logger: log,
		Changed: func() {
			s.engine.LookAgain()
			f.progressed()
		},
	})
	s.take(m.Consent, pairs, out, m.Name)
	if !f.NamespacesGiven {
		s.tasks.Go(func() { s.requests.Run(ctx) })
	}
	s.tasks.Go(func() { s.ensure(ctx, f.Changed) })
	s.tasks.Go(func() { s.run(ctx, f.progressed) })
	f.mu.Lock()
	f.ships[m.Name] = s
	f.mu.Unlock()
}

// carries reports whether a Crossing has twins on the remote, or may have.
func (s *ship) carries(crossing string) bool {
	for _, rule := range s.engine.Current().Rules {
		if rule.Name == crossing {
			left, known := s.engine.RuleDrained(crossing)
			return left > 0 || !known || !labels.MatchesNothing(rule.Selector)
		}
	}
	return false
}

// take gives a remote's engine, and its provider, what is wanted.
func (s *ship) take(consent v1alpha1.Consent, pairs []Pair, out Output, remote string) {
	if conf := out.Configs[remote]; s.engine.Current().Hash != conf.Hash {
		s.engine.Reload(conf)
	}
	s.mu.Lock()
	s.consent = consent
	s.mu.Unlock()
	wanted := map[string]requests.Wanted{}
	for _, pair := range pairs {
		if pair.Cluster != remote {
			continue
		}
		// The rights stay until the twins are gone.
		left, known := s.left(pair)
		if consent != v1alpha1.ConsentProvider || known && left == 0 {
			continue
		}
		wanted[pair.Remote] = requests.Wanted{Source: pair.Local, Resources: out.Wanted[remote]}
	}
	s.requests.Want(wanted)
}

// left tells how many twins of a withdrawn namespace are left. That there are none is remembered for as long as it is
// withdrawn. Of one that is not withdrawn nothing is known.
func (s *ship) left(pair Pair) (left int, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !pair.Withdrawn {
		delete(s.emptied, pair.Local)
		return 0, false
	}
	if pair.Ungranted {
		return 0, true
	}
	if !s.emptied[pair.Local] {
		if left, known = s.engine.Drained(pair.Local); left > 0 || !known || !slices.Contains(s.engine.Current().Withdrawn, pair.Local) {
			return left, false
		}
		s.emptied[pair.Local] = true
	}
	return 0, true
}

// run runs the engine until ctx ends.
func (s *ship) run(ctx context.Context, changed func()) {
	for ctx.Err() == nil {
		err := s.engine.Run(ctx)
		s.mu.Lock()
		s.err = err
		s.mu.Unlock()
		changed()
		select {
		case <-ctx.Done():
		case <-time.After(againAfter):
		}
	}
}

func (s *ship) fault() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *ship) stop() {
	s.cancel()
	s.tasks.Wait()
}

// Wait waits, after the end of its context, until everything has stopped.
func (f *Fleet) Wait() {
	f.mu.Lock()
	ships := f.ships
	f.mu.Unlock()
	for _, s := range ships {
		s.tasks.Wait()
	}
}

// Names returns the remotes for which an engine runs, sorted.
func (f *Fleet) Names() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.ships))
}
