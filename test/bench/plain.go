//go:build linux

package main

import (
	"context"
	"fmt"
	"maps"
	"os"

	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// runPlain is the controller that one writes in an afternoon with controller-runtime: cached reads on both sides,
// CreateOrUpdate for the twin, a copy of its status for the source.
func runPlain(ctx context.Context, j job, localConfig, remoteConfig *rest.Config) error {
	ctrl.SetLogger(funcr.New(func(prefix, args string) { fmt.Fprintln(os.Stderr, prefix, args) }, funcr.Options{}))
	caches := cache.Options{DefaultNamespaces: map[string]cache.Config{j.Namespace: {}}}
	clients := func() client.Options { return client.Options{Cache: &client.CacheOptions{Unstructured: true}} } // kept, and added to
	mgr, err := ctrl.NewManager(localConfig, ctrl.Options{Cache: caches, Client: clients(), Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	remote, err := cluster.New(remoteConfig, func(o *cluster.Options) { o.Cache, o.Client = caches, clients() })
	if err != nil {
		return err
	}
	if err := mgr.Add(remote); err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(mgr).
		For(newWidget()).
		WatchesRawSource(source.Kind(remote.GetCache(), newWidget(), &handler.TypedEnqueueRequestForObject[*unstructured.Unstructured]{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: j.Workers}).
		Complete(&plainReconciler{local: mgr.GetClient(), remote: remote.GetClient()})
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}

func newWidget() *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: version, Kind: kind})
	return obj
}

type plainReconciler struct{ local, remote client.Client }

// Reconcile brings one twin, which has its source's name, and the status of its source up to date.
func (r *plainReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	src := newWidget()
	if err := r.local.Get(ctx, request.NamespacedName, src); err != nil {
		if !apierrors.IsNotFound(err) {
			return ctrl.Result{}, err
		}
		twin := newWidget()
		twin.SetNamespace(request.Namespace)
		twin.SetName(request.Name)
		background := client.PropagationPolicy(metav1.DeletePropagationBackground)
		if err := r.remote.Get(ctx, request.NamespacedName, twin); err != nil || twin.GetDeletionTimestamp() != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		return ctrl.Result{}, client.IgnoreNotFound(r.remote.Delete(ctx, twin, background))
	}
	twin := newWidget()
	twin.SetNamespace(src.GetNamespace())
	twin.SetName(src.GetName())
	_, err := controllerutil.CreateOrUpdate(ctx, r.remote, twin, func() error {
		twin.SetLabels(merged(twin.GetLabels(), src.GetLabels()))
		twin.SetAnnotations(merged(twin.GetAnnotations(), src.GetAnnotations(), map[string]string{"example.io/copied-from": request.String()}))
		twin.Object["spec"] = src.Object["spec"]
		return nil
	})
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("write the twin: %w", err)
	}
	if equality.Semantic.DeepEqual(src.Object["status"], twin.Object["status"]) {
		return ctrl.Result{}, nil
	}
	if twin.Object["status"] == nil {
		delete(src.Object, "status")
	} else {
		src.Object["status"] = twin.Object["status"]
	}
	if err := r.local.Status().Update(ctx, src); err != nil {
		return ctrl.Result{}, fmt.Errorf("return the status: %w", err)
	}
	return ctrl.Result{}, nil
}

// merged returns the entries of all maps; later ones win.
func merged(all ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range all {
		maps.Copy(out, m)
	}
	return out
}
