package tenancy

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/controller/keep"
)

// The reasons of a Consumer's Ready, beside ReasonMissingRights and v1alpha1.ReasonTaken.
const (
	reasonLetIn  = "LetIn"
	reasonFailed = "Failed"
)

// condition is why something is not Ready.
type condition struct{ reason, message string }

// tell writes the status of the consumer and of its requests, where it changed.
func (p *pass) tell(ctx context.Context) {
	for _, a := range p.requests {
		if err := p.tellRequest(ctx, a); err != nil {
			p.fail(err)
		}
	}
	for _, consumer := range []*v1alpha1.Consumer{p.consumer, p.leaving} {
		if consumer != nil && consumer.DeletionTimestamp == nil {
			if err := p.tellConsumer(ctx, consumer); err != nil {
				p.fail(err)
			}
		}
	}
}

func (p *pass) tellRequest(ctx context.Context, a *asked) error {
	before := a.DeepCopy()
	ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: a.reason, Message: a.message, ObservedGeneration: a.Generation}
	switch {
	case a.DeletionTimestamp != nil:
		if len(a.Finalizers) == 0 {
			return nil // it is gone
		}
		ready.Reason, ready.Message = v1alpha1.ReasonNamespaceGoing, "the namespace is being taken back"
		a.Status.Granted, a.Status.Refused = nil, nil
	case a.failed != nil && !lasting(a.failed):
		return nil // what it says stays true until more is known
	case a.failed != nil:
		ready.Reason = v1alpha1.ReasonProviderFailure
		ready.Message = fmt.Sprintf("the provider could not make the namespace or the rights in it (%s); it tries again, and its operator can read why in its log", why(a.failed))
	case a.allowed:
		ready.Status = metav1.ConditionTrue
		fallthrough
	default:
		a.Status.Granted, a.Status.Refused = a.granted, a.refused
		if !a.allowed {
			a.Status.Granted = nil
		}
	}
	a.Status.ObservedGeneration = a.Generation
	meta.SetStatusCondition(&a.Status.Conditions, ready)
	if err := keep.Tell(ctx, p.live, before, a.NamespaceRequest); err != nil {
		return fmt.Errorf("writing the status of NamespaceRequest %s of consumer %s: %w", a.Name, p.name, err)
	}
	return nil
}

func (p *pass) tellConsumer(ctx context.Context, consumer *v1alpha1.Consumer) error {
	before := consumer.DeepCopy()
	has := &corev1.NamespaceList{}
	if err := p.seen.List(ctx, has, client.MatchingLabels{boundary.LabelOrigin: p.name}); err != nil {
		return fmt.Errorf("counting the namespaces of consumer %s: %w", p.name, err)
	}
	ready := metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: reasonLetIn, ObservedGeneration: consumer.Generation,
		Message: "it may ask for namespaces in " + p.own,
	}
	switch failed := firstLasting(p.errs); {
	case p.trouble != condition{}:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, p.trouble.reason, p.trouble.message
	case failed != nil:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, reasonFailed, failed.Error()
	case len(p.errs) > 0:
		return nil
	}
	consumer.Status.Namespaces, consumer.Status.RequestNamespace = int32(len(has.Items)), p.own
	meta.SetStatusCondition(&consumer.Status.Conditions, ready)
	if err := keep.Tell(ctx, p.live, before, consumer); err != nil {
		return fmt.Errorf("writing the status of Consumer %s: %w", p.name, err)
	}
	return nil
}

// lasting reports whether trying again alone is no help.
func lasting(err error) bool {
	return errors.Is(err, errForeign) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}

func firstLasting(errs []error) error {
	for _, err := range errs {
		if err != nil && lasting(err) {
			return err
		}
	}
	return nil
}

// why says in a word why something failed, without names of the provider's.
func why(err error) string {
	if errors.Is(err, errForeign) {
		return "Conflict"
	}
	return string(apierrors.ReasonForError(err))
}
