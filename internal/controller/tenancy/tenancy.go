// Package tenancy is a provider's consent: it answers the NamespaceRequests of the consumers that the provider lets in, with a
// namespace and with rights on what is both asked for and allowed there, and takes both back.
//
// One pass settles everything of one consumer, from what is there alone. What a consumer gets is decided by decide, which is
// pure; the rights are those of rbac.Consumer.
package tenancy

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/boundary"
)

// consumerLabel, on what this controller makes for a consumer, is the consumer's name.
const consumerLabel = boundary.Prefix + "consumer"

// fieldManager is who writes.
const fieldManager = "isthmus-tenancy"

// consumersAtOnce is how many consumers are settled at once; each by one pass at a time.
const consumersAtOnce = 4

// How long a pass that failed waits for the next one.
const (
	retryFirst = 200 * time.Millisecond
	retryMost  = time.Minute
)

// byName is the index of NamespaceRequests by the namespace that they ask for.
const byName = "metadata.name"

// Options say how the controller runs.
type Options struct {
	// Namespace is the controller's own, which no consumer gets.
	Namespace string
	// Logger gets what was done, and what failed; nil: nothing is logged.
	Logger *slog.Logger
}

// Setup adds the controller to a manager. It brings the caches that it needs, and asks nothing of the manager's own: of RBAC
// objects, those that it made.
func Setup(mgr ctrl.Manager, o Options) error {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(known); err != nil {
			return err
		}
	}
	config := rest.CopyConfig(mgr.GetConfig())
	config.QPS = -1 // the server's own priority and fairness decides
	made, err := labels.NewRequirement(consumerLabel, selection.Exists, nil)
	if err != nil {
		return err
	}
	ours := cache.ByObject{Label: labels.NewSelector().Add(*made)}
	seen, err := cache.New(config, cache.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: known, ByObject: map[client.Object]cache.ByObject{
		&rbacv1.Role{}: ours, &rbacv1.RoleBinding{}: ours, &rbacv1.ClusterRole{}: ours, &rbacv1.ClusterRoleBinding{}: ours,
	}})
	if err != nil {
		return fmt.Errorf("making the cache of tenancy: %w", err)
	}
	live, err := client.New(config, client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: known})
	if err != nil {
		return fmt.Errorf("making the client of tenancy: %w", err)
	}
	err = seen.IndexField(context.Background(), &v1alpha1.NamespaceRequest{}, byName, func(o client.Object) []string { return []string{o.GetName()} })
	if err != nil {
		return fmt.Errorf("indexing NamespaceRequests: %w", err)
	}
	if err := mgr.Add(seen); err != nil {
		return err
	}
	t := &tenancy{Options: o, seen: seen, live: client.WithFieldOwner(live, fieldManager), lacking: map[string]time.Time{}}
	c, err := controller.New("tenancy", mgr, controller.Options{
		Reconciler: t, MaxConcurrentReconciles: consumersAtOnce,
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryFirst, retryMost),
		// A process may lead more than once, each time with a manager of its own.
		SkipNameValidation: ptr.To(true),
	})
	if err != nil {
		return fmt.Errorf("making the controller of tenancy: %w", err)
	}
	watched := map[client.Object]handler.MapFunc{
		&v1alpha1.Consumer{}: func(_ context.Context, o client.Object) []reconcile.Request { return requestsFor(o.GetName()) },
		// One in another namespace is nobody's.
		&v1alpha1.NamespaceRequest{}: func(_ context.Context, o client.Object) []reconcile.Request { return consumerIn(o.GetNamespace()) },
		&corev1.Namespace{}:          t.interested,
	}
	for _, kind := range []client.Object{&rbacv1.Role{}, &rbacv1.RoleBinding{}, &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}} {
		watched[kind] = func(_ context.Context, o client.Object) []reconcile.Request { return consumerIn(o.GetName()) }
	}
	for kind, whose := range watched {
		if err := c.Watch(source.Kind(seen, kind, handler.EnqueueRequestsFromMapFunc(whose))); err != nil {
			return fmt.Errorf("watching %T: %w", kind, err)
		}
	}
	return nil
}

// interested returns the consumers to whom a change of a namespace may matter: its own, and all that ask for it.
func (t *tenancy) interested(ctx context.Context, o client.Object) []reconcile.Request {
	whose := append(consumerIn(o.GetName()), requestsFor(o.GetLabels()[boundary.LabelOrigin], o.GetAnnotations()[v1alpha1.GiveToAnnotation])...)
	asking := &v1alpha1.NamespaceRequestList{}
	if err := t.seen.List(ctx, asking, client.MatchingFields{byName: o.GetName()}); err != nil {
		t.Logger.Error("Looking for the NamespaceRequests of a namespace failed", "namespace", o.GetName(), "error", err)
	}
	for _, request := range asking.Items {
		whose = append(whose, consumerIn(request.Namespace)...)
	}
	return whose
}

// consumerIn returns what is put in the queue for the consumer in a name: that of its own namespace, and of its roles.
func consumerIn(name string) []reconcile.Request {
	consumer, _ := strings.CutPrefix(name, v1alpha1.ConsumerNamespacePrefix)
	if consumer == name {
		return nil
	}
	return requestsFor(consumer)
}

// requestsFor returns what is put in the queue for consumers; the empty name is none.
func requestsFor(consumers ...string) (out []reconcile.Request) {
	for _, name := range consumers {
		if name != "" {
			out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
		}
	}
	return out
}
