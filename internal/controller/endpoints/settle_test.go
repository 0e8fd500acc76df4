package endpoints

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/api/v1alpha1"
	mapping "isthmus.dev/isthmus/internal/endpoints"
)

// A link that says otherwise for less than the settle time is used as before; everything else counts at once.
func TestE5_FlapsSettle(t *testing.T) {
	const settle = time.Second
	start := time.Unix(0, 0)
	type at struct {
		after     time.Duration
		uid       types.UID
		up        bool
		used      bool
		remaining time.Duration
	}
	for name, steps := range map[string][]at{
		"one that goes down":               {{0, "a", true, true, 0}, {10 * time.Second, "a", false, true, settle}, {10*time.Second + 400*time.Millisecond, "a", false, true, 600 * time.Millisecond}, {11 * time.Second, "a", false, false, 0}},
		"one that flaps":                   {{0, "a", true, true, 0}, {time.Minute, "a", false, true, settle}, {time.Minute + 900*time.Millisecond, "a", true, true, 0}, {time.Minute + 1500*time.Millisecond, "a", false, true, settle}},
		"one that comes up":                {{0, "a", false, false, 0}, {time.Minute, "a", true, false, settle}, {2 * time.Minute, "a", true, true, 0}},
		"another one under the same name":  {{0, "a", true, true, 0}, {time.Minute, "b", false, false, 0}},
		"one that was gone for a moment":   {{0, "a", true, true, 0}, {time.Minute, "", true, true, 0}, {time.Minute, "a", false, false, 0}},
		"one that is looked at very often": {{0, "a", true, true, 0}, {0, "a", false, true, settle}, {time.Millisecond, "a", false, true, settle - time.Millisecond}, {settle, "a", false, false, 0}, {settle, "a", false, false, 0}},
	} {
		l := &Links{settle: settle}
		for i, s := range steps {
			object := v1alpha1.ClusterLink{}
			object.Name, object.UID = "one", s.uid
			links := map[string]*mapping.Link{"one": {ClusterID: "one", Up: s.up}}
			if s.uid == "" {
				links = nil
			}
			remaining := l.calm([]v1alpha1.ClusterLink{object}, links, start.Add(s.after))
			if remaining != s.remaining || links != nil && links["one"].Up != s.used {
				t.Errorf("%s, step %d: up %v, %s remaining; expected %v, %s", name, i, links["one"].Up, remaining, s.used, s.remaining)
			}
		}
	}
}

// A probe changes its mind after as many results in a row as the link says; the first success counts at once.
func TestE5_ProbesHaveAThreshold(t *testing.T) {
	down := errors.New("refused")
	for name, test := range map[string]struct {
		results []error
		changes []bool // after each result, whether the conclusion changed
		known   bool
		up      bool
	}{
		"up at once":               {[]error{nil}, []bool{true}, true, true},
		"not down at once":         {[]error{down}, []bool{false}, false, false},
		"down":                     {[]error{down, down}, []bool{false, true}, true, false},
		"one lost":                 {[]error{nil, down, nil, down, nil}, []bool{true, false, false, false, false}, true, true},
		"down, and up in no hurry": {[]error{nil, down, down, nil, nil}, []bool{true, false, true, false, true}, true, true},
	} {
		p := &probe{spec: v1alpha1.LinkProbe{TCP: "10.0.0.1:80", Threshold: 2}}
		for i, result := range test.results {
			if got := p.note(result); got != test.changes[i] {
				t.Errorf("%s: after result %d it changed: %v", name, i, got)
			}
		}
		if c, known := p.condition(); known != test.known || (c.Status == "True") != test.up {
			t.Errorf("%s: %v, known %v", name, c, known)
		}
	}
}
