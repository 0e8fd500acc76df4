//go:build unix

package main

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"isthmus.dev/isthmus/internal/controlplane"
)

// The kinds of the demo.
var (
	widgets      = schema.GroupVersionResource{Group: "example.io", Version: "v1", Resource: "widgets"}
	configMaps   = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	secrets      = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	applications = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications"}
	classes      = schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "gatewayclasses"}
	routes       = schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "httproutes"}
	alerts       = schema.GroupVersionResource{Group: "monitoring.coreos.com", Version: "v1", Resource: "prometheusrules"}
	profiles     = schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "clusterprofiles"}
	probes       = schema.GroupVersionResource{Group: "agent.example.io", Version: "v1", Resource: "probes"}
	clusterRoles = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
	bindings     = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"}
	webhooks     = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"}
	namespaces   = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	events       = schema.GroupVersionResource{Version: "v1", Resource: "events"}
)

// side is one of the clusters, seen by its administrator, in one of its namespaces.
type side struct {
	*controlplane.Cluster
	client    dynamic.Interface
	namespace string
}

func startSide(ctx context.Context, name, namespace string, with ...controlplane.Component) (*side, error) {
	cluster, err := controlplane.Start(ctx, name, controlplane.Options{With: with})
	if err != nil {
		return nil, err
	}
	s := &side{Cluster: cluster, namespace: namespace}
	if s.client, err = dynamic.NewForConfig(cluster.Config()); err != nil {
		cluster.Stop()
		return nil, err
	}
	return s, nil
}

// in returns the same cluster, seen in another namespace; empty: none.
func (s *side) in(namespace string) *side {
	other := *s
	other.namespace = namespace
	return &other
}

func (s *side) objects(kind schema.GroupVersionResource) dynamic.ResourceInterface {
	return s.client.Resource(kind).Namespace(s.namespace)
}

// get returns an object, or an error that says that it is not there.
func (s *side) get(ctx context.Context, kind schema.GroupVersionResource, name string) (*unstructured.Unstructured, error) {
	return s.objects(kind).Get(ctx, name, metav1.GetOptions{})
}

// absent returns nil when an object is not there.
func (s *side) absent(ctx context.Context, kind schema.GroupVersionResource, name string) error {
	switch _, err := s.get(ctx, kind, name); {
	case err == nil:
		return fmt.Errorf("%s %s is there on the %s", kind.Resource, name, s.Name())
	case apierrors.IsNotFound(err):
		return nil
	default:
		return err
	}
}

// patch changes an object, or a subresource of it, by a merge patch, in YAML.
func (s *side) patch(ctx context.Context, kind schema.GroupVersionResource, name, patch string, subresources ...string) error {
	encoded, err := yaml.YAMLToJSON([]byte(patch))
	if err != nil {
		return err
	}
	_, err = s.objects(kind).Patch(ctx, name, types.MergePatchType, encoded, metav1.PatchOptions{FieldManager: "somebody"}, subresources...)
	return err
}

// holds returns nil when a field of an object has a value; the path is in dots.
func (s *side) holds(ctx context.Context, kind schema.GroupVersionResource, name, path string, want any) error {
	object, err := s.get(ctx, kind, name)
	if err != nil {
		return err
	}
	if have := field(object, path); fmt.Sprint(have) != fmt.Sprint(want) {
		return fmt.Errorf("%s of %s %s on the %s is %v, expected %v", path, kind.Resource, name, s.Name(), have, want)
	}
	return nil
}

// has returns nil when what a field of an object holds, printed, has a certain part.
func (s *side) has(ctx context.Context, kind schema.GroupVersionResource, name, path, part string) error {
	object, err := s.get(ctx, kind, name)
	if err != nil {
		return err
	}
	if have := fmt.Sprint(field(object, path)); !strings.Contains(have, part) {
		return fmt.Errorf("%s of %s %s on the %s is %s, expected %s in it", path, kind.Resource, name, s.Name(), have, part)
	}
	return nil
}

// field returns what is at a path in dots; nil: nothing.
func field(object *unstructured.Unstructured, path string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(object.Object, strings.Split(path, ".")...)
	return value
}

// userMay reports whether a user may do something with a resource, resource.group, in a namespace.
func (s *side) userMay(ctx context.Context, user, verb, resource, namespace string) (bool, error) {
	client, err := kubernetes.NewForConfig(s.Config())
	if err != nil {
		return false, err
	}
	kind := schema.ParseGroupResource(resource)
	answer, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verb, Group: kind.Group, Resource: kind.Resource, Namespace: namespace,
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return answer.Status.Allowed, nil
}
