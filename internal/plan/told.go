package plan

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"

	"isthmus.dev/isthmus/internal/flow"
	"isthmus.dev/isthmus/internal/observe"
)

// Told is a warning that a running Isthmus put on the source as an Event: what it remembers, such as a fight with another
// writer (O6), can't be seen in the objects themselves.
type Told struct {
	Reason  string      `json:"reason"`
	Message string      `json:"message"`
	Last    metav1.Time `json:"last"`
}

// told returns the last warning of each reason on a source, newest first, or why they can't be read.
func told(ctx context.Context, v *flow.View, source *unstructured.Unstructured) (warnings []Told, unread string, err error) {
	namespace := source.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault // where Events on cluster-scoped objects are
	}
	list, err := v.From.Clientset().CoreV1().Events(namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.Set{"involvedObject.uid": string(source.GetUID()), "type": corev1.EventTypeWarning}.String(),
	})
	switch {
	case apierrors.IsForbidden(err):
		return nil, "RBAC does not let events be listed in namespace " + namespace + " of the " + v.From.Role() + " cluster", nil
	case err != nil:
		return nil, "", err
	}
	for _, event := range list.Items {
		if event.Source.Component == observe.Component {
			warnings = append(warnings, Told{event.Reason, event.Message, event.LastTimestamp})
		}
	}
	slices.SortStableFunc(warnings, func(a, b Told) int { return b.Last.Compare(a.Last.Time) })
	seen := map[string]bool{}
	return slices.DeleteFunc(warnings, func(t Told) bool {
		again := seen[t.Reason]
		seen[t.Reason] = true
		return again
	}), "", nil
}
