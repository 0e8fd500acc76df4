//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func isthmusKind(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "isthmus.dev", Version: "v1alpha1", Resource: resource}
}

// peeringSteps are the third scene.
var peeringSteps = []step{
	{
		title: "Both are ready, and the provider has given the namespace consumer-shop",
		check: func(ctx context.Context, w *world) error {
			p := w.peering
			return errors.Join(
				p.consents.running(), p.consents.ready(ctx), p.reflects.running(), p.reflects.ready(ctx),
				p.consumer.condition(ctx, "namespaceoffloadings", "offloading", "Ready"))
		},
	},
	{
		title: "The annotated Widget crosses, and the status of the provider's controller comes back; the other one stays",
		check: func(ctx context.Context, w *world) error {
			p := w.peering
			return errors.Join(
				p.provider.holds(ctx, widgets, "red", "spec.size", 4), speaksOf(ctx, p.consumer, "red", 4),
				p.provider.absent(ctx, widgets, "plain"))
		},
	},
	{
		title: "Annotated, the other one crosses too",
		do: func(ctx context.Context, w *world) error {
			return w.peering.consumer.patch(ctx, widgets, "plain", `metadata: {annotations: {isthmus.dev/allow-reflection: "true"}}`)
		},
		check: func(ctx context.Context, w *world) error {
			return errors.Join(w.peering.provider.holds(ctx, widgets, "plain", "spec.size", 1), speaksOf(ctx, w.peering.consumer, "plain", 1))
		},
	},
	{
		title: "The RemoteCluster, the Crossing and the NamespaceOffloading say that all is well, and count the objects",
		check: func(ctx context.Context, w *world) error {
			consumer := w.peering.consumer
			return errors.Join(
				consumer.in("").condition(ctx, "remoteclusters", "provider", "Reachable"),
				consumer.in("").condition(ctx, "crossings", "widgets", "Permitted"),
				consumer.in("").condition(ctx, "crossings", "widgets", "Active"),
				consumer.in("").holds(ctx, isthmusKind("crossings"), "widgets", "status.inStep", 2),
				consumer.holds(ctx, isthmusKind("namespaceoffloadings"), "offloading", "status.phase", "Ready"))
		},
	},
	{
		title: "The consumer's credential is good for Widgets in consumer-shop, and for nothing in other namespaces",
		do:    consumerMayOnly,
	},
}

// peeringEnd is the end of the third scene.
var peeringEnd = []step{
	{
		title: "The NamespaceOffloading is deleted: the twins and their namespace go; the sources stay, without the status that came",
		do: func(ctx context.Context, w *world) error {
			return w.peering.consumer.objects(isthmusKind("namespaceoffloadings")).Delete(ctx, "offloading", metav1.DeleteOptions{})
		},
		check: func(ctx context.Context, w *world) error {
			p := w.peering
			return errors.Join(
				p.consumer.absent(ctx, isthmusKind("namespaceoffloadings"), "offloading"),
				p.provider.absent(ctx, widgets, "red"), w.provider.in("").absent(ctx, namespaces, "consumer-shop"),
				p.consumer.holds(ctx, widgets, "red", "spec.size", 4), p.consumer.holds(ctx, widgets, "red", "status", nil))
		},
	},
}

func consumerMayOnly(ctx context.Context, w *world) error {
	for _, q := range []struct {
		verb, resource, namespace string
		want                      bool
	}{
		{"delete", "widgets.example.io", "consumer-shop", true},
		{"list", "secrets", "consumer-shop", false},
		{"list", "widgets.example.io", w.provider.namespace, false},
		{"list", "widgets.example.io", "", false},
		{"create", "namespaces", "", false},
	} {
		may, err := w.provider.userMay(ctx, controllerUser, q.verb, q.resource, q.namespace)
		if err != nil {
			return err
		}
		if may != q.want {
			return fmt.Errorf("may it %s %s in namespace %q on the provider? %t, expected %t", q.verb, q.resource, q.namespace, may, q.want)
		}
	}
	return nil
}
