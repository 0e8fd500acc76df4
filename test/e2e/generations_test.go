//go:build unix

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/test/harness"
)

// seenStatus is the status of a controller that has seen a generation, with the size that it saw, in every place where
// an observedGeneration may stand.
func seenStatus(generation, size int64) string {
	return fmt.Sprintf(`{"status": {"observedGeneration": %[1]d, "size": %[2]d,
		"conditions": [{"type": "Ready", "status": "True", "observedGeneration": %[1]d, "message": "%[2]d"}, {"type": "Old", "status": "False"}],
		"parents": [{"controllerName": "a", "conditions": [{"type": "Accepted", "observedGeneration": "%[1]d", "message": "%[2]d"}]},
			{"controllerName": "b", "conditions": [{"type": "Accepted", "observedGeneration": %[1]d, "message": "%[2]d"}]}],
		"embedded": [{"apiVersion": "v1", "kind": "Pod", "observedGeneration": %[1]d}]}}`, generation, size)
}

// claims returns what a status claims to have seen, by place: the generation, and the size that belongs to it.
func claims(obj *unstructured.Unstructured) map[string][2]int64 {
	out := map[string][2]int64{}
	number := func(v any) int64 {
		n, err := strconv.ParseInt(fmt.Sprint(v), 10, 64)
		if err != nil {
			return -1
		}
		return n
	}
	conditions := func(place string, holder map[string]any) {
		list, _, _ := unstructured.NestedSlice(holder, "conditions")
		for _, item := range list {
			c := item.(map[string]any)
			if c["observedGeneration"] != nil {
				out[place+"."+fmt.Sprint(c["type"])] = [2]int64{number(c["observedGeneration"]), number(c["message"])}
			}
		}
	}
	status, _, _ := unstructured.NestedMap(obj.Object, "status")
	if status["observedGeneration"] != nil {
		out["top"] = [2]int64{number(status["observedGeneration"]), number(status["size"])}
	}
	conditions("conditions", status)
	parents, _, _ := unstructured.NestedSlice(status, "parents")
	for _, item := range parents {
		p := item.(map[string]any)
		conditions(fmt.Sprint("parents.", p["controllerName"]), p)
	}
	return out
}

func sizeOf(obj *unstructured.Unstructured) int64 {
	size, _, _ := unstructured.NestedInt64(obj.Object, "spec", "size")
	return size
}

// honest returns an error when a source, whose spec has this size, claims to have been seen with a spec that its
// controller has not seen.
func honest(obj *unstructured.Unstructured, size int64) error {
	for place, c := range claims(obj) {
		if c[0] > obj.GetGeneration() || c[0] == obj.GetGeneration() && c[1] != size {
			return fmt.Errorf("%s: generation %d with size %d claims that generation %d was seen with size %d",
				place, obj.GetGeneration(), size, c[0], c[1])
		}
	}
	return nil
}

// current returns nil when a source, whose spec has this size, says in so many places that its controller has seen its
// present generation.
func current(obj *unstructured.Unstructured, size int64, places int) error {
	all := claims(obj)
	if len(all) != places {
		return fmt.Errorf("expected %d places that claim something, got %v", places, all)
	}
	for place, c := range all {
		if c[0] != obj.GetGeneration() {
			return fmt.Errorf("%s says %d, the generation is %d", place, c[0], obj.GetGeneration())
		}
	}
	return honest(obj, size)
}

func TestT3_NeverBeforeTheControllerHasSeenIt(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	config := rules(ns, widgetsWith("statusSync: true", "hostOwnedFields: [spec.replicas]"))
	p := e.Start(config)
	ctx, cancel := context.WithCancel(context.Background())
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer cancel()

	// Every state of the source is looked at.
	watch, err := e.Local.Client(widgets, ns).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	tasks.Go(func() {
		for event := range watch.ResultChan() {
			if obj, ok := event.Object.(*unstructured.Unstructured); ok {
				if err := honest(obj, sizeOf(obj)); err != nil {
					t.Error(err)
				}
			}
		}
	})
	// The controller on the other side is slow, and skips generations.
	random := rand.New(rand.NewPCG(1, 2))
	idle := make(chan struct{}, 1)
	tasks.Go(func() {
		twins := e.Remote.Client(widgets, ns)
		for ctx.Err() == nil {
			twin, err := twins.Get(ctx, "one", metav1.GetOptions{})
			lag(ctx, time.Duration(random.IntN(120))*time.Millisecond)
			if err != nil {
				continue
			}
			size, _, _ := unstructured.NestedInt64(twin.Object, "spec", "size")
			_, _ = twins.Patch(ctx, "one", types.MergePatchType, []byte(seenStatus(twin.GetGeneration(), size)), metav1.PatchOptions{FieldManager: "controller"}, "status")
			select {
			case idle <- struct{}{}:
			default:
			}
		}
	})

	e.Local.Create(widget(ns, "one", "{size: 0}"))
	e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "one"), 0, "spec", "size") })
	edits := rand.New(rand.NewPCG(3, 4))
	for n := 1; n <= 40; n++ {
		switch edits.IntN(5) {
		case 0: // a change of the other side's own
			e.Remote.Patch(widgets, ns, "one", fmt.Sprintf("spec: {replicas: %d}", n))
		case 1: // drift, which is put back
			e.Remote.Patch(widgets, ns, "one", fmt.Sprintf("spec: {size: %d}", -n))
		case 2: // a change that does not cross
			e.Local.Patch(widgets, ns, "one", fmt.Sprintf("spec: {replicas: %d}", n))
		default:
			e.Local.Patch(widgets, ns, "one", fmt.Sprintf("spec: {size: %d}", n))
		}
		lag(ctx, time.Duration(edits.IntN(80))*time.Millisecond)
		if n == 20 {
			p.Kill()
			p = e.Start(config)
		}
	}
	e.Eventually(func() error {
		source := e.Local.Get(widgets, ns, "one")
		return current(source, sizeOf(source), 4)
	})
	if v := field(e.Local.Get(widgets, ns, "one"), "status", "embedded").([]any)[0].(map[string]any)["observedGeneration"]; v != e.Remote.Get(widgets, ns, "one").GetGeneration() {
		t.Errorf("the generation of an embedded object became %v", v)
	}
}

// lag lets time pass between the steps of actors that others are tested against.
func lag(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// Step by step: what is true of a lagging controller is what the source says.
func TestT3_InTheSourcesGenerations(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	config := rules(ns, widgetsWith("statusSync: true", "hostOwnedFields: [spec.replicas]"))
	p := e.Start(config)
	e.Local.Create(widget(ns, "one", "{size: 0}"))
	e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "one"), 0, "spec", "size") })
	edit := func(size int) {
		e.Local.Patch(widgets, ns, "one", fmt.Sprintf("spec: {size: %d}", size))
		e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "one"), size, "spec", "size") })
	}
	// Others raise the twin's generation, so that the two differ.
	e.Remote.Patch(widgets, ns, "one", "spec: {replicas: 1}")
	e.Remote.Patch(widgets, ns, "one", "spec: {replicas: 2}")
	edit(1)
	observe := func(behind int64) {
		twin := e.Remote.Get(widgets, ns, "one")
		e.Remote.SetStatus(widgets, ns, "one", fmt.Sprintf("{observedGeneration: %d, text: {observedGeneration: 1}, conditions: [{type: Ready, observedGeneration: '%[1]d'}]}", twin.GetGeneration()-behind))
	}
	says := func(want int64) {
		t.Helper()
		e.Within(2*time.Second, func() error {
			source := e.Local.Get(widgets, ns, "one")
			if err := is(source, want, "status", "observedGeneration"); err != nil {
				return err
			}
			return is(source, fmt.Sprintf("[map[observedGeneration:%d type:Ready]]", want), "status", "conditions")
		})
	}
	if g, G := e.Remote.Get(widgets, ns, "one").GetGeneration(), e.Local.Get(widgets, ns, "one").GetGeneration(); g == G {
		t.Fatalf("both generations are %d", g)
	}
	observe(0)
	says(2) // the source's second generation
	edit(2)
	says(2) // not yet
	edit(3)
	observe(1)
	says(2) // the latest but one: still nothing new
	observe(0)
	says(4)
	// A change that does not cross counts as seen, since there is nothing to see.
	e.Local.Patch(widgets, ns, "one", "spec: {replicas: 9}")
	says(5)
	// A twin that moved on by itself was not seen in its latest state.
	e.Remote.Patch(widgets, ns, "one", "spec: {replicas: 3}")
	says(4)
	observe(0)
	says(5)
	restartsAtRest(e, p, config)
}

// While the other side refuses what the source has become, its controller has not seen it.
func TestT3_ATwinThatCanNotFollow(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	group := ownGroup(e)
	resource := "widgets." + group
	e.Local.Apply(harness.WidgetCRDWith(group, "grade: {type: string}"))
	e.Remote.Apply(harness.WidgetCRDWith(group, "grade: {type: string, enum: [good, better]}"))
	ns := e.Namespace("a")
	e.Start(rules(ns, "apiVersion: "+group+"/v1, kind: Widget, statusSync: true"))
	e.Local.Create(groupWidget(group, ns, "one", "{grade: good}"))
	e.Eventually(func() error { return is(e.Remote.Get(resource, ns, "one"), "good", "spec", "grade") })
	says := func(beat, generation int64) {
		t.Helper()
		e.Remote.SetStatus(resource, ns, "one", fmt.Sprintf("{observedGeneration: %d, beat: %d}", e.Remote.Get(resource, ns, "one").GetGeneration(), beat))
		e.Within(2*time.Second, func() error {
			source := e.Local.Get(resource, ns, "one")
			if err := is(source, beat, "status", "beat"); err != nil {
				return err
			}
			return is(source, generation, "status", "observedGeneration")
		})
	}
	says(1, 1)
	e.Local.Patch(resource, ns, "one", "spec: {grade: bad}")
	e.Eventually(func() error { return e.Local.HasEvent(ns, "one", "Warning UpdateFailed") })
	says(2, 1)
	e.Local.Patch(resource, ns, "one", "spec: {grade: better}")
	e.Eventually(func() error { return is(e.Remote.Get(resource, ns, "one"), "better", "spec", "grade") })
	says(3, 3)
}
