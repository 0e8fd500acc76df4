package requests

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/cluster"
)

// writers is how many requests are written at once.
const writers = 4

// Run reads the provider and keeps its requests as they are wanted, until ctx ends. It is called once.
func (r *Requests) Run(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { r.watch(ctx) })
	for range writers {
		all.Go(func() {
			for r.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	r.queue.ShutDown()
	all.Wait()
}

// next handles one request; false: that was the last.
func (r *Requests) next(ctx context.Context) bool {
	name, shutdown := r.queue.Get()
	if shutdown {
		return false
	}
	defer r.queue.Done(name)
	err := r.settle(ctx, name)
	switch {
	case ctx.Err() != nil:
	case err == nil:
		r.queue.Forget(name)
	default:
		if seconds, asked := apierrors.SuggestsClientDelay(err); asked {
			r.queue.AddAfter(name, time.Duration(seconds)*time.Second)
		} else {
			r.queue.AddRateLimited(name)
		}
		if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
			err = nil // the watch is late
		}
	}
	r.remember(ctx, name, err)
	return true
}

// remember takes in how the last write for a namespace went.
func (r *Requests) remember(ctx context.Context, name string, err error) {
	if ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	before := r.failed[name]
	if err == nil {
		delete(r.failed, name)
	} else {
		r.failed[name] = err
	}
	r.mu.Unlock()
	if cluster.Reason(before) == cluster.Reason(err) {
		return
	}
	if err != nil {
		r.o.Logger.Warn("Writing a NamespaceRequest failed and is tried again", "name", name, "reason", cluster.Reason(err), "error", err)
	}
	r.o.Changed()
}

// settle makes one request as it is wanted. While the provider can't be read nothing is written: reading it tells when it is
// worth trying again.
func (r *Requests) settle(ctx context.Context, name string) error {
	r.mu.Lock()
	wanted, isWanted := r.wanted[name]
	request := r.found[name]
	ready := r.wanted != nil && r.read && r.trouble == nil
	r.mu.Unlock()
	if !ready {
		return nil
	}
	switch {
	case request == nil && !isWanted, request != nil && !r.ours(request), request != nil && request.DeletionTimestamp != nil:
		return nil
	}
	if err := r.o.Check(ctx); err != nil {
		return err
	}
	switch {
	case request == nil:
		return r.create(ctx, name, wanted)
	case !isWanted, request.Spec.Source.Name != wanted.Source: // a source can't be changed: it is made anew when it is gone
		return r.delete(ctx, request)
	case !sameResources(request.Spec.Resources, wanted.Resources):
		return r.update(ctx, request, wanted)
	}
	return nil
}

func (r *Requests) create(ctx context.Context, name string, wanted Wanted) error {
	object := map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "NamespaceRequest",
		"metadata": map[string]any{"name": name, "namespace": r.namespace},
		"spec": map[string]any{
			"source":    map[string]any{"name": wanted.Source, "clusterUID": r.o.ClusterUID, "instance": r.o.Instance},
			"resources": plain(wanted.Resources),
		},
	}
	_, err := r.o.Remote.Dynamic().Resource(resource).Namespace(r.namespace).
		Create(ctx, &unstructured.Unstructured{Object: object}, metav1.CreateOptions{FieldManager: boundary.FieldManager})
	if err != nil {
		return fmt.Errorf("creating NamespaceRequest %s: %w", name, err)
	}
	r.o.Logger.Info("Asked the provider for a namespace", "name", name, "source", wanted.Source)
	return nil
}

// update changes the resources, if the request is still the one that was read.
func (r *Requests) update(ctx context.Context, request *v1alpha1.NamespaceRequest, wanted Wanted) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": request.UID, "resourceVersion": request.ResourceVersion},
		"spec":     map[string]any{"resources": plain(wanted.Resources)},
	})
	if err != nil {
		return err
	}
	_, err = r.o.Remote.Dynamic().Resource(resource).Namespace(r.namespace).
		Patch(ctx, request.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: boundary.FieldManager})
	if err != nil {
		return fmt.Errorf("changing the resources of NamespaceRequest %s: %w", request.Name, err)
	}
	return nil
}

// delete takes a request back, if it is still the one that was read.
func (r *Requests) delete(ctx context.Context, request *v1alpha1.NamespaceRequest) error {
	err := r.o.Remote.Dynamic().Resource(resource).Namespace(r.namespace).Delete(ctx, request.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &request.UID, ResourceVersion: &request.ResourceVersion},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting NamespaceRequest %s: %w", request.Name, err)
	}
	r.o.Logger.Info("Gave a namespace back to the provider", "name", request.Name)
	return nil
}

// plain returns resources as JSON has them.
func plain(resources []v1alpha1.RequestedResource) []any {
	out := []any{}
	for _, resource := range canonical(resources) {
		out = append(out, map[string]any{"group": resource.Group, "resource": resource.Resource, "access": string(resource.Access)})
	}
	return out
}
