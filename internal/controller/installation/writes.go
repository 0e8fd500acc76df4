package installation

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/cluster"
)

var (
	configMapResource = cluster.Resource{GroupVersionResource: configMaps, Kind: "ConfigMap", Namespaced: true}
	namespaceResource = cluster.Resource{GroupVersionResource: configMaps.GroupVersion().WithResource("namespaces"), Kind: "Namespace"}
)

// errLost says that the lock is not ours any more.
var errLost = errors.New("the lock of this component is not this Installation's any more")

func typesName(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// verify asks the cluster, once before the first write of a pass, whether it is the one that is meant.
func (p *pass) verify(ctx context.Context) error {
	if p.verified {
		return nil
	}
	uid, err := p.cluster.UID(ctx)
	if err != nil {
		return err
	}
	if uid != p.i.Status.ClusterUID {
		return fmt.Errorf("another cluster answers than the one that this is installed on: the UID of namespace %s is %s, not %s", metav1.NamespaceSystem, uid, p.i.Status.ClusterUID)
	}
	p.verified = true
	return nil
}

// mayWrite makes sure that we may write to the cluster now: it is the one that is meant, and the component is ours.
func (p *pass) mayWrite(ctx context.Context) error {
	if !p.stillOurs() {
		return errLost
	}
	return p.verify(ctx)
}

// send applies a body, whatever the pass knows.
func (p *pass) send(ctx context.Context, resource cluster.Resource, body map[string]any, manager string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{Object: body}
	return p.cluster.Dynamic().Resource(resource.GroupVersionResource).Namespace(object.GetNamespace()).
		Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: manager, Force: true})
}

// get reads an object live; nil: there is none.
func (p *pass) get(ctx context.Context, resource cluster.Resource, namespace, name string) (*unstructured.Unstructured, error) {
	object, err := p.cluster.Dynamic().Resource(resource.GroupVersionResource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	switch answer, _ := boundary.Classify(boundary.OpUpdate, err); answer {
	case boundary.Done:
		return object, nil
	case boundary.Gone, boundary.NotServed, boundary.NamespaceMissing:
		return nil, nil
	}
	return nil, fmt.Errorf("reading %s %s: %w", resource.Kind, typesName(namespace, name), err)
}

// erase deletes an object that is ours, in the state that it was seen in.
func (p *pass) erase(ctx context.Context, resource cluster.Resource, object *unstructured.Unstructured) error {
	if err := p.mayWrite(ctx); err != nil {
		return err
	}
	propagation := metav1.DeletePropagationBackground
	if ownsPods[object.GroupVersionKind().GroupKind()] {
		// So that it is there for as long as its pods are, and the roles that they need as well.
		propagation = metav1.DeletePropagationForeground
	}
	return p.cluster.Dynamic().Resource(resource.GroupVersionResource).Namespace(object.GetNamespace()).Delete(ctx, object.GetName(), metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: ptr.To(object.GetUID()), ResourceVersion: ptr.To(object.GetResourceVersion())},
		PropagationPolicy: &propagation,
	})
}

// letGo takes the stamp off an object and leaves everything else; nobody owns its fields then.
func (p *pass) letGo(ctx context.Context, resource cluster.Resource, object *unstructured.Unstructured) error {
	if err := p.mayWrite(ctx); err != nil {
		return err
	}
	patch := boundary.DisownPatch(object, []string{v1alpha1.InstalledByLabel}, []string{v1alpha1.InstallationAnnotation, v1alpha1.InstalledContentAnnotation})
	_, err := p.cluster.Dynamic().Resource(resource.GroupVersionResource).Namespace(object.GetNamespace()).
		Patch(ctx, object.GetName(), types.JSONPatchType, []byte(asJSON(patch)), metav1.PatchOptions{FieldManager: boundary.FieldManager})
	return err
}
