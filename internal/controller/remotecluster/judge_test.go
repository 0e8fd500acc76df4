package remotecluster

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/controller/link"
)

func TestJudge(t *testing.T) {
	asked := link.Probe{At: time.Now(), UID: "p"}
	away := cluster.Health{Since: time.Now(), Err: errors.New("away")}
	for name, tc := range map[string]struct {
		facts                  facts
		reason                 string
		usable, reached, grave bool
		pin                    string
	}{
		"access not read yet":       {facts{State: link.State{Access: link.ErrNotRead}}, v1alpha1.ReasonConnecting, false, false, false, ""},
		"the same after a restart":  {facts{State: link.State{Access: link.ErrNotRead}, pinned: "p"}, v1alpha1.ReasonConnecting, true, false, false, ""},
		"no access":                 {facts{State: link.State{Access: errors.New("x"), Probe: asked}, pinned: "p"}, v1alpha1.ReasonAccess, false, false, false, ""},
		"unhealthy":                 {facts{State: link.State{Unhealthy: errors.New("x"), Probe: asked}, pinned: "p"}, v1alpha1.ReasonUnhealthy, false, false, false, ""},
		"the local one":             {facts{State: link.State{Probe: asked}, local: "p"}, v1alpha1.ReasonSameCluster, false, false, true, ""},
		"another one":               {facts{State: link.State{Probe: asked}, local: "l", pinned: "q"}, v1alpha1.ReasonReplaced, false, false, true, ""},
		"another one, now away":     {facts{State: link.State{Probe: asked, Health: away}, local: "l", pinned: "q"}, v1alpha1.ReasonReplaced, false, false, true, ""},
		"taken":                     {facts{State: link.State{Probe: asked}, local: "l", holder: "h"}, v1alpha1.ReasonSameCluster, false, false, true, ""},
		"taken, though it was ours": {facts{State: link.State{Probe: asked}, local: "l", pinned: "p", holder: "h"}, v1alpha1.ReasonSameCluster, false, false, true, ""},
		"away, known":               {facts{State: link.State{Probe: asked, Health: away}, local: "l", pinned: "p"}, v1alpha1.ReasonUnknown, true, false, false, ""},
		"away, never known":         {facts{State: link.State{Probe: link.Probe{At: time.Now(), Err: away.Err}, Health: away}, local: "l"}, v1alpha1.ReasonUnknown, false, false, false, ""},
		"not allowed to say":        {facts{State: link.State{Probe: link.Probe{At: time.Now(), Err: errors.New("x")}, Health: cluster.Health{Reached: true}}, local: "l"}, v1alpha1.ReasonUnknown, false, false, false, ""},
		"not asked yet":             {facts{local: "l", pinned: "p"}, v1alpha1.ReasonConnecting, true, false, false, ""},
		"local not known yet":       {facts{State: link.State{Probe: asked}}, v1alpha1.ReasonConnecting, false, false, false, ""},
		"reached first":             {facts{State: link.State{Probe: asked}, local: "l"}, v1alpha1.ReasonReached, false, true, false, "p"},
		"reached":                   {facts{State: link.State{Probe: asked}, local: "l", pinned: "p"}, v1alpha1.ReasonReached, true, true, false, "p"},
	} {
		v := judge(tc.facts)
		if v.reason != tc.reason || v.usable != tc.usable || v.reached != tc.reached || v.grave != tc.grave || v.pin != tc.pin || v.message == "" {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

func TestSettle(t *testing.T) {
	now := time.Now()
	condition := func(status metav1.ConditionStatus, reason, message string, generation int64) *metav1.Condition {
		return &metav1.Condition{Status: status, Reason: reason, Message: message, ObservedGeneration: generation}
	}
	up, down := condition("True", "Reached", "up", 1), condition("False", "Timeout", "a:1", 1)
	for name, tc := range map[string]struct {
		shown, next *metav1.Condition
		since       time.Duration
		tell        *metav1.Condition
		wait        bool
	}{
		"first":                     {nil, down, 0, down, false},
		"worse":                     {up, down, 0, up, true},
		"worse for long":            {up, down, time.Minute, down, false},
		"better":                    {down, up, 0, up, false},
		"another reason":            {down, condition("False", "DNS", "b", 1), 0, down, true},
		"the same with other words": {down, condition("False", "Timeout", "a:2", 1), time.Minute, down, false},
		"another access fault":      {condition("False", v1alpha1.ReasonAccess, "a", 1), condition("False", v1alpha1.ReasonAccess, "b", 1), 0, condition("False", v1alpha1.ReasonAccess, "b", 1), false},
		"a new spec":                {up, condition("False", "DNS", "b", 2), 0, condition("False", "DNS", "b", 2), false},
		"unknown after a restart":   {up, condition("Unknown", "Connecting", "", 1), time.Minute, up, false},
		"unknown of a new spec":     {up, condition("Unknown", "Connecting", "", 2), time.Minute, condition("Unknown", "Connecting", "", 2), false},
	} {
		tell, wait := settle(tc.shown, *tc.next, now.Add(-tc.since), now, 5*time.Second)
		if tell != *tc.tell || (wait > 0) != tc.wait {
			t.Errorf("%s: %+v, %s", name, tell, wait)
		}
	}
}

func TestHolder(t *testing.T) {
	old, late := time.Now().Add(-time.Hour), time.Now()
	claims := []claim{{"u", late, "a"}, {"u", old, "c"}, {"u", old, "b"}, {"v", old, "d"}, {"", old, "e"}, {"", old, "f"}}
	for i, want := range []string{"b", "b", "", "", "", ""} {
		if got := claims[i].holder(claims); got != want {
			t.Errorf("%s: %q, want %q", claims[i].name, got, want)
		}
	}
}

func TestKindsServed(t *testing.T) {
	a, b := schema.GroupVersionResource{Group: "x.io", Version: "v1", Resource: "as"}, schema.GroupVersionResource{Version: "v1", Resource: "bs"}
	kinds := []schema.GroupVersionResource{a, b}
	for _, tc := range []struct {
		kinds           []schema.GroupVersionResource
		served          map[schema.GroupVersionResource]bool
		reason, message string
	}{
		{nil, nil, v1alpha1.ReasonAllServed, "No kinds are to cross"},
		{kinds, nil, v1alpha1.ReasonConnecting, "It was not asked yet what it serves"},
		{kinds, map[schema.GroupVersionResource]bool{a: true, b: true}, v1alpha1.ReasonAllServed, "It serves all kinds that are to cross"},
		{kinds, map[schema.GroupVersionResource]bool{a: false, b: false}, v1alpha1.ReasonNotServed, "It does not serve as.x.io (v1), bs (v1); they cross as soon as it does"},
	} {
		if c := kindsServed(tc.kinds, answers{served: tc.served}, 3); c.Reason != tc.reason || c.Message != tc.message || c.ObservedGeneration != 3 {
			t.Errorf("%+v", c)
		}
	}
}

// docs/access.md explains each reason.
func TestReasonsAreExplained(t *testing.T) {
	page, err := os.ReadFile("../../../docs/access.md")
	if err != nil {
		t.Fatal(err)
	}
	types, err := os.ReadFile("../../../api/v1alpha1/remotecluster.go")
	if err != nil {
		t.Fatal(err)
	}
	reasons := regexp.MustCompile(`(?m)^\tReason\w+ += "(\w+)"`).FindAllStringSubmatch(string(types), -1)
	if len(reasons) < 15 {
		t.Fatalf("only %d reasons found", len(reasons))
	}
	for _, reason := range reasons {
		if !strings.Contains(string(page), "`"+reason[1]+"`") {
			t.Errorf("%s is not explained", reason[1])
		}
	}
}
