//go:build unix

package e2e

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"isthmus.dev/isthmus/internal/controlplane"
	"isthmus.dev/isthmus/test/harness"
)

// TestF2_RestartWithAThousandObjectsInStep also counts the requests of a first sync: one write an object and direction.
func TestF2_RestartWithAThousandObjectsInStep(t *testing.T) {
	t.Parallel()
	const objects = 1000
	e := harness.NewOwn(t, controlplane.Options{})
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	config := widgetRule(ns, "workers: 8")
	inParallel(objects, func(i int) {
		e.Local.Create(widget(ns, fmt.Sprintf("w%d", i), fmt.Sprintf("{size: %d}", i)))
	})

	began := time.Now()
	first := e.Start(config)
	e.Within(4*harness.Patience, func() error {
		if n := len(e.Remote.List(widgets, ns, "")); n != objects {
			return fmt.Errorf("%d of %d twins are there", n, objects)
		}
		return nil
	})
	if writes := len(e.Writes(began)); writes != objects {
		t.Errorf("expected a write for each of %d new twins, got %d", objects, writes)
	}
	reported := time.Now()
	inParallel(objects, func(i int) {
		e.Remote.SetStatus(widgets, ns, fmt.Sprintf("w%d", i), fmt.Sprintf("{count: %d}", i))
	})
	e.Within(4*harness.Patience, func() error {
		if v := first.Metric(fmt.Sprintf("isthmus_operations_total{direction=%q,kind=%q,operation=%q,status=%q}", "ToRemote", "Widget", "status", "success")); v != fmt.Sprint(objects) {
			return fmt.Errorf("%s of %d statuses returned", v, objects)
		}
		return nil
	})
	if writes := len(e.Writes(reported)); writes != objects {
		t.Errorf("expected a write for each of %d statuses, got %d", objects, writes)
	}
	first.Stop()

	restarted := time.Now()
	second := e.Start(config)
	e.Within(4*harness.Patience, func() error {
		if v := second.Metric(`isthmus_objects{direction="ToRemote",kind="Widget",state="in_step"}`); v != fmt.Sprint(objects) {
			return fmt.Errorf("%s of %d objects in step", v, objects)
		}
		return nil
	})
	e.Quiet(time.Second)
	writes, reads := e.Writes(restarted), e.Reads(restarted)
	if len(writes) > 0 {
		t.Errorf("a restart in step wrote %d times: %v", len(writes), writes[:min(5, len(writes))])
	}
	for _, r := range reads {
		if r.ObjectRef.Resource == "widgets" {
			t.Errorf("a restart in step read an object: %s", r)
		}
	}
	t.Logf("restart with %d objects in step: %d writes, %d reads of single objects: %v", objects, len(writes), len(reads), reads)
}

// inParallel calls do for 0 to n-1, a few at a time.
func inParallel(n int, do func(int)) {
	var group sync.WaitGroup
	slots := make(chan struct{}, 8)
	for i := range n {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			do(i)
		})
	}
	group.Wait()
}
