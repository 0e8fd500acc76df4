package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/version"

	"isthmus.dev/isthmus/internal/boundary"
)

// ErrNotServed says that the server serves no such group, version or kind.
var ErrNotServed = errors.New("not served")

// Resource is how a server serves a kind.
type Resource struct {
	schema.GroupVersionResource
	Kind       string
	Namespaced bool
	// ShortNames are what users may write for the plural.
	ShortNames []string
	// Status: there is a status subresource that can be patched.
	Status bool
	// Verbs are those of the resource itself.
	Verbs sets.Set[string]
}

// Resource asks the server, live, how it serves a kind. The error is ErrNotServed (wrapped) when the server says that
// it does not, and something else when it can't be asked.
func (c *Cluster) Resource(ctx context.Context, gvk schema.GroupVersionKind) (Resource, error) {
	list, err := c.served(ctx, gvk.GroupVersion())
	if err != nil {
		return Resource{}, err
	}
	r, ok := pick(list, gvk)
	if !ok {
		return Resource{}, fmt.Errorf("%s cluster: kind %s of %s: %w", c.role, gvk.Kind, gvk.GroupVersion(), ErrNotServed)
	}
	return r, nil
}

// Serves asks the server, live, whether it serves a resource in a version. An error means that it can't be asked.
func (c *Cluster) Serves(ctx context.Context, gvr schema.GroupVersionResource) (bool, error) {
	_, err := c.ServedResource(ctx, gvr)
	if errors.Is(err, ErrNotServed) {
		return false, nil
	}
	return err == nil, err
}

// Preferred asks the server, live, in which version it serves a resource, the one that it prefers; empty: in none.
func (c *Cluster) Preferred(ctx context.Context, gr schema.GroupResource) (schema.GroupVersionResource, error) {
	versions, err := c.Versions(ctx, gr.Group)
	if err != nil {
		return schema.GroupVersionResource{}, err
	}
	for _, version := range versions {
		if served, err := c.Serves(ctx, gr.WithVersion(version)); served || err != nil {
			return gr.WithVersion(version), err
		}
	}
	return schema.GroupVersionResource{}, nil
}

// Versions asks the server, live, in which versions it serves a group, the preferred one first; none: it does not.
func (c *Cluster) Versions(ctx context.Context, group string) ([]string, error) {
	answer := &metav1.APIGroup{}
	err := c.clientset.Discovery().RESTClient().Get().AbsPath("/apis/" + group).Do(ctx).Into(answer)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s cluster: asking for the versions of %s: %w", c.role, group, err)
	}
	versions := []string{answer.PreferredVersion.Version}
	for _, v := range answer.Versions {
		if v.Version != versions[0] {
			versions = append(versions, v.Version)
		}
	}
	return versions, nil
}

// Version asks the server, live, which version of Kubernetes it is.
func (c *Cluster) Version(ctx context.Context) (string, error) {
	answer := &version.Info{}
	body, err := c.clientset.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
	if err == nil {
		err = json.Unmarshal(body, answer)
	}
	if err != nil {
		return "", fmt.Errorf("%s cluster: asking for its version: %w", c.role, err)
	}
	return answer.GitVersion, nil
}

// ServedResource asks the server, live, which kind a resource is and how it is served. Its errors are those of Resource.
func (c *Cluster) ServedResource(ctx context.Context, gvr schema.GroupVersionResource) (Resource, error) {
	list, err := c.served(ctx, gvr.GroupVersion())
	if err != nil {
		return Resource{}, err
	}
	for _, r := range list.APIResources {
		if r.Name == gvr.Resource {
			found, _ := pick(list, gvr.GroupVersion().WithKind(r.Kind))
			return found, nil
		}
	}
	return Resource{}, fmt.Errorf("%s cluster: %s of %s: %w", c.role, gvr.Resource, gvr.GroupVersion(), ErrNotServed)
}

// served asks what a group and version serve.
func (c *Cluster) served(ctx context.Context, gv schema.GroupVersion) (*metav1.APIResourceList, error) {
	list := &metav1.APIResourceList{}
	err := c.clientset.Discovery().RESTClient().Get().AbsPath(groupPath(gv)).Do(ctx).Into(list)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%s cluster: %s: %w", c.role, gv, ErrNotServed)
	}
	if err != nil {
		return nil, fmt.Errorf("%s cluster: asking what %s serves: %w", c.role, gv, err)
	}
	return list, nil
}

// pick finds the kind in what a group and version serve. Should several resources serve it, one that can be listed is
// preferred.
func pick(list *metav1.APIResourceList, gvk schema.GroupVersionKind) (Resource, bool) {
	found := Resource{}
	ok := false
	status := map[string]bool{}
	for _, r := range list.APIResources {
		verbs := sets.New(r.Verbs...)
		if parent, sub, isSub := strings.Cut(r.Name, "/"); isSub {
			if sub == "status" && verbs.Has("patch") {
				status[parent] = true
			}
			continue
		}
		if r.Kind == gvk.Kind && (!ok || !found.Verbs.Has("list") && verbs.Has("list")) {
			ok = true
			found = Resource{GroupVersionResource: gvk.GroupVersion().WithResource(r.Name), Kind: r.Kind, Namespaced: r.Namespaced, ShortNames: r.ShortNames, Verbs: verbs}
		}
	}
	found.Status = status[found.Resource]
	return found, ok
}

func groupPath(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.Group + "/" + gv.Version
}

// CRD is what matters of a CustomResourceDefinition to those who watch its objects.
type CRD struct {
	UID        string
	Generation int64
	// Terminating: it is being deleted, and its objects with it.
	Terminating bool
	// Established: its objects are served.
	Established bool
}

var crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// CRD reads the definition of a resource, live. Without one (the kind is built in, aggregated, or gone) it returns nil
// and no error; a server that has no CRDs at all is ErrNotServed.
func (c *Cluster) CRD(ctx context.Context, gr schema.GroupResource) (*CRD, error) {
	d, err := c.Definition(ctx, gr)
	if d == nil || err != nil {
		return nil, err
	}
	return d.CRD(), nil
}

// Definition is a CustomResourceDefinition as it was read, for who needs both what matters of it and what it declares.
type Definition struct {
	cluster *Cluster
	object  *unstructured.Unstructured
}

// Definition reads the definition of a resource, live; nil, and the errors, are those of CRD.
func (c *Cluster) Definition(ctx context.Context, gr schema.GroupResource) (*Definition, error) {
	u, err := c.readCRD(ctx, gr)
	if u == nil || err != nil {
		return nil, err
	}
	return &Definition{c, u}, nil
}

// Schema returns what is declared of a kind; the error is ErrNotServed (wrapped) when its version is not served.
func (d *Definition) Schema(gvk schema.GroupVersionKind) (*boundary.Schema, error) {
	return d.cluster.fromCRD(d.object, gvk)
}

// CRD returns what matters of the definition to those who watch its objects.
func (d *Definition) CRD() *CRD {
	u := d.object
	return &CRD{
		UID:         string(u.GetUID()),
		Generation:  u.GetGeneration(),
		Terminating: u.GetDeletionTimestamp() != nil || HasCondition(u, "Terminating"),
		Established: HasCondition(u, "Established"),
	}
}

func (c *Cluster) readCRD(ctx context.Context, gr schema.GroupResource) (*unstructured.Unstructured, error) {
	if gr.Group == "" {
		return nil, nil // the core group has none
	}
	name := gr.String()
	u, err := c.dynamic.Resource(crds).Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil:
		return u, nil
	case apierrors.IsNotFound(err) && apierrors.IsUnexpectedServerError(err):
		// No API object's absence, but a path that leads nowhere.
		return nil, fmt.Errorf("%s cluster: CustomResourceDefinitions: %w", c.role, ErrNotServed)
	case apierrors.IsNotFound(err):
		return nil, nil
	}
	return nil, fmt.Errorf("%s cluster: reading CustomResourceDefinition %s: %w", c.role, name, err)
}

// HasCondition reports whether an object's status has a condition that is true.
func HasCondition(u *unstructured.Unstructured, conditionType string) bool {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == conditionType && c["status"] == "True" {
			return true
		}
	}
	return false
}
