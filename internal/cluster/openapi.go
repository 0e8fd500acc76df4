package cluster

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"isthmus.dev/isthmus/internal/boundary"
)

// Schema reads, live, what the server declares of a kind: from its CRD where there is one and we may read it (which is
// up to date at once), else from the server's OpenAPI v3 document (which trails a CRD by a few seconds). The error is
// ErrNotServed (wrapped) when the server declares no such kind.
func (c *Cluster) Schema(ctx context.Context, gvk schema.GroupVersionKind) (*boundary.Schema, error) {
	resource, err := c.Resource(ctx, gvk)
	if err != nil {
		return nil, err
	}
	return c.SchemaOf(ctx, gvk, resource)
}

// SchemaOf is Schema for who knows already how the kind is served.
func (c *Cluster) SchemaOf(ctx context.Context, gvk schema.GroupVersionKind, resource Resource) (*boundary.Schema, error) {
	crd, err := c.readCRD(ctx, resource.GroupResource())
	forbidden := apierrors.IsForbidden(err)
	switch {
	case err == nil && crd != nil:
		return c.fromCRD(crd, gvk)
	case err != nil && !forbidden && Reason(err) != ReasonNotServed:
		return nil, err
	}
	return c.fromOpenAPI(ctx, gvk, forbidden)
}

func (c *Cluster) fromCRD(crd *unstructured.Unstructured, gvk schema.GroupVersionKind) (*boundary.Schema, error) {
	if preserve, _, _ := unstructured.NestedBool(crd.Object, "spec", "preserveUnknownFields"); preserve {
		return schemaOfCRD(nil), nil
	}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		version, ok := v.(map[string]any)
		if !ok || version["name"] != gvk.Version || version["served"] != true {
			continue
		}
		declared, _, _ := unstructured.NestedMap(version, "schema", "openAPIV3Schema")
		return schemaOfCRD(declared), nil
	}
	return nil, fmt.Errorf("%s cluster: CustomResourceDefinition %s has no version %s: %w", c.role, crd.GetName(), gvk.Version, ErrNotServed)
}

func (c *Cluster) fromOpenAPI(ctx context.Context, gvk schema.GroupVersionKind, maybeCRD bool) (*boundary.Schema, error) {
	raw, err := c.clientset.Discovery().RESTClient().Get().AbsPath("/openapi/v3"+groupPath(gvk.GroupVersion())).
		SetHeader("Accept", "application/json").Do(ctx).Raw()
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%s cluster: the OpenAPI document of %s: %w", c.role, gvk.GroupVersion(), ErrNotServed)
	}
	if err != nil {
		return nil, fmt.Errorf("%s cluster: reading the OpenAPI document of %s: %w", c.role, gvk.GroupVersion(), err)
	}
	document := map[string]any{}
	if err := utiljson.Unmarshal(raw, &document); err != nil {
		return nil, fmt.Errorf("%s cluster: decoding the OpenAPI document of %s: %w", c.role, gvk.GroupVersion(), err)
	}
	definitions, _, _ := unstructured.NestedMap(document, "components", "schemas")
	name := definitionOf(definitions, gvk)
	if name == "" {
		return nil, fmt.Errorf("%s cluster: kind %s in the OpenAPI document of %s: %w", c.role, gvk.Kind, gvk.GroupVersion(), ErrNotServed)
	}
	return schemaOfDefinition(definitions, name, maybeCRD && standsAlone(definitions[name])), nil
}

// definitionOf finds the definition of a kind.
func definitionOf(definitions map[string]any, gvk schema.GroupVersionKind) string {
	for name, d := range definitions {
		definition, _ := d.(map[string]any)
		marks, _ := definition["x-kubernetes-group-version-kind"].([]any)
		for _, m := range marks {
			mark, _ := m.(map[string]any)
			if mark["group"] == gvk.Group && mark["version"] == gvk.Version && mark["kind"] == gvk.Kind {
				return name
			}
		}
	}
	return ""
}

// standsAlone: a definition refers to nothing but metadata, as those that are made from CRDs.
func standsAlone(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		if ref := text(v["$ref"]); ref != "" && !strings.HasSuffix(ref, ".meta.v1.ObjectMeta") {
			return false
		}
		for _, child := range v {
			if !standsAlone(child) {
				return false
			}
		}
	case []any:
		for _, child := range v {
			if !standsAlone(child) {
				return false
			}
		}
	}
	return true
}
