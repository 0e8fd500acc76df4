// Package nudge makes controllers look at objects again for reasons that no watch of theirs tells.
package nudge

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Nudge queues requests of one controller. The zero value is ready for use.
type Nudge struct {
	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// Source makes a controller listen. What is added before it runs is lost: it looks at everything then anyway.
func (n *Nudge) Source() source.Source {
	return source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.queue = q
		return nil
	})
}

// Add has the controller look at some objects.
func (n *Nudge) Add(names ...types.NamespacedName) { n.add(0, names) }

// AddMany is Add for what may be a thousand objects at once: what changed by itself goes before them.
func (n *Nudge) AddMany(names ...types.NamespacedName) { n.add(handler.LowPriority, names) }

func (n *Nudge) add(priority int, names []types.NamespacedName) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.queue == nil {
		return
	}
	for _, name := range names {
		request := reconcile.Request{NamespacedName: name}
		if q, ok := n.queue.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
			q.AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(priority)}, request)
		} else {
			n.queue.Add(request)
		}
	}
}
