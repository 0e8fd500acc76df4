package observe

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"isthmus.dev/isthmus/internal/controlplane"
)

func TestMain(m *testing.M) { controlplane.Main(m) }

func source(kind, namespace, name, uid string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind, "data": map[string]any{"k": marked}}}
	u.SetNamespace(namespace)
	u.SetName(name)
	u.SetUID(types.UID("uid-" + uid))
	return u
}

func liveEvents(t *testing.T, now func() time.Time) (*Events, kubernetes.Interface) {
	t.Helper()
	client, err := kubernetes.NewForConfig(controlplane.Shared(t, "events").Config())
	if err != nil {
		t.Fatal(err)
	}
	e := newEvents(client, "isthmus", true, now, time.Millisecond)
	t.Cleanup(e.Shutdown)
	return e, client
}

func list(t *testing.T, client kubernetes.Interface, namespace, name string) []corev1.Event {
	t.Helper()
	all, err := client.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
	if err != nil {
		t.Fatal(err)
	}
	return all.Items
}

func TestLiveEvents(t *testing.T) {
	var clock atomic.Int64
	clock.Store(time.Now().UnixNano())
	e, client := liveEvents(t, func() time.Time { return time.Unix(0, clock.Load()) })
	run := fmt.Sprint(clock.Load()) // the cluster is shared with other runs
	a := source("ConfigMap", "default", "a"+run, "a"+run)
	for range 20 {
		e.Emit(a, corev1.EventTypeWarning, "CreateFailed", "it did not work")
	}
	clock.Add(int64(eventRepeat))
	e.Emit(a, corev1.EventTypeWarning, "CreateFailed", "it did not work") // half an hour later
	e.Emit(a, corev1.EventTypeNormal, "Created", "now it did")
	e.Emit(a, corev1.EventTypeWarning, "CreateFailed", "it did not work") // anew, after another one
	e.Emit(source("Namespace", "", "n"+run, "n"+run), corev1.EventTypeNormal, "Created", strings.Repeat("ä", 2000))
	e.Emit(source("ConfigMap", "no-such-namespace", "lost", "l"), corev1.EventTypeNormal, "Created", "refused by the server")
	e.Emit(source("ConfigMap", "default", "b"+run, "b"+run), corev1.EventTypeNormal, "Created", "after a refused one")
	e.Shutdown()
	e.Emit(a, corev1.EventTypeNormal, "Late", "after the end")

	counts := map[string]int32{}
	for _, event := range list(t, client, "default", "a"+run) {
		counts[event.Type+" "+event.Reason+": "+event.Message] += event.Count
		if event.Source.Component != "isthmus" || event.InvolvedObject.UID != a.GetUID() || event.InvolvedObject.Kind != "ConfigMap" {
			t.Errorf("event: %+v", event)
		}
		if strings.Contains(fmt.Sprint(event), marked) {
			t.Error("a value came through")
		}
	}
	want := map[string]int32{"Warning CreateFailed: it did not work": 3, "Normal Created: now it did": 1}
	if fmt.Sprint(counts) != fmt.Sprint(want) {
		t.Errorf("told %v, want %v", counts, want)
	}
	if events := list(t, client, "default", "n"+run); len(events) != 1 || len(events[0].Message) > eventMessage || !utf8.ValidString(events[0].Message) {
		t.Errorf("cluster-scoped: %+v", events)
	}
	if events := list(t, client, "default", "b"+run); len(events) != 1 {
		t.Errorf("after a refused one: %+v", events)
	}
}

func TestLiveEventBurst(t *testing.T) {
	e, client := liveEvents(t, time.Now)
	name := fmt.Sprint("burst", time.Now().UnixNano())
	for i := range 300 {
		e.Emit(source("ConfigMap", "default", name, fmt.Sprint(name, i)), corev1.EventTypeWarning, "CreateFailed", "refused")
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for n := 0; n != 300; n = len(list(t, client, "default", name)) {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%d of 300 Events", n)
		}
	}
}

// A cluster that can't be reached holds up nobody, and costs bounded memory.
func TestEventsDoNotBlock(t *testing.T) {
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://127.0.0.1:1", Transport: refuse{}})
	if err != nil {
		t.Fatal(err)
	}
	log := &strings.Builder{}
	e := newEvents(client, "isthmus", true, time.Now, time.Millisecond)
	e.LogTo(NewLogger(log, LevelWarn, false))
	for i := range 3 * eventQueue {
		e.Emit(source("ConfigMap", "default", "x", fmt.Sprint(i)), corev1.EventTypeWarning, "CreateFailed", "refused")
	}
	e.stop() // a flush would only wait
	e.Shutdown()
	if n := strings.Count(log.String(), "Events are dropped"); n != 1 {
		t.Errorf("told %d times", n)
	}
}

// Warnings are told however many Events of success there are, and of those a good many.
func TestEventsOfSuccessGiveWayToWarnings(t *testing.T) {
	e := newEvents(nil, "isthmus", true, time.Now, time.Millisecond)
	e.stop()
	for i := range 10 * eventQueue {
		e.Emit(source("ConfigMap", "default", "x", fmt.Sprint(i)), corev1.EventTypeNormal, "Created", "created")
	}
	<-e.done // with the first
	if n := len(e.queue); n < goodNewsBurst/2 || n > eventQueue-2 {
		t.Errorf("%d Events of success wait", n)
	}
	before := len(e.queue)
	e.Emit(source("ConfigMap", "default", "x", "w"), corev1.EventTypeWarning, "CreateFailed", "refused")
	if n := len(e.queue); n != before+1 {
		t.Errorf("%d Events wait after a warning, before it %d", n, before)
	}
}

type refuse struct{}

func (refuse) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, fmt.Errorf("no connection")
}

func TestNoEvents(t *testing.T) {
	e := NewEvents(nil, "isthmus", false)
	e.LogTo(nil)
	e.Emit(source("ConfigMap", "a", "b", "c"), corev1.EventTypeNormal, "Created", "created")
	e.Shutdown()
}

func TestTruncate(t *testing.T) {
	for _, tc := range []struct {
		in   string
		n    int
		want string
	}{{"abc", 3, "abc"}, {"abcdef", 5, "ab…"}, {"ääää", 7, "ää…"}, {"ääää", 6, "ä…"}, {"ä€ä€", 8, "ä€…"}} {
		if got := truncate(tc.in, tc.n); got != tc.want || len(got) > tc.n {
			t.Errorf("truncate(%q, %d) = %q", tc.in, tc.n, got)
		}
	}
}
