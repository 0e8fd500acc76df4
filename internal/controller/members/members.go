// Package members keeps a connection to each cluster that a ClusterProfile names and somebody asks for.
//
// A member that can't be reached is a normal state: [Members.Get] says so and why, Changed tells when that is over, and no
// member waits for another one. All that has to do with connections themselves is in internal/controller/link.
package members

import (
	"context"
	"log/slog"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/cluster/access"
	"isthmus.dev/isthmus/internal/controller/link"
)

// Options say what Members work with. Local and Logger are required.
type Options struct {
	// Local is the cluster that the ClusterProfiles are in.
	Local *cluster.Cluster
	// Providers says which access plugins may be run; nil: none.
	Providers *access.ProviderFile
	// UserAgent is sent with every request to a member.
	UserAgent string
	// Gate, if set, is asked before each write to a member (cluster.Options.Gate).
	Gate   func() error
	Logger *slog.Logger
	// Changed, if set, is called when Get returns something else for a ClusterProfile than before: by one goroutine, without
	// locks, once for several changes at a time.
	Changed func(types.NamespacedName)
}

// Member is the cluster of a ClusterProfile as it is now.
type Member struct {
	// Cluster reaches it. It stays the same for as long as the profile is wanted: what changes of the profile or the provider
	// file goes into it. nil until that said something usable for the first time.
	Cluster *cluster.Cluster
	// Reached: the cluster answers, and said that it is the one with UID, that of its namespace kube-system. What failed once
	// only and did not fail again when the member was asked at once does not make it unreached.
	Reached bool
	UID     string
	// Reason and Message say why it is not reached, by a Reason of v1alpha1: ReasonConnecting as long as that is not known yet.
	// Of one failure the message stays the same.
	Reason, Message string
	// Server is the URL where UID was said, and Epoch the Cluster's then (cluster.Cluster.Epoch).
	Server string
	Epoch  int64
}

// Pin returns a context whose requests to the member fail once its profile names another server than the one that said who it
// is.
func (m Member) Pin(ctx context.Context) context.Context { return m.Cluster.Pin(ctx, m.Server) }

// Members keeps the connections that are wanted.
type Members struct {
	o     Options
	links *link.Links
	stale chan struct{}

	mu     sync.Mutex
	wanted map[types.NamespacedName]*member
}

// member is the connection to one.
type member struct {
	*link.Link
	told    Member // what Changed was called for last
	changed bool   // it is about to be called
}

// New returns Members that has no connection yet.
func New(o Options) *Members { return newMembers(o, link.Usual) }

func newMembers(o Options, timing link.Timing) *Members {
	m := &Members{o: o, stale: make(chan struct{}, 1), wanted: map[types.NamespacedName]*member{}}
	options := o.links(timing)
	options.Found = m.found
	m.links = link.New(options)
	return m
}

func (o Options) links(timing link.Timing) link.Options {
	return link.Options{Local: o.Local, Providers: o.Providers, UserAgent: o.UserAgent, Gate: o.Gate, Logger: o.Logger, Timing: timing}
}

// Run keeps the connections until ctx ends; then it ends all of them, and returns when they have ended.
func (m *Members) Run(ctx context.Context) {
	var tasks sync.WaitGroup
	tasks.Go(func() { m.tellChanges(ctx) })
	m.links.Run(ctx)
	tasks.Wait()
}

// Want says of which ClusterProfiles connections are kept; the others are ended.
func (m *Members) Want(refs map[types.NamespacedName]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for ref, each := range m.wanted {
		if !refs[ref] {
			each.Close()
			delete(m.wanted, ref)
		}
	}
	for ref, want := range refs {
		if want && m.wanted[ref] == nil {
			each := &member{Link: m.links.Add(ref.String(), nil)}
			each.Follow(link.Origin{Namespace: ref.Namespace, Name: ref.Name})
			each.told = stand(each.State(), Member{})
			m.wanted[ref] = each
		}
	}
}

// Get returns the member of a ClusterProfile; of one that is not wanted that it is ReasonConnecting.
func (m *Members) Get(ref types.NamespacedName) Member {
	m.mu.Lock()
	defer m.mu.Unlock()
	each := m.wanted[ref]
	if each == nil {
		return Member{Reason: v1alpha1.ReasonConnecting, Message: "It is about to be connected"}
	}
	return each.now()
}

// now returns the member as it is. The caller holds the lock.
func (each *member) now() Member {
	s := each.State()
	if reason, _ := s.Barred(); reason == "" && outdated(s) {
		each.Ask()
	}
	return stand(s, each.told)
}

// found takes in that the State of a link may be another one.
func (m *Members) found(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	namespace, name, _ := strings.Cut(name, string(types.Separator))
	each := m.wanted[types.NamespacedName{Namespace: namespace, Name: name}]
	if each == nil {
		return
	}
	now := each.now()
	if now == each.told {
		return
	}
	each.told, each.changed = now, true
	select {
	case m.stale <- struct{}{}:
	default:
	}
}

func (m *Members) tellChanges(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.stale:
		}
		m.mu.Lock()
		var changed []types.NamespacedName
		for ref, each := range m.wanted {
			if each.changed {
				each.changed = false
				changed = append(changed, ref)
			}
		}
		m.mu.Unlock()
		for _, ref := range changed {
			if m.o.Changed != nil {
				m.o.Changed(ref)
			}
		}
	}
}

// Reach asks the members of ClusterProfiles once, all at the same time, for who only looks: nothing is written, and nothing
// is kept. The Clusters follow no changes.
func Reach(ctx context.Context, o Options, refs map[types.NamespacedName]bool) map[types.NamespacedName]Member {
	var mu sync.Mutex
	var asking sync.WaitGroup
	found := make(map[types.NamespacedName]Member, len(refs))
	for ref := range refs {
		asking.Go(func() {
			s := link.Once(ctx, o.links(link.Usual), ref.String(), link.Origin{Namespace: ref.Namespace, Name: ref.Name}, nil)
			mu.Lock()
			defer mu.Unlock()
			found[ref] = stand(s, Member{})
		})
	}
	asking.Wait()
	return found
}
