package vcluster

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/observe"
)

// findEvery is how often the host is asked for the Service again when it does not answer.
const findEvery = 5 * time.Second

// tell writes a warning on the virtual cluster's Service in its host namespace, and returns when that is done or ctx ends.
func (h *host) tell(ctx context.Context, message string) {
	ref := corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: h.virtual.HostNamespace, Name: h.virtual.Name}
	for ctx.Err() == nil {
		service, err := h.cluster.Clientset().CoreV1().Services(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err == nil {
			ref.UID = service.UID // kubectl describe looks for it
			break
		}
		if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
			break // then without
		}
		select {
		case <-ctx.Done():
		case <-time.After(findEvery):
		}
	}
	events := observe.NewEvents(h.cluster.Clientset(), observe.Component, true)
	events.EmitRef(ref, corev1.EventTypeWarning, string(boundary.ReasonSyncFailed), message)
	events.Shutdown()
}
