package rbac

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/install"
)

// InstallationTarget is an Installation with what it applies.
type InstallationTarget struct {
	Installation *v1alpha1.Installation
	Bundle       *install.Bundle
}

// InstallationOptions say what "isthmus controller --controllers=installation" is to be allowed, and whom.
type InstallationOptions struct {
	// Side is the cluster that the roles are for: Local, the hub, which has the Installations, or Remote, a member.
	Side Side
	// Targets are the Installations. Those with a destination are installed on the member, the others on the hub.
	Targets []InstallationTarget
	// Instance is --instance of the controller; Name is that of the roles, by default isthmus-<instance>-hub or -member.
	Instance, Name string
	// Namespace is the controller's own on the hub: the Lease is there. LeaderElect says whether there is one.
	Namespace   string
	LeaderElect bool
	// Subject is who gets the roles.
	Subject Subject
	// Resources finds the resource of a kind that no manifest defines; nil guesses (Guess).
	Resources func(schema.GroupVersionKind) (Resource, error)
}

// Installations returns the objects to apply so that the controller may install, keep and remove what the Installations
// have on one side, and no more: namespaces that have to be there, then ClusterRole, Roles and their bindings. Writes are
// limited to the names in the manifests; what is watched by label can't be.
func Installations(o InstallationOptions) ([]runtime.Object, error) {
	if o.Resources == nil {
		o.Resources = func(kind schema.GroupVersionKind) (Resource, error) { return Guess(kind), nil }
	}
	if o.Name == "" {
		o.Name = "isthmus-" + o.Instance + map[Side]string{Local: "-hub", Remote: "-member"}[o.Side]
	}
	needs := []need{{resource: "namespaces", names: []string{metav1.NamespaceSystem}, verbs: []string{"get"}, cluster: true}}
	locks := false
	for _, t := range o.Targets {
		if o.Side == Local {
			needs = append(needs, sourceNeeds(t.Installation)...)
		}
		if (t.Installation.Spec.Destination == nil) != (o.Side == Local) {
			continue
		}
		locks = true
		of, err := targetNeeds(t, o.Resources)
		if err != nil {
			return nil, fmt.Errorf("the Installation %s/%s: %w", t.Installation.Namespace, t.Installation.Name, err)
		}
		needs = append(needs, of...)
	}
	if o.Side == Local {
		needs = append(needs, hubNeeds(o)...)
	}
	grants := grantSet{}
	for _, n := range needs {
		grants.add(n, place{})
	}
	out := objects(Options{Side: o.Side, Namespace: o.Namespace, Name: o.Name, Instance: o.Instance, Subject: o.Subject}, grants)
	if locks && (o.Side == Remote || o.Namespace != install.SystemNamespace) {
		// A Role can't be there before its namespace.
		out = append([]runtime.Object{&corev1.Namespace{TypeMeta: typeMeta("v1", "Namespace"), ObjectMeta: metav1.ObjectMeta{Name: install.SystemNamespace}}}, out...)
	}
	return out, nil
}

// hubNeeds lists what the controller needs on its hub whatever is installed.
func hubNeeds(o InstallationOptions) []need {
	needs := []need{
		// Finalizers and the status are all that it writes.
		{group: v1alpha1.GroupVersion.Group, resource: "installations", verbs: slices.Concat(watch, []string{"patch"}), cluster: true},
		{group: v1alpha1.GroupVersion.Group, resource: "installations/status", verbs: []string{"patch", "update"}, cluster: true},
		{resource: "events", verbs: create, cluster: true},
	}
	if slices.ContainsFunc(o.Targets, func(t InstallationTarget) bool { return t.Installation.Spec.Destination != nil }) {
		needs = append(needs, need{group: "multicluster.x-k8s.io", resource: "clusterprofiles", verbs: watch, cluster: true})
	}
	if o.LeaderElect {
		needs = append(needs, need{
			group: "coordination.k8s.io", resource: "leases", names: []string{boundary.OwnName(o.Instance)}, verbs: []string{"get", "create", "patch", "update"}, namespace: o.Namespace,
		})
	}
	return needs
}

// sourceNeeds lists what an Installation's manifests are read from, each by its name.
func sourceNeeds(i *v1alpha1.Installation) (needs []need) {
	for _, m := range i.Spec.Manifests {
		for resource, ref := range map[string]*v1alpha1.ManifestKeyRef{"configmaps": m.ConfigMapRef, "secrets": m.SecretRef} {
			if ref != nil {
				needs = append(needs, need{resource: resource, names: []string{ref.Name}, verbs: watch, namespace: i.Namespace})
			}
		}
	}
	return needs
}

// targetNeeds lists what installing, keeping and removing one Installation takes on its cluster.
func targetNeeds(t InstallationTarget, resources func(schema.GroupVersionKind) (Resource, error)) ([]need, error) {
	component := t.Installation.Spec.Component
	needs := []need{{resource: "configmaps", names: []string{install.LockName(component)}, verbs: slices.Concat(watch, write), namespace: install.SystemNamespace}}
	goes := mayGo(t)
	scope := func(n need, namespace string) need {
		// A Role can't be there before its namespace, and goes with it.
		if n.cluster = namespace == "" || goes[namespace]; !n.cluster {
			n.namespace = namespace
		}
		return n
	}
	for _, phase := range t.Bundle.Phases {
		for _, object := range phase.Objects {
			gvk, name, namespace := object.GroupVersionKind(), object.GetName(), object.GetNamespace()
			if phase.Name == install.PhaseNamespaces {
				needs = append(needs, namespaceNeeds(name, goes[name])...)
				continue
			}
			resource, err := resourceIn(t.Bundle, gvk, resources)
			if err != nil {
				return nil, err
			}
			verbs := []string{"get", "create", "patch", "delete"}
			if phase.Name == install.PhaseCRDs && t.Installation.Spec.DeletionPolicy.CRDs != v1alpha1.CRDsDelete {
				verbs = []string{"get", "create", "patch"} // they are let go
			}
			needs = append(needs,
				scope(need{group: gvk.Group, resource: resource.Name, verbs: []string{"list", "watch"}}, namespace),
				scope(need{group: gvk.Group, resource: resource.Name, names: []string{name}, verbs: verbs}, namespace),
			)
			for _, n := range specialNeeds(object.Unstructured) {
				needs = append(needs, scope(n, namespace))
			}
		}
	}
	for _, anchor := range t.Bundle.Anchors {
		namespace := anchor.GetNamespace()
		needs = append(needs,
			scope(need{resource: "configmaps", verbs: []string{"list", "watch"}}, namespace),
			scope(need{resource: "configmaps", names: []string{anchor.GetName()}, verbs: []string{"get", "create", "patch", "delete"}}, namespace),
			// Some API servers ask for this of whoever makes an object its owner (OwnerReferencesPermissionEnforcement).
			scope(need{resource: "configmaps/finalizers", names: []string{anchor.GetName()}, verbs: []string{"update"}}, namespace),
			// What a component made itself is told when it is removed.
			scope(need{resource: "services", verbs: []string{"list"}}, namespace),
			scope(need{group: "coordination.k8s.io", resource: "leases", verbs: []string{"list"}}, namespace),
		)
	}
	if t.Installation.Spec.DeletionPolicy.CRDs == v1alpha1.CRDsDelete {
		needs = append(needs, instanceNeeds(t.Bundle)...)
	}
	return needs, nil
}

// mayGo tells the namespaces that the Installation may create, and so may not be there before it is, or after.
func mayGo(t InstallationTarget) map[string]bool {
	goes := map[string]bool{}
	for n, object := range t.Bundle.Phases[0].Objects {
		if n == 0 { // the destination
			goes[object.GetName()] = t.Installation.Spec.Destination != nil && t.Installation.Spec.DeletionPolicy.Namespace != v1alpha1.NamespaceKeep
		} else {
			goes[object.GetName()] = object.Where != ""
		}
	}
	return goes
}

// CreatesNamespaces reports whether the Installation may create a namespace, so that rights to what is in it can't be in
// a Role there.
func (t InstallationTarget) CreatesNamespaces() bool {
	return slices.Contains(slices.Collect(maps.Values(mayGo(t))), true)
}

// namespaceNeeds lists what a namespace takes: its labels and annotations are merged, and it is created if need be.
func namespaceNeeds(name string, goes bool) []need {
	verbs := []string{"get", "list", "watch", "patch"}
	if goes {
		verbs = append(verbs, "create", "delete")
	}
	return []need{{resource: "namespaces", names: []string{name}, verbs: verbs, cluster: true}}
}

// instanceNeeds lists what it takes to see whether objects of the definitions are left, which are to be deleted.
func instanceNeeds(b *install.Bundle) (needs []need) {
	for kind, resource := range definedIn(b) {
		needs = append(needs, need{group: kind.Group, resource: resource.Name, verbs: []string{"list", "watch"}, cluster: true})
	}
	return needs
}
