package flow

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// Whoever shows how many objects stand in which way has to hear of each that comes to stand otherwise: there may be no
// later event.
func TestAnotherOutcomeIsTold(t *testing.T) {
	told := 0
	s := newStates(func() { told++ })
	key := types.NamespacedName{Namespace: "a", Name: "one"}
	for _, step := range []struct {
		become outcome
		told   int
	}{{pending, 1}, {pending, 1}, {inStep, 2}, {inStep, 2}, {refused, 3}, {"", 4}, {"", 4}} {
		s.arrive(key, step.become)
		if told != step.told {
			t.Errorf("after %q: told %d times, expected %d", step.become, told, step.told)
		}
		if n := s.count()[step.become]; step.become != "" && n != 1 {
			t.Errorf("%d are counted as %q, expected 1", n, step.become)
		}
	}
}
