//go:build unix

package main

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// runController plays the provider's widget controller, until ctx ends: it makes Widgets real, which here is to write
// in their status that they are. It knows nothing of Isthmus.
func runController(ctx context.Context, provider *side) {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](100*time.Millisecond, 2*time.Second))
	informers := dynamicinformer.NewFilteredDynamicSharedInformerFactory(provider.client, 0, provider.namespace, nil)
	informer := informers.ForResource(widgets)
	enqueue := func(object any) {
		if name, err := cache.ObjectToName(object); err == nil {
			queue.Add(name)
		}
	}
	_, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    enqueue,
		UpdateFunc: func(_, object any) { enqueue(object) },
	})
	if err != nil {
		return // only an informer that was stopped refuses
	}
	informers.Start(ctx.Done())
	defer informers.Shutdown()
	context.AfterFunc(ctx, queue.ShutDown)
	for {
		name, shutdown := queue.Get()
		if shutdown {
			return
		}
		if err := reconcile(ctx, provider.client, name); err != nil {
			queue.AddRateLimited(name)
		} else {
			queue.Forget(name)
		}
		queue.Done(name)
	}
}

// reconcile makes a Widget's status speak of its present spec.
func reconcile(ctx context.Context, client dynamic.Interface, name cache.ObjectName) error {
	objects := client.Resource(widgets).Namespace(name.Namespace)
	widget, err := objects.Get(ctx, name.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if observed, _, _ := unstructured.NestedInt64(widget.Object, "status", "observedGeneration"); observed == widget.GetGeneration() {
		return nil
	}
	size, _, _ := unstructured.NestedInt64(widget.Object, "spec", "size")
	widget.Object["status"] = map[string]any{
		"observedGeneration": widget.GetGeneration(),
		"size":               size,
		"url":                fmt.Sprintf("https://%s.widgets.example.io", name.Name),
		"conditions": []any{map[string]any{
			"type": "Ready", "status": "True", "reason": "Made", "message": fmt.Sprintf("%d of %d parts are ready", size, size),
			"observedGeneration": widget.GetGeneration(), "lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
		}},
	}
	_, err = objects.UpdateStatus(ctx, widget, metav1.UpdateOptions{FieldManager: "widget-controller"})
	return err
}
