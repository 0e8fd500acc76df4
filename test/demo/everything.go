//go:build unix

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// leftOut are kinds whose objects come and change by themselves, or show what other kinds show.
var leftOut = []string{"Event", "Lease", "ComponentStatus", "Endpoints"}

// walk lists all objects of a cluster, of every kind that can be listed and is not left out.
func (s *side) walk(ctx context.Context, selector string, visit func(kind string, object *unstructured.Unstructured)) error {
	client, err := discovery.NewDiscoveryClientForConfig(s.Config())
	if err != nil {
		return err
	}
	groups, err := client.ServerPreferredResources()
	if err != nil {
		return err
	}
	for _, group := range groups {
		version, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			return err
		}
		for _, resource := range group.APIResources {
			if !slices.Contains(resource.Verbs, "list") || slices.Contains(leftOut, resource.Kind) {
				continue
			}
			list, err := s.client.Resource(version.WithResource(resource.Name)).List(ctx, metav1.ListOptions{LabelSelector: selector})
			if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
				continue // its definition went meanwhile
			}
			if err != nil {
				return fmt.Errorf("listing %s on %s: %w", resource.Name, s.Name(), err)
			}
			for i := range list.Items {
				visit(resource.Kind, &list.Items[i])
			}
		}
	}
	return nil
}

// everything returns the UIDs of all objects of a cluster, by kind and name. What Kubernetes puts into each namespace is
// left out.
func (s *side) everything(ctx context.Context) (map[string]string, error) {
	all := map[string]string{}
	err := s.walk(ctx, "", func(kind string, object *unstructured.Unstructured) {
		if name := object.GetName(); kind == "ConfigMap" && name == "kube-root-ca.crt" || kind == "ServiceAccount" && name == "default" {
			return
		}
		all[kind+" "+placeOf(object)] = string(object.GetUID())
	})
	return all, err
}

// hasWhatItHad returns nil when a cluster has the objects that it had, and no others.
func (s *side) hasWhatItHad(ctx context.Context, before map[string]string) error {
	after, err := s.everything(ctx)
	if err != nil {
		return err
	}
	var differences []string
	for name, uid := range after {
		if before[name] != uid {
			differences = append(differences, "new: "+name)
		}
	}
	for name, uid := range before {
		if after[name] != uid {
			differences = append(differences, "gone: "+name)
		}
	}
	if len(differences) == 0 {
		return nil
	}
	slices.Sort(differences)
	return fmt.Errorf("%s is not what it was:\n%s", s.Name(), strings.Join(differences, "\n"))
}
