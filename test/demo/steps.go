//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"isthmus.dev/isthmus/internal/controlplane"
)

// step is one thing that happens and what is expected of it.
type step struct {
	title string
	// do is what people or clusters do; nil: nothing.
	do func(context.Context, *world) error
	// check returns nil when what is expected has come true; it is asked again and again for a while. nil: do says all.
	check func(context.Context, *world) error
}

var steps = []step{
	{
		title: "Isthmus is ready",
		check: func(ctx context.Context, w *world) error {
			return errors.Join(w.isthmus.running(), w.isthmus.ready(ctx))
		},
	},
	{
		title: "It may do only what its rules need: no pods, and no Secrets of other namespaces",
		check: isthmusMayOnly,
	},
	{
		title: "The Widget blue crosses, and the status of the provider's controller comes back",
		check: func(ctx context.Context, w *world) error {
			return errors.Join(
				w.provider.holds(ctx, widgets, "blue", "spec.size", 3),
				w.provider.holds(ctx, widgets, "blue", "spec.color", "blue"),
				w.statusSpeaksOf(ctx, "blue", 3))
		},
	},
	{
		title: "A changed spec follows, and the new status is told in the source's generation",
		do: func(ctx context.Context, w *world) error {
			return w.consumer.patch(ctx, widgets, "blue", "spec: {size: 5}")
		},
		check: func(ctx context.Context, w *world) error {
			return errors.Join(w.provider.holds(ctx, widgets, "blue", "spec.size", 5), w.statusSpeaksOf(ctx, "blue", 5))
		},
	},
	{
		title: "The labelled dashboard crosses; the ConfigMap without the label stays",
		check: func(ctx context.Context, w *world) error {
			return errors.Join(
				w.provider.holds(ctx, configMaps, "latency", "metadata.labels.grafana_dashboard", "1"),
				w.provider.absent(ctx, configMaps, "settings"))
		},
	},
	{
		title: "The labelled Secret crosses; the one without the label stays",
		check: func(ctx context.Context, w *world) error {
			_, err := w.provider.get(ctx, secrets, "registry")
			return errors.Join(err, w.provider.absent(ctx, secrets, "private"))
		},
	},
	{
		title: "The Argo CD Application crosses",
		check: func(ctx context.Context, w *world) error {
			return w.provider.holds(ctx, applications, "shop", "spec.source.targetRevision", "v1")
		},
	},
	{
		title: "An operation that is started on the provider's Application stays there while its source changes",
		do: func(ctx context.Context, w *world) error {
			return errors.Join(
				w.provider.patch(ctx, applications, "shop", "operation: {initiatedBy: {username: operator}, sync: {revision: v1}}"),
				w.consumer.patch(ctx, applications, "shop", "spec: {source: {targetRevision: v2}}"))
		},
		check: func(ctx context.Context, w *world) error {
			return errors.Join(
				w.provider.holds(ctx, applications, "shop", "spec.source.targetRevision", "v2"),
				w.provider.holds(ctx, applications, "shop", "operation.initiatedBy.username", "operator"),
				w.consumer.holds(ctx, applications, "shop", "operation", nil))
		},
	},
	{
		title: "What somebody changes in the source's fields on the provider is put back",
		do: func(ctx context.Context, w *world) error {
			return w.provider.patch(ctx, widgets, "blue", "spec: {size: 99}")
		},
		check: func(ctx context.Context, w *world) error {
			return errors.Join(w.provider.holds(ctx, widgets, "blue", "spec.size", 5), w.statusSpeaksOf(ctx, "blue", 5))
		},
	},
	{
		title: "The provider's own ConfigMap overview is left alone, and an Event on the source says so",
		check: foreignIsLeftAlone,
	},
	{
		title: "The provider is killed (SIGKILL); Isthmus says that it waits, and goes on running",
		do: func(_ context.Context, w *world) error {
			return errors.Join(w.provider.Kill(controlplane.APIServer), w.provider.Kill(controlplane.Etcd))
		},
		check: func(ctx context.Context, w *world) error {
			if err := w.isthmus.running(); err != nil {
				return err
			}
			if w.isthmus.ready(ctx) == nil {
				return errors.New("it is still ready")
			}
			return nil
		},
	},
	{
		title: "Meanwhile a Widget is changed, one is created and one is deleted; the provider comes back, and all three arrive",
		do:    changesWhileTheProviderIsDown,
		check: func(ctx context.Context, w *world) error {
			return errors.Join(
				w.provider.holds(ctx, widgets, "blue", "spec.size", 8), w.statusSpeaksOf(ctx, "blue", 8),
				w.provider.holds(ctx, widgets, "green", "spec.size", 2), w.statusSpeaksOf(ctx, "green", 2),
				w.provider.absent(ctx, widgets, "old"))
		},
	},
	{
		title: "After all this the provider's own object and the operation are as they were",
		check: func(ctx context.Context, w *world) error {
			return errors.Join(foreignIsLeftAlone(ctx, w),
				w.provider.holds(ctx, applications, "shop", "operation.initiatedBy.username", "operator"),
				w.isthmus.ready(ctx))
		},
	},
}

// runSteps runs steps, each whatever became of those before it, and tells how they went.
func (w *world) runSteps(ctx context.Context, steps []step) (passed, total int) {
	for _, s := range steps {
		began := time.Now()
		err := s.run(ctx, w)
		if ctx.Err() != nil {
			return passed, total
		}
		total++
		took := time.Since(began).Round(10 * time.Millisecond)
		if err == nil {
			passed++
			w.say("  ok    %s (%s)", s.title, took)
			continue
		}
		w.say("  FAIL  %s (%s)\n        %s", s.title, took, strings.ReplaceAll(err.Error(), "\n", "\n        "))
		for _, p := range w.isthmuses() {
			w.say("        the end of %s:\n%s", p.logFile, p.lastLines(15))
		}
	}
	return passed, total
}

func (s step) run(ctx context.Context, w *world) error {
	if s.do != nil {
		if err := s.do(ctx, w); err != nil {
			return err
		}
	}
	if s.check == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	var last error
	for {
		err := s.check(ctx, w)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil { // what ctx's end makes of it tells nothing
			last = err
		}
		select {
		case <-ctx.Done():
			return last
		case <-ticker.C:
		}
	}
}

// statusSpeaksOf returns nil when the status of a source speaks of a size, in the source's own generation.
func (w *world) statusSpeaksOf(ctx context.Context, widget string, size int64) error {
	return speaksOf(ctx, w.consumer, widget, size)
}

func speaksOf(ctx context.Context, consumer *side, widget string, size int64) error {
	source, err := consumer.get(ctx, widgets, widget)
	if err != nil {
		return err
	}
	if have := field(source, "status.size"); have != size {
		return fmt.Errorf("status.size of the source is %v, expected %d", have, size)
	}
	if have := field(source, "status.observedGeneration"); have != source.GetGeneration() {
		return fmt.Errorf("status.observedGeneration of the source is %v, expected its generation %d", have, source.GetGeneration())
	}
	return nil
}

func isthmusMayOnly(ctx context.Context, w *world) error {
	for _, s := range []*side{w.consumer, w.provider} {
		for _, q := range []struct {
			verb, resource, namespace string
			want                      bool
		}{
			{"list", "secrets", s.namespace, true},
			{"list", "secrets", "default", false},
			{"list", "secrets", "", false},
			{"list", "pods", s.namespace, false},
			{"create", "namespaces", "", false},
		} {
			may, err := s.userMay(ctx, user, q.verb, q.resource, q.namespace)
			if err != nil {
				return err
			}
			if may != q.want {
				return fmt.Errorf("may it %s %s in namespace %q on the %s? %t, expected %t", q.verb, q.resource, q.namespace, s.Name(), may, q.want)
			}
		}
	}
	return nil
}

// foreignIsLeftAlone returns nil when the ConfigMap that the provider had before is as it was, and the source of the
// same name says so.
func foreignIsLeftAlone(ctx context.Context, w *world) error {
	foreign, err := w.provider.get(ctx, configMaps, "overview")
	if err != nil {
		return err
	}
	if !strings.Contains(fmt.Sprint(foreign.Object["data"]), "The provider's overview") || len(foreign.GetLabels())+len(foreign.GetAnnotations()) > 0 {
		return fmt.Errorf("it was changed: %v", foreign.Object)
	}
	told, err := w.consumer.objects(events).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=overview,type=Warning"})
	if err != nil {
		return err
	}
	for _, event := range told.Items {
		if strings.Contains(fmt.Sprint(event.Object["message"]), "was not created by this Isthmus") {
			return nil
		}
	}
	return errors.New("no Event on the source says so")
}

func changesWhileTheProviderIsDown(ctx context.Context, w *world) error {
	green := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.io/v1", "kind": "Widget",
		"metadata": map[string]any{"name": "green", "namespace": w.consumer.namespace},
		"spec":     map[string]any{"size": int64(2), "color": "green"},
	}}
	_, err := w.consumer.objects(widgets).Create(ctx, green, metav1.CreateOptions{})
	return errors.Join(err,
		w.consumer.patch(ctx, widgets, "blue", "spec: {size: 8}"),
		w.consumer.objects(widgets).Delete(ctx, "old", metav1.DeleteOptions{}),
		w.provider.Restart(ctx, controlplane.Etcd),
		w.provider.Restart(ctx, controlplane.APIServer))
}
