//go:build unix

package chaos

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/test/harness"
)

const widgets = "widgets.example.io"

// world is what should be there.
type world struct {
	*harness.Env
	t         *testing.T
	namespace string
	random    *rand.Rand
	isthmus   *harness.Isthmus
	sources   map[string]*source
	remote    map[string]*remote
}

// source is an object on the local side.
type source struct {
	uid      string
	size     int64
	selected bool
}

// remote is an object on the remote side that we know to be nobody's twin.
type remote struct {
	uid, version string
}

func (w *world) start() {
	w.isthmus = w.Start(fmt.Sprintf(config, w.namespace))
}

// restart stops Isthmus, with SIGKILL as often as with SIGTERM, and starts it again if asked to.
func (w *world) restart(again bool) {
	if w.random.IntN(2) == 0 {
		w.isthmus.Kill()
	} else {
		w.isthmus.Stop()
	}
	w.isthmus = nil
	if again {
		w.ensureUp()
	}
}

func (w *world) ensureUp() {
	if w.isthmus == nil {
		// The guard has its own tests; here most of a handful of twins may go at once.
		w.isthmus = w.StartWith(fmt.Sprintf(config, w.namespace), harness.StartOptions{Flags: []string{"--allow-mass-deletion"}})
	}
}

// settle waits until both sides are as they should be.
func (w *world) settle(after string) {
	w.t.Helper()
	w.Eventually(func() error {
		if err := w.check(); err != nil {
			return fmt.Errorf("after %s: %w", after, err)
		}
		return nil
	})
}

func (w *world) check() error {
	locals, remotes := map[string]*unstructured.Unstructured{}, map[string]*unstructured.Unstructured{}
	for _, o := range w.Local.List(widgets, w.namespace, "") {
		locals[o.GetName()] = &o
	}
	for _, o := range w.Remote.List(widgets, w.namespace, "") {
		remotes[o.GetName()] = &o
	}
	for name, want := range w.remote { // P3, P5
		have := remotes[name]
		if have == nil || string(have.GetUID()) != want.uid || have.GetResourceVersion() != want.version {
			w.t.Fatalf("P3: %s belongs to somebody else, and was touched: want UID %s at %s, have %v", name, want.uid, want.version, describe(have))
		}
	}
	for name, have := range remotes {
		if w.remote[name] != nil {
			continue
		}
		if s := w.sources[name]; s == nil || !s.selected {
			return fmt.Errorf("D: %s has no selected source, and a twin: %s", name, describe(have))
		}
	}
	for name, s := range w.sources {
		local := locals[name]
		if local == nil {
			return fmt.Errorf("the source %s is gone", name)
		}
		twin := remotes[name]
		if w.remote[name] != nil || !s.selected {
			// A status that others wrote to a source without a twin is theirs; a returned one has to go.
			if status, _ := local.Object["status"].(map[string]any); status["count"] != nil || status["ready"] != nil {
				return fmt.Errorf("T2: %s has no twin, but the status %v", name, status)
			}
			continue
		}
		if twin == nil {
			return fmt.Errorf("%s has no twin", name)
		}
		stamp, whole := boundary.ReadStamp(twin)
		if !whole || string(stamp.SourceUID) != s.uid {
			return fmt.Errorf("P1: the stamp of %s is not whole, or of another source: %+v, want UID %s", name, stamp, s.uid)
		}
		if size, _, _ := unstructured.NestedInt64(twin.Object, "spec", "size"); size != s.size {
			return fmt.Errorf("O1: the twin of %s has size %d, want %d", name, size, s.size)
		}
		if color, _, _ := unstructured.NestedString(twin.Object, "spec", "color"); color != "red" {
			return fmt.Errorf("O4: the twin of %s has color %s, want red", name, color)
		}
		if !reflect.DeepEqual(local.Object["status"], twin.Object["status"]) {
			return fmt.Errorf("T2: the status of %s is %v, its twin's is %v", name, local.Object["status"], twin.Object["status"])
		}
	}
	return nil
}

func describe(o *unstructured.Unstructured) string {
	if o == nil {
		return "nothing"
	}
	return fmt.Sprintf("UID %s at %s, labels %v, annotations %v, spec %v", o.GetUID(), o.GetResourceVersion(), o.GetLabels(), o.GetAnnotations(), o.Object["spec"])
}
