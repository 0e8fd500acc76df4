//go:build unix

package chaos

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/test/harness"
)

// edits are what people and controllers do on both sides. Each returns false when there was nothing to do it to.
var edits = []struct {
	name string
	do   func(w *world, name string) bool
}{
	{"create source", createSource},
	{"create source", createSource},
	{"change source", changeSource},
	{"change source", changeSource},
	{"select or deselect source", relabelSource},
	{"delete source", deleteSource},
	{"replace source", func(w *world, name string) bool { return deleteSource(w, name) && createSource(w, name) }},
	{"edit returned status", func(w *world, name string) bool {
		s := w.sources[name]
		return s != nil && s.selected && w.patch(w.Local, name, `{"status":{"forged":true}}`, "status") != nil
	}},
	{"change twin", func(w *world, name string) bool {
		return w.patchTwin(name, fmt.Sprintf(`{"spec":{"size":%d,"color":"blue"}}`, 1000+w.random.IntN(100)))
	}},
	{"add to twin", func(w *world, name string) bool {
		return w.patchTwin(name, `{"spec":{"note":"theirs","replicas":7},"metadata":{"labels":{"theirs":"yes"}}}`)
	}},
	{"write status of twin", func(w *world, name string) bool {
		return w.isTwin(name) && w.patch(w.Remote, name, fmt.Sprintf(`{"status":{"ready":%t,"count":%d}}`, w.random.IntN(2) == 0, w.random.IntN(9)), "status") != nil
	}},
	{"delete twin", deleteTwin},
	{"damage stamp", damageStamp},
	{"create foreign object", createForeign},
	{"delete foreign object", deleteForeign},
	{"delete foreign object", deleteForeign},
}

func createSource(w *world, name string) bool {
	if w.sources[name] != nil {
		return false
	}
	s := &source{size: int64(w.random.IntN(100)), selected: w.random.IntN(5) > 0}
	created := w.Local.Create(fmt.Sprintf("apiVersion: example.io/v1\nkind: Widget\nmetadata: {name: %s, namespace: %s, labels: {cross: %q}}\nspec: {size: %d}\n",
		name, w.namespace, yesNo(s.selected), s.size))
	s.uid = string(created.GetUID())
	w.sources[name] = s
	return true
}

func changeSource(w *world, name string) bool {
	s := w.sources[name]
	if s == nil {
		return false
	}
	s.size = int64(w.random.IntN(100))
	w.patch(w.Local, name, fmt.Sprintf(`{"spec":{"size":%d}}`, s.size))
	return true
}

func relabelSource(w *world, name string) bool {
	s := w.sources[name]
	if s == nil {
		return false
	}
	s.selected = !s.selected
	w.patch(w.Local, name, fmt.Sprintf(`{"metadata":{"labels":{"cross":%q}}}`, yesNo(s.selected)))
	return true
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func deleteSource(w *world, name string) bool {
	if w.sources[name] == nil {
		return false
	}
	w.Local.Delete(widgets, w.namespace, name)
	delete(w.sources, name)
	return true
}

// isTwin reports whether something is on the remote side that is not known to be somebody else's.
func (w *world) isTwin(name string) bool {
	return w.remote[name] == nil && w.Remote.Get(widgets, w.namespace, name) != nil
}

func (w *world) patchTwin(name, patch string) bool {
	return w.isTwin(name) && w.patch(w.Remote, name, patch) != nil
}

func deleteTwin(w *world, name string) bool {
	if !w.isTwin(name) {
		return false
	}
	w.Remote.Delete(widgets, w.namespace, name)
	return true
}

// damageStamp takes a key off a twin, which is nobody's twin from then on (P5). Isthmus may be at work on it: only what
// the answer shows counts.
func damageStamp(w *world, name string) bool {
	if !w.isTwin(name) {
		return false
	}
	keys := []string{boundary.AnnotationWriter, boundary.AnnotationSourceUID, boundary.AnnotationTwin, boundary.AnnotationApplied}
	damaged := w.patch(w.Remote, name, fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, keys[w.random.IntN(len(keys))]))
	if damaged == nil {
		return false
	}
	w.remote[name] = &remote{uid: string(damaged.GetUID()), version: damaged.GetResourceVersion()}
	return true
}

func createForeign(w *world, name string) bool {
	foreign, err := w.Remote.TryCreate(fmt.Sprintf("apiVersion: example.io/v1\nkind: Widget\nmetadata: {name: %s, namespace: %s}\nspec: {size: -1}\n", name, w.namespace))
	if err != nil {
		return false // a twin is there
	}
	w.remote[name] = &remote{uid: string(foreign.GetUID()), version: foreign.GetResourceVersion()}
	return true
}

func deleteForeign(w *world, name string) bool {
	if w.remote[name] == nil {
		return false
	}
	w.Remote.Delete(widgets, w.namespace, name)
	delete(w.remote, name)
	return true
}

// patch patches a widget; nil: it went in between.
func (w *world) patch(side *harness.Side, name, patch string, subresources ...string) *unstructured.Unstructured {
	obj, err := side.Client(widgets, w.namespace).Patch(context.Background(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "somebody"}, subresources...)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.t.Fatalf("patch %s: %v", name, err)
	}
	return obj
}
