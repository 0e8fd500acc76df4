package controller

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"isthmus.dev/isthmus/api/v1alpha1"
)

func TestWhatIsWrittenOfHowTheyStandHasNothingWorkedOutAnew(t *testing.T) {
	now := metav1.Now()
	for name, test := range map[string]struct {
		change func(*v1alpha1.NamespaceOffloading)
		passes bool
	}{
		"nothing":           {func(*v1alpha1.NamespaceOffloading) {}, false},
		"the phase":         {func(o *v1alpha1.NamespaceOffloading) { o.Status.Phase = v1alpha1.OffloadingReady }, false},
		"a remote":          {func(o *v1alpha1.NamespaceOffloading) { o.Status.Remotes[0].Conditions = nil }, false},
		"one more grant":    {func(o *v1alpha1.NamespaceOffloading) { o.Status.Remotes[0].Granted = true }, true},
		"the specification": {func(o *v1alpha1.NamespaceOffloading) { o.Generation++ }, true},
		"the finalizer":     {func(o *v1alpha1.NamespaceOffloading) { o.Finalizers = []string{v1alpha1.OffloadingFinalizer} }, true},
		"its deletion":      {func(o *v1alpha1.NamespaceOffloading) { o.DeletionTimestamp = &now }, true},
		"another object":    {func(o *v1alpha1.NamespaceOffloading) { o.UID = "other" }, true},
	} {
		before := &v1alpha1.NamespaceOffloading{
			ObjectMeta: metav1.ObjectMeta{UID: "one", Generation: 1},
			Status: v1alpha1.NamespaceOffloadingStatus{Remotes: []v1alpha1.RemoteNamespace{
				{Cluster: "east", Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady}}},
			}},
		}
		after := before.DeepCopy()
		test.change(after)
		if passes := weighty.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); passes != test.passes {
			t.Errorf("%s changed: passed on: %t", name, passes)
		}
	}
}
