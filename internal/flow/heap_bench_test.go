package flow

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/observe"
	"isthmus.dev/isthmus/internal/store"
)

// uuid makes a UID as API servers do.
func uuid(r *rand.Rand) string {
	return fmt.Sprintf("%08x-%04x-4%03x-a%03x-%012x", r.Uint32(), r.IntN(1<<16), r.IntN(1<<12), r.IntN(1<<12), r.Int64N(1<<48))
}

// fieldsOf returns what managedFields say of who applied content.
func fieldsOf(content map[string]any) map[string]any {
	fields := map[string]any{}
	for name, value := range content {
		below, _ := value.(map[string]any)
		fields["f:"+name] = fieldsOf(below)
	}
	return fields
}

// inStep makes a source and its twin, in step.
func (c *counted) inStep(i int) (source, twin *unstructured.Unstructured) {
	r := rand.New(rand.NewPCG(1, uint64(i)))
	source = c.widget(fmt.Sprintf("widget-%05d", i))
	source.SetUID(types.UID(uuid(r)))
	data := make([]byte, 640)
	for i := range data {
		data[i] = byte('0' + r.IntN(64))
	}
	source.Object["spec"].(map[string]any)["data"] = string(data)
	twin = c.twinOf(source, "there")
	twin.SetUID(types.UID(uuid(r)))
	applied := map[string]any{"f:spec": fieldsOf(twin.Object["spec"].(map[string]any))}
	metadata := twin.Object["metadata"].(map[string]any)
	applied["f:metadata"] = fieldsOf(map[string]any{"labels": metadata["labels"], "annotations": metadata["annotations"]})
	metadata["managedFields"] = []any{map[string]any{"manager": boundary.FieldManager, "operation": "Apply", "fieldsV1": applied}}
	return source, twin
}

// heapInUse returns the bytes of objects that are in use.
func heapInUse() float64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc)
}

// What a source in step takes of the heap after a start, beside the stores of both sides: its state, and what is left of
// its way through the queue.
func BenchmarkHeapInStep(b *testing.B) {
	const n = 4000
	for b.Loop() {
		before := heapInUse()
		c := newCounted(b, "there")
		c.Options.Metrics = observe.NewMetrics("test")
		c.metrics = c.Options.Metrics.ForFlow("ToRemote", "Widget")
		var sources, twins []any
		for i := range n {
			source, twin := c.inStep(i)
			sources, twins = append(sources, source), append(twins, twin)
		}
		bare := []*store.Store{store.New(store.Options{Slim: true}), store.New(store.Options{Index: c.indexTwin})}
		for i, list := range [][]any{sources, twins} {
			came := slices.Clone(list)
			for j, o := range came {
				came[j] = sent(b, o.(*unstructured.Unstructured))
			}
			if err := bare[i].Feed("").Replace(came, c.version()); err != nil {
				b.Fatal(err)
			}
		}
		c.list(sources, twins)
		var workers sync.WaitGroup
		for range 4 {
			workers.Go(func() { c.work(context.Background()) })
		}
		for c.states.count()[inStep] < n {
			time.Sleep(time.Millisecond)
		}
		sources, twins = nil, nil
		with := heapInUse()
		runtime.KeepAlive(bare)
		bare = nil
		stores := with - heapInUse()
		b.ReportMetric((with-before-2*stores)/n, "bytes/source")
		b.ReportMetric(stores/n, "bytes/stores")
		c.queue.ShutDown()
		workers.Wait()
		runtime.KeepAlive(c)
	}
}

// What the state of a source takes after it was written and answered for, once it has come to rest.
func BenchmarkHeapState(b *testing.B) {
	const n = 10000
	for b.Loop() {
		keys := make([]types.NamespacedName, n)
		for i := range keys {
			keys[i] = types.NamespacedName{Namespace: "shop", Name: fmt.Sprintf("widget-%05d", i)}
		}
		before := heapInUse()
		s := newStates(func() {})
		for i, key := range keys {
			r := rand.New(rand.NewPCG(1, uint64(i)))
			s.with(key, func(st *state) {
				uid, of := uuid(r), uuid(r)
				st.rule, st.came = "widgets", types.UID(uid)
				st.memory.Wrote = fmt.Sprintf("v1-%016x%016x", r.Uint64(), r.Uint64())
				st.memory.StatusWritten = fmt.Sprintf("%016x", r.Uint64())
				st.memory.StatusResult, st.memory.StatusOf = fmt.Sprintf("%016x", r.Uint64()), types.UID(of)
			})
			s.arrive(key, inStep)
			if i%1000 == 0 {
				s.sweep(time.Now())
			}
		}
		s.sweep(time.Now())
		b.ReportMetric((heapInUse()-before)/n, "bytes/state")
		runtime.KeepAlive(s)
		runtime.KeepAlive(keys)
	}
}
