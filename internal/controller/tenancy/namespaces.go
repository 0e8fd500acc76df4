package tenancy

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/boundary"
)

// errForeign: something of the name that we need exists, and this controller did not make it (P3).
var errForeign = errors.New("it exists, and was not made by this controller")

// namespace reads a namespace; nil: there is none.
func (p *pass) namespace(ctx context.Context, from client.Reader, name string) (*corev1.Namespace, error) {
	ns := &corev1.Namespace{}
	err := from.Get(ctx, types.NamespacedName{Name: name}, ns)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading namespace %s: %w", name, err)
	}
	return ns, nil
}

func stateOf(ns *corev1.Namespace) namespaceState {
	if ns == nil {
		return namespaceState{}
	}
	return namespaceState{
		exists: true, terminating: ns.DeletionTimestamp != nil,
		origin: ns.Labels[boundary.LabelOrigin], writer: ns.Annotations[boundary.AnnotationWriter],
		consent: ns.Annotations[v1alpha1.ConsentAnnotation], giveTo: ns.Annotations[v1alpha1.GiveToAnnotation],
	}
}

// mark puts the marks of a request's namespace on it: the engine of the consumer takes it for its own by them, and refuses one of
// another origin (N4).
func (p *pass) mark(ns *corev1.Namespace, a *asked, consent string) {
	metav1.SetMetaDataLabel(&ns.ObjectMeta, boundary.LabelOrigin, p.name)
	metav1.SetMetaDataAnnotation(&ns.ObjectMeta, boundary.AnnotationWriter, identity(p.name, a.NamespaceRequest).Writer())
	metav1.SetMetaDataAnnotation(&ns.ObjectMeta, boundary.AnnotationSource, a.Spec.Source.Name)
	metav1.SetMetaDataAnnotation(&ns.ObjectMeta, v1alpha1.ConsentAnnotation, consent)
}

// createNamespace creates the namespace of a request; one that exists by then is left alone.
func (p *pass) createNamespace(ctx context.Context, a *asked) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.Name}}
	p.mark(ns, a, v1alpha1.ConsentCreated)
	if err := p.live.Create(ctx, ns); err != nil {
		return fmt.Errorf("creating namespace %s: %w", a.Name, err)
	}
	p.Logger.Info("Created a namespace for a consumer", "namespace", a.Name, "consumer", p.name)
	return nil
}

// takeNamespace marks a namespace that its owner gives, if it is still as it was read.
func (p *pass) takeNamespace(ctx context.Context, a *asked, ns *corev1.Namespace) error {
	before := ns.DeepCopy()
	p.mark(ns, a, v1alpha1.ConsentGiven)
	if err := p.live.Patch(ctx, ns, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("taking namespace %s: %w", a.Name, err)
	}
	p.Logger.Info("Took a namespace that its owner gives to a consumer", "namespace", a.Name, "consumer", p.name)
	return nil
}

// unmark takes the marks off a namespace that was given, if it is still as it was read.
func (p *pass) unmark(ctx context.Context, ns *corev1.Namespace) error {
	before := ns.DeepCopy()
	delete(ns.Labels, boundary.LabelOrigin)
	for _, key := range []string{boundary.AnnotationWriter, boundary.AnnotationSource, v1alpha1.ConsentAnnotation} {
		delete(ns.Annotations, key)
	}
	if err := p.live.Patch(ctx, ns, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("giving namespace %s back: %w", ns.Name, err)
	}
	p.Logger.Info("Gave a namespace back to its owner", "namespace", ns.Name, "consumer", p.name)
	return nil
}

// giveBack takes back the namespace of a request. One that was given loses its marks; one that was created is deleted with its
// request, until when gone is false; and any other is left alone.
func (p *pass) giveBack(ctx context.Context, a *asked) (gone bool, err error) {
	ns, err := p.namespace(ctx, p.live, a.Name)
	if err != nil {
		return false, err
	}
	q := question{request: a.NamespaceRequest, name: p.name, namespace: stateOf(ns)}
	switch {
	case !q.belongs():
		return true, nil
	case a.DeletionTimestamp == nil && q.namespace.giveTo == p.name:
		return false, nil // given again by now: the next pass sees it
	case q.namespace.consent == v1alpha1.ConsentGiven:
		return true, p.unmark(ctx, ns)
	case a.DeletionTimestamp == nil:
		return false, nil
	case q.namespace.consent != v1alpha1.ConsentCreated:
		return true, nil // the consumer's Isthmus made it, before the provider asked for consent
	case q.namespace.terminating:
		return false, nil
	}
	// With its definition all requests go, and nobody gave a namespace back (F7).
	undefined, err := p.definitionGoes(ctx)
	if undefined || err != nil {
		return undefined, err
	}
	return false, p.deleteNamespace(ctx, ns)
}

// definitionGoes reports whether the definition of NamespaceRequests is gone or going.
func (p *pass) definitionGoes(ctx context.Context) (bool, error) {
	definition := &metav1.PartialObjectMetadata{}
	definition.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	err := p.live.Get(ctx, types.NamespacedName{Name: "namespacerequests." + v1alpha1.GroupVersion.Group}, definition)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the definition of NamespaceRequests: %w", err)
	}
	return definition.DeletionTimestamp != nil, nil
}

// deleteNamespace deletes a namespace if it is still as it was read.
func (p *pass) deleteNamespace(ctx context.Context, ns *corev1.Namespace) error {
	if err := p.live.Delete(ctx, ns, client.Preconditions{UID: &ns.UID, ResourceVersion: &ns.ResourceVersion}); err != nil {
		return fmt.Errorf("deleting namespace %s: %w", ns.Name, err)
	}
	p.Logger.Info("Deleted a namespace of a consumer", "namespace", ns.Name, "consumer", p.name)
	return nil
}

// ensureOwnNamespace makes the namespace in which the consumer asks, where it is not a foreign one.
func (p *pass) ensureOwnNamespace(ctx context.Context) error {
	ns, err := p.namespace(ctx, p.seen, p.own)
	if err != nil {
		return err
	}
	if ns == nil {
		ns = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: p.own, Labels: map[string]string{consumerLabel: p.name}, Annotations: map[string]string{v1alpha1.ConsentAnnotation: v1alpha1.ConsentCreated},
		}}
		if err := p.live.Create(ctx, ns); err != nil {
			return fmt.Errorf("creating namespace %s: %w", p.own, err)
		}
		p.Logger.Info("Created the namespace in which a consumer asks", "namespace", p.own, "consumer", p.name)
		return nil
	}
	if ns.Labels[consumerLabel] == p.name {
		return nil
	}
	before := ns.DeepCopy()
	metav1.SetMetaDataLabel(&ns.ObjectMeta, consumerLabel, p.name)
	if err := p.live.Patch(ctx, ns, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("labelling namespace %s: %w", p.own, err)
	}
	return nil
}

// deleteOwnNamespace deletes the namespace in which a consumer that is gone asked, if this controller made it and nothing is asked there.
func (p *pass) deleteOwnNamespace(ctx context.Context) error {
	ns, err := p.namespace(ctx, p.live, p.own)
	if err != nil || ns == nil || ns.DeletionTimestamp != nil || !p.made(ns) || ns.Annotations[v1alpha1.ConsentAnnotation] != v1alpha1.ConsentCreated {
		return err
	}
	requests := &v1alpha1.NamespaceRequestList{}
	if err := p.live.List(ctx, requests, client.InNamespace(p.own), client.Limit(1)); err != nil {
		return fmt.Errorf("listing the NamespaceRequests of consumer %s: %w", p.name, err)
	}
	consumer := &v1alpha1.Consumer{}
	if err := p.live.Get(ctx, types.NamespacedName{Name: p.name}, consumer); !apierrors.IsNotFound(err) || len(requests.Items) > 0 {
		return client.IgnoreNotFound(err) // it came back, or there are some all the same: the watch tells
	}
	return p.deleteNamespace(ctx, ns)
}

// made reports whether this controller made an object for this consumer. Who takes off the label does not take it out of the
// object's history.
func (p *pass) made(o client.Object) bool {
	label, labelled := o.GetLabels()[consumerLabel]
	if labelled && label == p.name {
		return true
	}
	return slices.ContainsFunc(o.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Manager == fieldManager })
}
