//go:build unix

package controlplane

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"
)

// applyManager is the field manager of [Cluster.Apply].
const applyManager = "controlplane"

// discoveryLag is how long a kind may stay unknown after its definition was
// established.
const discoveryLag = 10 * time.Second

// Apply applies the documents of a YAML stream as admin, by server-side apply
// with force, in their order. Lists are applied item by item; a namespaced
// object without a namespace goes to "default". After a
// CustomResourceDefinition it waits until that is established and its kind is
// served. The error names the object that was refused; those before it stay.
func (c *Cluster) Apply(ctx context.Context, manifest []byte) error {
	objects, err := decode(manifest)
	if err != nil {
		return fmt.Errorf("applying to cluster %s: %w", c.name, err)
	}
	config := c.Config()
	config.UserAgent = applyManager
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("applying to cluster %s: %w", c.name, err)
	}
	discoveryClient, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("applying to cluster %s: %w", c.name, err)
	}
	a := &applier{client: client, mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discoveryClient))}
	for _, object := range objects {
		if err := a.apply(ctx, object); err != nil {
			return fmt.Errorf("applying %s %s to cluster %s: %w", object.GetKind(), describe(object), c.name, err)
		}
	}
	return nil
}

func describe(object *unstructured.Unstructured) string {
	if object.GetNamespace() == "" {
		return object.GetName()
	}
	return object.GetNamespace() + "/" + object.GetName()
}

// decode splits a YAML stream into objects.
func decode(manifest []byte) ([]*unstructured.Unstructured, error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifest)))
	var objects []*unstructured.Unstructured
	for number := 1; ; number++ {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading document %d: %w", number, err)
		}
		var content map[string]any
		if err := yaml.Unmarshal(document, &content); err != nil {
			return nil, fmt.Errorf("reading document %d: %w", number, err)
		}
		if len(content) == 0 {
			continue
		}
		object := &unstructured.Unstructured{Object: content}
		if !object.IsList() {
			objects = append(objects, object)
			continue
		}
		err = object.EachListItem(func(item runtime.Object) error {
			objects = append(objects, item.(*unstructured.Unstructured))
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("reading the list in document %d: %w", number, err)
		}
	}
}

type applier struct {
	client dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
	// newKinds is set once a definition was applied: from then on a kind that
	// is not known may become so.
	newKinds bool
}

func (a *applier) apply(ctx context.Context, object *unstructured.Unstructured) error {
	if object.GetName() == "" || object.GetKind() == "" {
		return errors.New("it has no kind or no metadata.name")
	}
	var resource dynamic.ResourceInterface
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, discoveryLag, true, func(ctx context.Context) (bool, error) {
		var unknown bool
		resource, unknown, last = a.resource(object)
		if last == nil {
			_, last = resource.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: applyManager, Force: true})
			// An answer about no object in particular: the kind is not served yet.
			unknown = apierrors.IsNotFound(last) && !isAboutObject(last)
		}
		if unknown && a.newKinds {
			a.mapper.Reset()
			return false, nil
		}
		return true, last
	})
	if err != nil {
		return errors.Join(last, ignoreSame(err, last))
	}
	if object.GroupVersionKind().GroupKind() == (schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}) {
		a.newKinds = true
		return waitEstablished(ctx, resource, object.GetName())
	}
	return nil
}

// resource finds where an object is applied; unknown tells that discovery does
// not know its kind.
func (a *applier) resource(object *unstructured.Unstructured) (resource dynamic.ResourceInterface, unknown bool, err error) {
	gvk := object.GroupVersionKind()
	mapping, err := a.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, meta.IsNoMatchError(err), err
	}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return a.client.Resource(mapping.Resource), false, nil
	}
	if object.GetNamespace() == "" {
		object.SetNamespace(metav1.NamespaceDefault)
	}
	return a.client.Resource(mapping.Resource).Namespace(object.GetNamespace()), false, nil
}

func isAboutObject(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Kind != "" && details.Name != ""
}

func ignoreSame(err, last error) error {
	if errors.Is(err, last) {
		return nil
	}
	return err
}

func waitEstablished(ctx context.Context, resource dynamic.ResourceInterface, name string) error {
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		definition, err := resource.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		conditions, _, err := unstructured.NestedSlice(definition.Object, "status", "conditions")
		if err != nil {
			return false, err
		}
		for _, entry := range conditions {
			if condition, ok := entry.(map[string]any); ok && condition["type"] == "Established" && condition["status"] == "True" {
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("waiting until it is established: %w", err)
	}
	return nil
}
