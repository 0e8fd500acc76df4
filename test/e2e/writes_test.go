//go:build unix

package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/test/harness"
)

// A source that changes all the time is carried over in its latest state, not in each.
func TestM1_AThousandEdits(t *testing.T) {
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	e.Start(rules(ns, widgetsWith("statusSync: true")))
	e.Local.Create(widget(ns, "one", "{size: 0}"))
	e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "one"), 0, "spec", "size") })

	const edits, writers, span = 1000, 16, 6 * time.Second // fewer on a slow machine
	began := time.Now()
	numbers := make(chan int)
	var editing sync.WaitGroup
	for range writers {
		editing.Go(func() {
			for n := range numbers {
				patch := fmt.Sprintf(`{"spec": {"size": %d}}`, n)
				if _, err := e.Local.Client(widgets, ns).Patch(context.Background(), "one", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
					t.Errorf("edit: %v", err)
				}
			}
		})
	}
	done := 0
	for ; done < edits && time.Since(began) < span; done++ {
		numbers <- done + 1
	}
	close(numbers)
	editing.Wait()
	took := time.Since(began)
	e.Local.Patch(widgets, ns, "one", "spec: {size: 4711}")
	e.Within(3*time.Second, func() error { return is(e.Remote.Get(widgets, ns, "one"), 4711, "spec", "size") })
	e.Quiet(500 * time.Millisecond)

	// Five at once, four a second from then on, and a few that others overtook.
	most := 10 + int(took/(250*time.Millisecond)) + int(took/time.Second)
	if writes := e.Writes(began); len(writes) > most {
		t.Errorf("%d writes for %d edits in %s, expected at most %d", len(writes), done, took, most)
	} else {
		t.Logf("%d writes for %d edits in %s", len(writes), done, took)
	}
}
