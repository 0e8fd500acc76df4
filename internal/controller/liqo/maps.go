package liqo

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/controller/fleet"
)

// How long a cluster that can't be asked is left alone, and how long one that serves no NamespaceMaps, if nothing tells of a
// change.
const (
	retryFirst = time.Second
	retryMost  = 15 * time.Second
	askAgain   = time.Minute
)

// Maps keeps the NamespaceMaps of a cluster.
type Maps struct {
	local   *cluster.Cluster
	log     *slog.Logger
	changed func()

	mu      sync.Mutex
	why     string // why they are not known; empty: they are
	found   map[string]*unstructured.Unstructured
	deleted map[string]bool
}

// State is what is known of the NamespaceMaps.
type State struct {
	// Why says why they are not known; empty: they are.
	Why string
	// Maps are those by which this cluster offloads, sorted by name. Deleted are the clusters whose map was seen to be deleted,
	// since all were listed last.
	Maps    []fleet.NamespaceMap
	Deleted map[string]bool
	// Faults say what is wrong with maps that can't be read, and are left out of Maps.
	Faults []error
}

// New returns Maps that knows nothing before Run; changed is called, without locks, after each change.
func New(local *cluster.Cluster, log *slog.Logger, changed func()) *Maps {
	return &Maps{local: local, log: log, changed: changed, why: "Liqo's NamespaceMaps are not read yet", deleted: map[string]bool{}}
}

// State returns what is known now.
func (m *Maps) State() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	state := State{Why: m.why, Deleted: maps.Clone(m.deleted)}
	for _, name := range slices.Sorted(maps.Keys(m.found)) {
		switch one, ours, err := ReadMap(m.found[name]); {
		case err != nil:
			state.Faults = append(state.Faults, err)
		case ours:
			state.Maps = append(state.Maps, one)
		}
	}
	return state
}

// Run follows the NamespaceMaps until ctx ends. Liqo may be installed later.
func (m *Maps) Run(ctx context.Context) {
	again := make(chan struct{}, 1)
	m.local.WatchCRD(ctx, Kind, func() {
		select {
		case again <- struct{}{}:
		default:
		}
	})
	delay := retryFirst
	for ctx.Err() == nil {
		began, pause := time.Now(), time.Duration(0)
		resource, err := m.served(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			m.log.Warn("Whether Liqo is installed can't be told", "reason", cluster.Reason(err), "error", err)
		case resource.Empty():
			m.forget(fmt.Sprintf("the cluster serves no NamespaceMaps of Liqo (%s): with --namespace-source=liqo they say which namespaces have counterparts; install Liqo, or use --namespace-source=offloading", Kind))
			pause = askAgain
		default:
			m.follow(ctx, resource)
		}
		if time.Since(began) > retryMost {
			delay = retryFirst // it had been working
		}
		if pause == 0 {
			pause, delay = delay, min(2*delay, retryMost)
		}
		select {
		case <-ctx.Done():
		case <-again:
			// A definition may be there and not be served yet.
			if delay = retryFirst; pause > delay {
				pause = delay
			}
			select {
			case <-ctx.Done():
			case <-time.After(min(pause, 100*time.Millisecond)):
			}
		case <-time.After(wait.Jitter(pause, 0.2)):
		}
	}
}

// served returns how the cluster serves NamespaceMaps, in the version that it prefers; empty: it does not.
func (m *Maps) served(ctx context.Context) (schema.GroupVersionResource, error) {
	versions, err := m.local.Versions(ctx, Kind.Group)
	if err != nil {
		return schema.GroupVersionResource{}, err
	}
	for _, version := range versions {
		if ok, err := m.local.Serves(ctx, Kind.WithVersion(version)); ok || err != nil {
			return Kind.WithVersion(version), err
		}
	}
	return schema.GroupVersionResource{}, nil
}

// follow lists and watches until that fails in a way that may mean that they are not served any more, or ctx ends.
func (m *Maps) follow(ctx context.Context, resource schema.GroupVersionResource) {
	client := m.local.Dynamic().Resource(resource)
	told := func(err error) error {
		if err != nil && ctx.Err() == nil {
			m.log.Warn("Reading Liqo's NamespaceMaps failed and is tried again", "reason", cluster.Reason(err), "error", err)
			m.fail(err)
		}
		return err
	}
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			if o.ResourceVersion == "0" {
				o.ResourceVersion = "" // a server's cache may lag, and what it lacks would count as absent
			}
			list, err := client.List(ctx, o)
			return list, told(err)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			stream, err := client.Watch(ctx, o)
			return stream, told(err)
		},
	}
	reflector := cache.NewReflectorWithOptions(lw, &unstructured.Unstructured{}, (*intake)(m), cache.ReflectorOptions{
		Name: "isthmus " + resource.Resource, TypeDescription: resource.Resource,
		Backoff: &wait.Backoff{Duration: retryFirst, Factor: 2, Jitter: 0.5, Steps: math.MaxInt32, Cap: retryMost},
	})
	_ = reflector.ListAndWatchWithContext(ctx) // told has seen why it ended
}

// forget notes that the maps are not known any more, and why. Which were seen to be deleted is not known either: their
// definition may be on its way out, and take them along.
func (m *Maps) forget(why string) {
	m.mu.Lock()
	before := m.why
	m.why, m.found, m.deleted = why, nil, map[string]bool{}
	m.mu.Unlock()
	if why != before {
		m.log.Warn("Namespaces wait for Liqo", "reason", why)
		m.changed()
	}
}

// fail notes why the maps could not be read for the first time; what was read once stays.
func (m *Maps) fail(err error) {
	m.mu.Lock()
	known := m.why == ""
	if !known {
		m.why = fmt.Sprintf("Liqo's NamespaceMaps can't be read: %v", err)
	}
	m.mu.Unlock()
	if !known {
		m.changed()
	}
}

// intake is the store of the reflector.
type intake Maps

func (s *intake) Add(obj any) error    { return s.take(obj, false) }
func (s *intake) Update(obj any) error { return s.take(obj, false) }
func (s *intake) Delete(obj any) error { return s.take(obj, true) }
func (s *intake) Resync() error        { return nil }

func (s *intake) take(obj any, gone bool) error {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("expected a NamespaceMap, got %T", obj)
	}
	m := (*Maps)(s)
	name, id := u.GetNamespace()+"/"+u.GetName(), u.GetLabels()[labelRemoteCluster]
	m.mu.Lock()
	if m.found == nil {
		m.found = map[string]*unstructured.Unstructured{}
	}
	if gone {
		delete(m.found, name)
		if u.GetLabels()[labelReplication] == "true" {
			m.deleted[id] = true
		}
	} else {
		m.found[name] = u
	}
	m.mu.Unlock()
	m.changed()
	return nil
}

// Replace takes in a complete list: nobody was seen to delete what is not in it.
func (s *intake) Replace(list []any, _ string) error {
	found := make(map[string]*unstructured.Unstructured, len(list))
	for _, obj := range list {
		u, ok := obj.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("expected a NamespaceMap, got %T", obj)
		}
		found[u.GetNamespace()+"/"+u.GetName()] = u
	}
	m := (*Maps)(s)
	m.mu.Lock()
	m.why, m.found, m.deleted = "", found, map[string]bool{}
	m.mu.Unlock()
	m.changed()
	return nil
}
