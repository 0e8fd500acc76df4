//go:build unix

package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
)

// tenantSteps are the second scene.
var tenantSteps = []step{
	{
		title: "Both tenants' Isthmuses are ready, next to the first one",
		check: func(ctx context.Context, w *world) error {
			return errors.Join(w.isthmus.ready(ctx), w.each(func(t *tenant) error {
				return errors.Join(t.isthmus.running(), t.isthmus.ready(ctx))
			}))
		},
	},
	{
		title: "Both see the GatewayClass that is offered, and not the other; what a tenant changes in it is put back",
		do: func(ctx context.Context, w *world) error {
			acme := step{check: func(ctx context.Context, w *world) error { return sees(ctx, w.tenants[0]) }}
			return errors.Join(acme.run(ctx, w), w.tenants[0].cluster.in("").patch(ctx, classes, "public", "spec: {description: Mine}"))
		},
		check: func(ctx context.Context, w *world) error {
			return w.each(func(t *tenant) error { return sees(ctx, t) })
		},
	},
	{
		title: "Both HTTPRoutes hang on the platform's Gateway, and lead to each tenant's own Service",
		check: func(ctx context.Context, w *world) error {
			return w.each(func(t *tenant) error {
				return errors.Join(
					t.host.has(ctx, routes, t.twin("front"), "spec.parentRefs", "name:public namespace:gateways"),
					t.host.has(ctx, routes, t.twin("front"), "spec.rules", "name:"+t.twin("front")+" "))
			})
		},
	},
	{
		title: "The platform's gateway controller accepts acme's route, and acme reads it in its own generation",
		do: func(ctx context.Context, w *world) error {
			acme := w.tenants[0]
			if err := acme.cluster.patch(ctx, routes, "front", "spec: {hostnames: [front.acme.example.io]}"); err != nil {
				return err
			}
			crossed := step{check: func(ctx context.Context, _ *world) error {
				return acme.host.has(ctx, routes, acme.twin("front"), "spec.hostnames", "front.acme.example.io")
			}}
			if err := crossed.run(ctx, w); err != nil {
				return err
			}
			twin, err := acme.host.get(ctx, routes, acme.twin("front"))
			if err != nil {
				return err
			}
			return acme.host.patch(ctx, routes, twin.GetName(), fmt.Sprintf(`status: {parents: [{parentRef: {name: public, namespace: gateways}, controllerName: example.io/gateways,
				conditions: [{type: Accepted, status: "True", reason: Accepted, message: fine, lastTransitionTime: "2024-01-01T00:00:00Z", observedGeneration: %d}]}]}`, twin.GetGeneration()), "status")
		},
		check: func(ctx context.Context, w *world) error {
			acme := w.tenants[0]
			source, err := acme.cluster.get(ctx, routes, "front")
			if err != nil {
				return err
			}
			return errors.Join(
				acme.cluster.has(ctx, routes, "front", "status.parents", fmt.Sprintf("observedGeneration:%d ", source.GetGeneration())),
				w.tenants[1].cluster.holds(ctx, routes, "front", "status", nil))
		},
	},
	{
		title: "Both Applications of one name meet in argocd, each in its tenant's project, whatever it says",
		check: func(ctx context.Context, w *world) error {
			return w.each(func(t *tenant) error {
				return errors.Join(
					t.cluster.holds(ctx, applications, "front", "spec.project", "default"),
					w.provider.in("argocd").holds(ctx, applications, t.shared("front"), "spec.project", t.name))
			})
		},
	},
	{
		title: "An operation that the platform starts on acme's Application stays there while its source changes",
		do: func(ctx context.Context, w *world) error {
			acme := w.tenants[0]
			return errors.Join(
				w.provider.in("argocd").patch(ctx, applications, acme.shared("front"), "operation: {initiatedBy: {username: operator}, sync: {revision: v1}}"),
				acme.cluster.patch(ctx, applications, "front", "spec: {project: globex, source: {targetRevision: v2}}"))
		},
		check: func(ctx context.Context, w *world) error {
			argocd, name := w.provider.in("argocd"), w.tenants[0].shared("front")
			return errors.Join(
				argocd.holds(ctx, applications, name, "spec.source.targetRevision", "v2"),
				argocd.holds(ctx, applications, name, "spec.project", "acme"),
				argocd.holds(ctx, applications, name, "operation.initiatedBy.username", "operator"))
		},
	},
	{
		title: "Alerts, dashboards and repository Secrets of both are where the platform's tools look for them",
		check: func(ctx context.Context, w *world) error {
			return w.each(func(t *tenant) error {
				return errors.Join(
					t.host.holds(ctx, alerts, t.twin("alerts"), "metadata.labels.release", "platform"),
					w.provider.in("monitoring").holds(ctx, configMaps, t.shared("latency"), "metadata.labels.grafana_dashboard", "1"),
					t.host.holds(ctx, secrets, t.twin("git"), "data.project", base64.StdEncoding.EncodeToString([]byte(t.name))))
			})
		},
	},
	{
		title: "The password that the platform hands out to acme is in acme's cluster, follows, and is not in globex's",
		do: func(ctx context.Context, w *world) error {
			return w.tenants[0].host.patch(ctx, secrets, "database", "stringData: {password: a-newer-one}")
		},
		check: func(ctx context.Context, w *world) error {
			return errors.Join(
				w.tenants[0].cluster.in("platform").holds(ctx, secrets, "database", "data.password", base64.StdEncoding.EncodeToString([]byte("a-newer-one"))),
				w.tenants[1].cluster.in("platform").absent(ctx, secrets, "database"))
		},
	},
	{
		title: "Each tenant's Isthmus tries to read the other's Secrets, and Secrets where tenants meet: it is refused",
		do:    tenantsAreApart,
	},
	{
		title: "When acme deletes its dashboard, the platform's copy goes; globex's, next to it, stays",
		do: func(ctx context.Context, w *world) error {
			return w.tenants[0].cluster.objects(configMaps).Delete(ctx, "latency", metav1.DeleteOptions{})
		},
		check: func(ctx context.Context, w *world) error {
			monitoring := w.provider.in("monitoring")
			return errors.Join(
				monitoring.absent(ctx, configMaps, w.tenants[0].shared("latency")),
				monitoring.holds(ctx, configMaps, w.tenants[1].shared("latency"), "metadata.labels.grafana_dashboard", "1"))
		},
	},
}

// sees returns nil when a tenant's cluster has the GatewayClasses that are offered, as they are, and no others.
func sees(ctx context.Context, t *tenant) error {
	cluster := t.cluster.in("")
	return errors.Join(
		cluster.holds(ctx, classes, "public", "spec.description", "For web traffic from everywhere"),
		cluster.absent(ctx, classes, "internal"))
}

// tenantsAreApart lists Secrets as each tenant's Isthmus: those of its own host namespace, which works, and others.
func tenantsAreApart(ctx context.Context, w *world) error {
	return w.each(func(t *tenant) error {
		config, err := w.provider.UserConfig(t.user())
		if err != nil {
			return err
		}
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			return err
		}
		list := func(namespace string) error {
			_, err := client.Resource(secrets).Namespace(namespace).List(ctx, metav1.ListOptions{})
			return err
		}
		errs := []error{list(t.host.namespace)}
		others := []string{"argocd", "monitoring", "", w.provider.namespace}
		for _, other := range w.tenants {
			if other != t {
				others = append(others, other.host.namespace)
			}
		}
		for _, namespace := range others {
			if err := list(namespace); !apierrors.IsForbidden(err) {
				errs = append(errs, fmt.Errorf("listing the Secrets of namespace %q was not refused: %v", namespace, err))
			}
		}
		return errors.Join(errs...)
	})
}
