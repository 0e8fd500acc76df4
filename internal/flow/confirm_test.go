package flow

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// An answer tells of what was seen to be absent before the question was asked, and of nothing later.
func TestF7_AnAnswerCoversWhatWasSeenBeforeItWasAsked(t *testing.T) {
	asked := time.Now()
	before, after := asked.Add(-time.Millisecond), asked.Add(time.Millisecond)
	early, late := types.NamespacedName{Name: "early"}, types.NamespacedName{Name: "late"}
	for _, confirmed := range []bool{true, false} {
		c := newConfirmer(nil)
		c.waiting[early], c.waiting[late] = unconfirmed{before, resyncs}, unconfirmed{after, changes}
		answered, more := c.answer(asked, confirmed)
		if _, ok := answered[early]; len(answered) != 1 || !ok || !more {
			t.Errorf("confirmed %t: it concerns %v, others wait: %t; expected that of early alone, and that late waits", confirmed, answered, more)
		}
		if c.covers(before) != confirmed || c.covers(asked) || c.covers(after) {
			t.Errorf("confirmed %t: it covers what was seen before: %t, at the same time: %t, after: %t", confirmed, c.covers(before), c.covers(asked), c.covers(after))
		}
		if answered, more := c.answer(after.Add(time.Millisecond), confirmed); len(answered) != 1 || more {
			t.Errorf("confirmed %t: the next answer concerns %v, others wait: %t", confirmed, answered, more)
		}
	}
}
