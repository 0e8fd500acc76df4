//go:build unix

package controlplane_test

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/internal/controlplane"
)

func TestAuditHasBodiesOfWritesAtOnce(t *testing.T) {
	t.Parallel()
	c := controlplane.Shared(t, "shared")
	config, err := c.UserConfig("auditee", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	config.UserAgent = "audit-test"
	configMaps := client(t, config).CoreV1().ConfigMaps("default")
	_ = configMaps.Delete(t.Context(), "audited", metav1.DeleteOptions{}) // of an earlier run
	began := time.Now()

	large := configMap("audited")
	large.Data["filler"] = strings.Repeat("x", 100_000) // more than what goes out in one frame
	if _, err := configMaps.Create(t.Context(), large, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	mine := func(since time.Time) []controlplane.AuditEvent {
		t.Helper()
		events, err := c.AuditSince(since)
		if err != nil {
			t.Fatal(err)
		}
		var mine []controlplane.AuditEvent
		for _, event := range events {
			if event.User.Username == "auditee" {
				mine = append(mine, event)
			}
		}
		return mine
	}
	// No waiting: the entry is there when the response is.
	events := mine(began)
	if len(events) != 1 {
		t.Fatalf("%d entries after one request", len(events))
	}
	event := events[0]
	var body struct{ Data map[string]string }
	if err := json.Unmarshal(event.RequestObject, &body); err != nil || body.Data["key"] != "value-of-audited" {
		t.Errorf("body in the audit log: %.200s (%v)", event.RequestObject, err)
	}
	if !event.IsWrite() || event.Verb != "create" || event.Code() != 201 || event.UserAgent != "audit-test" ||
		event.ObjectRef.Resource != "configmaps" || event.ObjectRef.Name != "audited" || event.ObjectRef.Namespace != "default" ||
		event.Stage != "ResponseComplete" || event.AuditID == "" || len(event.ResponseObject) == 0 ||
		event.RequestReceived.Before(began.Truncate(time.Microsecond)) || event.Time.Before(event.RequestReceived) {
		t.Errorf("unexpected entry: %+v", event)
	}

	began = time.Now()
	if _, err := configMaps.Patch(t.Context(), "audited", types.MergePatchType, []byte(`{"data":{"key":"patched"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	watch, err := configMaps.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	if _, err := configMaps.Get(t.Context(), "audited", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	events = mine(began)
	var seen []string
	for _, event := range events {
		seen = append(seen, event.Verb+"/"+event.Stage+"/"+event.Level)
		if event.Verb == "patch" && string(event.RequestObject) != `{"data":{"key":"patched"}}` {
			t.Errorf("patch in the audit log: %s", event.RequestObject)
		}
	}
	want := "patch/ResponseComplete/RequestResponse watch/ResponseStarted/Metadata get/ResponseComplete/Metadata"
	if got := strings.Join(seen, " "); got != want {
		t.Errorf("entries %s, want %s", got, want)
	}
}

func TestAuditWithoutBodies(t *testing.T) {
	t.Parallel()
	c := start(t, "bodiless", controlplane.Options{NoAuditBodies: true})
	config, err := c.UserConfig("auditee", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client(t, config).CoreV1().ConfigMaps("default").Create(t.Context(), configMap("audited"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	events, err := c.Audit()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(events, func(e controlplane.AuditEvent) bool { return e.User.Username == "auditee" })
	if i < 0 {
		t.Fatalf("none of %d entries is of the create", len(events))
	}
	if e := events[i]; e.Verb != "create" || e.Code() != 201 || e.ObjectRef.Name != "audited" || e.RequestObject != nil || e.ResponseObject != nil {
		t.Errorf("unexpected entry: %+v", e)
	}
}

// Whatever was read before, and from wherever: the entries since a time are those of the whole log since then, also while
// others go on to write it.
func TestAuditSinceAnyTime(t *testing.T) {
	t.Parallel()
	c := controlplane.Shared(t, "shared")
	config, err := c.UserConfig("auditee-of-times", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	configMaps := client(t, config).CoreV1().ConfigMaps("default")
	mine := func(since time.Time) (ids []string) {
		t.Helper()
		events, err := c.AuditSince(since)
		if err != nil {
			t.Fatal(err)
		}
		for _, event := range events {
			if event.User.Username == "auditee-of-times" {
				ids = append(ids, event.AuditID)
			}
		}
		return ids
	}
	times := []time.Time{{}, time.Now()}
	ask := func() {
		for range 3 {
			if _, err := configMaps.List(t.Context(), metav1.ListOptions{}); err != nil {
				t.Error(err)
			}
		}
	}
	for i := range 12 {
		var asking sync.WaitGroup
		for range 4 {
			asking.Go(ask)
		}
		if i%2 == 0 { // in the midst of it, from times before and behind what was read already
			times = append(times, time.Now())
			mine(times[i/2])
			mine(times[len(times)-1])
		}
		asking.Wait()
		times = append(times, time.Now())
	}
	all := mine(times[1])
	if len(all) != 12*4*3 {
		t.Fatalf("%d entries, expected one a request", len(all))
	}
	for i := len(times) - 1; i >= 0; i-- {
		have := mine(times[i])
		events, err := c.Audit()
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, event := range events {
			if event.User.Username == "auditee-of-times" && !event.RequestReceived.Before(times[i].Truncate(time.Microsecond)) {
				want = append(want, event.AuditID)
			}
		}
		if !slices.Equal(have, want) {
			t.Errorf("since the time %d: %d entries, expected %d", i, len(have), len(want))
		}
	}
	if last := mine(times[len(times)-1]); len(last) != 0 {
		t.Errorf("%d entries since the end", len(last))
	}
}
