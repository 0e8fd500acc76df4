package installation

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/controller/keep"
	"isthmus.dev/isthmus/internal/install"
)

// gatherFor is how long changes are gathered before a pass.
const gatherFor = 100 * time.Millisecond

// worker keeps one Installation. Its goroutine makes all its requests, one pass at a time.
type worker struct {
	r    *Installer
	name types.NamespacedName
	ctx  context.Context
	stop context.CancelFunc
	wake chan struct{}

	mu  sync.Mutex
	ref types.NamespacedName // of the cluster that it goes to

	// What saves requests, and nothing else, of the worker's goroutine alone:
	uid    types.UID
	told   *v1alpha1.Installation // as it was after its status was written last
	bases  map[string]bool        // the resourceVersions that it had before
	fresh  map[objectKey]*unstructured.Unstructured
	gone   map[objectKey]bool // found absent while it is deleted
	tries  tries
	idle   map[objectKey]string // in which state a write of an object changed nothing
	blocks map[feedKey]bool     // foreign objects in the way, which are watched by name
	seen   map[feedKey]bool     // all that is watched on its cluster
	listed bool                 // what is left over was told, while it is deleted
	made   prepared
	fails  int
}

// prepared is the bundle of a state of the manifests.
type prepared struct {
	state  string
	bundle *install.Bundle
}

func newWorker(r *Installer, name types.NamespacedName) *worker {
	w := &worker{r: r, name: name, wake: make(chan struct{}, 1)}
	w.ctx, w.stop = context.WithCancel(r.ctx)
	w.forget("")
	return w
}

// forget makes it an Installation that nothing is known of.
func (w *worker) forget(uid types.UID) {
	w.uid, w.told, w.bases, w.made, w.fails, w.listed = uid, nil, map[string]bool{}, prepared{}, 0, false
	w.fresh, w.gone, w.tries = map[objectKey]*unstructured.Unstructured{}, map[objectKey]bool{}, tries{}
	w.idle = map[objectKey]string{}
	w.blocks, w.seen = map[feedKey]bool{}, map[feedKey]bool{}
}

func (w *worker) nudge() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// at returns the ClusterProfile that it goes to.
func (w *worker) at() types.NamespacedName {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ref
}

// run makes passes until the worker is stopped.
func (w *worker) run() {
	defer func() {
		w.r.sources.forget(w.name)
		w.r.place(w.at()).eyes.forget(w.name)
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-w.wake:
		case <-timer.C:
		}
		select {
		case <-w.ctx.Done():
			return
		case <-time.After(gatherFor):
		}
		select {
		case <-w.wake:
		default:
		}
		timer.Stop()
		if again := w.guarded(); again > 0 {
			timer.Reset(again)
		}
	}
}

// guarded makes a pass, after which it is to be made again in some time; 0: when something changes.
func (w *worker) guarded() (again time.Duration) {
	defer func() {
		if value := recover(); value != nil {
			// What was panicked with may hold part of an object.
			w.r.o.Logger.Error("A pass over an Installation panicked", "installation", w.name, "panic", fmt.Sprintf("%T", value), "stack", string(debug.Stack()))
			again = w.backoff()
		}
	}()
	return w.pass(w.ctx)
}

// backoff returns how long to wait after one more failure.
func (w *worker) backoff() time.Duration {
	w.fails++
	return min(time.Second<<min(w.fails-1, 6), time.Minute)
}

// read returns the Installation as it is, nil if it is gone. What was just written to it counts, although the cache may not
// have it yet.
func (w *worker) read(ctx context.Context) (*v1alpha1.Installation, error) {
	i := &v1alpha1.Installation{}
	if err := w.r.client.Get(ctx, w.name, i); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if i.UID != w.uid {
		w.forget(i.UID)
	}
	if w.told != nil && w.bases[i.ResourceVersion] {
		return w.told.DeepCopy(), nil
	}
	w.told, w.bases = nil, map[string]bool{}
	ref := refOf(i)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ref = ref
	return i.DeepCopy(), nil
}

// write writes the status of an Installation of which nothing else differs from before.
func (w *worker) write(ctx context.Context, before, i *v1alpha1.Installation) error {
	base := before.ResourceVersion
	if err := keep.Tell(ctx, w.r.client, before.DeepCopy(), i); err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	if i.ResourceVersion == base {
		return nil
	}
	w.bases[base] = true
	w.told = i.DeepCopy()
	return nil
}
