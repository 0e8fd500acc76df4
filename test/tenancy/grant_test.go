//go:build unix

package tenancy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/boundary"
)

// A namespace is made with the stamp that the consumer's engine itself would give it, with rights on what is asked for and
// allowed, and goes with its request.
func TestN4_ANamespaceIsMadeForItsOrigin(t *testing.T) {
	p := newProvider(t)
	west := name(t, "west")
	p.letIn(west)
	a := west + "-a"
	request := p.asked(west, a, "team-a", v1alpha1.ReasonGranted, asks("example.io", "widgets"), asks("", "configmaps"), asks("", "secrets"))
	if diff := cmp.Diff([]v1alpha1.RequestedResource{asks("", "configmaps"), asks("example.io", "widgets")}, request.Status.Granted); diff != "" {
		t.Errorf("granted: %s", diff)
	}
	if diff := cmp.Diff([]v1alpha1.RequestedResource{asks("", "secrets")}, request.Status.Refused); diff != "" {
		t.Errorf("refused: %s", diff)
	}
	ns := p.namespace(a)
	body := boundary.Identity{Cluster: west, Home: west, Instance: "controller", ClusterUID: "uid-of-" + west}.NamespaceBody(a)["metadata"].(map[string]any)
	for key, value := range body["labels"].(map[string]any) {
		if ns.Labels[key] != value {
			t.Errorf("label %s is %q, and the engine's %q", key, ns.Labels[key], value)
		}
	}
	for key, value := range body["annotations"].(map[string]any) {
		if ns.Annotations[key] != value {
			t.Errorf("annotation %s is %q, and the engine's %q", key, ns.Annotations[key], value)
		}
	}
	if ns.Annotations[boundary.AnnotationSource] != "team-a" || ns.Annotations[v1alpha1.ConsentAnnotation] != v1alpha1.ConsentCreated {
		t.Errorf("annotations: %v", ns.Annotations)
	}
	p.waitRules(west, a, written("configmaps"), written("widgets.example.io"))
	p.waitRules(west, "", "customresourcedefinitions.apiextensions.k8s.io: get,list,watch of widgets.example.io",
		"namespaces: get of kube-system", "namespaces: get,list,watch of "+a)
	p.waitRules(west, "isthmus-consumer-"+west, "namespacerequests.isthmus.dev: get,list,watch,create,patch,update,delete")

	// The credential works, for that and nothing else.
	c := p.as(west)
	p.may(true, "create a widget", func() error { return c.Create(t.Context(), widget(a, "one")) })
	p.may(true, "watch its namespace by name", func() error {
		return c.List(t.Context(), &corev1.NamespaceList{}, client.MatchingFields{"metadata.name": a})
	})
	p.may(true, "read the cluster's UID", func() error {
		return c.Get(t.Context(), client.ObjectKey{Name: "kube-system"}, &corev1.Namespace{})
	})
	p.may(false, "list all namespaces", func() error { return c.List(t.Context(), &corev1.NamespaceList{}) })
	p.may(false, "read Secrets", func() error { return c.List(t.Context(), &corev1.SecretList{}, client.InNamespace(a)) })
	p.may(false, "change its namespace", func() error {
		return c.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a}}, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"isthmus.dev/give-to":"x"}}}`)))
	})

	// More kinds, and fewer.
	consumerChanges := func(kinds ...v1alpha1.RequestedResource) {
		t.Helper()
		p.eventually(func() error { // the controller writes too
			request := p.request(west, a)
			request.Spec.Resources = kinds
			return c.Update(t.Context(), request)
		})
		p.answered(west, a, v1alpha1.ReasonGranted)
	}
	consumerChanges(asks("", "configmaps"))
	p.waitRules(west, a, written("configmaps"))
	consumerChanges()
	p.waitRules(west, a)
	consumerChanges(asks("example.io", "widgets"))
	p.waitRules(west, a, written("widgets.example.io"))

	p.eventually(func() error {
		consumer := &v1alpha1.Consumer{}
		if p.get("", west, consumer); consumer.Status.Namespaces != 1 || consumer.Status.RequestNamespace != "isthmus-consumer-"+west {
			return fmt.Errorf("status %+v", consumer.Status)
		}
		return nil
	})

	if err := c.Delete(t.Context(), p.request(west, a)); err != nil {
		t.Fatal(err)
	}
	p.eventually(func() error {
		if p.request(west, a) != nil || p.namespace(a) != nil {
			return errors.New("the request or its namespace is still there")
		}
		return nil
	})
	p.waitRules(west, "", "namespaces: get of kube-system")
}

// F2: at rest nothing is written, also by a controller that starts anew.
func TestF2_AtRestNothingIsWritten(t *testing.T) {
	p := newProvider(t)
	west := name(t, "west")
	p.letIn(west)
	for i := range 5 {
		p.asked(west, fmt.Sprintf("%s-%d", west, i), "team", v1alpha1.ReasonGranted, asks("", "configmaps"))
	}
	p.asked(west, "kube-x", "team", v1alpha1.ReasonNotAllowed)
	p.eventually(func() error { // the last status is written
		consumer := &v1alpha1.Consumer{}
		if p.get("", west, consumer); consumer.Status.Namespaces != 5 {
			return fmt.Errorf("status %+v", consumer.Status)
		}
		return nil
	})
	p.stop()
	since := time.Now()
	p.run()
	p.asked(west, west+"-last", "team", v1alpha1.ReasonGranted) // it has passed over everything by then
	<-time.After(2 * time.Second)
	for _, line := range p.writes(controllerUser, since) {
		if !allowedAtRest(line, west+"-last", west) {
			t.Errorf("a write at rest: %s", line)
		}
	}
}

// allowedAtRest: the writes for the one request that was made.
func allowedAtRest(line, namespace, consumer string) bool {
	for _, expected := range []string{
		"create namespaces /" + namespace + ": 201",
		"patch namespacerequests isthmus-consumer-" + consumer + "/" + namespace + ": 200",
		"update clusterroles /isthmus-consumer-" + consumer + ": 200",
		"patch consumers /" + consumer + ": 200",
	} {
		if line == expected {
			return true
		}
	}
	return false
}

// P3: what others made is neither written nor taken, unless its owner gives it; and goes back to him as it was.
func TestP3_NamespacesOfOthers(t *testing.T) {
	p := newProvider(t)
	west, east := name(t, "west"), name(t, "east")
	p.letIn(west, name(t, "shared"))
	p.letIn(east, name(t, "shared"))
	shared := name(t, "shared")
	p.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: shared, Labels: map[string]string{"team": "x"}}})
	p.create(configMap(shared, "precious"))
	before := p.namespace(shared)

	p.asked(west, shared, "a", v1alpha1.ReasonTaken, asks("", "configmaps"))
	p.asked(east, shared, "a", v1alpha1.ReasonTaken, asks("", "configmaps"))
	if p.namespace(shared).ResourceVersion != before.ResourceVersion || p.rules(west, shared) != nil {
		t.Fatal("a namespace of others was touched")
	}

	// Given to one, and to that one alone.
	give := func(to string) {
		t.Helper()
		change(p, "", shared, &corev1.Namespace{}, func(ns *corev1.Namespace) {
			if to == "" {
				delete(ns.Annotations, v1alpha1.GiveToAnnotation)
				return
			}
			metav1.SetMetaDataAnnotation(&ns.ObjectMeta, v1alpha1.GiveToAnnotation, to)
		})
	}
	give(west)
	p.answered(west, shared, v1alpha1.ReasonGranted)
	p.waitRules(west, shared, written("configmaps"))
	p.answered(east, shared, v1alpha1.ReasonTaken)
	if ns := p.namespace(shared); origin(ns) != west || ns.Annotations[v1alpha1.ConsentAnnotation] != v1alpha1.ConsentGiven || ns.Labels["team"] != "x" {
		t.Errorf("marks: %v %v", ns.Labels, ns.Annotations)
	}

	// To the other one: the first loses it at once, also while its request stands.
	give(east)
	p.answered(west, shared, v1alpha1.ReasonTaken)
	p.waitRules(west, shared)
	p.answered(east, shared, v1alpha1.ReasonGranted)
	p.waitRules(east, shared, written("configmaps"))
	if ns := p.namespace(shared); origin(ns) != east {
		t.Errorf("marks: %v %v", ns.Labels, ns.Annotations)
	}
	if err := p.as(west).Delete(t.Context(), p.request(west, shared)); err != nil {
		t.Fatal(err)
	}
	p.eventually(func() error {
		if p.request(west, shared) != nil {
			return errors.New("the request is still there")
		}
		return nil
	})
	p.waitRules(east, shared, written("configmaps"))

	// Its request goes: the namespace stays, and the marks go.
	if err := p.as(east).Delete(t.Context(), p.request(east, shared)); err != nil {
		t.Fatal(err)
	}
	p.eventually(func() error {
		ns := p.namespace(shared)
		if ns == nil {
			t.Fatal("a namespace that was given was deleted")
		}
		want := maps.Clone(before.Labels)
		if !maps.Equal(ns.Labels, want) || len(ns.Annotations) != 1 || p.request(east, shared) != nil {
			return fmt.Errorf("labels %v, annotations %v", ns.Labels, ns.Annotations)
		}
		return nil
	})
	p.waitRules(east, shared)
	if !p.get(shared, "precious", &corev1.ConfigMap{}) {
		t.Error("the owner's object is gone")
	}
}

// P3: a Role, or a consumer's own namespace, that somebody else made under the name that the controller would give it.
func TestP3_RolesAndOwnNamespacesOfOthers(t *testing.T) {
	p := newProvider(t)
	west, east := name(t, "west"), name(t, "east")
	p.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "isthmus-consumer-" + west}})
	p.create(newRequest(west, west+"-a", "a", asks("", "configmaps"))) // by whoever may write there
	p.create(&v1alpha1.Consumer{ObjectMeta: metav1.ObjectMeta{Name: west}, Spec: v1alpha1.ConsumerSpec{
		Subject: v1alpha1.Subject{Kind: "User", Name: west}, Resources: []v1alpha1.AllowedResources{resources("", "configmaps")},
		Namespaces: v1alpha1.AllowedNamespaces{Patterns: []string{"*"}},
	}})
	p.eventually(func() error {
		if ready := p.consumerReady(west); ready == nil || ready.Reason != v1alpha1.ReasonTaken {
			return fmt.Errorf("%+v", ready)
		}
		return nil
	})
	p.answered(west, west+"-a", v1alpha1.ReasonNoConsumer)
	if p.namespace(west+"-a") != nil || p.rules(west, "") != nil {
		t.Error("a request in a namespace of others counts")
	}
	// Its operator vouches for it.
	change(p, "", "isthmus-consumer-"+west, &corev1.Namespace{}, func(ns *corev1.Namespace) { metav1.SetMetaDataLabel(&ns.ObjectMeta, "isthmus.dev/consumer", west) })
	p.answered(west, west+"-a", v1alpha1.ReasonGranted)

	p.letIn(east, name(t, "given"))
	given := name(t, "given")
	p.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: given, Annotations: map[string]string{v1alpha1.GiveToAnnotation: east}}})
	p.create(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: given, Name: "isthmus-consumer-" + east}})
	p.asked(east, given, "a", v1alpha1.ReasonProviderFailure, asks("", "configmaps"))
	p.asked(east, east+"-b", "b", v1alpha1.ReasonGranted, asks("", "configmaps")) // another one is not kept waiting
	role := &rbacv1.Role{}
	if p.get(given, "isthmus-consumer-"+east, role); len(role.Rules) > 0 || len(role.Labels) > 0 {
		t.Errorf("a Role of others was changed: %+v", role)
	}
	if err := p.Delete(context.Background(), role); err != nil {
		t.Fatal(err)
	}
	p.answered(east, given, v1alpha1.ReasonGranted)
	p.waitRules(east, given, written("configmaps"))
}

// P3: who gets hold of the name of a consumer's own namespace can't have the consumer's namespaces deleted there.
func TestP3_RequestsInANamespaceOfOthersTakeNothingBack(t *testing.T) {
	p := newProvider(t)
	west := name(t, "west")
	p.letIn(west)
	a, own := west+"-a", "isthmus-consumer-"+west
	p.asked(west, a, "a", v1alpha1.ReasonGranted, asks("", "configmaps"))
	p.stop()
	change(p, own, a, &v1alpha1.NamespaceRequest{}, func(r *v1alpha1.NamespaceRequest) { r.Finalizers = nil })
	p.remove("", own, &corev1.Namespace{})
	p.eventually(func() error {
		if p.namespace(own) != nil {
			return errors.New("still there")
		}
		return nil
	})
	p.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: own}})
	forged := newRequest(west, a, "a")
	forged.Finalizers = []string{v1alpha1.NamespaceRequestFinalizer}
	p.create(forged)
	p.remove(own, a, &v1alpha1.NamespaceRequest{})
	p.run()
	p.eventually(func() error {
		if p.request(west, a) != nil || len(p.rules(west, a)) > 0 {
			return errors.New("the forged request, or the rights, are still there")
		}
		return nil
	})
	if ns := p.namespace(a); ns == nil || ns.DeletionTimestamp != nil {
		t.Error("a forged request had a namespace deleted")
	}
}
