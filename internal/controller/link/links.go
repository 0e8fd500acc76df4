package link

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/cluster/access"
)

// Options say what links work with. Local, Logger and Timing are required.
type Options struct {
	// Local is the cluster with the objects that say how others are reached.
	Local *cluster.Cluster
	// Providers says which access plugins may be run for ClusterProfiles; nil: none.
	Providers *access.ProviderFile
	// UserAgent is sent with every request.
	UserAgent string
	// Gate, if set, is asked before each write to a cluster (cluster.Options.Gate).
	Gate   func() error
	Logger *slog.Logger
	Timing Timing
	// Found, if set, is called when the State of the link with this name may be another one: without locks, and from any
	// goroutine, that of a request included, so it must neither block nor make requests.
	Found func(name string)
}

// Timing holds how long things may take.
type Timing struct {
	// Answer is how long a cluster has for an answer to a probe, and Idle how long nothing may be heard of it before it is
	// probed.
	Answer, Idle time.Duration
	// RetryFirst and RetryMost bound the time between the probes of a cluster that is not reached.
	RetryFirst, RetryMost time.Duration
}

// Usual is what everything runs with but tests.
var Usual = Timing{Answer: 10 * time.Second, Idle: 30 * time.Second, RetryFirst: time.Second, RetryMost: 15 * time.Second}

// Links are the links of one owner.
type Links struct {
	o    Options
	ctx  context.Context // of the links
	stop context.CancelFunc
	ends sync.WaitGroup

	mu       sync.Mutex // before that of a link
	all      map[*Link]bool
	profiles profiles
}

// New returns Links without a link.
func New(o Options) *Links {
	ctx, stop := context.WithCancel(context.Background())
	return &Links{o: o, ctx: ctx, stop: stop, all: map[*Link]bool{}}
}

// Run follows how ClusterProfiles are served, and the provider file, until ctx ends; then it ends all links, and returns when
// they have ended.
func (ls *Links) Run(ctx context.Context) {
	ls.ends.Go(ls.watchProfileKind)
	ls.ends.Go(ls.watchProviders)
	<-ctx.Done()
	ls.mu.Lock()
	ls.stop() // no link begins any more
	ls.mu.Unlock()
	ls.ends.Wait()
}

// Add starts a link. name is how errors and log lines call the cluster; survey may be nil.
func (ls *Links) Add(name string, survey Survey) *Link {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ctx, stop := context.WithCancel(ls.ctx)
	l := &Link{ls: ls, name: name, survey: survey, ctx: ctx, stop: stop, wake: make(chan struct{}, 1)}
	ls.all[l] = true
	if ctx.Err() == nil {
		ls.ends.Go(l.run)
	}
	return l
}

func (ls *Links) found(name string) {
	if ls.o.Found != nil {
		ls.o.Found(name)
	}
}

// profiles is how the local cluster serves ClusterProfiles.
type profiles struct {
	asked    bool
	resource schema.GroupVersionResource // empty: not at all
}

// watchProfileKind keeps profiles as the local cluster has them, also when they are served later, or in another version.
func (ls *Links) watchProfileKind() {
	signal := make(chan struct{}, 1)
	ls.o.Local.WatchCRD(ls.ctx, profileKind, func() {
		select {
		case signal <- struct{}{}:
		default:
		}
	})
	for {
		wait := time.Minute // where the CRD may not be watched
		if err := ls.findProfileKind(); err != nil {
			wait = ls.o.Timing.RetryFirst
		}
		select {
		case <-ls.ctx.Done():
			return
		case <-signal:
			// The CRD may be established, and not be served yet.
			if !sleep(ls.ctx, 100*time.Millisecond) {
				return
			}
		case <-time.After(wait):
		}
	}
}

func (ls *Links) findProfileKind() error {
	resource, err := ls.o.Local.Preferred(ls.ctx, profileKind)
	if err != nil {
		return err
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	found := profiles{true, resource}
	if ls.profiles == found {
		return nil
	}
	ls.profiles = found
	for l := range ls.all {
		l.mu.Lock()
		if l.origin.profile() {
			l.rewatch(found)
		}
		l.mu.Unlock()
	}
	return nil
}

// watchProviders keeps looking at the provider file. Others may do the same, so what counts is what it says.
func (ls *Links) watchProviders() {
	used := ls.o.Providers.Providers()
	for ls.o.Providers != nil && sleep(ls.ctx, time.Second) {
		if _, err := ls.o.Providers.Look(); err != nil {
			ls.o.Logger.Error("The provider file is not usable; what it said before stays in use", "error", err)
		}
		now := ls.o.Providers.Providers()
		if now == used {
			continue
		}
		used = now
		ls.o.Logger.Info("The provider file changed and was read again")
		ls.mu.Lock()
		for l := range ls.all {
			l.reread()
		}
		ls.mu.Unlock()
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
