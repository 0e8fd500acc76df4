//go:build unix

package tenancy

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/controller/requests"
	"isthmus.dev/isthmus/internal/controlplane"
)

// Both sides of consent together: what a consumer's Isthmus wants, with the credential that the provider let in.
func TestN4_BothSidesOfConsent(t *testing.T) {
	p := newProvider(t)
	west := name(t, "west")
	kubeconfig, err := p.c.UserKubeconfig(west)
	if err != nil {
		t.Fatal(err)
	}
	remote, err := cluster.Connect(cluster.Options{Role: "remote", Kubeconfig: kubeconfig, UserAgent: "isthmus/" + west})
	if err != nil {
		t.Fatal(err)
	}
	r := requests.New(requests.Options{Remote: remote, Consumer: west, Instance: "controller", ClusterUID: "uid-of-" + west})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { r.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })

	a, elsewhere := west+"-a", name(t, "elsewhere")
	configMaps := []v1alpha1.RequestedResource{asks("", "configmaps")}
	r.Want(map[string]requests.Wanted{a: {Source: "a", Resources: configMaps}, elsewhere: {Source: "b", Resources: configMaps}})
	until := func(namespace string, want func(requests.State) bool) {
		t.Helper()
		p.eventually(func() error {
			if state := r.State(namespace); !want(state) {
				return fmt.Errorf("state of %s: %+v", namespace, state)
			}
			return nil
		})
	}
	until(a, func(s requests.State) bool { return !s.Known && s.Reason == cluster.ReasonForbidden })
	p.letIn(west)
	until(a, func(s requests.State) bool { return s.Ready && s.Settled && len(s.Granted) == 1 })
	until(elsewhere, func(s requests.State) bool {
		return s.Known && !s.Ready && s.Settled && s.Reason == v1alpha1.ReasonNotAllowed && len(s.Refused) == 1
	})

	// Crossings change.
	r.Want(map[string]requests.Wanted{a: {Source: "a", Resources: append(configMaps, asks("example.io", "widgets"), asks("", "secrets"))}})
	until(a, func(s requests.State) bool { return s.Ready && s.Settled && len(s.Granted) == 2 && len(s.Refused) == 1 })
	until(elsewhere, func(s requests.State) bool { return s.Gone })

	// At rest neither side writes.
	<-time.After(time.Second)
	since := time.Now()
	<-time.After(2 * time.Second)
	if writes := append(p.writes(west, since), p.writes(controllerUser, since)...); len(writes) > 0 {
		t.Errorf("writes at rest: %v", writes)
	}

	// Thrown out, and let in again.
	p.remove("", west, &v1alpha1.Consumer{})
	until(a, func(s requests.State) bool {
		return s.Known && !s.Ready && s.Reason == v1alpha1.ReasonNoConsumer && !s.Gone
	})
	p.letIn(west)
	until(a, func(s requests.State) bool { return s.Ready })

	// Given back: it is gone when its namespace is.
	r.Want(nil)
	until(a, func(s requests.State) bool { return s.Gone })
	if p.namespace(a) != nil {
		t.Error("the request is gone before its namespace")
	}
}

// F7: whoever deletes the definition of NamespaceRequests takes back nobody's namespaces.
func TestF7_TheDefinitionOfRequestsGoes(t *testing.T) {
	c, err := controlplane.Start(t.Context(), "provider-crd", controlplane.Options{With: []controlplane.Component{controlplane.ControllerManager}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	if err := equip(c); err != nil {
		t.Fatal(err)
	}
	p := on(t, c)
	p.run()
	p.letIn("west")
	p.asked("west", "west-a", "a", v1alpha1.ReasonGranted, asks("", "configmaps"))
	p.create(configMap("west-a", "kept"))
	p.stop()
	definition := &unstructured.Unstructured{}
	definition.SetName("namespacerequests.isthmus.dev")
	definition.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	if err := p.Delete(t.Context(), definition); err != nil {
		t.Fatal(err)
	}
	p.eventually(func() error {
		if request := p.request("west", "west-a"); request == nil || request.DeletionTimestamp == nil {
			return errors.New("the request is not being deleted yet")
		}
		return nil
	})
	p.run()
	p.eventually(func() error {
		if p.get("", "namespacerequests.isthmus.dev", definition) {
			return errors.New("the definition is still there")
		}
		return nil
	})
	if ns := p.namespace("west-a"); ns == nil || ns.DeletionTimestamp != nil || !p.get("west-a", "kept", configMap("", "")) {
		t.Error("a namespace went with the definition of NamespaceRequests")
	}
	p.waitRules("west", "west-a")
}
