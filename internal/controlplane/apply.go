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
	"k8s.io/apimachinery/pkg/util/json"
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

// Apply applies the documents of a YAML stream as admin, by server-side apply
// with force, in their order. Lists are applied item by item; a namespaced
// object without a namespace goes to "default". After a
// CustomResourceDefinition it waits until all its versions are served. The error names the object that was refused; those before it stay.
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
		document, err = yaml.YAMLToJSON(document)
		if err == nil {
			err = json.Unmarshal(document, &content) // keeps integers integers
		}
		if err != nil {
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
}

func (a *applier) apply(ctx context.Context, object *unstructured.Unstructured) error {
	if object.GetName() == "" || object.GetKind() == "" {
		return errors.New("it has no kind or no metadata.name")
	}
	resource, err := a.resource(object)
	if err != nil {
		return err
	}
	applied, err := resource.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: applyManager, Force: true})
	if err != nil {
		return err
	}
	if object.GroupVersionKind().GroupKind() != (schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}) {
		return nil
	}
	err = wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		definition, err := resource.Get(ctx, applied.GetName(), metav1.GetOptions{})
		if err != nil || !isEstablished(definition) {
			return false, err
		}
		return a.isServed(ctx, definition)
	})
	if err != nil {
		return fmt.Errorf("waiting until it is served: %w", err)
	}
	return nil
}

// resource finds where an object is applied, and completes its namespace.
func (a *applier) resource(object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	gvk := object.GroupVersionKind()
	mapping, err := a.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return a.client.Resource(mapping.Resource), nil
	}
	if object.GetNamespace() == "" {
		object.SetNamespace(metav1.NamespaceDefault)
	}
	return a.client.Resource(mapping.Resource).Namespace(object.GetNamespace()), nil
}

func isEstablished(definition *unstructured.Unstructured) bool {
	// At first the conditions are null, which counts as an error here.
	conditions, _, _ := unstructured.NestedSlice(definition.Object, "status", "conditions")
	for _, entry := range conditions {
		if condition, ok := entry.(map[string]any); ok && condition["type"] == "Established" && condition["status"] == "True" {
			return true
		}
	}
	return false
}

// isServed tells whether an established definition has reached discovery and
// the handler of its requests, which both happens a moment later.
func (a *applier) isServed(ctx context.Context, definition *unstructured.Unstructured) (bool, error) {
	group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	a.mapper.Reset()
	for _, entry := range versions {
		version, ok := entry.(map[string]any)
		if !ok || version["served"] != true {
			continue
		}
		name, _ := version["name"].(string)
		mapping, err := a.mapper.RESTMapping(schema.GroupKind{Group: group, Kind: kind}, name)
		if meta.IsNoMatchError(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		// Other errors, as of a conversion webhook, are answers of the handler.
		_, err = a.client.Resource(mapping.Resource).List(ctx, metav1.ListOptions{Limit: 1})
		if apierrors.IsNotFound(err) || ctx.Err() != nil {
			return false, nil
		}
	}
	return true, nil
}
