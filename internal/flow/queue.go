package flow

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
)

// resyncShare lets one resync through after this many new changes in a row, so that neither starves.
const resyncShare = 8

// resyncRoom is how many resyncs at least the workqueue holds at once; more wait in a backlog.
const resyncRoom = 64

// lane says how soon a key is wanted.
type lane int

const (
	changes lane = iota // somebody changed something just now
	resyncs             // nobody is waiting
)

// fairQueue orders a workqueue (F9): new changes come before resyncs, and within each the namespaces take turns, so
// that no namespace's backlog delays another's. Of the workers one is left for changes.
type fairQueue struct {
	resyncing int // the most resyncs that are handed out at once

	mu     sync.Mutex
	out    map[types.NamespacedName]lane // what is handed out, and from which lane
	busy   int                           // resyncs that are handed out
	wanted map[types.NamespacedName]lane // the lane for the next Push; absent: resyncs
	queued map[types.NamespacedName]place
	next   uint64
	lanes  [2]turns
	sizes  [2]int // valid tickets
	run    int    // changes popped in a row
}

// ticket is a place in a lane; it is void when the key has got another one since.
type ticket struct {
	key    types.NamespacedName
	number uint64
}

// place is a key's valid ticket: its number and its lane.
type place struct {
	number uint64
	lane   lane
}

// turns is a lane: a queue a namespace, and the namespaces in the order of their turns.
type turns struct {
	order  []string
	queues map[string][]ticket
}

func newFairQueue(resyncing int) *fairQueue {
	q := &fairQueue{
		resyncing: resyncing, out: map[types.NamespacedName]lane{},
		wanted: map[types.NamespacedName]lane{}, queued: map[types.NamespacedName]place{},
	}
	for i := range q.lanes {
		q.lanes[i].queues = map[string][]ticket{}
	}
	return q
}

// want says in which lane a key shall be queued by the Add that follows.
func (q *fairQueue) want(key types.NamespacedName, l lane) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if have, ok := q.wanted[key]; !ok || l < have {
		q.wanted[key] = l
	}
}

// Touch moves a queued key to the lane that is wanted now.
func (q *fairQueue) Touch(key types.NamespacedName) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if l, ok := q.wanted[key]; ok && l == changes {
		q.push(key, changes)
	}
	delete(q.wanted, key)
}

// Push queues a key.
func (q *fairQueue) Push(key types.NamespacedName) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l, ok := q.wanted[key]
	if !ok {
		l = resyncs
	}
	delete(q.wanted, key)
	q.push(key, l)
}

func (q *fairQueue) push(key types.NamespacedName, l lane) {
	q.next++
	if before, ok := q.queued[key]; ok {
		q.sizes[before.lane]--
	}
	q.queued[key] = place{q.next, l}
	q.sizes[l]++
	t := &q.lanes[l]
	if _, waiting := t.queues[key.Namespace]; !waiting {
		t.order = append(t.order, key.Namespace)
	}
	t.queues[key.Namespace] = append(t.queues[key.Namespace], ticket{key, q.next})
}

// Len returns the number of keys that may be handed out now. A worker that is done with a resync asks again, so none is
// forgotten.
func (q *fairQueue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.sizes[changes] + min(q.sizes[resyncs], q.resyncing-q.busy)
}

// hasRoom reports whether another resync may be queued at once.
func (q *fairQueue) hasRoom() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.sizes[resyncs] < max(resyncRoom, 2*q.resyncing)
}

// done takes back a key that was handed out.
func (q *fairQueue) done(key types.NamespacedName) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.out[key] == resyncs {
		q.busy--
	}
	delete(q.out, key)
}

// isResync reports whether a key that is handed out is one that nobody waits for.
func (q *fairQueue) isResync(key types.NamespacedName) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.out[key] == resyncs
}

// hurried reports whether a change is queued or handed out.
func (q *fairQueue) hurried() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.sizes[changes] > 0 || len(q.out) > q.busy
}

// Pop takes out the next key. The workqueue calls it only when there is one.
func (q *fairQueue) Pop() types.NamespacedName {
	q.mu.Lock()
	defer q.mu.Unlock()
	order := []lane{changes, resyncs}
	switch {
	case q.busy >= q.resyncing:
		order = order[:1]
	case q.run >= resyncShare:
		order = []lane{resyncs, changes}
	}
	for _, l := range order {
		if key, ok := q.pop(&q.lanes[l]); ok {
			q.sizes[l]--
			q.out[key] = l
			if l == changes {
				q.run++
			} else {
				q.run = 0
				q.busy++
			}
			return key
		}
	}
	return types.NamespacedName{}
}

// pop takes the next valid ticket of a lane.
func (q *fairQueue) pop(t *turns) (types.NamespacedName, bool) {
	for len(t.order) > 0 {
		namespace := t.order[0]
		t.order = t.order[1:]
		queue := t.queues[namespace]
		for len(queue) > 0 && q.queued[queue[0].key].number != queue[0].number {
			queue = queue[1:]
		}
		if len(queue) == 0 {
			delete(t.queues, namespace)
			continue
		}
		key := queue[0].key
		delete(q.queued, key)
		if queue = queue[1:]; len(queue) > 0 {
			t.queues[namespace] = queue
			t.order = append(t.order, namespace)
		} else {
			delete(t.queues, namespace)
		}
		return key, true
	}
	return types.NamespacedName{}, false
}

// queue is a workqueue of sources, ordered by a fairQueue.
type queue struct {
	workqueue.TypedRateLimitingInterface[types.NamespacedName]
	fair    *fairQueue
	backlog backlog
}

// newQueue makes a queue that hands out so many resyncs at once. It has no name, so that the library measures nothing of
// it: that takes memory for each key, and nobody is shown it.
func newQueue(resyncing int) *queue {
	fair := newFairQueue(resyncing)
	inner := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[types.NamespacedName]{Queue: fair})
	delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[types.NamespacedName]{Queue: inner})
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](retryFirst, retryMost)
	return &queue{
		TypedRateLimitingInterface: workqueue.NewTypedRateLimitingQueueWithConfig(limiter,
			workqueue.TypedRateLimitingQueueConfig[types.NamespacedName]{DelayingQueue: delaying}),
		fair: fair,
	}
}

func (q *queue) add(key types.NamespacedName, l lane) {
	if l == resyncs && !q.fair.hasRoom() {
		q.backlog.push(key)
		q.refill() // room may have come meanwhile, and nobody else looks then
		return
	}
	q.fair.want(key, l)
	q.Add(key)
}

// done says that a worker is done with a key.
func (q *queue) done(key types.NamespacedName) {
	q.fair.done(key)
	q.Done(key)
	q.refill()
}

// refill moves resyncs from the backlog to where there is room.
func (q *queue) refill() {
	for q.fair.hasRoom() {
		key, ok := q.backlog.pop()
		if !ok {
			return
		}
		q.fair.want(key, resyncs)
		q.Add(key)
	}
}
