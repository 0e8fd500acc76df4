// Package keep holds the objects of controller mode until what they stand for is tidied up, and writes how they stand.
package keep

import (
	"context"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"isthmus.dev/isthmus/api/v1alpha1"
)

// Hold puts a finalizer on an object, if it is still as it was read. The error says what was done to which object.
func Hold(ctx context.Context, c client.Client, o client.Object, finalizer string) error {
	return change(ctx, c, o, finalizer, controllerutil.AddFinalizer)
}

// LetGo takes a finalizer off an object, if it is still as it was read. That it is gone is no error.
func LetGo(ctx context.Context, c client.Client, o client.Object, finalizer string) error {
	return client.IgnoreNotFound(change(ctx, c, o, finalizer, controllerutil.RemoveFinalizer))
}

func change(ctx context.Context, c client.Client, o client.Object, finalizer string, by func(client.Object, string) bool) error {
	before := o.DeepCopyObject().(client.Object)
	if !by(o, finalizer) {
		return nil
	}
	if err := c.Patch(ctx, o, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("changing the finalizers of %s %s: %w", reflect.TypeOf(o).Elem().Name(), o.GetName(), err)
	}
	return nil
}

// Released reports whether an object that is being deleted is to go although not everything is tidied up.
func Released(o client.Object) bool { return o.GetAnnotations()[v1alpha1.ReleaseAnnotation] == "true" }

// Tell writes the status of an object of which nothing but the status differs from before. That it is gone is no error.
func Tell(ctx context.Context, c client.Client, before, o client.Object) error {
	if equality.Semantic.DeepEqual(before, o) {
		return nil
	}
	return client.IgnoreNotFound(c.Status().Patch(ctx, o, client.MergeFrom(before)))
}

// Quiet passes over what heals by the next event: the object changed, or went, since it was read.
func Quiet(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// Shorten cuts a message that has more characters than a condition is to have.
func Shorten(message string, most int) string {
	if runes := []rune(message); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return message
}
