//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/install"
)

// fleetSteps are the fifth scene.
var fleetSteps = []step{
	{
		title: "The component is installed on acme, and nothing of it on globex or on the hub",
		check: func(ctx context.Context, w *world) error {
			f := w.fleet
			if err := errors.Join(f.isthmus.running(), f.isthmus.ready(ctx), f.isReady(ctx, "agent-acme")); err != nil {
				return err
			}
			return errors.Join(
				f.acme.holds(ctx, configMaps, "settings", "data.level", "info"),
				f.globex.hasNothingInstalled(ctx), f.hub.hasNothingInstalled(ctx))
		},
	},
	{
		title: "It is in the namespace that the Installation names, and so is what refers to it; the anchor there owns its objects",
		check: func(ctx context.Context, w *world) error {
			acme := w.fleet.acme
			return errors.Join(
				acme.in("").has(ctx, bindings, "agent", "subjects", "namespace:"+acme.namespace),
				acme.in("").has(ctx, webhooks, "agent", "webhooks", "namespace:"+acme.namespace),
				acme.ownedByAnchor(ctx), acme.in("").absent(ctx, namespaces, "agent"))
		},
	},
	{
		title: "The hub's token is good on acme for what the manifests have, and for no Secrets and no pods",
		do:    installerMayOnly,
	},
	{
		title: "A second Installation brings it to globex, with a setting of its own",
		do: func(ctx context.Context, w *world) error {
			return w.fleet.hub.Apply(ctx, file("fleet-globex.yaml"))
		},
		check: func(ctx context.Context, w *world) error {
			f := w.fleet
			return errors.Join(
				f.isReady(ctx, "agent-globex"),
				f.globex.holds(ctx, configMaps, "settings", "data.level", "debug"), f.acme.holds(ctx, configMaps, "settings", "data.level", "info"))
		},
	},
	{
		title: "Somebody in acme changes its settings, and deletes its Service and its ClusterRole: all is put back",
		do: func(ctx context.Context, w *world) error {
			acme := w.fleet.acme
			return errors.Join(
				acme.patch(ctx, configMaps, "settings", "data: {level: silent}"),
				acme.objects(services).Delete(ctx, "agent", metav1.DeleteOptions{}),
				acme.in("").objects(clusterRoles).Delete(ctx, "agent", metav1.DeleteOptions{}))
		},
		check: func(ctx context.Context, w *world) error {
			acme := w.fleet.acme
			return errors.Join(
				acme.holds(ctx, configMaps, "settings", "data.level", "info"),
				acme.has(ctx, services, "agent", "spec.selector", "app:agent"),
				acme.in("").has(ctx, clusterRoles, "agent", "rules", "probes"))
		},
	},
	{
		title: "The component once more for acme, in another namespace: it is refused, and says who has it",
		do: func(ctx context.Context, w *world) error {
			return w.fleet.hub.Apply(ctx, file("fleet-again.yaml"))
		},
		check: func(ctx context.Context, w *world) error {
			f := w.fleet
			return errors.Join(
				f.hub.conditionIs(ctx, "installations", "agent-again", v1alpha1.ConditionApplied, metav1.ConditionFalse, v1alpha1.ReasonLockHeld, "agent-acme"),
				f.acme.in("").absent(ctx, namespaces, "another-agent"), f.isReady(ctx, "agent-acme"))
		},
	},
}

// fleetEnd is the end of the fifth scene.
var fleetEnd = []step{
	{
		title: "An upgrade on acme prunes what the new version does not have; globex keeps the old one",
		do: func(ctx context.Context, w *world) error {
			f := w.fleet
			if err := f.hub.objects(isthmusKind("installations")).Delete(ctx, "agent-again", metav1.DeleteOptions{}); err != nil {
				return err
			}
			return f.hub.Apply(ctx, upgraded())
		},
		check: func(ctx context.Context, w *world) error {
			f := w.fleet
			return errors.Join(
				f.hub.absent(ctx, isthmusKind("installations"), "agent-again"), f.isReady(ctx, "agent-acme"),
				f.acme.holds(ctx, configMaps, "settings", "data.version", "2"), f.acme.absent(ctx, configMaps, "targets"),
				f.globex.holds(ctx, configMaps, "settings", "data.version", "1"), f.globex.holds(ctx, configMaps, "targets", "data.targets", "none"))
		},
	},
	{
		title: "It is uninstalled from acme while somebody there has a Probe, which is of its kinds: it waits, and says so",
		do: func(ctx context.Context, w *world) error {
			f := w.fleet
			probe := []byte("{apiVersion: agent.example.io/v1, kind: Probe, metadata: {name: front, namespace: web}, spec: {url: 'https://front.example.io'}}")
			if err := f.acme.Apply(ctx, probe); err != nil {
				return err
			}
			return f.hub.objects(isthmusKind("installations")).Delete(ctx, "agent-acme", metav1.DeleteOptions{})
		},
		check: func(ctx context.Context, w *world) error {
			f := w.fleet
			return errors.Join(
				f.hub.conditionIs(ctx, "installations", "agent-acme", v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonInstancesLeft, "1 of probes.agent.example.io"),
				f.acme.holds(ctx, configMaps, "settings", "data.version", "2"))
		},
	},
	{
		title: "The Probe goes: so does all that was installed, and acme has what it had before, compared over its whole API",
		do: func(ctx context.Context, w *world) error {
			return w.fleet.acme.in("web").objects(probes).Delete(ctx, "front", metav1.DeleteOptions{})
		},
		check: func(ctx context.Context, w *world) error {
			f := w.fleet
			if err := f.hub.absent(ctx, isthmusKind("installations"), "agent-acme"); err != nil {
				return err
			}
			return errors.Join(f.acme.hasWhatItHad(ctx, f.before), f.isReady(ctx, "agent-globex"))
		},
	},
}

// isReady returns nil when an Installation is ready as it is now.
func (f *fleet) isReady(ctx context.Context, name string) error {
	return f.hub.condition(ctx, "installations", name, v1alpha1.ConditionReady)
}

// installed returns the objects on a cluster that an Isthmus installed there. The label alone does not tell: Kubernetes gives a
// Service's labels to the EndpointSlices that it makes.
func (s *side) installed(ctx context.Context) (objects []*unstructured.Unstructured, err error) {
	err = s.EachObject(ctx, v1alpha1.InstalledByLabel, func(_ schema.GroupKind, object *unstructured.Unstructured) {
		if object.GetAnnotations()[v1alpha1.InstallationAnnotation] != "" {
			objects = append(objects, object)
		}
	})
	return objects, err
}

func (s *side) hasNothingInstalled(ctx context.Context) error {
	objects, err := s.installed(ctx)
	if err == nil && len(objects) > 0 {
		err = fmt.Errorf("%s %s was installed on %s", objects[0].GetKind(), placeOf(objects[0]), s.Name())
	}
	return err
}

// ownedByAnchor returns nil when all that was installed into the namespace of a member is owned by the anchor there.
func (s *side) ownedByAnchor(ctx context.Context) error {
	objects, err := s.installed(ctx)
	if err != nil {
		return err
	}
	anchor, err := s.get(ctx, configMaps, install.AnchorName("agent"))
	if err != nil {
		return err
	}
	owned := 0
	for _, object := range objects {
		if object.GetNamespace() != s.namespace || object.GetUID() == anchor.GetUID() {
			continue
		}
		if owners := object.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != anchor.GetUID() {
			return fmt.Errorf("%s %s has the owners %v, expected the ConfigMap %s", object.GetKind(), placeOf(object), owners, anchor.GetName())
		}
		owned++
	}
	if owned != 4 {
		return fmt.Errorf("the anchor owns %d objects, expected 4: the ServiceAccount, the Service and the ConfigMaps settings and targets", owned)
	}
	return nil
}

func installerMayOnly(ctx context.Context, w *world) error {
	var wrong []string
	for _, q := range []struct {
		verb, resource, namespace string
		want                      bool
	}{
		{"list", "clusterroles.rbac.authorization.k8s.io", "", true},
		{"list", "secrets", "", false},
		{"list", "secrets", w.fleet.acme.namespace, false},
		{"list", "pods", "", false},
		{"patch", "configmaps", "web", false},
		{"delete", "namespaces", "", false},
		{"create", "clusterrolebindings.rbac.authorization.k8s.io", "", false},
	} {
		may, err := w.fleet.acme.userMay(ctx, installerOnName, q.verb, q.resource, q.namespace)
		if err != nil {
			return err
		}
		if may != q.want {
			wrong = append(wrong, fmt.Sprintf("may it %s %s in namespace %q on acme? %t, expected %t", q.verb, q.resource, q.namespace, may, q.want))
		}
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "\n"))
	}
	return nil
}
