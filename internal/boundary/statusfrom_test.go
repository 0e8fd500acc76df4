package boundary

import (
	"strings"
	"testing"
)

func TestT5_WhoseStatusItIs(t *testing.T) {
	const told = "has twins on the remotes a, b, c, and its rule has no statusFrom"
	for _, test := range []struct {
		name       string
		statusFrom string
		elsewhere  string // of twins beside the one on b
		unknown    bool
		have       string // the source's status
		told       bool   // before
		withTwin   Action
		without    Action // where there is no twin here, and none can be made
		event      string
	}{
		{name: "one twin", have: "{ready: false}", withTwin: ReturnStatus, without: ClearStatus},
		{name: "several", elsewhere: "c a", have: "{ready: false}", withTwin: ClearStatus, without: Hold, event: told},
		{name: "several, nothing returned", elsewhere: "c a", have: "null", withTwin: Nothing, without: Hold, event: told},
		{name: "several, told", elsewhere: "c a", have: "null", told: true, withTwin: Nothing, without: Hold},
		{name: "not known", unknown: true, have: "{ready: false}", withTwin: Nothing, without: Hold},
		{name: "not known of all", elsewhere: "c", unknown: true, have: "{ready: false}", withTwin: Nothing, without: Hold},
		{name: "from here", statusFrom: "b", elsewhere: "c a", have: "{ready: false}", withTwin: ReturnStatus, without: ClearStatus},
		{name: "from here, not known", statusFrom: "b", unknown: true, have: "{ready: false}", withTwin: ReturnStatus, without: ClearStatus},
		{name: "from elsewhere", statusFrom: "a", elsewhere: "c a", have: "{ready: false}", withTwin: Nothing, without: Hold},
		{name: "from elsewhere, where no twin is", statusFrom: "a", have: "{ready: false}", withTwin: Nothing, without: Hold},
	} {
		t.Run(test.name, func(t *testing.T) {
			change := func(in *Input) {
				in.Rules[0].StatusFrom, in.Remote = test.statusFrom, "b"
				in.Elsewhere, in.ElsewhereUnknown = strings.Fields(test.elsewhere), test.unknown
				in.Memory.StatusContested = test.told
			}
			s := newScene(t).crossed(sourceStatus(t, test.have), twinStatus(t, "{ready: true}"), change)
			d := Decide(s.Input)
			expect{action: test.withTwin, event: test.event}.check(t, d)
			if contested := test.event != "" || test.told; d.StatusContested != contested {
				t.Errorf("contested: %t", d.StatusContested)
			}
			s.Twin, s.Namespace.Terminating = nil, true
			d = Decide(s.Input)
			if d.Action != test.without || d.StatusContested {
				t.Errorf("without a twin: %s, contested %t; reasons: %q", d.Action, d.StatusContested, d.Reasons)
			}
		})
	}
}

func TestT5_ASourceThatIsNotSelectedAnyMore(t *testing.T) {
	for name, test := range map[string]struct {
		statusFrom string
		elsewhere  []string
		clears     bool
	}{
		"one twin":             {"", nil, true},
		"several":              {"", []string{"a"}, false},
		"several, from here":   {"b", []string{"a"}, true},
		"several, from others": {"a", []string{"a"}, false},
		"from where none is":   {"a", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := Decide(newScene(t).crossed(sourceStatus(t, "{ready: true}"), unmatched, func(in *Input) {
				in.Rules[0].StatusFrom, in.Remote, in.Elsewhere = test.statusFrom, "b", test.elsewhere
			}).Input)
			expect{action: Delete}.check(t, d)
			if d.ClearFirst != test.clears {
				t.Errorf("clears the status: %t", d.ClearFirst)
			}
		})
	}
}
