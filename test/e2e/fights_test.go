//go:build unix

package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"isthmus.dev/isthmus/test/harness"
)

// rival watches an object and answers each of its states, as a controller of its own would, until it is stopped.
func rival(e *harness.Env, side *harness.Side, resource, namespace, name string, answer func(ctx context.Context, obj *unstructured.Unstructured)) (stop func()) {
	e.T.Helper()
	ctx, cancel := context.WithCancel(e.T.Context())
	client := side.Client(resource, namespace)
	stream, err := client.Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()})
	if err != nil {
		e.T.Fatalf("watch %s: %v", name, err)
	}
	var working sync.WaitGroup
	working.Go(func() {
		for event := range stream.ResultChan() {
			if obj, ok := event.Object.(*unstructured.Unstructured); ok && event.Type != watch.Deleted && ctx.Err() == nil {
				answer(ctx, obj)
			}
		}
	})
	stop = sync.OnceFunc(func() { cancel(); stream.Stop(); working.Wait() })
	e.T.Cleanup(stop)
	return stop
}

// answering is an answer that patches an object as a field manager, unless the object is as it likes it. Losing a race
// is part of a fight.
func answering(side *harness.Side, manager, resource, patch string, likes func(*unstructured.Unstructured) bool, subresources ...string) func(context.Context, *unstructured.Unstructured) {
	return func(ctx context.Context, obj *unstructured.Unstructured) {
		if !likes(obj) {
			_, _ = side.Client(resource, obj.GetNamespace()).Patch(ctx, obj.GetName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: manager}, subresources...)
		}
	}
}

// writesTo counts the writes of Isthmus that succeeded on an object since a time, by side.
func writesTo(e *harness.Env, name string, since time.Time) (local, remote int) {
	for _, r := range e.Writes(since) {
		switch {
		case r.ObjectRef.Name != name || r.Code() >= 300:
		case r.Side == "local":
			local++
		default:
			remote++
		}
	}
	return local, remote
}

func TestO6_FightsComeToRest(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	p := e.Start(rules(ns, widgetsWith("statusSync: true")))
	for _, name := range []string{"field", "gone", "status", "busy"} {
		e.Local.Create(widget(ns, name, "{size: 1}"))
		e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, name), 1, "spec", "size") })
	}
	e.Remote.SetStatus(widgets, ns, "status", "{phase: Remote, deep: {count: 1}}")
	e.Eventually(func() error { return is(e.Local.Get(widgets, ns, "status"), "Remote", "status", "phase") })

	began := time.Now()
	stops := []func(){
		rival(e, e.Remote, widgets, ns, "field", answering(e.Remote, "autoscaler", widgets, `{"spec": {"size": 9}}`,
			func(o *unstructured.Unstructured) bool { return fmt.Sprint(field(o, "spec", "size")) == "9" })),
		rival(e, e.Remote, widgets, ns, "gone", func(ctx context.Context, o *unstructured.Unstructured) {
			_ = e.Remote.Client(widgets, ns).Delete(ctx, o.GetName(), metav1.DeleteOptions{})
		}),
		rival(e, e.Local, widgets, ns, "status", answering(e.Local, "local-controller", widgets, `{"status": {"phase": "Local"}}`,
			func(o *unstructured.Unstructured) bool { return fmt.Sprint(field(o, "status", "phase")) == "Local" }, "status")),
	}
	e.Remote.Patch(widgets, ns, "field", "metadata: {labels: {wake: up}}")
	e.Local.Patch(widgets, ns, "status", "metadata: {labels: {wake: up}}")
	e.Remote.Delete(widgets, ns, "gone")
	contended := func(want string) error {
		if v := p.Metric(`isthmus_objects{direction="ToRemote",kind="Widget",state="contention"}`); v != want {
			return fmt.Errorf("%q objects are contended, expected %s", v, want)
		}
		return nil
	}

	// A source and a status that change all the time are no fight.
	const changes = 40
	pace := time.NewTicker(150 * time.Millisecond)
	defer pace.Stop()
	for n := range changes {
		<-pace.C
		e.Local.Patch(widgets, ns, "busy", fmt.Sprintf("spec: {size: %d}", n+2))
		e.Remote.SetStatus(widgets, ns, "busy", fmt.Sprintf("{count: %d}", n))
	}
	e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "busy"), changes+1, "spec", "size") })
	e.Eventually(func() error { return is(e.Local.Get(widgets, ns, "busy"), changes-1, "status", "count") })
	if local, remote := writesTo(e, "busy", began); local < 12 || remote < 12 {
		t.Errorf("%d and %d writes carried %d changes", local, remote, changes)
	}

	e.Eventually(func() error { return contended("3") })
	local, _ := writesTo(e, "status", began)
	_, changed := writesTo(e, "field", began)
	_, made := writesTo(e, "gone", began)
	t.Logf("writes until a fight rests: %d of a field, %d of an existence, %d of a status", changed, made, local)
	for _, n := range []int{local, changed, made} {
		if n < 3 || n > 10 {
			t.Errorf("%d writes before a fight rests, expected 3 to 10", n)
		}
	}
	for name, texts := range map[string][]string{
		"field":  {"Warning Contention", "field manager autoscaler", "(spec.size)", "hostOwnedFields: [spec.size]"},
		"gone":   {"Warning Contention", "deletes the twin", "onTwinDeleted: Hold"},
		"status": {"Warning Contention", "field manager local-controller", "(status.phase)", "statusSync: false"},
	} {
		e.Eventually(func() error { return e.Local.HasEvent(ns, name, texts...) })
		if n := eventsWith(e.Local, ns, name, " Contention "); n != 1 {
			t.Errorf("%s: %d Events", name, n)
		}
	}
	if n := eventsWith(e.Local, ns, "busy", " Contention "); n > 0 {
		t.Errorf("busy is said to be contended")
	}
	for sample, texts := range map[string][]string{
		`manager="autoscaler",path="spec.size",setting="hostOwnedFields: [spec.size]"`: {"Another writer undoes what is written", "autoscaler", "spec.size"},
		`manager="",path="",setting="onTwinDeleted: Hold"`:                             {"Another writer undoes what is written", "onTwinDeleted: Hold"},
		`manager="local-controller",path="status.phase",setting="statusSync: false"`:   {"Another writer undoes what is written", "local-controller", "status.phase"},
	} {
		if v := p.Metric(`isthmus_contention{direction="ToRemote",kind="Widget",` + sample + `}`); v != "1" {
			t.Errorf("isthmus_contention of %s is %q", sample, v)
		}
		if n := timesLogged(p, texts...); n != 1 {
			t.Errorf("%q is logged %d times", texts, n)
		}
	}

	file := e.WriteConfig(rules(ns, widgetsWith("statusSync: true")))
	explain := func() string {
		text, code := e.Ask("explain", file, "widget/field", "-n", ns)
		if code != 0 {
			t.Errorf("explain: code %d\n%s", code, text)
		}
		return text
	}
	says(t, explain(), "Was told:", "not known: RBAC does not let events be listed in namespace "+ns)
	e.Local.Apply(fmt.Sprintf(`---
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: events, namespace: %[1]s}, rules: [{apiGroups: [""], resources: [events], verbs: [list]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: events, namespace: %[1]s}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: events}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %[2]s}]}
`, ns, e.User()))
	e.Eventually(func() error {
		if text := explain(); !strings.Contains(text, "Contention: ") || !strings.Contains(text, "hostOwnedFields: [spec.size]") || !strings.Contains(text, "autoscaler") {
			return fmt.Errorf("explain does not tell of the fight: %s", text)
		}
		return nil
	})

	// At rest nothing is written, and a change of the source crosses all the same.
	rested := time.Now()
	e.Quiet(5 * time.Second)
	e.Local.Patch(widgets, ns, "field", "spec: {data: changed}")
	e.Within(15*time.Second, func() error { return is(e.Remote.Get(widgets, ns, "field"), "changed", "spec", "data") })
	if _, n := writesTo(e, "field", rested); n != 1 {
		t.Errorf("a change of the source took %d writes", n)
	}

	// The other writers stop: a minute after the last write all is as it should be.
	for _, stop := range stops {
		stop()
	}
	e.Within(75*time.Second, func() error {
		for _, err := range []error{
			is(e.Remote.Get(widgets, ns, "field"), 1, "spec", "size"),
			is(e.Remote.Get(widgets, ns, "gone"), 1, "spec", "size"),
			is(e.Local.Get(widgets, ns, "status"), "Remote", "status", "phase"),
		} {
			if err != nil {
				return err
			}
		}
		return nil
	})
	e.Eventually(func() error { return contended("0") })
	for _, name := range []string{"field", "gone", "status"} {
		local, remote := writesTo(e, name, rested)
		if most := 2; local+remote > most {
			t.Errorf("%s: %d writes since it rested, expected at most %d", name, local+remote, most)
		}
	}
}
