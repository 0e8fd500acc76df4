// Package endpoints is the endpoints controller: on every cluster it looks after the ClusterLinks, and makes EndpointSlices of
// the ShadowEndpointSlices that consumers sent; on a consumer it makes ShadowEndpointSlices of the EndpointSlices of Services
// that cross. What addresses become is worked out by internal/endpoints, which is pure.
package endpoints

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/observe"
)

// fieldManager is who writes.
const fieldManager = "isthmus-endpoints"

// settleDefault is how long a link has to be down, or up again, before endpoints are changed over.
const settleDefault = time.Second

// slicesAtOnce is how many slices are written at once.
const slicesAtOnce = 8

// How long what failed waits for the next try.
const (
	retryFirst = 200 * time.Millisecond
	retryMost  = time.Minute
)

// Options say how the controller runs.
type Options struct {
	// ClusterID is this cluster's; empty: it is not known, which only a consumer needs.
	ClusterID string
	// Settle is how long a link has to be down, or up again, before endpoints are changed over; 0: a second.
	Settle time.Duration
	// Source says which links there are beside the ClusterLinks; nil: none. LinksFound is to be called when it says anything new.
	Source LinkSource
	// Metrics gets the controller's; nil: they are told nowhere.
	Metrics *observe.Metrics
	// Logger gets what was done, and what failed; nil: nothing is logged.
	Logger *slog.Logger
}

// Setup adds what every cluster needs to a manager: the links, and the receiver of slices. It brings the caches that it needs;
// of EndpointSlices they hold those that it made. The links are for the sender.
func Setup(mgr ctrl.Manager, o Options) (*Links, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Settle == 0 {
		o.Settle = settleDefault
	}
	made := labels.SelectorFromSet(labels.Set{discoveryv1.LabelManagedBy: v1alpha1.EndpointsManager})
	seen, live, err := access(mgr, map[client.Object]cache.ByObject{&discoveryv1.EndpointSlice{}: {Label: made}})
	if err != nil {
		return nil, err
	}
	if err := seen.IndexField(context.Background(), &v1alpha1.ShadowEndpointSlice{}, byCluster, clustersOf); err != nil {
		return nil, fmt.Errorf("indexing ShadowEndpointSlices: %w", err)
	}
	clientset, err := kubernetes.NewForConfigAndClient(unlimited(mgr), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("making the client of endpoints: %w", err)
	}
	events, metrics := observe.NewEvents(clientset, observe.Component, true), observe.NewEndpointMetrics()
	events.LogTo(o.Logger)
	probing, stop := context.WithCancel(context.Background())
	links := &Links{clusterID: o.ClusterID, settle: o.Settle, seen: seen, live: live, metrics: metrics, logger: o.Logger, source: o.Source, probes: probes{ctx: probing}}
	r := &receiver{links: links, seen: seen, live: live, events: events, metrics: metrics, logger: o.Logger, told: map[reconcile.Request]tally{}}
	links.OnChange(r.linksChanged)
	err = mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		defer events.Shutdown()
		defer stop()
		o.Metrics.Registry().MustRegister(metrics)
		defer o.Metrics.Registry().Unregister(metrics)
		<-ctx.Done()
		return nil
	}))
	if err != nil {
		return nil, err
	}
	if err := mgr.Add(seen); err != nil {
		return nil, err
	}
	if err := links.setup(mgr, seen); err != nil {
		return nil, err
	}
	return links, r.setup(mgr, seen)
}

// LinksFound has it looked again which links there are.
func (l *Links) LinksFound() { l.again.Add(allLinks) }

// unlimited is how a manager reaches its cluster, without limits of its own: the server's priority and fairness decides.
func unlimited(mgr ctrl.Manager) *rest.Config {
	config := rest.CopyConfig(mgr.GetConfig())
	config.QPS = -1
	return config
}

// access makes a cache, which does not run yet, and a client. by says what is left out of the cache.
func access(mgr ctrl.Manager, by map[client.Object]cache.ByObject) (cache.Cache, client.Client, error) {
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(known); err != nil {
			return nil, nil, err
		}
	}
	config := unlimited(mgr)
	seen, err := cache.New(config, cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: known, DefaultTransform: cache.TransformStripManagedFields(), ByObject: by,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("making the cache of endpoints: %w", err)
	}
	live, err := client.New(config, client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: known})
	if err != nil {
		return nil, nil, fmt.Errorf("making the client of endpoints: %w", err)
	}
	return seen, client.WithFieldOwner(live, fieldManager), nil
}

func (l *Links) setup(mgr ctrl.Manager, seen cache.Cache) error {
	c, err := newController("cluster-links", mgr, l, 1)
	if err != nil {
		return err
	}
	once := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: allLinks}}
	})
	if err := c.Watch(source.Kind[client.Object](seen, &v1alpha1.ClusterLink{}, once)); err != nil {
		return fmt.Errorf("watching ClusterLinks: %w", err)
	}
	// Without any ClusterLink too it has to be known that there is none.
	return c.Watch(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		q.Add(reconcile.Request{NamespacedName: allLinks})
		return l.again.Source().Start(context.Background(), q)
	}))
}

func (r *receiver) setup(mgr ctrl.Manager, seen cache.Cache) error {
	c, err := newController("endpoints", mgr, r, slicesAtOnce)
	if err != nil {
		return err
	}
	itself := &handler.EnqueueRequestForObject{}
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(namespaceKind)
	for _, s := range []source.Source{
		source.Kind[client.Object](seen, &v1alpha1.ShadowEndpointSlice{}, itself),
		source.Kind[client.Object](seen, &discoveryv1.EndpointSlice{}, itself), // under the same name
		source.Kind[client.Object](seen, namespace, handler.EnqueueRequestsFromMapFunc(r.slicesIn)),
		r.again.Source(),
	} {
		if err := c.Watch(s); err != nil {
			return fmt.Errorf("setting up the receiver of endpoints: %w", err)
		}
	}
	return nil
}

func newController(name string, mgr ctrl.Manager, r reconcile.Reconciler, atOnce int) (controller.Controller, error) {
	c, err := controller.New(name, mgr, controller.Options{
		Reconciler: r, MaxConcurrentReconciles: atOnce,
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryFirst, retryMost),
		// A process may lead more than once, each time with a manager of its own.
		SkipNameValidation: ptr.To(true),
	})
	if err != nil {
		return nil, fmt.Errorf("making the controller of %s: %w", name, err)
	}
	return c, nil
}
