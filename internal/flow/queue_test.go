package flow

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

func source(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func popAll(q *fairQueue) []string {
	var order []string
	for q.Len() > 0 {
		key := q.Pop()
		q.done(key)
		order = append(order, key.String())
	}
	return order
}

func TestF9_ChangesComeBeforeResyncs(t *testing.T) {
	q := newFairQueue(1)
	for i := range 3 {
		q.Push(source("a", fmt.Sprintf("resync%d", i)))
	}
	q.want(source("a", "change"), changes)
	q.Push(source("a", "change"))
	q.want(source("a", "resync2"), changes) // it is queued already, and now somebody waits for it
	q.Touch(source("a", "resync2"))
	want := []string{"a/change", "a/resync2", "a/resync0", "a/resync1"}
	if got := popAll(q); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestF9_AWorkerIsLeftForChanges(t *testing.T) {
	q := newFairQueue(1)
	q.Push(source("a", "one"))
	q.Push(source("a", "two"))
	first := q.Pop()
	if q.Len() != 0 {
		t.Fatal("a second resync would be handed out")
	}
	q.want(source("a", "change"), changes)
	q.Push(source("a", "change"))
	if q.Len() != 1 || q.Pop() != source("a", "change") {
		t.Error("a change waits for resyncs")
	}
	if q.done(first); q.Len() != 1 || q.Pop() != source("a", "two") {
		t.Error("the other resync is not handed out")
	}
}

func TestF9_NamespacesTakeTurns(t *testing.T) {
	q := newFairQueue(1)
	for i := range 100 {
		q.want(source("busy", fmt.Sprint(i)), changes)
		q.Push(source("busy", fmt.Sprint(i)))
	}
	q.want(source("quiet", "one"), changes)
	q.Push(source("quiet", "one"))
	if at := slices.Index(popAll(q), "quiet/one"); at > 1 {
		t.Errorf("a change in a quiet namespace came as number %d, behind another one's backlog", at)
	}
}

func TestF9_ResyncsDoNotStarve(t *testing.T) {
	q := newFairQueue(1)
	q.Push(source("a", "resync"))
	for i := range 50 {
		q.want(source("a", fmt.Sprint(i)), changes)
		q.Push(source("a", fmt.Sprint(i)))
	}
	if at := slices.Index(popAll(q), "a/resync"); at > resyncShare {
		t.Errorf("a resync came as number %d", at)
	}
}

// Each key that was pushed is popped once, whatever was touched in between.
func TestQueueLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q, queued, out := newFairQueue(1), map[types.NamespacedName]bool{}, map[types.NamespacedName]bool{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			k := source(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "namespace"), rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "name"))
			if out[k] {
				continue // the workqueue pushes it again only when its worker is done
			}
			switch rapid.IntRange(0, 2).Draw(t, "step") {
			case 0:
				q.want(k, rapid.SampledFrom([]lane{changes, resyncs}).Draw(t, "lane"))
				if queued[k] {
					q.Touch(k)
				} else {
					q.Push(k)
					queued[k] = true
				}
			case 1:
				if q.Len() > 0 {
					got := q.Pop()
					if !queued[got] {
						t.Fatalf("popped %s, which was not queued", got)
					}
					delete(queued, got)
					out[got] = true
				}
			case 2:
				for k := range out {
					q.done(k)
				}
				clear(out)
			}
			if q.Len() > len(queued) || len(out) == 0 && q.Len() == 0 && len(queued) > 0 || q.busy > 1 {
				t.Fatalf("the queue hands out %d of %d, with %d resyncs out", q.Len(), len(queued), q.busy)
			}
		}
	})
}

// Every source of a flow may be asked for at once, while workers take them out: each is handed out at least once after it
// was asked for, the namespaces take turns, and nothing is held for it afterwards.
func TestF9_ManyResyncs(t *testing.T) {
	q := newQueue(4)
	defer q.ShutDown()
	const each = 2000
	namespaces := []string{"a", "b"}
	var mu sync.Mutex
	asked, seen := map[types.NamespacedName]int{}, map[types.NamespacedName]int{} // by number of the ask
	var order []string
	number := 0
	ask := func(key types.NamespacedName) {
		mu.Lock()
		number++
		asked[key] = number
		mu.Unlock()
		q.add(key, resyncs)
	}
	for _, namespace := range namespaces {
		for i := range each {
			ask(source(namespace, fmt.Sprint(i)))
		}
	}
	if size := q.fair.sizes[resyncs]; size > resyncRoom {
		t.Errorf("the workqueue holds %d", size)
	}
	var workers sync.WaitGroup
	for range 5 {
		workers.Go(func() {
			for {
				key, shutdown := q.Get()
				if shutdown {
					return
				}
				mu.Lock()
				number++
				seen[key] = number
				order = append(order, key.Namespace)
				mu.Unlock()
				q.done(key)
			}
		})
	}
	for _, namespace := range namespaces {
		for i := range each {
			ask(source(namespace, fmt.Sprint(i)))
			if i%100 == 0 {
				q.add(source("b", "change"), changes)
			}
		}
	}
	deadline := time.Now().Add(time.Minute)
	for pending := true; pending && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		mu.Lock()
		pending = false
		for key, when := range asked {
			pending = pending || seen[key] < when
		}
		mu.Unlock()
	}
	q.ShutDown()
	workers.Wait()
	for key, when := range asked {
		if seen[key] < when {
			t.Fatalf("%s was asked for and is not handed out", key)
		}
	}
	if first := slices.Index(order, "b"); first > 2*resyncRoom {
		t.Errorf("a namespace comes as number %d, behind another one's backlog", first)
	}
	if q.backlog.waiting != nil || q.backlog.names != nil || q.backlog.order != nil {
		t.Error("the backlog keeps its memory")
	}
}

func TestPace(t *testing.T) {
	var p pace
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	// changes come every 5 ms for a while; the writes that they are given are counted.
	changes := func(span time.Duration) (writes int) {
		for end := now.Add(span); now.Before(end); now = now.Add(5 * time.Millisecond) {
			wait := p.take(now)
			if wait == 0 {
				writes++
			}
			if wait < 0 || wait > pacedLater {
				t.Fatalf("a change has to wait %s", wait)
			}
		}
		return writes
	}
	expect := func(when string, writes int, every, span time.Duration) {
		t.Helper()
		if want := int(span / every); writes < want-1 || writes > want+pacedBurst+1 {
			t.Errorf("%s: %d writes in %s, want about %d", when, writes, span, want)
		}
	}
	expect("at first", changes(pacedLong), pacedEvery, pacedLong)
	expect("later", changes(time.Minute), pacedLater, time.Minute)
	now = now.Add(2 * time.Second)
	expect("after a rest", changes(5*time.Second), pacedEvery, 5*time.Second)
	if later := now.Add(time.Hour); p.take(later) != 0 || !p.idle(later.Add(time.Hour)) {
		t.Error("an object that rested has to wait")
	}
}
