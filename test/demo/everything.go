//go:build unix

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// everything returns the UIDs of all objects of a cluster, by kind and name. What Kubernetes puts into each namespace is
// left out.
func (s *side) everything(ctx context.Context) (map[string]string, error) {
	all := map[string]string{}
	err := s.EachObject(ctx, "", func(kind schema.GroupKind, object *unstructured.Unstructured) {
		if name := object.GetName(); kind.Kind == "ConfigMap" && name == "kube-root-ca.crt" || kind.Kind == "ServiceAccount" && name == "default" {
			return
		}
		all[kind.String()+" "+placeOf(object)] = string(object.GetUID())
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
